"""What is wrong with a learned planner: how far predictions and plans hold, in numbers and in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gatel0rd.planning.noise import Array

TOLERANCE = 0.5
"""Errors and gaps above this share of the standard deviation of real costs count."""
LEAST_SPREAD = 0.1
"""Standard deviation that costs are taken to have at least, as a share of their mean: constant ones have none."""
SEEN = 0.99
"""Quantile of the distances between neighbours in the data, beyond which a plan has left it."""
EARLY = 3
"""Steps ahead within which no error has added up yet."""
AWAY = 0.3
"""Share of plans that may leave the data."""
COMPARED = 1000
"""Rows of the data that plans are compared with."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """How predictions and plans of an episode, or of several, compare with what happened, by steps ahead.

    Entry k is about k + 1 steps ahead; all are means over the starts.

    Attributes:
        planned: cost that plans were predicted to have.
        real: cost that came.
        replayed: cost that is predicted for the actions that were really taken.
        error: root mean square of what is predicted for them minus what came.
        away: share of the plans that are farther from all data than data is from itself.
        cost_std: standard deviation of the real costs.
        open_rate: share of open gates; None for cells without gates.
        disagreement: mean standard deviation of the models' costs of the plans, summed over the horizon; 0 for one.
        horizon: steps that were planned ahead, which may be more than there are entries; None in older records.

    Example:
        >>> from gatel0rd.planning import Diagnosis
        >>> flat = {"planned": [1.0] * 4, "replayed": [1.0] * 4, "error": [0.0] * 4, "away": [0.0] * 4}
        >>> found = Diagnosis(**flat, real=[1.0, 1.0, 3.0, 3.0], cost_std=1.0, open_rate=0.1, disagreement=0.0)
        >>> found.describe()
        'plans are optimistic by 3.0x beyond step 2: collect planned episodes'
    """

    planned: list[float]
    real: list[float]
    replayed: list[float]
    error: list[float]
    away: list[float]
    cost_std: float
    open_rate: float | None
    disagreement: float
    horizon: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def limit(self) -> float:
        """Errors and gaps between promise and reality count above this."""
        return TOLERANCE * max(self.cost_std, LEAST_SPREAD * float(np.mean(np.abs(self.real))), 1e-9)

    def describe(self) -> str:
        """One sentence: what is wrong first, and what to do."""
        gap = np.array(self.real) - np.array(self.planned)
        wrong, hopeful = _first(np.array(self.error) > self.limit), _first(gap > self.limit)
        away = _first(np.array(self.away) > AWAY)
        if wrong is not None and (hopeful is None or wrong <= hopeful):
            advice = "train longer, or plan fewer steps ahead"
            if wrong <= EARLY:
                advice = "something that matters is hidden from the model, or it is not trained enough"
            return (
                f"predictions are off by more than half of the costs' spread beyond step {wrong}, even for the actions "
                f"that were taken: {advice}"
            )
        if hopeful is not None:
            real, planned = (float(np.mean(values[hopeful:])) for values in (self.real, self.planned))
            by = f"by {real / planned:.1f}x" if planned > 0.01 * abs(real) and real > 0 else f"by {real - planned:.3g}"
            left = "" if away is None else f", and leave what was seen beyond step {away}"
            return f"plans are optimistic {by} beyond step {hopeful}{left}: collect planned episodes"
        if away is not None:
            return (
                f"plans leave what was seen beyond step {away}, but what they promise holds: nothing is wrong as long "
                "as the returns rise"
            )
        if self.horizon is not None and self.horizon > len(self.real):
            checked = f"the first {len(self.real)} of {self.horizon} steps; episodes are too short to check more"
        else:
            checked = f"all {len(self.real)} steps"
        return f"predictions and plans hold over {checked}"

    def describe_gates(self) -> str | None:
        """How many gates are open, and what it means if there are many; None without gates."""
        if self.open_rate is None:
            return None
        said = f"{self.open_rate:.0%} of the gates are open per step"
        if self.open_rate > 0.5:
            said += (
                ", as they have to be for something hidden that changes all the time, such as a velocity; if what is "
                "hidden changes rarely, raise the weight of open gates"
            )
        return said


def combine(diagnoses: Sequence[Diagnosis]) -> Diagnosis:
    """The mean of several episodes, at each step ahead of those that look so far; errors as a root mean square."""
    if not diagnoses:
        raise ValueError("there are no diagnoses to combine; expected at least one")
    longest = max(len(one.real) for one in diagnoses)

    def rows(name: str) -> Array:  # [D, H], with nan where an episode does not look so far ahead
        values = [getattr(one, name) for one in diagnoses]
        return np.array([row + [np.nan] * (longest - len(row)) for row in values])

    rates = [one.open_rate for one in diagnoses if one.open_rate is not None]
    return Diagnosis(
        **{name: np.nanmean(rows(name), axis=0).tolist() for name in ("planned", "real", "replayed", "away")},
        error=np.sqrt(np.nanmean(np.square(rows("error")), axis=0)).tolist(),
        cost_std=float(np.mean([one.cost_std for one in diagnoses])),
        open_rate=float(np.mean(rates)) if rates else None,
        disagreement=float(np.mean([one.disagreement for one in diagnoses])),
        horizon=diagnoses[0].horizon,
    )


class Neighbourhood:
    """How far points are from data, compared with how far data is from itself.

    Args:
        data: [S, O]; some of the rows are used.
    """

    def __init__(self, data: Array, rng: np.random.Generator) -> None:
        std = data.std(axis=0)
        self.scale = np.where(std > 0, std, 1.0)
        order = rng.permutation(len(data))
        self.data = data[order[:COMPARED]] / self.scale
        others = data[order[COMPARED : 2 * COMPARED]] / self.scale
        if not len(others):  # too few for two parts
            others, self.data = self.data[::2], self.data[1::2]
        self.limit = float(np.quantile(self._nearest(others), SEEN)) if len(self.data) and len(others) else np.inf

    def is_away(self, points: Array) -> Array:
        """1 where a point is farther away than almost all data. Shape: [..., O] -> [...]."""
        away: Array = (self._nearest(points / self.scale) > self.limit).astype(np.float64)
        return away

    def _nearest(self, points: Array) -> Array:
        flat = points.reshape(-1, points.shape[-1])
        nearest = np.full(len(flat), np.inf)
        for first in range(0, len(flat), 512):
            part = flat[first : first + 512]
            squares = np.square(part[:, None] - self.data).sum(axis=-1)
            nearest[first : first + 512] = np.sqrt(squares.min(axis=1))
        return nearest.reshape(points.shape[:-1])


def diagnose(
    *,
    plans: Array,
    plan_stds: Array,
    visited: Array,
    replayed: Array,
    costs: Array,
    neighbourhood: Neighbourhood,
    cost_std: float,
    gates: Sequence[float],
    horizon: int,
) -> Diagnosis:
    """The diagnosis of one episode of T steps, of which H steps ahead are looked at.

    Args:
        plans: predicted costs of the plan of each step, [T, H].
        plan_stds: standard deviation of the models' total costs of it, [T].
        visited: predicted observations of the plan of some steps, [S, H, O].
        replayed: predicted costs of the real actions, from step 1 on, [T - H, H].
        costs: real ones, [T].
        cost_std: of all data.
        gates: shares of open gates at each step, none for cells without.
        horizon: steps that were planned ahead, H or more.
    """
    ahead = plans.shape[1]
    starts = np.arange(1, len(costs) - ahead + 1)
    real = costs[starts[:, None] + np.arange(ahead)]
    return Diagnosis(
        planned=plans[starts].mean(axis=0).tolist(),
        real=real.mean(axis=0).tolist(),
        replayed=replayed.mean(axis=0).tolist(),
        error=np.sqrt(np.square(replayed - real).mean(axis=0)).tolist(),
        away=neighbourhood.is_away(visited).mean(axis=0).tolist(),
        cost_std=cost_std,
        open_rate=float(np.mean(gates)) if len(gates) else None,
        disagreement=float(plan_stds.mean()),
        horizon=horizon,
    )


def _first(flags: Any) -> int | None:
    """The step before which everything is fine, if what comes after is mostly not."""
    for step in range(len(flags)):
        if flags[step] and np.mean(flags[step:]) > 0.5:
            return step
    return None
