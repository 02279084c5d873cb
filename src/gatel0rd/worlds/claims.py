"""What the paper claims, as inequalities between means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatel0rd.worlds.metrics import LatentChange, LossStretch, Metric

SIMILAR = 1.5
"""Means that differ by less than this factor count as similar."""


@dataclass(frozen=True)
class Of:
    """A metric of every run of a variant.

    Attributes:
        variant: its name in the experiment.
        experiment: the id of another experiment, if the variant is one of that.
    """

    variant: str
    metric: Metric
    experiment: str | None = None

    @property
    def network(self) -> str:
        """What numbers of the same runs have in common."""
        return self.variant if self.experiment is None else f"{self.experiment}:{self.variant}"


@dataclass(frozen=True)
class Times:
    """A multiple of a number, for "much lower" and "about as low", and perhaps a little more."""

    factor: float
    of: Of
    more: float = 0.0


@dataclass(frozen=True)
class Less:
    """The mean on the left is below the mean on the right.

    ``surely``: with a 95 % interval; otherwise the means themselves decide, as in a search over learning rates.
    """

    left: Of | Times | float
    right: Of | Times | float
    surely: bool = True

    @property
    def numbers(self) -> list[Of]:
        """What is read from records."""
        sides = [side.of if isinstance(side, Times) else side for side in (self.left, self.right)]
        return [side for side in sides if isinstance(side, Of)]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper and the inequalities that it comes down to.

    Attributes:
        learned: one of these has to be true of the means, or no network learned the task, and comparing them says
            nothing; empty if there is no such condition.
    """

    words: str
    tests: tuple[Less, ...]
    learned: tuple[Less, ...] = ()


def lowest(variant: str, others: Sequence[str], metric: Metric, *, experiment: str | None = None) -> tuple[Less, ...]:
    """The variant's mean is below that of each of the others, which may be variants of another experiment."""
    return tuple(Less(Of(variant, metric), Of(other, metric, experiment)) for other in others if other != variant)


def clearly_lowest(variant: str, others: Sequence[str], metric: Metric) -> tuple[Less, ...]:
    """The variant's mean is the lowest, and none of the others is similar: for "only this one …"."""
    return tuple(Less(Times(SIMILAR, Of(variant, metric)), Of(other, metric)) for other in others if other != variant)


def similar(one: str, other: str, metric: Metric, factor: float, more: float = 0.0) -> tuple[Less, ...]:
    """Two means differ by less than a factor, and ``more``, which rates need that may both be 0."""
    return tuple(Less(Of(a, metric), Times(factor, Of(b, metric), more)) for a, b in ((one, other), (other, one)))


def changes_dimensions(variant: str, event: str, fewest: int, most: int) -> tuple[Less, ...]:
    """In a typical sequence with an event, so many dimensions change around it, and no more in the whole sequence."""
    return (
        Less(fewest - 0.5, Of(variant, LatentChange("dimensions_near_event", event))),
        Less(Of(variant, LatentChange("dimensions", event)), most + 0.5),
    )


def name_with_rate(variant: str, rate: float) -> str:
    """What a variant is called at one of the learning rates of a search."""
    return f"{variant}-lr{rate:g}"


def best_rate(variant: str, best: float, rates: Sequence[float], metric: Metric) -> tuple[Less, ...]:
    """Of all learning rates this one has the lowest mean."""
    lowest_of_all = Of(name_with_rate(variant, best), metric)
    return tuple(
        Less(lowest_of_all, Of(name_with_rate(variant, rate), metric), surely=False) for rate in rates if rate != best
    )


def loss_rises_and_falls(variants: Sequence[str]) -> Claim:
    """What the paper says of every loss under scheduled sampling."""
    dip, peak, end = LossStretch("dip"), LossStretch("peak"), LossStretch("end")
    return Claim(
        words="The loss rises while the sampling probability falls, and falls afterwards.",
        tests=tuple(
            test
            for name in variants
            for test in (
                Less(Times(1.1, Of(name, dip)), Of(name, peak)),
                Less(Of(name, end), Times(0.9, Of(name, peak))),
            )
        ),
    )
