"""What the defaults find in every family of generated recordings."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gatel0rd.files import write_atomically, write_json
from gatel0rd.models.events import Agreement, Times
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.families import FAMILIES, LabelledRecordings, make_family
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.segmentation import segment
from gatel0rd.tables import Table


@dataclass(frozen=True)
class FamilyScore:
    """The default on one data set: boundaries per sequence, and F1 of the method, of the gates and of even spacing."""

    family: str
    seed: int
    method: str
    found: float
    true: float
    f1: float
    gates_f1: float
    even_f1: float
    seconds: float


def spread_evenly(data: LabelledRecordings) -> list[Times]:
    """As many boundaries as there are on average, evenly spaced."""
    count = round(float(np.mean([len(cuts) for cuts in data.boundaries])))
    return [
        np.array([length * part // (count + 1) for part in range(1, count + 1)], dtype=np.int64)
        for length in data.recordings.lengths.tolist()
    ]


def judge_family(name: str, *, seed: int, sequences: int, steps: int, rounds: int) -> FamilyScore:
    """Fit one data set with nothing but defaults."""
    data = make_family(name, seed=seed, sequences=sequences, steps=steps)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        fitted = fit(data.recordings, FitConfig(rounds=rounds), Path(place))
    seconds = time.monotonic() - began

    def judge(entries: Sequence[Sequence[int] | Times]) -> Agreement:
        return data.agree(entries)

    found = judge([entry.boundaries for entry in segment(fitted, data.recordings)])
    gates = judge([entry.boundaries for entry in segment(fitted, data.recordings, method="gates")])
    method = fitted.info["segmentation"]["method"]
    return FamilyScore(
        name,
        seed,
        method,
        found.found / sequences,
        found.true / sequences,
        found.f1,
        gates.f1,
        judge(spread_evenly(data)).f1,
        seconds,
    )


def run_family_benchmark(
    out: Path,
    *,
    seeds: Sequence[int] = (0,),
    sequences: int = 60,
    steps: int = 100,
    rounds: int = 200,
    on_family: Callable[[str], None] = lambda name: None,
) -> Table:
    """Judge all families, and write ``families.json`` and ``families.md``."""
    scores = []
    for name in FAMILIES:
        for seed in seeds:
            on_family(f"{name}, seed {seed}")
            scores.append(judge_family(name, seed=seed, sequences=sequences, steps=steps, rounds=rounds))
    table = results_table(scores)
    write_json(out / "families.json", [asdict(score) for score in scores])
    write_atomically(out / "families.md", table.markdown())
    return table


def results_table(scores: Sequence[FamilyScore]) -> Table:
    """A row per family: means over its data sets."""
    header = ["recordings", "method", "F1", "boundaries (true)", "gates alone, F1", "even spacing, F1", "seconds"]
    rows = []
    for name in dict.fromkeys(score.family for score in scores):
        own = [score for score in scores if score.family == name]
        happens = FAMILIES[name].wanted is not None

        def mean(field: str, own: list[FamilyScore] = own) -> float:
            return float(np.mean([getattr(score, field) for score in own]))

        rows.append(
            [
                f"{name} (± {FAMILIES[name].tolerance})",
                ", ".join(dict.fromkeys(score.method for score in own)),
                f"{mean('f1'):.2f}" if happens else "",
                f"{mean('found'):.2f} ({mean('true'):.2f})",
                f"{mean('gates_f1'):.2f}" if happens else "",
                f"{mean('even_f1'):.2f}" if happens else "",
                f"{mean('seconds'):.0f}",
            ]
        )
    return Table(header, rows)
