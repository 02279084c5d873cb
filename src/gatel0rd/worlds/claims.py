"""What the paper claims, as inequalities between means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SIMILAR = 1.5
"""Means that differ by less than this factor count as similar."""


@dataclass(frozen=True)
class Of:
    """A number that every run of a variant has.

    ``metric`` is a final value (``test.error``), one in the course of training (``test.error@0.5``: at half of it;
    ``mean success``: over all of it), a place in the record (``measures/gating/hits``), what planning reached
    (``planning.success``), a stretch of the loss (``loss dip``, ``peak``, ``end``), or what an example's
    latent state does (``changes: control``, ``dims: control``: the share of its numbers that change from a step to
    the next, the number of dimensions that ever change).
    """

    variant: str
    metric: str


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
    """A sentence of the paper and the inequalities that it comes down to."""

    words: str
    tests: tuple[Less, ...]


def lowest(variant: str, others: Sequence[str], metric: str) -> tuple[Less, ...]:
    """The variant's mean is below that of each of the others."""
    return tuple(Less(Of(variant, metric), Of(other, metric)) for other in others if other != variant)


def similar(one: str, other: str, metric: str, factor: float, more: float = 0.0) -> tuple[Less, ...]:
    """Two means differ by less than a factor, and ``more``, which rates need that may both be 0."""
    return tuple(Less(Of(a, metric), Times(factor, Of(b, metric), more)) for a, b in ((one, other), (other, one)))


def best_rate(variant: str, best: float, rates: Sequence[float], metric: str) -> tuple[Less, ...]:
    """Of all learning rates this one has the lowest mean."""
    return tuple(
        Less(Of(f"{variant}-lr{best:g}", metric), Of(f"{variant}-lr{rate:g}", metric), surely=False)
        for rate in rates
        if rate != best
    )


def loss_rises_and_falls(variants: Sequence[str]) -> Claim:
    """What the paper says of every loss under scheduled sampling."""
    return Claim(
        words="The loss rises while the sampling probability falls, and then falls continuously.",
        tests=tuple(
            test
            for name in variants
            for test in (
                Less(Times(1.1, Of(name, "loss dip")), Of(name, "loss peak")),
                Less(Of(name, "loss end"), Times(0.9, Of(name, "loss peak"))),
            )
        ),
    )
