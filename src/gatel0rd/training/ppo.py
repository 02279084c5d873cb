"""Recurrent PPO: rollouts, and the update from chunks of them (Suppl. B.2).

The encoder sees all frames of a batch at once, the memory runs over whole chunks, and episodes that start inside a
chunk reset it there.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from gatel0rd.engine import can_run
from gatel0rd.engine.optimizer import FlatAdam
from gatel0rd.models.actor_critic import Act, ActorCritic, Choices, Judged
from gatel0rd.nn.cells import State
from gatel0rd.nn.functional import generalized_advantages, l0_penalty, open_rate
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.resumable import Moments
from gatel0rd.training.vector_env import Vector


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments.

    Attributes:
        observations: what was seen, [T, N, ...].
        starts: where an episode began with it, [T, N].
        actions: what was done, [T, N] or [T, N, A].
        log_probabilities, values: what the agent thought of it, [T, N].
        rewards: [T, N].
        ends: where a step ended its episode, [T, N].
        next_values: values of what the steps led to, 0 where nothing comes after, [T, N].
        noise: of the gates, [T, N, H] or None.
        memories: before steps 0, k, 2k, … with k half a chunk, [K, N, ·] each.
    """

    observations: Tensor
    starts: Tensor
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    rewards: Tensor
    ends: Tensor
    next_values: Tensor
    noise: Tensor | None
    memories: tuple[Tensor, ...]


@dataclass
class Episodes:
    """Returns and lengths of episodes that ended, and which of them ended with a reward."""

    returns: list[float]
    lengths: list[int]
    rewarded: list[bool]


class Actor:
    """An agent in its environments: keeps observations, memories and running episodes between rollouts."""

    def __init__(self, agent: ActorCritic, vector: Vector, *, seed: int) -> None:
        self.agent, self.vector = agent, vector
        self.observations = vector.reset(seed)
        self.starts = np.ones(vector.count, dtype=bool)
        self.state = agent.initial_state(vector.count)
        self.returns, self.lengths = np.zeros(vector.count), np.zeros(vector.count, dtype=np.int64)

    @torch.no_grad()
    def collect(self, config: PPOConfig, generator: torch.Generator) -> tuple[Rollout, Episodes]:
        """Act for ``config.steps`` steps."""
        agent, steps, count = self.agent, config.steps, self.vector.count
        half = max(config.chunk // 2, 1)
        like = next(agent.parameters())
        noise = None
        if config.gate_noise != "none" and agent.memory is not None:
            noise = agent.memory.sample_noise(steps, count, like, generator)
        observations = np.empty((steps, *self.observations.shape), dtype=self.observations.dtype)
        starts, ends = np.empty((2, steps, count), dtype=bool)
        rewards, ended_values = np.zeros((2, steps, count), dtype=np.float32)
        actions, log_probabilities, values = [], [], []
        memories: list[State] = []
        finished = Episodes([], [], [])
        act = agent.prepare(noise=noise is not None)
        for t in range(steps):
            if t % half == 0:
                memories.append(self.state)
            observations[t], starts[t] = self.observations, self.starts
            judged = act(
                torch.from_numpy(self.observations),
                self.state,
                torch.from_numpy(self.starts),
                None if noise is None else noise[t],
            )
            chosen = judged.policy.sample(generator)
            actions.append(chosen)
            log_probabilities.append(judged.policy.log_probability(chosen))
            values.append(judged.values)
            self.state = judged.state
            self.observations, rewards[t], terminated, truncated, led_to = self.vector.step(
                executable(chosen[0], self.vector.action_space)
            )
            self.starts = ends[t] = terminated | truncated
            if config.bootstrap_timeouts and truncated.any():
                ended_values[t] = self._value(led_to).numpy() * truncated
            self._count(rewards[t], self.starts, finished)
        memories.append(self.state)
        valued = torch.cat(values)
        following = torch.cat([valued[1:], self._value(self.observations, self.starts)[None]])
        next_values = torch.where(torch.from_numpy(ends), torch.from_numpy(ended_values).to(like.dtype), following)
        rollout = Rollout(
            torch.from_numpy(observations),
            torch.from_numpy(starts),
            torch.cat(actions),
            torch.cat(log_probabilities),
            valued,
            torch.from_numpy(rewards).to(like.dtype),
            torch.from_numpy(ends),
            next_values,
            noise,
            tuple(torch.stack(parts) for parts in zip(*memories, strict=True)),
        )
        return rollout, finished

    @torch.no_grad()
    def advance(
        self, act: Act, generator: torch.Generator, *, greedy: bool, episodes: Episodes, counted: np.ndarray
    ) -> Judged:
        """One step without learning; of the environments that are ``counted`` [N], episodes that end are noted."""
        judged = act(torch.from_numpy(self.observations), self.state, torch.from_numpy(self.starts), None)
        chosen = judged.policy.best() if greedy else judged.policy.sample(generator)
        self.state = judged.state
        self.observations, rewards, terminated, truncated, _ = self.vector.step(
            executable(chosen[0], self.vector.action_space)
        )
        self.starts = terminated | truncated
        self._count(rewards, self.starts, episodes, counted)
        return judged

    def _value(self, observations: np.ndarray, starts: np.ndarray | None = None) -> Tensor:
        """How good things are now, without acting. Shape: [N, ...] -> [N]."""
        marks = None if starts is None else torch.from_numpy(starts)
        return self.agent.act(torch.from_numpy(observations), self.state, marks).values[0]

    def _count(
        self, rewards: np.ndarray, over: np.ndarray, finished: Episodes, counted: np.ndarray | None = None
    ) -> None:
        self.returns += rewards
        self.lengths += 1
        for index in np.flatnonzero(over if counted is None else over & counted):
            finished.returns.append(float(self.returns[index]))
            finished.lengths.append(int(self.lengths[index]))
            finished.rewarded.append(bool(rewards[index] > 0))
        self.returns[over], self.lengths[over] = 0.0, 0


def executable(actions: Tensor, space: spaces.Space[Any]) -> np.ndarray:
    """Actions [N] or [N, A] as an environment takes them: inside its bounds."""
    chosen: np.ndarray = actions.numpy()
    if isinstance(space, spaces.Box):
        chosen = np.clip(chosen, space.low, space.high).astype(space.dtype)
    return chosen


@dataclass
class Terms:
    """The parts of the loss, each a mean over frames; and how far the policy has moved."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    sparsity: Tensor
    open_rate: Tensor
    clipped: Tensor

    def total(self, config: PPOConfig) -> Tensor:
        """What is minimised."""
        return (
            self.policy
            + config.value_weight * self.value
            - config.entropy_weight * self.entropy
            + config.sparsity_weight * self.sparsity
        )


@dataclass(frozen=True)
class Batch:
    """Some chunks of a rollout, [T, B] each, with the place they were taken from."""

    times: Tensor  # [B], of the first step
    columns: Tensor  # [B]
    steps: Tensor  # [T, B], times of all steps

    def of(self, tensor: Tensor) -> Tensor:
        """The chunks' part of a tensor [T, N, ...]."""
        return tensor[self.steps, self.columns]


def chunk_starts(config: PPOConfig, count: int, *, shifted: bool) -> tuple[Tensor, Tensor]:
    """First steps and columns of all chunks of a rollout; shifted by half a chunk, one chunk per column less fits in.

    Shape: [chunks] each.
    """
    first = config.chunk // 2 if shifted else 0
    times = torch.arange(first, config.steps - config.chunk + 1, config.chunk)
    return times.repeat_interleave(count), torch.arange(count).repeat(len(times))


def batches(config: PPOConfig, count: int, epoch: int, generator: torch.Generator) -> list[Batch]:
    """The chunks of an epoch in random order, so many at a time that they have ``batch_size`` frames."""
    shifted = config.shift_chunks and epoch % 2 == 1 and config.steps > config.chunk > 1
    times, columns = chunk_starts(config, count, shifted=shifted)
    offsets = torch.arange(config.chunk)[:, None]
    order = torch.randperm(len(times), generator=generator).split(config.batch_size // config.chunk)
    return [Batch(times[chosen], columns[chosen], times[chosen] + offsets) for chosen in order]


def judge_chunks(agent: ActorCritic, rollout: Rollout, batch: Batch, *, noise: Tensor | None, refresh: bool) -> Judged:
    """The agent over chunks, from the memories that are stored for their first steps.

    With ``refresh`` the memories in the middle of the chunks are stored anew, for later chunks that start there.
    """
    chunk = len(batch.steps)
    half = max(chunk // 2, 1)
    place = batch.times // half
    features = agent.encode(batch.of(rollout.observations))
    starts = batch.of(rollout.starts)
    state = tuple(memory[place, batch.columns] for memory in rollout.memories)
    judged = agent.judge(features, state, starts, noise)
    if refresh and agent.memory is not None:
        assert judged.outputs is not None and judged.latents is not None
        middle = agent.memory.state_at(judged.outputs[half - 1].detach(), judged.latents[half - 1].detach())
        if middle is not None:
            for memory, new in zip(rollout.memories, middle, strict=True):
                memory[place + 1, batch.columns] = new
    return judged


def weighed(advantages: Tensor, config: PPOConfig) -> Tensor:
    """Advantages as they count for the policy: as they are, or with mean 0 and deviation 1."""
    if not config.normalize_advantages:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def loss_terms(
    judged: Judged,
    actions: Tensor,
    old_log_probabilities: Tensor,
    old_values: Tensor,
    advantages: Tensor,
    config: PPOConfig,
) -> Terms:
    """PPO's clipped objective, the (clipped) squared error of values, the entropy, and the share of open gates.

    Shape: [T, B] each.
    """
    used = weighed(advantages, config)
    ratio = (judged.policy.log_probability(actions) - old_log_probabilities).exp()
    cut = ratio.clamp(1 - config.clip, 1 + config.clip)
    returns = old_values + advantages
    error = (judged.values - returns).square()
    if config.clip_values:
        near = old_values + (judged.values - old_values).clamp(-config.clip, config.clip)
        error = torch.maximum(error, (near - returns).square())
    nothing = error.new_zeros(())
    gates = judged.gates
    return Terms(
        policy=-torch.minimum(ratio * used, cut * used).mean(),
        value=error.mean(),
        entropy=judged.policy.entropy().mean(),
        sparsity=nothing if gates is None or config.sparsity_weight == 0 else l0_penalty(gates),
        open_rate=nothing if gates is None else open_rate(gates.detach()).to(error.dtype),
        clipped=(ratio.detach() != cut.detach()).to(error.dtype).mean(),
    )


@torch.no_grad()
def loss_gradients(
    judged: Judged,
    actions: Tensor,
    old_log_probabilities: Tensor,
    old_values: Tensor,
    advantages: Tensor,
    config: PPOConfig,
) -> tuple[Terms, dict[str, Tensor]]:
    """:func:`loss_terms` of an agent that chooses, with the gradients of their total, written down by hand.

    The same numbers in less time: autograd would go through some thirty small operations. Gradients are with respect to
    the log-probabilities [T, B, A], the values [T, B] and the gates [T, B, G].
    """
    assert isinstance(judged.policy, Choices)
    log_probabilities, count = judged.policy.log_probabilities, actions.numel()
    used = weighed(advantages, config)
    ratio = (judged.policy.log_probability(actions) - old_log_probabilities).exp_()
    cut = ratio.clamp(1 - config.clip, 1 + config.clip)
    gain, cut_gain = ratio * used, cut * used
    probabilities = log_probabilities.exp()
    # d(-entropy) / d log p = p·(log p + 1)
    policy_gradient = (probabilities * (log_probabilities + 1)).mul_(config.entropy_weight / count)
    taken = torch.where(gain <= cut_gain, gain, 0).mul_(-1 / count)
    policy_gradient.scatter_add_(-1, actions.unsqueeze(-1), taken.unsqueeze(-1))

    returns = old_values + advantages
    difference = judged.values - returns
    error, slope = difference.square(), difference
    if config.clip_values:
        moved = judged.values - old_values
        near = moved.clamp(-config.clip, config.clip)
        cut_difference = near + old_values - returns
        cut_error = cut_difference.square()
        slope = torch.where(error >= cut_error, difference, torch.where(near == moved, cut_difference, 0))
        error = torch.maximum(error, cut_error)
    gradients = {
        "log_probabilities": policy_gradient,
        "values": slope * (2 * config.value_weight / count),
    }
    opened = error.new_zeros(())
    if judged.gates is not None:
        opened = open_rate(judged.gates).to(error.dtype)
        if config.sparsity_weight:  # straight through the step function
            gradients["gates"] = torch.full_like(judged.gates, config.sparsity_weight / judged.gates.numel())
    terms = Terms(
        policy=-torch.minimum(gain, cut_gain).mean(),
        value=error.mean(),
        entropy=-(probabilities * log_probabilities).sum() / count,
        sparsity=opened if config.sparsity_weight else error.new_zeros(()),
        open_rate=opened,
        clipped=(ratio != cut).to(error.dtype).mean(),
    )
    return terms, gradients


def backward(
    judged: Judged,
    actions: Tensor,
    old_log_probabilities: Tensor,
    old_values: Tensor,
    advantages: Tensor,
    config: PPOConfig,
) -> Terms:
    """Add the gradients of the loss to those of the parameters."""
    batch = (actions, old_log_probabilities, old_values, advantages)
    if not isinstance(judged.policy, Choices):
        terms = loss_terms(judged, *batch, config)
        terms.total(config).backward()
        return terms
    terms, gradients = loss_gradients(judged, *batch, config)
    tensors = {"log_probabilities": judged.policy.log_probabilities, "values": judged.values}
    if judged.gates is not None:
        tensors["gates"] = judged.gates
    torch.autograd.backward([tensors[name] for name in gradients], list(gradients.values()))
    return terms


class Learner:
    """Improves an agent by its rollouts."""

    def __init__(self, agent: ActorCritic, config: PPOConfig) -> None:
        self.agent, self.config = agent, config
        self.adam: FlatAdam | None = None
        self.optimizer: torch.optim.Adam | None = None
        if can_run(agent.engine, [], agent):
            self.adam = FlatAdam(list(agent.parameters()), gradients=True)
        else:
            self.optimizer = torch.optim.Adam(
                agent.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.epsilon
            )

    def update(self, rollout: Rollout, generator: torch.Generator) -> dict[str, float]:
        """Some epochs of gradient steps; returns the means of the loss's terms."""
        config, agent = self.config, self.agent
        advantages = generalized_advantages(
            rollout.rewards,
            rollout.values,
            rollout.next_values,
            rollout.ends,
            discount=config.discount,
            trace=config.trace,
        )
        found: list[Tensor] = []
        norms: list[float] = []
        for epoch in range(config.epochs):
            for batch in batches(config, rollout.starts.shape[1], epoch, generator):
                noise = None if rollout.noise is None else batch.of(rollout.noise)
                if noise is not None and config.gate_noise == "fresh":
                    assert agent.memory is not None
                    noise = agent.memory.sample_noise(config.chunk, noise.shape[1], noise, generator)
                judged = judge_chunks(agent, rollout, batch, noise=noise, refresh=config.refresh_memories)
                terms = backward(
                    judged,
                    batch.of(rollout.actions),
                    batch.of(rollout.log_probabilities),
                    batch.of(rollout.values),
                    batch.of(advantages),
                    config,
                )
                norms.append(self._descend())
                found.append(torch.stack([getattr(terms, field.name).detach() for field in fields(terms)]))
        means = torch.stack(found).mean(dim=0).tolist()
        return {
            **dict(zip((field.name for field in fields(Terms)), means, strict=True)),
            "gradient_norm": np.mean(norms),
        }

    def _descend(self) -> float:
        """Clip the gradients and take a step along them; returns their norm."""
        config = self.config
        if self.adam is not None:
            return self.adam.update(
                rate=config.learning_rate, betas=config.betas, epsilon=config.epsilon, clip=config.clip_norm
            )
        assert self.optimizer is not None
        norm = torch.nn.utils.clip_grad_norm_(self.agent.parameters(), config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norm)

    def moments(self) -> tuple[int, Moments]:
        """Adam's steps so far, and its moments by the names of the parameters."""
        named = dict(self.agent.named_parameters())
        if self.adam is not None:
            flat = {"exp_avg": self.adam.mean, "exp_avg_sq": self.adam.square}
            cut = {name: FlatAdam.parts(tensor, list(named.values())) for name, tensor in flat.items()}
            return self.adam.updates, {name: dict(zip(named, parts, strict=True)) for name, parts in cut.items()}
        assert self.optimizer is not None
        state = {name: self.optimizer.state[parameter] for name, parameter in named.items()}
        steps = int(next(iter(state.values()))["step"])
        return steps, {
            moment: {name: entry[moment] for name, entry in state.items()} for moment in ("exp_avg", "exp_avg_sq")
        }

    def restore(self, steps: int, moments: Moments) -> None:
        """Go on from :meth:`moments`."""
        if self.adam is not None:
            self.adam.updates = steps
            for moment, parts in self.moments()[1].items():
                for name, tensor in parts.items():
                    tensor.copy_(moments[moment][name])
            return
        assert self.optimizer is not None
        for name, parameter in self.agent.named_parameters():
            own = {moment: tensors[name].clone() for moment, tensors in moments.items()}
            self.optimizer.state[parameter] = {"step": torch.tensor(float(steps)), **own}
