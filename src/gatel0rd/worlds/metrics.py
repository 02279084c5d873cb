"""What claims, figures and tables read from the record of a run: small pieces of data that describe themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray


class Readable(Protocol):
    """The record of a finished run, as far as a metric needs it."""

    @property
    def content(self) -> dict[str, Any]: ...

    @property
    def length(self) -> int: ...

    def final(self, dataset: str, measure: str) -> float | None: ...

    def curve(self, curve: Curve) -> tuple[list[int], list[float]] | None: ...


class Metric(ABC):
    """A number that every run of a variant has."""

    @abstractmethod
    def read(self, record: Readable) -> float | None:
        """The number; None if the record does not have it."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What the number is, for people."""


def short_name(name: str) -> str:
    """A data set or an environment as figures call it, for example ``DoorKey-8x8`` for ``MiniGrid-DoorKey-8x8-v0``."""
    return name.removeprefix("MiniGrid-").removeprefix("gatel0rd/").removesuffix("-v0")


@dataclass(frozen=True)
class Curve:
    """What is measured again and again during training.

    Attributes:
        measure: ``error``, ``open_rate``, ``success``, …
        dataset: what it is measured on: a data set, or an environment without training in it; None for what happens in
            training itself.
    """

    measure: str
    dataset: str | None = None

    @property
    def column(self) -> str:
        """Its name among the curves of a record."""
        return self.measure if self.dataset is None else f"{self.dataset}.{self.measure}"

    @property
    def words(self) -> str:
        measure = self.measure.replace("_", " ")
        return measure if self.dataset is None else f"{short_name(self.dataset)} {measure}"


@dataclass(frozen=True)
class FinalValue(Metric):
    """What was measured on a data set, or in an environment, after training."""

    dataset: str
    measure: str

    @property
    def curve(self) -> Curve:
        """The same in the course of training."""
        return Curve(self.measure, self.dataset)

    def read(self, record: Readable) -> float | None:
        return record.final(self.dataset, self.measure)

    @property
    def words(self) -> str:
        return self.curve.words


@dataclass(frozen=True)
class CurveAt(Metric):
    """A value in the course of training, after a share of it.

    ``around``: the mean over so large a share before and after; single evaluations may be far off.
    """

    curve: Curve
    share: float
    around: float = 0.0

    def read(self, record: Readable) -> float | None:
        points = record.curve(self.curve)
        if points is None:
            return None
        times, values = np.array(points[0]), np.array(points[1])
        distances = np.abs(times - self.share * record.length)
        within = distances <= max(self.around * record.length, distances.min())
        return float(values[within].mean() if self.around else values[np.argmin(distances)])

    @property
    def words(self) -> str:
        around = f" (mean over {self.around:.0%} before and after)" if self.around else ""
        return f"{self.curve.words} after {self.share:.0%} of training{around}"


@dataclass(frozen=True)
class CurveMean(Metric):
    """The mean over the whole of training."""

    curve: Curve

    def read(self, record: Readable) -> float | None:
        points = record.curve(self.curve)
        return None if points is None else float(np.mean(points[1]))

    @property
    def words(self) -> str:
        return f"mean {self.curve.words}"


SOLVED = 0.95
"""Success rate from which on an agent counts as having learned its task."""


@dataclass(frozen=True)
class FramesToSuccess(Metric):
    """Frames of training until this share of the episodes succeeds; infinite for a run that never came to it.

    A success rate is a mean over the episodes that ended within a hundredth of training.
    """

    share: float = SOLVED

    def read(self, record: Readable) -> float | None:
        points = record.curve(Curve("success"))
        if points is None:
            return None
        return next((float(time) for time, value in zip(*points, strict=True) if value >= self.share), np.inf)

    @property
    def words(self) -> str:
        return f"frames until {self.share:.0%} of the episodes succeed"


@dataclass(frozen=True)
class LossStretch(Metric):
    """The loss under scheduled sampling: its dip while most inputs are real, its peak while they get fewer, its end.

    The end is the median of the last tenth, as single values may be far off.
    """

    stretch: Literal["dip", "peak", "end"]

    def read(self, record: Readable) -> float | None:
        loss, sampling = record.curve(Curve("loss", "train")), record.curve(Curve("sampling_probability", "train"))
        if loss is None or sampling is None:
            return None
        values = np.array(loss[1])
        mostly_real = max(1, int((np.array(sampling[1]) > 0.5).sum()))
        dip = int(np.argmin(values[:mostly_real]))
        fewest_real = max(dip, int(np.argmin(sampling[1])))  # from here on it stays the same
        last = values[-max(1, len(values) // 10) :]
        stretches = {"dip": values[dip], "peak": values[dip : fewest_real + 1].max(), "end": np.median(last)}
        return float(stretches[self.stretch])

    @property
    def words(self) -> str:
        return f"loss {self.stretch}"


@dataclass(frozen=True)
class ChangedShare(Metric):
    """Which share of an example's latent state changes from a step to the next."""

    example: str

    def read(self, record: Readable) -> float | None:
        changes = _changes(record, self.example)
        return None if changes is None else float(changes.mean())

    @property
    def words(self) -> str:
        return f"share of the latent state that changes per step, {self.example}"


@dataclass(frozen=True)
class ChangedDimensions(Metric):
    """How many dimensions of an example's latent state ever change."""

    example: str

    def read(self, record: Readable) -> float | None:
        changes = _changes(record, self.example)
        return None if changes is None else float(changes.any(axis=0).sum())

    @property
    def words(self) -> str:
        return f"dimensions that change, {self.example}"


LatentMeasure = Literal["dimensions", "dimensions_near_event", "unchanged", "changed_share"]
LATENT_WORDS: dict[LatentMeasure, str] = {
    "dimensions": "dimensions of the latent state that change in a sequence {}, median over the test set",
    "dimensions_near_event": "dimensions that change within 3 steps of it in a sequence {}, median over the test set",
    "unchanged": "share of the test sequences {} in which nothing changes",
    "changed_share": "share of the latent state that changes per step, mean over the test sequences {}",
}


@dataclass(frozen=True)
class LatentChange(Metric):
    """How a latent state changes over the whole test set, free-running.

    Attributes:
        measure: see :func:`gatel0rd.paper.measures.measure_latents`.
        event: the world's ``memory_event``.
        happens: whether sequences with the event are meant, or those without it.
    """

    measure: LatentMeasure
    event: str
    happens: bool = True

    def read(self, record: Readable) -> float | None:
        return _measured(record, "latents", self.event, "with" if self.happens else "without", self.measure)

    @property
    def words(self) -> str:
        return LATENT_WORDS[self.measure].format(f"{'with' if self.happens else 'without'} {self.event}")


@dataclass(frozen=True)
class GatingRate(Metric):
    """How often gates are open at the one event of a world, and elsewhere (Table 2)."""

    rate: Literal["hits", "misses", "false_alarms", "correct_rejections"]

    def read(self, record: Readable) -> float | None:
        return _measured(record, "gating", self.rate)

    @property
    def words(self) -> str:
        return self.rate.replace("_", " ")


@dataclass(frozen=True)
class EventMatch(Metric):
    """How well open gates and one kind of event coincide.

    Attributes:
        event: its name.
        measure: see :func:`gatel0rd.paper.measures.event_match`.
        tolerance: steps that a gate may be open too early or too late.
        inputs: what the model was fed with.
    """

    event: str
    measure: Literal["precision", "opening_precision", "precision_by_chance", "recall", "recall_by_chance"]
    tolerance: int
    inputs: Literal["free-running", "real inputs"] = "free-running"

    def read(self, record: Readable) -> float | None:
        place = ("gating", self.inputs, "events", self.event, str(self.tolerance))
        found = _measured(record, *place, self.measure)
        if found is None and self.measure in ("precision", "opening_precision") and _find(record, *place) is not None:
            return 0.0  # no gate ever opened: nothing was right
        return found

    @property
    def words(self) -> str:
        return f"{self.inputs} events {self.event} {self.tolerance} {self.measure.replace('_', ' ')}"


@dataclass(frozen=True)
class PlanningSuccess(Metric):
    """The share of episodes that succeed when the trained model is planned with."""

    def read(self, record: Readable) -> float | None:
        outcome = record.content.get("planning", {"epochs": [None]})
        return float(outcome["success"][-1]) if outcome["epochs"][-1] == record.length else None

    @property
    def words(self) -> str:
        return "success in planning"


def _measured(record: Readable, *keys: str) -> float | None:
    """A number among the measures of a record."""
    found = _find(record, *keys)
    return float(found) if isinstance(found, (int, float)) else None


def _find(record: Readable, *keys: str) -> Any:
    """Whatever is in this place of the measures of a record; None if there is nothing."""
    place: Any = record.content.get("measures")
    for key in keys:
        place = place.get(key) if isinstance(place, dict) else None
    return place


def _changes(record: Readable, example: str) -> NDArray[np.bool_] | None:
    """Where the latent state of an example differs from that of the step before, [T-1, D]."""
    found = record.content.get("measures", {}).get("examples", {}).get(example)
    if found is None:
        return None
    changed: NDArray[np.bool_] = np.diff(np.array(found["latents"]), axis=0) != 0
    return changed


TEST_ERROR = FinalValue("test", "error")
VALIDATION_ERROR = FinalValue("validation", "error")
GENERALIZATION_ERROR = FinalValue("generalization", "error")
