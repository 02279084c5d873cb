"""Collection of rollouts: an agent acts in its environments, and what an update needs is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from gatel0rd.models.actor_critic import Act, ActorCritic
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo.steps import CompiledSteps, Steps, TorchSteps, compile_steps
from gatel0rd.training.vector_env import VectorEnv, VectorStep


@dataclass(frozen=True)
class RolloutBuffer:
    """T steps of N environments, with what an update needs of them.

    Attributes:
        observations: [T, N, ...].
        starts: True where an episode begins with the observation, [T, N].
        actions: [T, N] or [T, N, A].
        log_probs, values: of the actions and of the observations when the agent acted, [T, N].
        rewards: [T, N].
        ends: True where a step ended its episode, [T, N].
        next_values: values of the observations after the steps, 0 where nothing comes after, [T, N].
        noise: gate noise that was drawn, [T, N, H] or None.
        memories: states before steps 0, k, 2k, … with k half a chunk, [K, N, ·] each.

    Example:
        >>> import torch
        >>> import gatel0rd.worlds
        >>> from gatel0rd.models import ActorCritic
        >>> from gatel0rd.training import PPOConfig, make_vector_env
        >>> from gatel0rd.training.ppo import RolloutCollector, fitting_agent
        >>> with make_vector_env("gatel0rd/Recall-v0", 4) as envs:
        ...     collector = RolloutCollector(ActorCritic(fitting_agent(envs)), envs, seed=0)
        ...     buffer, _ = collector.collect(PPOConfig(environments=4, steps=8, chunk=4), torch.Generator())
        >>> buffer.rewards.shape
        torch.Size([8, 4])
    """

    observations: Tensor
    starts: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    ends: Tensor
    next_values: Tensor
    noise: Tensor | None
    memories: tuple[Tensor, ...]


@dataclass
class EpisodeStatistics:
    """Returns and lengths of episodes that ended, whether their last step was rewarded, and its ``is_success``.

    :func:`~gatel0rd.training.ppo.judge_episodes` says which of them count as successes.

    Example:
        >>> from gatel0rd.training.ppo import EpisodeStatistics
        >>> episodes = EpisodeStatistics(returns=[0.9, 0.0], lengths=[12, 100], rewarded=[True, False])
        >>> sum(episodes.rewarded) / len(episodes.rewarded)
        0.5
    """

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    rewarded: list[bool] = field(default_factory=list)
    succeeded: list[bool] = field(default_factory=list)


class RolloutCollector:
    """An agent in its environments: keeps observations, memories and running episodes between rollouts.

    Example:
        >>> import torch
        >>> import gatel0rd.worlds
        >>> from gatel0rd.models import ActorCritic
        >>> from gatel0rd.training import PPOConfig, make_vector_env
        >>> from gatel0rd.training.ppo import RolloutCollector, fitting_agent
        >>> with make_vector_env("gatel0rd/Recall-v0", 4) as envs:
        ...     collector = RolloutCollector(ActorCritic(fitting_agent(envs)), envs, seed=0)
        ...     buffer, episodes = collector.collect(PPOConfig(environments=4, steps=8, chunk=4), torch.Generator())
        >>> buffer.starts[0].tolist()
        [True, True, True, True]
    """

    def __init__(self, agent: ActorCritic, envs: VectorEnv, *, seed: int) -> None:
        self.agent, self.envs = agent, envs
        self.observations = envs.reset(seed)
        self.starts = np.ones(envs.num_envs, dtype=bool)
        self.state = agent.initial_state(envs.num_envs)
        self.returns, self.lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, dtype=np.int64)

    @torch.no_grad()
    def collect(self, config: PPOConfig, generator: torch.Generator) -> tuple[RolloutBuffer, EpisodeStatistics]:
        """Act for ``config.steps`` steps."""
        agent, steps, count = self.agent, config.steps, self.envs.num_envs
        half = max(config.chunk // 2, 1)
        like = next(agent.parameters())
        noise = None
        if config.gate_noise != "none" and agent.memory is not None:
            noise = agent.memory.sample_noise(steps, count, like, generator)
        observations = np.empty((steps, *self.observations.shape), dtype=self.observations.dtype)
        starts, ends = np.empty((2, steps, count), dtype=bool)
        rewards, ended_values = np.zeros((2, steps, count), dtype=np.float32)
        finished = EpisodeStatistics()
        policy = self._begin_steps(steps, noise, generator)
        for t in range(steps):
            observations[t], starts[t] = self.observations, self.starts
            chosen = policy.act(t, self.observations, self.starts)
            self.state = policy.state_before(t + 1)
            step = self.envs.step(clip_actions(chosen, self.envs.action_space))
            self.observations, rewards[t] = step.observations, step.rewards
            self.starts = ends[t] = step.terminations | step.truncations
            if config.bootstrap_timeouts and step.truncations.any():
                ended_values[t] = self._value(step.final_observations).numpy() * step.truncations
            self._count(step, finished)
        actions, log_probs, values = policy.finish()
        memories = [policy.state_before(t) for t in [*range(0, steps, half), steps]]
        following = torch.cat([values[1:], self._value(self.observations, self.starts)[None]])
        next_values = torch.where(torch.from_numpy(ends), torch.from_numpy(ended_values).to(like.dtype), following)
        rollout = RolloutBuffer(
            torch.from_numpy(observations),
            torch.from_numpy(starts),
            actions,
            log_probs,
            values,
            torch.from_numpy(rewards).to(like.dtype),
            torch.from_numpy(ends),
            next_values,
            noise,
            tuple(torch.stack(parts) for parts in zip(*memories, strict=True)),
        )
        return rollout, finished

    def _begin_steps(self, steps: int, noise: Tensor | None, generator: torch.Generator) -> Steps:
        compiled = compile_steps(self.agent, noise=noise is not None)
        if compiled is None:
            return TorchSteps(self.agent, self.state, noise, generator)
        count = self.envs.num_envs
        return CompiledSteps(compiled, self.agent, self.state, noise, generator, steps=steps, count=count)

    @torch.no_grad()
    def advance(
        self, act: Act, generator: torch.Generator, *, greedy: bool, episodes: EpisodeStatistics, counted: np.ndarray
    ) -> None:
        """Take one step that is not learned from; only episodes of the environments ``counted`` [N] are noted."""
        output = act(torch.from_numpy(self.observations), self.state, torch.from_numpy(self.starts), None)
        chosen = output.policy.mode() if greedy else output.policy.sample(generator)
        self.state = output.state
        step = self.envs.step(clip_actions(chosen[0].numpy(), self.envs.action_space))
        self.observations, self.starts = step.observations, step.terminations | step.truncations
        self._count(step, episodes, counted)

    def _value(self, observations: np.ndarray, starts: np.ndarray | None = None) -> Tensor:
        """Values of observations in the present state, without acting. Shape: [N, ...] -> [N]."""
        marks = None if starts is None else torch.from_numpy(starts)
        return self.agent.act(torch.from_numpy(observations), self.state, marks).values[0]

    def _count(self, step: VectorStep, finished: EpisodeStatistics, counted: np.ndarray | None = None) -> None:
        over = self.starts
        self.returns += step.rewards
        self.lengths += 1
        if not over.any():
            return
        for index in np.flatnonzero(over if counted is None else over & counted):
            finished.returns.append(float(self.returns[index]))
            finished.lengths.append(int(self.lengths[index]))
            finished.rewarded.append(bool(step.rewards[index] > 0))
            finished.succeeded.append(bool(step.successes[index]))
        self.returns[over], self.lengths[over] = 0.0, 0


def clip_actions(actions: np.ndarray, space: spaces.Space[Any]) -> np.ndarray:
    """Actions [N] or [N, A] as an environment accepts them: inside its bounds, in its type."""
    chosen = actions
    if isinstance(space, spaces.Box):
        chosen = np.clip(actions, space.low, space.high).astype(space.dtype)
    return chosen
