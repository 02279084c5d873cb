"""iCEM: the cross-entropy method with improvements for real-time planning (Pinneri et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatel0rd.planning.noise import Array, colored_noise

Objective = Callable[[Array], NDArray[np.floating]]
"""Costs of action sequences: [E, N, T, A] -> [E, N]; lower is better, NaN and infinity are infinitely bad."""


@dataclass(frozen=True, kw_only=True)
class ICEMConfig:
    """How iCEM searches. Defaults are the paper's; every improvement over plain CEM can be switched off.

    Samples are always clipped to the bounds of the actions.

    Attributes:
        horizon: steps that are planned ahead.
        samples: action sequences in the first iteration.
        iterations: rounds of sampling and refitting.
        elites: best sequences that the next round is fitted to.
        noise_exponent: β of the colored noise; 0 samples every step on its own.
        decay: the number of samples shrinks by this factor per iteration, never below twice the elites; 1: constant.
        reuse: share of the elites that is kept.
        keep_elites: whether they are kept from one iteration to the next.
        shift_elites: whether they are kept, one action later, from one step to the next.
        momentum: share of the old mean and standard deviation in the new ones.
        initial_std: standard deviation of the first samples, as a share of half the action range.
        try_mean: whether the last iteration also tries the mean itself.
        execute_best: return the first action of the best sequence, else of the mean.

    Example:
        >>> from gatel0rd.planning import ICEMConfig
        >>> ICEMConfig(samples=100, iterations=3).sample_counts
        [100, 80, 64]
    """

    horizon: int = 30
    samples: int = 256
    iterations: int = 3
    elites: int = 10
    noise_exponent: float = 3.0
    decay: float = 1.25
    reuse: float = 0.3
    keep_elites: bool = True
    shift_elites: bool = True
    momentum: float = 0.1
    initial_std: float = 0.5
    try_mean: bool = True
    execute_best: bool = True

    def __post_init__(self) -> None:
        for name, least in (("horizon", 1), ("samples", 1), ("iterations", 1), ("elites", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least {least}")
        if self.elites > self.samples:
            raise ValueError(f"{self.elites} elites of {self.samples} samples; expected no more elites than samples")
        for name, low, high in (("reuse", 0, 1), ("momentum", 0, 1), ("decay", 1, np.inf)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}; expected {low} to {high}")
        if not 0 <= self.noise_exponent < np.inf:
            raise ValueError(f"noise_exponent is {self.noise_exponent}; expected a finite number of at least 0")
        if not 0 < self.initial_std < np.inf:
            raise ValueError(f"initial_std is {self.initial_std}; expected a finite number above 0")

    @property
    def kept(self) -> int:
        """How many elites are reused."""
        return int(self.elites * self.reuse)

    @property
    def sample_counts(self) -> list[int]:
        """Fresh samples in every iteration."""
        counts = [self.samples]
        while len(counts) < self.iterations:
            counts.append(max(min(2 * self.elites, self.samples), int(counts[-1] / self.decay)))
        return counts


def plain_cem(config: ICEMConfig) -> ICEMConfig:
    """The cross-entropy method without iCEM's improvements, at the same number of rollouts or a few less.

    Example:
        >>> from gatel0rd.planning import ICEMConfig, plain_cem
        >>> plain_cem(ICEMConfig()).noise_exponent
        0.0
    """
    count = sum(config.sample_counts) // config.iterations
    return replace(
        config,
        samples=max(count, config.elites),
        noise_exponent=0.0,
        decay=1.0,
        keep_elites=False,
        shift_elites=False,
        momentum=0.0,
        try_mean=False,
        execute_best=False,
    )


def random_shooting(config: ICEMConfig) -> ICEMConfig:
    """One round of white noise with as many rollouts as all iterations have; nothing is fitted, the best is taken.

    Example:
        >>> from gatel0rd.planning import ICEMConfig, random_shooting
        >>> random_shooting(ICEMConfig(samples=100, iterations=3)).sample_counts
        [244]
    """
    return replace(plain_cem(config), samples=sum(config.sample_counts), iterations=1, momentum=1.0, execute_best=True)


class ICEM:
    """Plans for any number of episodes in parallel; knows nothing of the world but the objective.

    Call :meth:`reset` at the start of an episode and :meth:`plan` at every step. Afterwards ``planned`` [E, T, A] is
    the sequence of which the first action was returned, and ``elites`` [E, K, T, A] are the best ones in order.

    Args:
        low, high: bounds of the actions, [A]; equal ones leave nothing to choose.
        generator: all randomness: one, or several to plan as many episodes at once (E), each searched on its own.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.planning import ICEM, ICEMConfig
        >>> planner = ICEM([-1.0], [1.0], ICEMConfig(horizon=5), generator=np.random.default_rng(0))
        >>> (action,) = planner.plan(lambda actions: np.square(actions - 0.7).sum(axis=(2, 3)))
        >>> bool(abs(action[0] - 0.7) < 0.2)
        True
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        config: ICEMConfig | None = None,
        *,
        generator: np.random.Generator | Sequence[np.random.Generator],
    ) -> None:
        self.config = config or ICEMConfig()
        self.low, self.high = (np.atleast_1d(np.asarray(bound, dtype=np.float64)) for bound in (low, high))
        if self.low.shape != self.high.shape or self.low.ndim != 1:
            raise ValueError(
                f"bounds have shapes {self.low.shape} and {self.high.shape}; expected two vectors of equal length"
            )
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise ValueError(
                f"action bounds are {self.low} and {self.high}; iCEM needs finite ones: rescale the actions"
            )
        if not (self.low <= self.high).all():
            raise ValueError(f"action bounds are {self.low} and {self.high}; expected none of low above high")
        self.generators = [generator] if isinstance(generator, np.random.Generator) else list(generator)
        if not self.generators:
            raise ValueError("there is no generator; expected one for every episode")
        self.reset()

    def reset(self) -> None:
        """Forget the last episodes: mean in the middle of the action range, initial standard deviation, no elites."""
        config = self.config
        episodes = len(self.generators)
        shape = (episodes, config.horizon, len(self.low))
        self.mean: Array = np.broadcast_to((self.low + self.high) / 2, shape).copy()
        self.std = self._initial_std()
        self.elites: Array = np.empty((episodes, 0, *shape[1:]))
        self.elite_costs: Array = np.empty((episodes, 0))
        self.planned = self.mean

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Continue with these episodes only."""
        self.generators = [self.generators[row] for row in rows]
        self.mean, self.std = self.mean[rows], self.std[rows]
        self.elites, self.elite_costs, self.planned = self.elites[rows], self.elite_costs[rows], self.planned[rows]

    def plan(self, objective: Objective, *, suggestions: Array | None = None, start: Array | None = None) -> Array:
        """The next action of every episode, [E, A]. The search begins where the last call ended, one step later.

        Args:
            suggestions: further action sequences that are tried in the first iteration, [E, S, T, A].
            start: where the search begins instead, [E, T, A].
        """
        config = self.config
        counts = config.sample_counts
        self.elites = self._shifted_elites()
        self.mean = self.mean if start is None else start.copy()
        for iteration, count in enumerate(counts):
            if iteration == 0:
                others = [self.elites] if suggestions is None else [self.elites, suggestions]
            else:
                others = [self.elites[:, : config.kept if config.keep_elites else 0]]
            samples = self._sample(count, others)
            if config.try_mean and iteration == len(counts) - 1:
                samples[:, 0] = self.central_sequence()
            if iteration == 0:  # with the last step's elites, whose costs are of a step ago
                costs = self._evaluate(objective, samples)
            else:
                kept_costs = self.elite_costs[:, : others[0].shape[1]]
                costs = np.concatenate([self._evaluate(objective, samples[:, :count]), kept_costs], axis=1)
            order = np.argsort(costs, axis=1, kind="stable")[:, : config.elites]
            episodes = np.arange(len(order))[:, None]
            self.elites, self.elite_costs = samples[episodes, order], costs[episodes, order]
            self._fit()
        self.planned = self.elites[:, 0] if config.execute_best else self.central_sequence()
        action: Array = self.planned[:, 0].copy()
        self.mean = np.concatenate([self.mean[:, 1:], self.mean[:, -1:]], axis=1)
        self._widen()
        return action

    def central_sequence(self) -> Array:
        """The sequence that the search is centred on, [E, T, A]."""
        return self.mean

    def _widen(self) -> None:
        """Search as widely as at first again, in the next step."""
        self.std = self._initial_std()

    def _fit(self) -> None:
        """Fit mean and standard deviation to the elites with finite costs; a single one is too little to fit to."""
        finite = np.isfinite(self.elite_costs)[:, :, None, None]  # [E, K, 1, 1]
        count = np.maximum(finite.sum(axis=1), 1)
        mean = np.where(finite, self.elites, 0).sum(axis=1) / count
        std = np.sqrt(np.where(finite, np.square(self.elites - mean[:, None]), 0).sum(axis=1) / count)
        old_share = np.where(count > 1, self.config.momentum, 1.0)
        self.mean = old_share * self.mean + (1 - old_share) * mean
        self.std = old_share * self.std + (1 - old_share) * std

    def _initial_std(self) -> Array:
        half = (self.high - self.low) / 2 * self.config.initial_std
        return np.broadcast_to(half, (len(self.generators), self.config.horizon, len(self.low))).copy()

    def _sample(self, count: int, others: Sequence[Array] = ()) -> Array:
        """Fresh action sequences, then the others [E, ·, T, A].

        Shape: [E, count + others, T, A]; in memory time is last, as the noise is drawn.
        """
        horizon, size = self.config.horizon, len(self.low)
        total = count + sum(other.shape[1] for other in others)
        samples = np.empty((len(self.generators), total, size, horizon))
        std, mean = (np.ascontiguousarray(array.swapaxes(1, 2)) for array in (self.std, self.mean))  # [E, A, T]
        fresh = samples[:, :count]
        for episode, generator in enumerate(self.generators):
            noise = colored_noise(self.config.noise_exponent, (count, size, horizon), generator)
            np.multiply(noise, std[episode], out=fresh[episode])
        fresh += mean[:, None]
        np.clip(fresh, self.low[:, None], self.high[:, None], out=fresh)
        result = samples.swapaxes(2, 3)
        if others:
            np.concatenate(others, axis=1, out=result[:, count:])
        return result

    def _shifted_elites(self) -> Array:
        """Some elites of the last step, one step later; their last action is drawn afresh. [E, kept, T, A]."""
        kept = self.elites[:, : self.config.kept if self.config.shift_elites else 0]
        if not kept.shape[1]:
            return kept
        last = self._sample(kept.shape[1])[:, :, -1:]
        return np.concatenate([kept[:, :, 1:], last], axis=2)

    def _evaluate(self, objective: Objective, samples: Array) -> Array:
        costs = np.asarray(objective(samples), dtype=np.float64)
        if costs.shape != samples.shape[:2]:
            raise ValueError(
                f"the objective returned costs of shape {costs.shape}; expected {samples.shape[:2]}, one per sequence"
            )
        if np.isneginf(costs).any():
            raise ValueError("the objective returned a cost of minus infinity; expected finite numbers, or infinity")
        return np.where(np.isnan(costs), np.inf, costs)
