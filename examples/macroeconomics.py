"""Real data, start to finish: in which quarters does the memory of a model of the US economy change?

Needs statsmodels, which ships the data. Run: ``python examples/macroeconomics.py [DIRECTORY]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from statsmodels.datasets import macrodata

from gatel0rd.explore import save_page
from gatel0rd.recordings import Recordings, from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.segmentation import segment, write_events

COLUMNS = ("realgdp", "realcons", "realinv", "unemp", "infl", "tbilrate")
GROWING = ("realgdp", "realcons", "realinv")
"""Columns of which the growth in percent is taken."""


def load_series() -> tuple[Recordings, list[float]]:
    """The series as one sequence, and the time of each row in years."""
    data = macrodata.load_pandas().data
    times = (data["year"] + (data["quarter"] - 1) / 4).to_list()[1:]
    columns = [100 * np.diff(np.log(data[name])) if name in GROWING else data[name].to_numpy()[1:] for name in COLUMNS]
    return from_arrays([np.stack(columns, axis=1)], observation_names=COLUMNS, names=["USA"]), times


def run(directory: Path, rounds: int = 240) -> list[float]:
    """Fit, segment, save the page; returns the quarters in which the memory changes."""
    recordings, times = load_series()
    config = FitConfig(events=12, window=8, learning_rate=0.005, rounds=rounds)
    model = fit(recordings, config, directory / "model")
    segmentations = segment(model, recordings)
    write_events(segmentations, directory / "events.csv")
    save_page([("model", model)], recordings, directory / "macro.html")
    found = [times[event.time] for entry in segmentations for event in entry.events]
    print("memory changes in:", ", ".join(f"{int(time)} Q{round(time % 1 * 4) + 1}" for time in found))
    return found


if __name__ == "__main__":
    run(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/macroeconomics"))
