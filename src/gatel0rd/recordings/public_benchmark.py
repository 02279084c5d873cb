"""Which method finds boundaries in public recordings? Every method with its defaults, and some at their best.

The measures are those of the Turing benchmark (van den Burg and Williams, 2020): *covering*, and F1 within a margin of
five steps against all annotators, where the beginning counts as a boundary that everybody found.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gatel0rd.files import write_atomically, write_json
from gatel0rd.models.events import covering, keep_apart, match_count, peaks
from gatel0rd.recordings.public import Array, PublicSeries, class_series, turing_series, watch_series
from gatel0rd.recordings.segmenter import EventSegmenter
from gatel0rd.tables import Table

MARGIN = 5
PENALTIES = tuple(np.geomspace(0.1, 100, 7).tolist())
ROUNDS = 20
Cuts = Sequence[int]
Method = Callable[[Array], Cuts]
"""Cuts one series, and learns nothing from others."""


@dataclass(frozen=True)
class PublicScore:
    """One method on one series, with its defaults and (where it has a penalty) at its best."""

    group: str
    name: str
    method: str
    covering: float
    f1: float
    found: int
    best_covering: float | None = None
    best_f1: float | None = None


def score(series: PublicSeries, found: Cuts) -> tuple[float, float]:
    """Covering (mean over annotators) and F1."""
    length = len(series.observations)
    cover = float(np.mean([covering(found, own, length) for own in series.annotations]))
    ours = sorted({0, *(int(cut) for cut in found)})
    every = sorted({0, *(cut for own in series.annotations for cut in own)})
    precision = match_count(ours, every, MARGIN) / len(ours)
    recalls = [match_count(ours, sorted({0, *own}), MARGIN) / len({0, *own}) for own in series.annotations]
    recall = float(np.mean(recalls))
    return cover, 2 * precision * recall / (precision + recall)


def standardize(rows: Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Columns with mean 0 and standard deviation 1."""
    values = rows.astype(np.float64)
    scaled: np.ndarray[Any, np.dtype[np.float64]] = (values - values.mean(axis=0)) / (values.std(axis=0) + 1e-12)
    return scaled


def fit_changes(sequences: Sequence[Array]) -> Method:
    """Our change detector alone."""
    segmenter = EventSegmenter(method="changes").fit(list(sequences))
    return lambda rows: read_cuts(segmenter, rows)


def fit_default(sequences: Sequence[Array]) -> Method:
    """Our segmenter with a network, fewer rounds than its default."""
    segmenter = EventSegmenter(rounds=ROUNDS).fit(list(sequences))
    return lambda rows: read_cuts(segmenter, rows)


def read_cuts(segmenter: EventSegmenter, rows: Array) -> Cuts:
    """The boundaries that a segmenter finds in one series."""
    found: list[int] = segmenter.predict([rows])[0].tolist()
    return found


def fit_surprise(sequences: Sequence[Array]) -> Method:
    """Peaks of a GRU's error that are three standard deviations above its mean."""
    model = EventSegmenter(cell="gru", rounds=ROUNDS).fit(list(sequences)).model_
    assert model is not None

    def cut(rows: Array) -> Cuts:
        scaling = model.observation_scaling
        predicted = scaling.transform(model.run(rows).predictions)
        errors = np.square(predicted - scaling.transform(rows[1:])).sum(axis=1)
        found: list[int] = keep_apart(peaks(errors, float(errors.mean() + 3 * errors.std())) + 1, MARGIN).tolist()
        return found

    return cut


def by_ruptures(kind: str, factor: float = 1.0) -> Method:
    """PELT or binary segmentation with the penalty 3·d·log(n), times a factor."""

    def cut(rows: Array) -> Cuts:
        import ruptures

        values = standardize(rows)
        penalty = factor * 3 * values.shape[1] * math.log(len(values))
        jump = max(1, len(values) // 200)  # long series would take minutes otherwise
        search = (ruptures.Pelt if kind == "pelt" else ruptures.Binseg)(model="l2", min_size=2, jump=jump)
        found: list[int] = search.fit(values).predict(pen=penalty)[:-1]
        return found

    return cut


def by_clasp(rows: Array) -> Cuts:
    """ClaSP with its defaults."""
    from claspy.segmentation import BinaryClaSPSegmentation

    values = standardize(rows)
    with warnings.catch_warnings(), numpy_with_trapz():
        warnings.simplefilter("ignore")
        found = BinaryClaSPSegmentation().fit_predict(values[:, 0] if values.shape[1] == 1 else values)
    return [int(cut) for cut in found]


@contextmanager
def numpy_with_trapz() -> Iterator[None]:
    """claspy 0.2.8 uses a name of ``np.trapezoid`` that NumPy 2.4 does not have any more."""
    name = "trapz"
    missing = not hasattr(np, name)
    if missing:
        setattr(np, name, np.trapezoid)
    try:
        yield
    finally:
        if missing:
            delattr(np, name)


def evenly(rows: Array) -> Cuts:
    """Four boundaries, evenly spaced."""
    return [len(rows) * part // 5 for part in range(1, 5)]


LEARNERS: dict[str, Callable[[Sequence[Array]], Method]] = {
    "gatel0rd, changes": fit_changes,
    f"gatel0rd, default ({ROUNDS} rounds)": fit_default,
    "GRU, surprise": fit_surprise,
}
"""Methods that are fitted to sequences first, without their boundaries."""
METHODS: dict[str, Method] = {
    "ClaSP (claspy)": by_clasp,
    "PELT (ruptures)": by_ruptures("pelt"),
    "BinSeg (ruptures)": by_ruptures("binseg"),
    "five even segments": evenly,
    "no change point": lambda rows: [],
}
ORACLES = {"PELT (ruptures)": "pelt", "BinSeg (ruptures)": "binseg"}
"""Methods with a penalty, which is also chosen with the labels, series by series, as an upper bound."""


def compare(series: Iterable[PublicSeries], on_method: Callable[[str], None] = lambda name: None) -> list[PublicScore]:
    """All methods on all series."""
    scores = []
    fitted: dict[str, tuple[tuple[Array, ...], Method]] = {}  # by name, with what it was fitted to
    for entry in series:
        for name in (*LEARNERS, *METHODS):
            on_method(f"{entry.group}, {entry.name}: {name}")
            if name in LEARNERS:
                training = entry.training or (entry.observations,)
                if name not in fitted or fitted[name][0] is not training:
                    fitted[name] = (training, LEARNERS[name](training))
                found = list(fitted[name][1](entry.observations))
            else:
                found = list(METHODS[name](entry.observations))
            best: tuple[float, float] | tuple[None, None] = (None, None)
            if name in ORACLES:
                tried = [score(entry, by_ruptures(ORACLES[name], factor)(entry.observations)) for factor in PENALTIES]
                best = (max(value for value, _ in tried), max(value for _, value in tried))
            scores.append(PublicScore(entry.group, entry.name, name, *score(entry, found), len(found), *best))
    return scores


def all_series() -> Iterable[PublicSeries]:
    """Everything that the packages bring."""
    yield from turing_series()
    yield from watch_series()
    yield from class_series()


def run_public_benchmark(out: Path, on_method: Callable[[str], None] = lambda name: None) -> Table:
    """Compare all methods, and write ``public.json`` and ``public.md``."""
    scores = compare(all_series(), on_method)
    table = results_table(scores)
    write_json(out / "public.json", [asdict(entry) for entry in scores])
    write_atomically(out / "public.md", table.markdown())
    return table


def results_table(scores: Sequence[PublicScore]) -> Table:
    """A row per group and method: means over the series."""
    rows = []
    for group in dict.fromkeys(entry.group for entry in scores):
        for method in dict.fromkeys(entry.method for entry in scores):
            own = [entry for entry in scores if (entry.group, entry.method) == (group, method)]
            best = [(entry.best_covering, entry.best_f1) for entry in own if entry.best_covering is not None]
            oracle = [f"{np.mean([pair[part] for pair in best]):.2f}" if best else "" for part in (0, 1)]
            rows.append(
                [
                    f"{group} ({len(own)}), {method}",
                    f"{np.mean([entry.covering for entry in own]):.2f}",
                    f"{np.mean([entry.f1 for entry in own]):.2f}",
                    f"{np.mean([entry.found for entry in own]):.1f}",
                    *oracle,
                ]
            )
    return Table(["data (series), method", "covering", "F1", "boundaries", "best covering", "best F1"], rows)
