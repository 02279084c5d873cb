"""Evaluation of agents: episodes from which nothing is learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.training.ppo.rollout import EpisodeStatistics, RolloutCollector
from gatel0rd.training.ppo.success import judge_episodes
from gatel0rd.training.vector_env import BackendName, VectorEnv, make_vector_env

ENVIRONMENTS_AT_ONCE = 50
"""The most environments that evaluation runs in parallel."""


@torch.no_grad()
def play_episodes(
    agent: ActorCritic,
    envs: VectorEnv,
    *,
    episodes: int,
    seed: int,
    greedy: bool = False,
    on_step: Callable[[int], None] = lambda ended: None,
) -> EpisodeStatistics:
    """Play episodes with an agent that does not learn, without gate noise.

    Every environment plays its share of the episodes to the end, so that short ones are not preferred.

    Args:
        greedy: take the most probable actions instead of drawing them.
        on_step: called after every step with the number of episodes that have ended.

    Example:
        >>> import gatel0rd.worlds
        >>> from gatel0rd.models import ActorCritic
        >>> from gatel0rd.training import make_vector_env
        >>> from gatel0rd.training.ppo import fitting_agent, play_episodes
        >>> with make_vector_env("gatel0rd/Recall-v0", 4) as envs:
        ...     played = play_episodes(ActorCritic(fitting_agent(envs)), envs, episodes=8, seed=0)
        >>> len(played.returns)
        8
    """
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; expected at least 1")
    generator = torch.Generator().manual_seed(seed)
    collector = RolloutCollector(agent, envs, seed=seed)
    act = agent.prepare(noise=False)
    remaining = np.full(envs.num_envs, episodes // envs.num_envs)
    remaining[: episodes % envs.num_envs] += 1
    played = EpisodeStatistics()
    while (remaining > 0).any():
        collector.advance(act, generator, greedy=greedy, episodes=played, counted=remaining > 0)
        remaining -= collector.starts
        on_step(len(played.returns))
    return played


def evaluate_policy(
    agent: ActorCritic,
    environment: str,
    *,
    episodes: int,
    seed: int,
    backend: BackendName = "auto",
    success_return: float | None = None,
) -> dict[str, Any]:
    """Success rate and its criterion (:func:`~gatel0rd.training.ppo.judge_episodes`), mean return and mean length.

    Example:
        >>> import gatel0rd.worlds
        >>> from gatel0rd.models import ActorCritic
        >>> from gatel0rd.training import make_vector_env
        >>> from gatel0rd.training.ppo import evaluate_policy, fitting_agent
        >>> with make_vector_env("gatel0rd/Recall-v0", 1) as envs:
        ...     agent = ActorCritic(fitting_agent(envs))
        >>> sorted(evaluate_policy(agent, "gatel0rd/Recall-v0", episodes=8, seed=0))
        ['criterion', 'episodes', 'length', 'return', 'success']
    """
    with make_vector_env(environment, min(episodes, ENVIRONMENTS_AT_ONCE), backend=backend) as envs:
        played = play_episodes(agent, envs, episodes=episodes, seed=seed)
    return {
        **judge_episodes(played, envs, success_return=success_return).as_data(),
        "return": float(np.mean(played.returns)),
        "length": float(np.mean(played.lengths)),
        "episodes": episodes,
    }
