"""How many events? One training raises the price on open gates, and the fewest events that explain as much are kept.

The rule: of all prices, the highest one whose error is larger than the smallest error by at most one standard error of
that (over the validation sequences), or by one percent. The higher the price, the fewer gates open: this is the
smallest number of events that explains the data about as well as any. No events at all is a possible answer.

How long? Before the price rises, training lasts until the validation error ceases to fall (:func:`has_learned`), and
the rest is in proportion: easy recordings take seconds, hard ones all rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatel0rd.recordings.whole import FollowedSequence

BEGIN, END = 0.3, 0.8
"""Shares of the training between which the price rises; then it is the chosen one."""
LOWEST, HIGHEST = 0.03, 100.0
"""Price of an open gate, relative to the mean squared change of a step."""
PATIENCE, PROGRESS = 18, 0.02
"""Training at the lowest price ends if the validation error falls by less than this share in so many rounds."""
POINTS = 16
TOLERANCE = 0.01
"""Relative difference of errors that never matters, however certain it is."""


@dataclass(frozen=True)
class SweepPoint:
    """What one price leads to on the validation part.

    Attributes:
        price: λ.
        events: boundaries per sequence.
        errors: mean squared error of the next step, of every sequence.
        open_rate: share of open gates.
    """

    price: float
    events: float
    errors: tuple[float, ...]
    open_rate: float = 0.0

    @staticmethod
    def of(price: float, followed: Sequence[FollowedSequence]) -> SweepPoint:
        """Measure a model that was trained with a price."""
        gates = [entry.gates for entry in followed if entry.gates is not None]
        return SweepPoint(
            price,
            float(np.mean([len(entry.boundaries) for entry in followed])),
            tuple(entry.error for entry in followed),
            float(np.mean([np.mean(own > 0) for own in gates])) if gates else 0.0,
        )

    @property
    def error(self) -> float:
        return float(np.mean(self.errors))


def price_at(progress: float, unit: float) -> float:
    """λ at a share of the training, before the choice. ``unit``: mean squared change of a step."""
    rise = min(1.0, max(0.0, (progress - BEGIN) / (END - BEGIN)))
    return float(unit * LOWEST * (HIGHEST / LOWEST) ** rise)


def largest_error(errors: Sequence[float]) -> float:
    """The mean error up to which something is about as good as the best, whose errors of every sequence are given."""
    mean, count = float(np.mean(errors)), len(errors)
    standard_error = float(np.std(errors, ddof=1) / np.sqrt(count)) if count > 1 else 0.0
    return mean + max(standard_error, TOLERANCE * mean)


def has_learned(errors: Sequence[float]) -> bool:
    """Whether the validation error, round by round, has ceased to fall.

    The smallest error of the last :data:`PATIENCE` rounds is not smaller than that of all rounds before them by at
    least :data:`PROGRESS`.
    """
    if len(errors) < 2 * PATIENCE:
        return False
    return min(errors[-PATIENCE:]) > (1 - PROGRESS) * min(errors[:-PATIENCE])


def choose_point(points: Sequence[SweepPoint]) -> int:
    """The number of the point that the rule takes."""
    largest = largest_error(min(points, key=lambda point: point.error).errors)
    eligible = [number for number, point in enumerate(points) if point.error <= largest]
    # gates that are open at nearly all steps make few events, too: the price decides between them
    return max(eligible, key=lambda number: points[number].price)


def describe_curve(points: Sequence[SweepPoint]) -> list[dict[str, float]]:
    """The curve as plain data."""
    return [
        {"price": point.price, "events": point.events, "error": point.error, "open_rate": point.open_rate}
        for point in points
    ]
