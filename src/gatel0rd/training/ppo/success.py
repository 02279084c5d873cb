"""What counts as success of an episode: the environment's own notion, as far as it has one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from gatel0rd.training.ppo.rollout import EpisodeStatistics
from gatel0rd.training.vector_env import VectorEnv


class SuccessCriterion(Enum):
    """Why an episode counts as a success.

    Example:
        >>> from gatel0rd.training.ppo import SuccessCriterion
        >>> SuccessCriterion("is_success").name
        'REPORTED'
    """

    LAST_REWARD = "last_reward"
    """Its last step was rewarded, which in MiniGrid happens at the goal only."""
    REPORTED = "is_success"
    """The info of its last step says so."""
    RETURN = "return"
    """Its return reaches a threshold."""
    NONE = "none"
    """Nobody said what success is: only the mean return tells how good an agent is."""


@dataclass(frozen=True)
class Judgement:
    """Which episodes succeeded, and by which criterion.

    Attributes:
        threshold: the least return of a success, where that is the criterion.
        successes: one per episode; None where there is no criterion.

    Example:
        >>> from gatel0rd.training.ppo import Judgement, SuccessCriterion
        >>> judgement = Judgement(SuccessCriterion.RETURN, 475.0, (True, False, True, True))
        >>> judgement.rate, judgement.words
        (0.75, 'had a return of at least 475')
    """

    criterion: SuccessCriterion
    threshold: float | None
    successes: tuple[bool, ...] | None

    @property
    def rate(self) -> float | None:
        """The share of successes; None without a criterion or without episodes."""
        return sum(self.successes) / len(self.successes) if self.successes else None

    @property
    def words(self) -> str:
        """What the successful episodes did, for people."""
        return {
            SuccessCriterion.LAST_REWARD: "ended with a reward",
            SuccessCriterion.REPORTED: "succeeded (is_success of the environment)",
            SuccessCriterion.RETURN: f"had a return of at least {self.threshold or 0:g}",
            SuccessCriterion.NONE: "ended",
        }[self.criterion]

    def as_data(self) -> dict[str, Any]:
        """Success rate and criterion, for records."""
        threshold = {} if self.threshold is None else {"threshold": self.threshold}
        return {"success": self.rate, "criterion": self.criterion.value, **threshold}


def judge_episodes(episodes: EpisodeStatistics, envs: VectorEnv, *, success_return: float | None = None) -> Judgement:
    """Which episodes of these environments succeeded.

    What counts is, in this order: ``success_return`` if it is given; a reward in the last step in MiniGrid, as in the
    paper; ``is_success`` if the environment reports it; the ``reward_threshold`` of its registration; or nothing.

    Example:
        >>> import gatel0rd.worlds
        >>> from gatel0rd.training import make_vector_env
        >>> from gatel0rd.training.ppo import EpisodeStatistics, judge_episodes
        >>> played = EpisodeStatistics(returns=[200.0, 500.0])
        >>> with make_vector_env("CartPole-v1", 1) as envs:
        ...     judge_episodes(played, envs).words, judge_episodes(played, envs, success_return=100).rate
        ('had a return of at least 475', 1.0)
    """
    if success_return is None and envs.id.rpartition(":")[2].startswith("MiniGrid-"):
        return Judgement(SuccessCriterion.LAST_REWARD, None, tuple(episodes.rewarded))
    if success_return is None and envs.reports_success:
        return Judgement(SuccessCriterion.REPORTED, None, tuple(episodes.succeeded))
    threshold = envs.reward_threshold if success_return is None else success_return
    if threshold is None:
        return Judgement(SuccessCriterion.NONE, None, None)
    reached = tuple(value >= threshold for value in episodes.returns)
    return Judgement(SuccessCriterion.RETURN, float(threshold), reached)
