"""Recurrent PPO (Suppl. B.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.training.ppo.advantages import generalized_advantages
    from gatel0rd.training.ppo.evaluation import evaluate_policy, play_episodes
    from gatel0rd.training.ppo.learner import Learner
    from gatel0rd.training.ppo.rollout import EpisodeStatistics, RolloutBuffer, RolloutCollector
    from gatel0rd.training.ppo.success import Judgement, SuccessCriterion, judge_episodes
    from gatel0rd.training.ppo.trainer import AgentTrainer, check_agent_fits, fitting_agent

__all__ = [
    "AgentTrainer",
    "EpisodeStatistics",
    "Judgement",
    "Learner",
    "RolloutBuffer",
    "RolloutCollector",
    "SuccessCriterion",
    "check_agent_fits",
    "evaluate_policy",
    "fitting_agent",
    "generalized_advantages",
    "judge_episodes",
    "play_episodes",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "AgentTrainer": "trainer",
        "EpisodeStatistics": "rollout",
        "Judgement": "success",
        "Learner": "learner",
        "RolloutBuffer": "rollout",
        "RolloutCollector": "rollout",
        "SuccessCriterion": "success",
        "check_agent_fits": "trainer",
        "evaluate_policy": "evaluation",
        "fitting_agent": "trainer",
        "generalized_advantages": "advantages",
        "judge_episodes": "success",
        "play_episodes": "evaluation",
    },
)
