"""How long do people wait? `fit` for two million rows, and `update` for one row.

    python -m benchmarks.recordings_time [OUT]

Times are processor time of one thread, so that what else the machine does matters little.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from gatel0rd.files import write_json
from gatel0rd.models.fitted import FittedModel
from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.detector import OnlineChanges
from gatel0rd.recordings.families import hidden_gain
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.online import OnlineGates
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.segmentation import read_choice

SEQUENCES, STEPS = 1000, 2000
UPDATES = 1000


def make_recordings(sequences: int = SEQUENCES, steps: int = STEPS) -> Recordings:
    """A position that actions move, strongly or weakly."""
    rng = np.random.default_rng(0)
    made = [hidden_gain(rng, steps) for _ in range(sequences)]
    return from_arrays([entry[0] for entry in made], [entry[1] for entry in made if entry[1] is not None])


def time_fit(recordings: Recordings, config: FitConfig) -> tuple[FittedModel, float]:
    """A fitted model, and the seconds that it took."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        fitted = fit(recordings, config, Path(place))
    return fitted, time.process_time() - began


def time_updates(online: OnlineChanges | OnlineGates, recordings: Recordings, updates: int = UPDATES) -> float:
    """Microseconds per row."""
    observations, actions = recordings.sequence(0)
    for row in range(50):  # until everything is in place
        online.update(observations[row], actions[row])
    began = time.process_time()
    for row in range(50, 50 + updates):
        online.update(observations[row], actions[row])
    return 1e6 * (time.process_time() - began) / updates


def measure(recordings: Recordings, config: FitConfig | None = None, updates: int = UPDATES) -> dict[str, float]:
    """All times, as plain data."""
    fitted, seconds = time_fit(recordings, config or FitConfig())
    choice = read_choice(fitted)
    assert choice is not None
    return {
        "rows": len(recordings.observations),
        "fit_seconds": seconds,
        "rounds": fitted.info["rounds"],
        "update_gates_microseconds": time_updates(OnlineGates(fitted), recordings, updates),
        "update_changes_microseconds": time_updates(OnlineChanges(choice.detector), recordings, updates),
    }


def main() -> None:
    torch.set_num_threads(1)
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/segmentation")
    found = measure(make_recordings())
    write_json(out / "time.json", found)
    print(found)


if __name__ == "__main__":
    main()
