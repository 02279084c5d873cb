"""Real data, start to finish: in which quarters does the memory of a model of the US economy change?

Needs statsmodels, which ships the data. Run: ``python examples/macroeconomics.py [DIRECTORY]``.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from statsmodels.datasets import macrodata

from gatel0rd.cli.main import main

COLUMNS = ("realgdp", "realcons", "realinv", "unemp", "infl", "tbilrate")
GROWING = ("realgdp", "realcons", "realinv")
"""Columns of which the growth in percent is taken."""


def write_series(path: Path) -> list[float]:
    """Write the series as a CSV file; returns the time of each row."""
    data = macrodata.load_pandas().data
    times = (data["year"] + (data["quarter"] - 1) / 4).to_list()[1:]
    columns = [100 * np.diff(np.log(data[name])) if name in GROWING else data[name].to_numpy()[1:] for name in COLUMNS]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", *COLUMNS])
        rows.writerows([time, *values] for time, *values in zip(times, *columns, strict=True))
    return times


def run(directory: Path, rounds: int = 240) -> list[float]:
    """Fit, segment, save the page; returns the quarters in which the memory changes."""
    directory.mkdir(parents=True, exist_ok=True)
    table, model, events = (str(directory / name) for name in ("macro.csv", "model", "events.csv"))
    times = write_series(Path(table))
    fit = ["fit", table, "--out", model, "--events", "12", "--window", "8", "--learning-rate", "0.005"]
    main([*fit, "--rounds", str(rounds)])
    main(["segment", model, table, "--out", events])
    main(["explore", model, table, "--save", str(directory / "macro.html")])
    with open(events, newline="") as file:
        found = sorted({times[int(row["time"])] for row in csv.DictReader(file)})
    print("memory changes in:", ", ".join(f"{int(time)} Q{round(time % 1 * 4) + 1}" for time in found))
    return found


if __name__ == "__main__":
    run(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/macroeconomics"))
