"""The steps of an agent that collects a rollout: with PyTorch, or in the engine straight into a rollout's arrays."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from gatel0rd.engine import Compiled, can_run
from gatel0rd.engine.builder import describe
from gatel0rd.engine.compiled import NOTHING, View, flats, view_of
from gatel0rd.models.actor_critic import ActorCritic, Categorical, agent_program
from gatel0rd.nn.cells import State


class ActedSteps(NamedTuple):
    """What an agent did in T steps: actions [T, N] or [T, N, A], their log-probabilities and the values [T, N]."""

    actions: Tensor
    log_probs: Tensor
    values: Tensor


class Steps(Protocol):
    """The steps of a rollout, one after the other."""

    def act(self, t: int, observations: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Actions of step t, [N] or [N, A]."""
        ...

    def state_before(self, t: int) -> State:
        """The memory before step t; after the last step, t = T."""
        ...

    def finish(self) -> ActedSteps:
        """What was done, after the last step."""
        ...


class TorchSteps:
    """Steps of any agent.

    Args:
        noise: of the gates in all steps, [T, N, H].
    """

    def __init__(self, agent: ActorCritic, state: State, noise: Tensor | None, generator: torch.Generator) -> None:
        self.act_once, self.noise, self.generator = agent.prepare(noise=noise is not None), noise, generator
        self.states = [state]
        self.actions: list[Tensor] = []
        self.log_probs: list[Tensor] = []
        self.values: list[Tensor] = []

    def act(self, t: int, observations: np.ndarray, starts: np.ndarray) -> np.ndarray:
        noise = None if self.noise is None else self.noise[t]
        output = self.act_once(torch.from_numpy(observations), self.states[t], torch.from_numpy(starts), noise)
        chosen = output.policy.sample(self.generator)
        self.actions.append(chosen)
        self.log_probs.append(output.policy.log_prob(chosen))
        self.values.append(output.values)
        self.states.append(output.state)
        actions: np.ndarray = chosen[0].numpy()
        return actions

    def state_before(self, t: int) -> State:
        return self.states[t]

    def finish(self) -> ActedSteps:
        return ActedSteps(torch.cat(self.actions), torch.cat(self.log_probs), torch.cat(self.values))


class CompiledSteps:
    """Steps of an agent with categorical actions: one call of the engine each, which reads and writes whole rollouts.

    Args:
        compiled: the agent's program, from :func:`compile_steps`.
        noise: of the gates in all steps, [T, N, H].
        steps, count: T and N.
    """

    def __init__(
        self,
        compiled: Compiled,
        agent: ActorCritic,
        state: State,
        noise: Tensor | None,
        generator: torch.Generator,
        *,
        steps: int,
        count: int,
    ) -> None:
        program = compiled.program
        self.compiled = compiled
        self.parameters = [tensor.detach().contiguous() for tensor in compiled.parameters(agent)]
        like = self.parameters[0]
        self.frame = like.new_empty(1, count, program.sequences[0])
        self.start = like.new_empty(1, count, 1)
        self.logits, self.critic = (like.new_empty(steps, count, value.size) for value in program.outputs[:2])
        self.states = [like.new_empty(steps + 1, *part.shape) for part in state]
        for kept, part in zip(self.states, state, strict=True):
            kept[0] = part
        self.noise = None if noise is None else noise.contiguous()
        self.actions = np.empty((steps, count), dtype=np.int64)
        self.drawn = torch.rand(steps, count, generator=generator, dtype=like.dtype).numpy()[..., None]
        # arrays and views of what stays where it is, and of what moves on by a step
        self._frame, self._start = self.frame[0].numpy(), self.start[0, :, 0].numpy()
        self._logits = self.logits.numpy()
        self._arguments = (like.dtype == torch.float64, 1, count, torch.get_num_threads())
        self._masks = compiled.masks(agent)
        self._flats = flats(self.parameters), flats(self._masks)
        self._sequences = [view_of(self.frame)], [] if agent.memory is None else [view_of(self.start)]
        self._others = [NOTHING] * (len(program.outputs) - 2)

    def act(self, t: int, observations: np.ndarray, starts: np.ndarray) -> np.ndarray:
        self._frame[...] = observations.reshape(self._frame.shape)
        self._start[...] = starts
        frames, masks = self._sequences
        noise = [] if self.noise is None else [_view_at(self.noise, t)]
        self.compiled.native.forward(
            *self._arguments,
            [_view_at(states, t) for states in self.states],
            [*frames, *noise, *masks],
            [_view_at(self.logits, t), _view_at(self.critic, t), *self._others],
            [_view_at(states, t + 1) for states in self.states],
            *self._flats,
            None,
        )
        logits = self._logits[t]
        reached = np.exp(logits - logits.max(axis=-1, keepdims=True)).cumsum(axis=-1)
        # scaled by the sum of all, the last action always ends the search
        (reached < self.drawn[t] * reached[:, -1:]).sum(axis=-1, out=self.actions[t])
        chosen: np.ndarray = self.actions[t]
        return chosen

    def state_before(self, t: int) -> State:
        return tuple(states[t] for states in self.states)

    def finish(self) -> ActedSteps:
        actions = torch.from_numpy(self.actions)
        policy = Categorical(torch.log_softmax(self.logits, dim=-1))
        return ActedSteps(actions, policy.log_prob(actions), self.critic[..., 0])


def _view_at(tensor: Tensor, t: int) -> View:
    """One step of a contiguous tensor [T, N, ·] as a sequence of one step."""
    _, count, size = tensor.shape
    return tensor.data_ptr() + t * count * size * tensor.element_size(), count * size, size, 1, 1, count, size


def compile_steps(agent: ActorCritic, *, noise: bool) -> Compiled | None:
    """The program of :class:`CompiledSteps`; None where PyTorch has to do the work."""
    if agent.log_std is not None or not is_described(agent) or not can_run(agent.engine, [], agent):
        return None
    program = describe(lambda: agent_program(agent, False, noise, agent.memory is not None))
    return None if program is None else Compiled(program)


def is_described(agent: ActorCritic) -> bool:
    """Whether an agent computes what its programs say, and not something that a subclass does instead."""
    names = ("encode", "forward_features", "forward", "prepare", "act")
    return all(getattr(type(agent), name) is getattr(ActorCritic, name) for name in names)
