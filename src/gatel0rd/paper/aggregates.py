"""What several tasks say together about networks: interquartile means, profiles, probability of improvement.

Scores are a matrix per network, [tasks, seeds], higher is better. Intervals come from a bootstrap that is stratified by
task: every resample draws, for each task on its own, as many seeds as there are. These are the aggregates that Agarwal
et al., *Deep Reinforcement Learning at the Edge of the Statistical Precipice* (NeurIPS 2021), recommend for few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = Sequence[Sequence[float]]
"""A row per task, with a score of every seed; rows may have different lengths."""
Statistic = Callable[..., NDArray[Any] | float]
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Sequence[NDArray[Any]]) -> float:
    """Mean of the middle half of all scores, those of all tasks together.

    Where a quarter of the scores is not a whole number, the scores at the edges count in part.
    """
    ordered = np.sort(np.concatenate([np.asarray(row, dtype=float) for row in scores]))
    cut = len(ordered) / 4
    edges = np.arange(len(ordered) + 1)
    weights = np.clip(np.minimum(edges[1:], len(ordered) - cut) - np.maximum(edges[:-1], cut), 0, None)
    return float(np.average(ordered, weights=weights))


def performance_profile(scores: Sequence[NDArray[Any]], thresholds: NDArray[Any]) -> NDArray[np.float64]:
    """Share of runs with a score above each threshold, as a mean over tasks. Shape: [K] -> [K]."""
    shares = [(np.asarray(row, dtype=float)[:, None] > thresholds).mean(axis=0) for row in scores]
    profile: NDArray[np.float64] = np.mean(shares, axis=0)
    return profile


def probability_of_improvement(better: Sequence[NDArray[Any]], worse: Sequence[NDArray[Any]]) -> float:
    """How probable it is that a run of one network beats one of the other on a random task; ties count half."""
    if len(better) != len(worse):
        raise ValueError(f"{len(better)} and {len(worse)} tasks were given; expected the same tasks for both networks")
    wins = []
    for ours, theirs in zip(better, worse, strict=True):
        difference = np.asarray(ours, dtype=float)[:, None] - np.asarray(theirs, dtype=float)
        wins.append(((difference > 0) + 0.5 * (difference == 0)).mean())
    return float(np.mean(wins))


def stratified_bootstrap(
    statistic: Statistic, *networks: Scores, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """The statistic of resampled seeds, task by task; with several networks, of each resampled on its own.

    Shape: [resamples, ...].
    """
    rng = np.random.default_rng(seed)
    tables = [[np.asarray(row, dtype=float) for row in scores] for scores in networks]
    if not tables or any(not rows or any(len(row) == 0 for row in rows) for rows in tables):
        raise ValueError("there are no scores; expected at least one seed of every task")
    values = []
    for _ in range(resamples):
        drawn = [[row[rng.integers(len(row), size=len(row))] for row in rows] for rows in tables]
        values.append(statistic(*drawn))
    return np.array(values, dtype=float)


def estimate(statistic: Statistic, *networks: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The statistic with its 95 % interval over resampled seeds."""
    tables = [[np.asarray(row, dtype=float) for row in scores] for scores in networks]
    low, high = np.quantile(stratified_bootstrap(statistic, *networks, resamples=resamples, seed=seed), [0.025, 0.975])
    return Estimate(float(statistic(*tables)), float(low), float(high))


def normalize(scores: Mapping[str, Scores]) -> dict[str, list[list[float]]]:
    """Errors of several tasks on one scale: 1 is the best mean of a task, 0 the worst; lower errors give higher scores.

    ``scores``: network -> its errors, a row per task, the same tasks for all.
    """
    tasks = {len(rows) for rows in scores.values()}
    if len(tasks) != 1:
        raise ValueError(f"networks have {sorted(tasks)} tasks; expected the same tasks for all")
    result: dict[str, list[list[float]]] = {name: [] for name in scores}
    for task in range(tasks.pop()):
        means = [float(np.mean(rows[task])) for rows in scores.values()]
        best, worst = min(means), max(means)
        for name, rows in scores.items():
            spread = worst - best
            result[name].append([1.0 if spread == 0 else (worst - float(error)) / spread for error in rows[task]])
    return result
