"""Change points by Bayesian linear regression: where do the coefficients or the noise of a regression change?

Between two boundaries every channel follows y_t = w·z_t + ε with ε ~ N(0, σ²). Coefficients and noise of a segment
come from one distribution for all segments (normal-inverse-gamma), which is learned from the recordings; they are
integrated out, so that more coefficients or more segments have to earn their keep. A boundary also costs the logarithm
of how rare boundaries are, and :data:`MARGIN` nats. :func:`partition` finds the best boundaries by dynamic programming
over where the current segment may have begun; it goes through time once and therefore also runs online.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.explanations import Array, Design

MARGIN = 3.0
"""Nats by which a boundary has to explain the data better than none: odds of 20 to 1."""
CANDIDATES = 48
"""Beginnings of the current segment that are kept; the least likely ones are forgotten."""
YOUNG = 12
"""Steps for which a beginning is never forgotten."""
OUTLIERS, OUTLIER_WIDTH = 0.02, 5.0
"""Share of outliers, and how far they reach in standard deviations, in explanations that have them."""
FIRST_HAZARD, SHORTEST = 1 / 50, 12
LARGEST_HAZARD = 0.1
FLOOR = 1e-2
"""Smallest noise, relative to how much a channel usually changes in a step: finer detail is no evidence."""
LARGEST_EFFECT = 1e4
"""Standard deviation of what a coefficient explains, relative to the noise, at most."""
CONDITION = 8
"""Steps at the beginning of a sequence that its evidence takes as given: not all explanations look back as far."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """How coefficients and noise of segments are distributed: w ~ N(mean, σ² · spread), 1/σ² ~ Gamma(shape, rate).

    Shape: mean, spread [O, P]; rate [O]; shape, hazard (boundaries per step) and wide [O] (variance of outliers).
    """

    mean: Floats
    spread: Floats
    shape: float
    rate: Floats
    hazard: float
    wide: Floats | None = None
    memory: int = 0

    @property
    def penalty(self) -> float:
        """What a boundary costs, in nats."""
        return MARGIN - math.log(self.hazard)


def estimate_prior(designs: Sequence[Design], floor: Floats, *, memory: int, outliers: bool) -> Prior:
    """A first guess, from short stretches, most of which have no boundary inside. Shape: floor [O]."""
    size = designs[0].features.shape[-1]
    length = max(SHORTEST, 3 * size)
    fits = [
        fit_stretch(Design(*(part[first : first + length] for part in design)))
        for design in designs
        for first in range(0, max(1, len(design.targets) - length + 1), max(1, length // 2))
    ]
    weights, noise = np.array([fit[0] for fit in fits]), np.array([fit[1] for fit in fits])
    mean = np.median(weights, axis=0)
    low, high = np.quantile(weights, [0.05, 0.95], axis=0)
    spread = np.maximum((np.clip(weights, low, high) - mean) ** 2, 1e-12).mean(axis=0)
    variance = np.maximum(np.median(noise, axis=0), floor**2)
    usual = np.maximum(np.concatenate([design.targets for design in designs]).var(axis=0), floor**2)
    wide = OUTLIER_WIDTH**2 * usual if outliers else None
    return Prior(
        mean, limit_spread(spread / variance[:, None], designs), 2.0, 2.0 * variance, FIRST_HAZARD, wide, memory
    )


def limit_spread(spread: Floats, designs: Sequence[Design]) -> Floats:
    """Coefficients whose effects are at most :data:`LARGEST_EFFECT` times the noise: more would drown in rounding."""
    squares = np.mean([np.square(design.features).mean(axis=0) for design in designs], axis=0)
    limited: Floats = np.minimum(spread, LARGEST_EFFECT**2 / np.maximum(squares, 1e-12))
    return limited


def fit_stretch(design: Design) -> tuple[Floats, Floats]:
    """Coefficients [O, P] and variance of the noise [O] by (slightly regularized) least squares."""
    targets, features = design
    size = features.shape[-1]
    products = np.einsum("tci,tcj->cij", features, features)
    products += (1e-6 * np.einsum("cii->ci", products)[:, :, None] + 1e-12) * np.eye(size)
    weights = np.linalg.solve(products, np.einsum("tci,tc->ci", features, targets)[..., None])[..., 0]
    errors = targets - np.einsum("tci,ci->tc", features, weights)
    return weights, (errors**2).sum(axis=0) / max(1, len(targets) - size)


def refine_prior(designs: Sequence[Design], found: Sequence[Sequence[int]], prior: Prior, floor: Floats) -> Prior:
    """The prior that fits the segments which were found with another one."""
    means, variances, precisions, boundaries, steps = [], [], [], 0, 0
    for design, cuts in zip(designs, found, strict=True):
        boundaries, steps = boundaries + len(cuts), steps + len(design.targets)
        for first, last in pairwise([0, *cuts, len(design.targets)]):
            if last - first - prior.memory < 5:
                continue
            posterior = Statistics.of(design, first + prior.memory, last).posterior(prior)
            means.append(posterior.mean)
            precisions.append(posterior.shape / posterior.rate)
            variances.append(np.einsum("cii->ci", posterior.covariance) / precisions[-1][:, None])
    if not means:
        return prior
    mean, precision = np.mean(means, axis=0), np.array(precisions)
    spread = np.maximum(((np.array(means) - mean) ** 2 + np.array(variances)).mean(axis=0), 1e-12)
    variance = np.maximum(1 / precision.mean(axis=0), floor**2)
    dispersion = float((precision.var(axis=0) / precision.mean(axis=0) ** 2).mean())
    shape = min(50.0, max(1.0, 1 / max(1e-3, dispersion)))
    hazard = min(LARGEST_HAZARD, (boundaries + 0.5) / steps)
    return replace(
        prior,
        mean=mean,
        spread=limit_spread(spread / variance[:, None], designs),
        shape=shape,
        rate=shape * variance,
        hazard=hazard,
    )


@dataclass(frozen=True)
class Posterior:
    """Coefficients and noise of a segment: mean [O, P], covariance / σ² [O, P, P], shape and rate [O] of 1/σ²."""

    mean: Floats
    covariance: Floats
    shape: float
    rate: Floats


@dataclass(frozen=True)
class Statistics:
    """All that a segment says about its coefficients and noise; segments with equal ones may be added."""

    steps: int
    features: Floats
    products: Floats
    targets: Floats

    @staticmethod
    def of(design: Design, first: int, last: int) -> Statistics:
        """Of the steps [first, last)."""
        targets, features = design.targets[first:last], design.features[first:last]
        return Statistics(
            max(0, last - first),
            np.einsum("tci,tcj->cij", features, features),
            np.einsum("tci,tc->ci", features, targets),
            (targets**2).sum(axis=0),
        )

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.steps + other.steps,
            self.features + other.features,
            self.products + other.products,
            self.targets + other.targets,
        )

    def posterior(self, prior: Prior) -> Posterior:
        """What is known after the segment."""
        precision = self.features + np.eye(self.features.shape[-1]) / prior.spread[:, :, None]
        weighted = self.products + prior.mean / prior.spread
        covariance = np.linalg.inv(precision).astype(np.float64)
        mean = np.einsum("cij,cj->ci", covariance, weighted)
        explained = (mean * weighted).sum(axis=-1) - (prior.mean**2 / prior.spread).sum(axis=-1)
        rate = prior.rate + np.maximum(0.0, self.targets - explained) / 2
        return Posterior(mean, covariance, prior.shape + self.steps / 2, rate)

    def evidence(self, prior: Prior) -> Floats:
        """Logarithm of the density of the segment, coefficients and noise integrated out. Shape: [O]."""
        own: Floats = measure_evidence(prior, [self])[0]
        return own


def measure_evidence(prior: Prior, segments: Sequence[Statistics]) -> Floats:
    """Logarithms of the densities of segments, coefficients and noise integrated out. Shape: [N, O]."""
    features, products, targets = (
        np.stack([getattr(segment, name) for segment in segments]) for name in ("features", "products", "targets")
    )
    steps = np.array([segment.steps for segment in segments])
    precision = features + np.eye(features.shape[-1]) / prior.spread[:, :, None]
    weighted = products + prior.mean / prior.spread
    mean = np.linalg.solve(precision, weighted[..., None])[..., 0]
    explained = (mean * weighted).sum(axis=-1) - (prior.mean**2 / prior.spread).sum(axis=-1)
    rate = prior.rate + np.maximum(0.0, targets - explained) / 2
    shape = prior.shape + steps / 2
    gammas = np.array([math.lgamma(value) for value in shape.tolist()]) - math.lgamma(prior.shape)
    found: Floats = (
        (gammas - steps / 2 * math.log(2 * math.pi))[:, None]
        - 0.5 * (np.linalg.slogdet(precision)[1] + np.log(prior.spread).sum(axis=-1))
        + prior.shape * np.log(prior.rate)
        - shape[:, None] * np.log(rate)
    )
    return found


class Partition:
    """Where the current segment may have begun, for many sequences at once, step by step.

    Args:
        prior: of the segments.
        sequences: how many.
        candidates: beginnings that are kept.

    Attributes:
        scores: of each candidate, the logarithm of the density of the best partition so far [N, K].
        evidence: the same, summed over all partitions [N, K].
    """

    def __init__(self, prior: Prior, sequences: int, candidates: int = CANDIDATES) -> None:
        channels, size = prior.mean.shape
        self.prior, self.rows, self.time = prior, np.arange(sequences), 0
        shape = (sequences, candidates)
        self.scores, self.evidence = np.full(shape, -np.inf), np.full(shape, -np.inf)
        self.starts, self.ages = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.mean = np.zeros((*shape, channels, size))
        self.covariance = np.zeros((*shape, channels, size, size))
        self.rate = np.ones((*shape, channels))
        self._fresh = prior.spread[:, :, None] * np.eye(size)
        self._constants = np.zeros(0)

    def begin(self, running: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """A segment may begin at the next step; returns where the best segment before it began, [N]."""
        prior, rows = self.prior, self.rows
        best = np.argmax(self.scores, axis=1)
        before: NDArray[np.int64] = self.starts[rows, best].copy()
        score, evidence = np.zeros(len(rows)), np.zeros(len(rows))
        slot = np.zeros(len(rows), np.int64)
        if self.time > 0:
            score = self.scores[rows, best] - prior.penalty
            evidence = self.total_evidence() + math.log(prior.hazard)
            young = (self.time - self.starts < YOUNG + prior.memory) & np.isfinite(self.scores)
            slot = np.argmin(np.where(young, np.inf, self.scores), axis=1)
            if running is None:
                self.evidence += math.log1p(-prior.hazard)
            else:
                self.evidence[running] += math.log1p(-prior.hazard)
                evidence = np.where(running, evidence, -np.inf)
        self.scores[rows, slot], self.evidence[rows, slot] = score, evidence
        self.starts[rows, slot], self.ages[rows, slot] = self.time, 0
        self.mean[rows, slot], self.covariance[rows, slot] = prior.mean, self._fresh
        self.rate[rows, slot] = prior.rate
        return before

    def observe(self, targets: Array, features: Array, running: NDArray[np.bool_] | None = None) -> None:
        """Take one step. Shape: targets [N, O], features [N, O, P], running [N]: whose sequence has not ended."""
        prior = self.prior
        used = min(self.time + 1, self.scores.shape[1])
        mean, covariance, rate, ages = (part[:, :used] for part in (self.mean, self.covariance, self.rate, self.ages))
        gain = np.einsum("nkcij,ncj->nkci", covariance, features)
        scale = 1 + np.maximum(0.0, np.einsum("nkci,nci->nkc", gain, features))  # never less, but for rounding
        errors = targets[:, None] - np.einsum("nkci,nci->nkc", mean, features)
        shape, constant = prior.shape + 0.5 * ages, self._gamma_ratio(int(ages.max()))[ages]
        width = 2 * rate * scale
        density = (
            constant[..., None] - 0.5 * np.log(np.pi * width) - (shape[..., None] + 0.5) * np.log1p(errors**2 / width)
        ).sum(axis=-1)
        # where features still reach back over the boundary, a segment's own coefficients cannot hold
        learn = (self.time - self.starts[:, :used]) >= prior.memory
        if prior.wide is not None:
            outlier = (-0.5 * np.log(2 * np.pi * prior.wide) - 0.5 * targets**2 / prior.wide).sum(axis=-1)[:, None]
            inside, outside = density + math.log(1 - OUTLIERS), outlier + math.log(OUTLIERS)
            density, learn = np.logaddexp(inside, outside), learn & (inside > outside)
        if running is not None:
            density = np.where(running[:, None], density, 0.0)
        self.scores[:, :used] += density
        self.evidence[:, :used] += density
        errors, gain = errors * learn[..., None], gain * learn[..., None, None]
        step = gain / scale[..., None]
        covariance -= gain[..., :, None] * step[..., None, :]
        mean += step * errors[..., None]
        rate += errors**2 / (2 * scale)
        ages += learn
        self.time += 1

    def total_evidence(self) -> Floats:
        """Logarithm of the density of what was observed, over all partitions, [N]."""
        largest = self.evidence.max(axis=1)
        total: Floats = largest + np.log(np.exp(self.evidence - largest[:, None]).sum(axis=1))
        return total

    def _gamma_ratio(self, longest: int) -> Floats:
        """log Γ(shape + (n + 1)/2) - log Γ(shape + n/2) for n up to a length."""
        if len(self._constants) <= longest:
            halves = [math.lgamma(self.prior.shape + 0.5 * n) for n in range(2 * longest + 66)]
            self._constants = np.diff(halves)
        return self._constants


def choose_condition(lengths: NDArray[np.int64]) -> int:
    """Steps that evidence takes as given: :data:`CONDITION`, but none if no sequence (of so many rows) has more."""
    return CONDITION if lengths.max() - 1 > CONDITION else 0


def count_conditioned(lengths: NDArray[np.int64], condition: int) -> int:
    """Steps of sequences (of so many rows) after those that evidence takes as given; at least one, to divide by."""
    return max(1, int(np.maximum(lengths - 1 - condition, 0).sum()))


def partition(designs: Sequence[Design], prior: Prior, condition: int = CONDITION) -> tuple[list[list[int]], Floats]:
    """The best boundaries of sequences, as steps of their designs, and the evidence for each sequence over all.

    The evidence is the logarithm of the density of all steps after the first few (``condition``), given those.
    """
    lengths = np.array([len(design.targets) for design in designs])
    longest = int(lengths.max())
    targets, features = (
        np.stack(
            [np.pad(design[part], [(0, longest - len(design[part]))] + [(0, 0)] * (1 + part)) for design in designs]
        )
        for part in (0, 1)
    )
    state = Partition(prior, len(designs), min(CANDIDATES, longest))
    before = np.zeros((len(designs), longest), np.int64)
    given, evidence = np.zeros(len(designs)), np.zeros(len(designs))
    for time in range(longest):
        running = lengths > time
        before[:, time] = state.begin(running)
        state.observe(targets[:, time], features[:, time], running)
        ended = lengths == time + 1  # candidates of a sequence that has ended are forgotten later
        if ended.any() or time + 1 == condition:
            total = state.total_evidence()
            evidence[ended] = total[ended]
            given = np.where(running, total, given) if time + 1 <= condition else given
    found = []
    for index, best in enumerate(np.argmax(state.scores, axis=1)):
        start, cuts = int(state.starts[index, best]), []
        while start > 0:
            cuts.append(start)
            start = int(before[index, start])
        found.append(cuts[::-1])
    return found, evidence - given
