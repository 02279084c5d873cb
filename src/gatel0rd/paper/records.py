"""Records of finished runs, and what can be read off several of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatel0rd.files import FileError, find_files, read_json
from gatel0rd.paper.bootstrap import FEWEST_SEEDS, interval
from gatel0rd.paper.record_form import check_form
from gatel0rd.paper.run import SCHEMA, RunKind, Scale
from gatel0rd.paper.schema import KINDS, parse_run
from gatel0rd.worlds.metrics import Curve, Metric


@dataclass(frozen=True)
class Record:
    """The record of one finished run."""

    path: Path
    content: dict[str, Any]

    @property
    def group(self) -> str:
        return str(self.content["group"])

    @property
    def run(self) -> dict[str, Any]:
        run: dict[str, Any] = self.content["run"]
        return run

    @property
    def kind(self) -> RunKind:
        kind: RunKind = self.content["kind"]
        return kind

    @property
    def seed(self) -> int:
        return int(self.run["seed"])

    @property
    def scale(self) -> Scale:
        """At which scale the run was planned."""
        return Scale(
            profile=self.run["profile"],
            length=self.run["length_override"],
            unit="frames" if self.kind == "agent" else "epochs",
            preset=self.run["preset"],
        )

    @property
    def share(self) -> float | None:
        """Gradient steps as a share of the paper's; None where the paper does not say how many it took."""
        share = self.content["share_of_paper"]
        return None if share is None else float(share)

    @property
    def training_hours(self) -> float:
        return float(self.content["wall_seconds"]) / 3600

    @property
    def planning_hours(self) -> float:
        return float(sum(self.content.get("planning", {}).get("seconds", ()))) / 3600

    @property
    def length(self) -> int:
        """Epochs of a world model, frames of an agent."""
        return int(self.run["frames"] if self.kind == "agent" else self.run["train"]["epochs"])

    def final(self, dataset: str, measure: str) -> float | None:
        """What was measured on a data set, or in an environment, after training."""
        value = self.content["final"].get(dataset, {}).get(measure)
        return float(value) if isinstance(value, (int, float)) else None

    def curve(self, curve: Curve) -> tuple[list[int], list[float]] | None:
        """Epochs (of an agent: frames) and values where this was measured."""
        columns = self.content.get("curves", {})
        times = columns.get("frames" if self.kind == "agent" else "epoch", ())
        points = zip(times, columns.get(curve.column, ()), strict=curve.column in columns)
        measured = [(time, value) for time, value in points if value is not None]
        if not measured:
            return None
        found, values = zip(*measured, strict=True)
        return list(found), list(values)


def wilson(successes: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's confidence interval of a success rate."""
    rate = successes / count
    middle = (rate + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(rate * (1 - rate) / count + z**2 / (4 * count**2))
    return max(middle - half, 0.0), min(middle + half, 1.0)  # rounding may leave them, as by -1e-17


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation (0 for one seed), number of seeds, and the mean's 95 % interval if there are enough."""

    mean: float
    deviation: float
    seeds: int
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Line:
    """What a figure or table shows under one name: runs that differ in their seed only."""

    name: str
    label: str
    cell: str
    records: Sequence[Record]
    dashed: bool = False

    def read(self, metric: Metric) -> list[float]:
        """The metric of every run that has it, ordered by seed."""
        return [value for record in self.complete([metric]) if (value := metric.read(record)) is not None]

    def complete(self, metrics: Sequence[Metric]) -> list[Record]:
        """The runs that have all of these metrics, ordered by seed."""
        records = sorted(self.records, key=lambda record: record.seed)
        return [record for record in records if all(metric.read(record) is not None for metric in metrics)]

    def summary(self, metric: Metric) -> Summary | None:
        """The metric over seeds."""
        return summarise(self.read(metric))

    def curve(self, curve: Curve) -> tuple[list[int], list[Summary]] | None:
        """Mean and deviation at every evaluated epoch, over the seeds that have a value there."""
        found = [points for record in self.records if (points := record.curve(curve)) is not None]
        if not found:
            return None
        by_epoch = [dict(zip(*points, strict=True)) for points in found]
        epochs = sorted(set.union(*(set(values) for values in by_epoch)))
        summaries = [summarise([values[epoch] for values in by_epoch if epoch in values]) for epoch in epochs]
        return epochs, [summary for summary in summaries if summary is not None]


def summarise(values: Sequence[float]) -> Summary | None:
    """Mean and sample standard deviation; None without values."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    sure = interval(values) if len(values) >= FEWEST_SEEDS else None
    return Summary(statistics.fmean(values), deviation, len(values), sure)


def read_record(path: Path) -> Record:
    """The record in a file; a foreign or damaged one is an error that names it.

    Every field of one that has this version's schema can be relied on.
    """
    try:
        record = Record(path, read_json(path))
        _ = record.group, record.seed
        schema = record.content.get("schema", 1)
        if not isinstance(schema, int):
            raise TypeError(f"schema is {schema!r}")
        if schema == SCHEMA:
            check_form(record.content)
            parse_run(record.content, path, KINDS[record.kind])
    except FileError as error:
        raise FileError(f"{path} is not a record: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileError(f"{path} is not a record ({error!r}); delete it and run again") from error
    return record


def load_records(directories: Iterable[Path], damaged: list[str] | None = None) -> list[Record]:
    """Every ``record.json`` below the directories; the same run found twice counts once.

    A record of another version is an error: its run would not be recognized. So is one that cannot be read, unless
    there is a list to which what is wrong with it can be added.
    """
    records: dict[tuple[str, int], Record] = {}
    for directory in directories:
        for path in find_files(directory, "*record.json"):
            try:
                record = read_record(path)
            except FileError as error:
                if damaged is None:
                    raise
                damaged.append(str(error))
                continue
            schema = record.content.get("schema", 1)
            if schema != SCHEMA:
                advice = f"bring it up to date with `gatel0rd migrate {directory}`" if schema < SCHEMA else "update"
                raise FileError(f"{path} has schema {schema}; this version reads {SCHEMA}: {advice}")
            records.setdefault((record.group, record.seed), record)
    return list(records.values())
