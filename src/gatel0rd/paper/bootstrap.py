"""How sure a mean over seeds is: the same mean of resampled seeds, and Student's t for a few of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, Any]
RESAMPLES = 4000
FEWEST_SEEDS = 3
"""With fewer there is no interval."""


def resampled(values: Numbers, name: str) -> Numbers:
    """Means of resampled values; the same resamples for the same name. Shape: [N] -> [RESAMPLES]."""
    return np.asarray(values[_choices(len(values), name)].mean(axis=1))


def censored_median(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The median, and its 95 % interval if there are enough seeds; infinite values are those that were never reached.

    A run that ended before it came to something counts as later than all that did, and later than its own end: that is
    enough for a median, where a mean would have to drop the run or to invent a number.
    """
    found = np.asarray(values, dtype=float)
    if len(found) < FEWEST_SEEDS:
        return float(np.median(found)), None
    medians = np.sort(np.median(found[_choices(len(found), "interval")], axis=1))
    low, high = medians[round(0.025 * (RESAMPLES - 1))], medians[round(0.975 * (RESAMPLES - 1))]
    return float(np.median(found)), (float(low), float(high))


@cache
def _choices(count: int, name: str) -> Numbers:
    generator = np.random.default_rng([count, *name.encode()])
    return generator.integers(count, size=(RESAMPLES, count))


def student_interval(samples: Sequence[Numbers]) -> tuple[float, float]:
    """The 95 % interval of a sum of means by Welch's version of Student's t.

    Shape: samples, [N] each, N at least 2: independent of each other.
    """
    total = float(sum(sample.mean() for sample in samples))
    parts = [(float(sample.var(ddof=1)) / len(sample), len(sample) - 1) for sample in samples]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return total, total
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    half = student_quantile(freedom) * float(np.sqrt(variance))
    return total - half, total + half


@cache
def student_quantile(freedom: float, share: float = 0.975) -> float:
    """Below which number this share of Student's distribution lies."""
    # with t = sqrt(freedom) tan(angle) the density is that of a power of the cosine, on a finite range
    angles = np.linspace(-np.pi / 2, np.pi / 2, 100_001)
    cumulative = np.cumsum(np.cos(angles) ** (freedom - 1))
    return float(np.sqrt(freedom) * np.tan(np.interp(share, cumulative / cumulative[-1], angles)))


def interval(values: Sequence[float] | Numbers) -> tuple[float, float]:
    """The 95 % interval of a mean."""
    low, high = np.quantile(resampled(np.asarray(values, dtype=float), "interval"), [0.025, 0.975])
    return float(low), float(high)
