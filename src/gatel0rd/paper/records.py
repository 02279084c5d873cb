"""Records of finished runs, and what can be read off several of them."""

from __future__ import annotations

import json
import math
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatel0rd.files import FileError
from gatel0rd.paper.bootstrap import FEWEST_SEEDS, interval


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
    def seed(self) -> int:
        return int(self.run["seed"])

    @property
    def share(self) -> float | None:
        """Gradient steps as a share of the paper's; None where the paper does not say how many it took."""
        share = self.content["share_of_paper"]
        return None if share is None else float(share)

    @property
    def length(self) -> int:
        """Epochs of a world model, frames of an agent."""
        return int(self.run["frames"] if "frames" in self.run else self.run["train"]["epochs"])

    def final(self, metric: str) -> float | None:
        """The value after training of ``set.measure``, for example ``test.error``."""
        dataset, _, measure = metric.rpartition(".")
        value = self.content["final"].get(dataset, {}).get(measure)
        return None if value is None else float(value)

    def curve(self, metric: str) -> tuple[list[int], list[float]] | None:
        """Epochs (of an agent: frames) and values where the metric was measured."""
        curves = self.content["curves"]
        points = zip(curves.get("epoch", curves.get("frames")), curves.get(metric, ()), strict=metric in curves)
        measured = [(epoch, value) for epoch, value in points if value is not None]
        if not measured:
            return None
        epochs, values = zip(*measured, strict=True)
        return list(epochs), list(values)


def wilson(successes: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's confidence interval of a success rate."""
    rate = successes / count
    middle = (rate + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(rate * (1 - rate) / count + z**2 / (4 * count**2))
    return middle - half, middle + half


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

    def summary(self, metric: str) -> Summary | None:
        """Final values over seeds."""
        values = [value for record in self.records if (value := record.final(metric)) is not None]
        return summarise(values)

    def curve(self, metric: str) -> tuple[list[int], list[Summary]] | None:
        """Mean and deviation at every evaluated epoch, over the seeds that have a value there."""
        found = [curve for record in self.records if (curve := record.curve(metric)) is not None]
        if not found:
            return None
        by_epoch = [dict(zip(*curve, strict=True)) for curve in found]
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


def load_records(directories: Iterable[Path]) -> list[Record]:
    """Every ``record.json`` below the directories; the same run found twice counts once."""
    records: dict[tuple[str, int], Record] = {}
    for directory in directories:
        for path in sorted(directory.rglob("*record.json")):
            try:
                record = Record(path, json.loads(path.read_text()))
                records.setdefault((record.group, record.seed), record)
            except (ValueError, KeyError) as error:
                raise FileError(f"{path} is not a record ({error!r}); delete it and run again") from error
    return list(records.values())


def processor() -> str:
    """What the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
