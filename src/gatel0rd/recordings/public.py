"""Labelled public recordings that come inside packages: nothing is downloaded.

- Seven series of the Turing Change Point Dataset with the boundaries that five people each drew (``river``). Its files
  are read without importing it, which needs a newer Python than this package does.
- Watch recordings of seven exercises (``seglearn``), a subject's exercises joined; split by subject: what can be
  learned is learned from some subjects, and others are judged.
- Sequences of several classes (``aeon``), joined class by class.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
WATCH_EVERY = 5
"""Of the watch's 50 rows per second, one in so many is used."""
SUBJECTS = 4
"""Of the ten that wore the watch, the first ones are judged, and as many others are learned from."""
WATCH_STEPS, JOINED_STEPS = 150, 150
"""Steps of an exercise, or about the steps of a class, between two boundaries."""
CLASSES = ("GunPoint", "ArrowHead", "ItalyPowerDemand", "OSULeaf")


@dataclass(frozen=True)
class PublicSeries:
    """One sequence and the boundaries that each annotator drew.

    Attributes:
        training: the sequences that methods which learn are fitted to; none: to this one, without its boundaries.
    """

    group: str
    name: str
    observations: Array
    annotations: tuple[tuple[int, ...], ...]
    training: tuple[Array, ...] = ()


@dataclass(frozen=True)
class TuringSeries:
    """How a series of the Turing Change Point Dataset is made from river's file."""

    module: str
    columns: tuple[str, ...]
    first: str = ""
    every: int = 1
    length: int | None = None


TURING = (
    TuringSeries("airline_passengers", ("Total Passengers",)),
    TuringSeries("apple", ("Close", "Volume"), every=3),
    TuringSeries("bitcoin", ("price",), length=774),
    TuringSeries("brent_crude_oil", ("DPB",), first="2000", every=10, length=500),
    TuringSeries("occupancy", ("V1", "V2", "V3", "V4")),
    TuringSeries("run_log", ("Pace", "Distance")),
    TuringSeries("uk_coal_employment", ("Employment",)),
)


def package_folder(name: str) -> Path:
    """Where a package is installed, without importing it."""
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return Path(found.submodule_search_locations[0])


def turing_series() -> Iterator[PublicSeries]:
    """The series that river brings, sampled as in the benchmark of van den Burg and Williams."""
    folder = package_folder("river") / "drift" / "datasets"
    for series in TURING:
        rows = read_numbers(folder / f"{series.module}.csv", series)
        marks = read_annotations(folder / f"{series.module}.py")
        yield PublicSeries("Turing", series.module.replace("_", " "), rows, marks)


def read_numbers(path: Path, series: TuringSeries) -> Array:
    """Columns of a file; missing values are those before them."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames is not None
        stamp = reader.fieldnames[0]
        rows = [
            [float(row[name]) if row[name].strip() else np.nan for name in series.columns]
            for row in reader
            if not series.first or row[stamp][-4:] >= series.first
        ]
    values = np.array(rows, dtype=np.float64)[:: series.every][: series.length]
    for row in range(1, len(values)):
        values[row] = np.where(np.isnan(values[row]), values[row - 1], values[row])
    return values.astype(np.float32)


def read_annotations(path: Path) -> tuple[tuple[int, ...], ...]:
    """The boundaries of every annotator, from the source of river's class."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "annotations":
            marks: dict[str, list[int]] = ast.literal_eval(node.value)
            return tuple(tuple(own) for own in marks.values())
    raise ValueError(f"{path} names no annotations; expected the source of a data set of river 0.26")


def watch_series(seed: int = 0) -> Iterator[PublicSeries]:
    """A sequence per subject: its exercises in random order, with known boundaries."""
    from seglearn.datasets import load_watch

    data: dict[str, Any] = load_watch()
    rng = np.random.default_rng(seed)
    joined = []
    for subject in np.unique(data["subject"])[: 2 * SUBJECTS]:
        chosen = rng.permutation(np.flatnonzero(data["subject"] == subject))
        kinds = np.asarray(data["y"])[chosen]
        chosen = chosen[[0, *(np.flatnonzero(np.diff(kinds)) + 1)]]  # neighbours differ
        parts = [np.asarray(data["X"][index])[::WATCH_EVERY][:WATCH_STEPS] for index in chosen]
        joined.append(join_parts("seglearn", f"subject {subject}", parts))
    training = tuple(series.observations for series in joined[SUBJECTS:])
    for series in joined[:SUBJECTS]:
        yield replace(series, training=training)


def class_series(seed: int = 0) -> Iterator[PublicSeries]:
    """A sequence per data set: some instances of one class after the other."""
    from aeon.datasets import load_classification

    for name in CLASSES:
        rng = np.random.default_rng(seed)
        instances, labels = load_classification(name, split="TRAIN")
        parts = []
        for label in rng.permutation(np.unique(labels)):
            own = instances[labels == label][:, 0]
            count = max(2, round(4 * JOINED_STEPS / own.shape[1]))
            parts.append(np.concatenate(list(own[rng.permutation(len(own))[:count]]))[:, None][::2])
        yield join_parts("aeon", name, parts)


def join_parts(group: str, name: str, parts: Sequence[NDArray[Any]]) -> PublicSeries:
    """Parts end to end, with their joints as boundaries."""
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    rows = np.concatenate(parts).astype(np.float32)
    return PublicSeries(group, name, rows, (tuple(cuts.tolist()),))
