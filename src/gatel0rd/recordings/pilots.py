"""How many of the last transitions should the memory see? Short trainings decide, on the validation part.

Every candidate is trained for a few rounds at the lowest price of open gates, from the same seed and on the same data.
The rule is that of the sweep (:mod:`gatel0rd.recordings.sweep`): the fewest transitions whose validation error exceeds
the smallest by at most one standard error of that, or by one percent. The output never sees the transitions themselves:
it could then predict without a memory, and no gate would open where something happens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gatel0rd.engine import EngineName
from gatel0rd.files import FileError, read_json, write_sealed_json
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fitter import Fitter
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.sweep import LOWEST, largest_error
from gatel0rd.training.loop import ignore_metrics

CANDIDATES = (1, 2, 4)
SHARE = 0.03
"""Share of the rounds (and of the minutes) that each short training takes."""
FEWEST_ROUNDS = 2
FILE = "pilots.json"


def choose_transitions(
    recordings: Recordings, config: FitConfig, directory: Path, *, engine: EngineName = "auto"
) -> FitConfig:
    """The same settings with the number of transitions; what was found is kept for a fit that resumes."""
    if config.transitions is not None or config.objective != "follow":
        return config
    left = None if config.minutes is None else config.minutes * (1 - SHARE * len(CANDIDATES))
    path = directory / FILE
    if path.exists():
        return replace(config, transitions=_read_choice(path), minutes=left)
    errors = [measure_errors(recordings, config, count, engine) for count in CANDIDATES]
    chosen = choose_fewest(errors)
    write_sealed_json(path, {"transitions": CANDIDATES[chosen], "candidates": list(CANDIDATES), "errors": errors})
    return replace(config, transitions=CANDIDATES[chosen], minutes=left)


def _read_choice(path: Path) -> int:
    """What an earlier attempt found."""
    chosen = read_json(path).get("transitions")
    if chosen not in CANDIDATES or not isinstance(chosen, int):
        raise FileError(
            f"{path} says {chosen!r} transitions; expected one of {', '.join(map(str, CANDIDATES))}: delete it to have "
            "them tried again"
        )
    return chosen


def measure_errors(recordings: Recordings, config: FitConfig, transitions: int, engine: EngineName) -> list[float]:
    """The validation sequences' errors after a short training."""
    with tempfile.TemporaryDirectory() as place:
        short = replace(
            config,
            transitions=transitions,
            rounds=max(FEWEST_ROUNDS, round(SHARE * config.rounds)),
            minutes=None if config.minutes is None else SHARE * config.minutes,
            gate_rate=None,
            events=None,
            sparsity_weight=0.0 if config.cell == "gatel0rd" else None,  # others have no gates to be about
        )
        fitter = Fitter(recordings, short, Path(place), engine=engine)
        fitter.stepper.sparsity_weight = LOWEST * fitter.unit_price
        fitter.run_loop(ignore_metrics)
        return [entry.error for entry in fitter.follow_validation()]


def choose_fewest(errors: Sequence[Sequence[float]]) -> int:
    """The number of the first candidate that is about as good as the best. Shape: candidates, sequences."""
    best = min(errors, key=lambda own: sum(own))
    limit = largest_error(best)
    return next(number for number, own in enumerate(errors) if sum(own) / len(own) <= limit)
