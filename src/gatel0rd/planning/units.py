"""In which units a learned model sees observations and outcomes: all equally large, and good rewards spread out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models.fitted import Scaling
from gatel0rd.planning.experience import RecordedEpisode
from gatel0rd.planning.noise import Array

OUTCOMES = 3
"""Columns after those of the observation: the reward, whether the episode ended, and how close its end was."""
REWARD, END, CLOSENESS = -3, -2, -1
SLOWEST = 2.0
"""A column's unit is at most this many times smaller or larger than its standard deviation."""
RARE = 0.1
"""Least standard deviation that the column of terminations is scaled by."""
OUTGROWN = 2.0
"""Units that would now be larger than this many times what they are do not fit any more."""
HALF_CLOSE = 10
"""Steps before an end at which its closeness is a half; n times as many steps before it, it is 1 / (1 + n)."""
SOFTNESS = 0.001
"""Shortfalls of a reward below this share of their standard deviation are not spread out further."""


class RewardScale(NamedTuple):
    r"""Spreads out the rewards near the best one.

    .. math:: y = -\mathrm{sign}(d) (\sqrt{|d| + ε} - \sqrt{ε}),\quad d = best - r

    Close to a goal the reward often hardly changes, compared with how much it varies elsewhere: a pendulum that stands
    15° off loses 0.07 per step of up to 16. A model that learns rewards as they are misses such differences, and a
    planner then sees no reason to do better.
    """

    best: float
    softness: float

    def transform(self, rewards: Array) -> Array:
        short = self.best - rewards
        spread: Array = -np.sign(short) * (np.sqrt(np.abs(short) + self.softness) - np.sqrt(self.softness))
        return spread

    def inverse_transform(self, spread: Array) -> Array:
        short = -np.sign(spread) * (np.square(np.abs(spread) + np.sqrt(self.softness)) - self.softness)
        rewards: Array = self.best - short
        return rewards


class Units(NamedTuple):
    """How columns are scaled.

    Attributes:
        columns: observations, and the outcomes after them.
        change: size of a typical change in these units.
        rewards: how rewards are spread out before they are scaled.
        mean_reward: of a step.
    """

    columns: Scaling
    change: float
    rewards: RewardScale
    mean_reward: float

    def transform(self, episode: RecordedEpisode) -> NDArray[np.float32]:
        """Observations, and the outcomes that came with each. Shape: [T + 1, O + 3]."""
        return self.columns.transform(add_outcomes(episode, self.rewards))

    def transform_observation(self, observation: Array) -> NDArray[np.float32]:
        """One that no outcome is known of. Shape: [O] -> [O + 3]."""
        padded = np.concatenate([observation, self.columns.offset[-OUTCOMES:]])
        return self.columns.transform(padded)

    def inverse_transform(self, rows: Array) -> Array:
        """What a model predicts, in the environment's units. Shape: [..., O + 3]."""
        plain: Array = self.columns.inverse_transform(rows).astype(np.float64, copy=False)
        plain[..., REWARD] = self.rewards.inverse_transform(plain[..., REWARD])
        return plain

    def are_outgrown_by(self, later: Units) -> bool:
        """Whether observations spread so far by now that a network would see most of them as extreme."""
        size = len(self.columns.scale) - OUTCOMES
        return bool((np.array(later.columns.scale) > OUTGROWN * np.array(self.columns.scale))[:size].any())

    def describe(self) -> dict[str, Any]:
        """As plain data, which :func:`read_units` reads."""
        columns = {"offset": list(self.columns.offset), "scale": list(self.columns.scale)}
        rewards = {"best": self.rewards.best, "softness": self.rewards.softness, "mean_reward": self.mean_reward}
        return {**columns, "change": self.change, **rewards}


def read_units(plain: dict[str, Any]) -> Units:
    """From what :meth:`Units.describe` says."""
    columns = Scaling(tuple(plain["offset"]), tuple(plain["scale"]))
    return Units(columns, plain["change"], RewardScale(plain["best"], plain["softness"]), plain["mean_reward"])


def add_outcomes(episode: RecordedEpisode, rewards: RewardScale) -> Array:
    """Observations, and the outcomes that came with each, not scaled yet. Shape: [T + 1, O + 3]."""
    outcomes = np.zeros((episode.steps + 1, OUTCOMES))
    outcomes[1:, REWARD] = rewards.transform(episode.rewards)
    outcomes[0, REWARD] = outcomes[1, REWARD]  # it is never shown or predicted
    outcomes[-1, END] = episode.terminated
    last = 1.0 if episode.terminated else episode.last_closeness
    if last > 0:  # n steps before a closeness of 1 / (1 + m) it is 1 / (1 + m + n / HALF_CLOSE)
        outcomes[:, CLOSENESS] = 1 / (1 / last + np.arange(episode.steps, -1, -1) / HALF_CLOSE)
    return np.concatenate([episode.observations, outcomes], axis=1)


def find_units(episodes: Sequence[RecordedEpisode]) -> Units:
    """Units in which the changes of all columns, and the spread of outcomes, are equally large."""
    observations = np.concatenate([episode.observations for episode in episodes])
    changes = np.concatenate([np.diff(episode.observations, axis=0) for episode in episodes])
    rewards = np.concatenate([episode.rewards for episode in episodes])
    std = observations.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    relative = changes.std(axis=0) / std
    moving = relative > 0
    change = float(np.sqrt(np.square(relative[moving]).mean())) if moving.any() else 0.1
    scale = std * np.clip(np.where(moving, relative, change) / change, 1 / SLOWEST, SLOWEST)
    ended = np.array([episode.terminated for episode in episodes]).mean() / np.mean([e.steps for e in episodes])
    rare = max(RARE, float(np.sqrt(ended * (1 - ended))))
    reward_std = float(rewards.std()) or 1.0
    reward_scale = RewardScale(float(rewards.max()), SOFTNESS * reward_std)
    outcomes = np.concatenate([add_outcomes(episode, reward_scale)[1:, -OUTCOMES:] for episode in episodes])
    spread, _, closeness = (float(value) or 1.0 for value in outcomes.std(axis=0))
    outcome_scale = np.array([spread, rare, closeness]) / change
    offset = [*observations.mean(axis=0).tolist(), float(outcomes[:, REWARD].mean()), 0.0, 0.0]
    columns = Scaling(tuple(offset), (*scale.tolist(), *outcome_scale.tolist()))
    return Units(columns, change, reward_scale, float(rewards.mean()))
