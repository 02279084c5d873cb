"""The gradient of PPO's loss without autograd: the encoder over all frames, then memory and heads over time."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import torch
from torch import Tensor

from gatel0rd.engine import Compiled, can_run, find_layout
from gatel0rd.engine.builder import describe
from gatel0rd.engine.frames import LANES, frame_program
from gatel0rd.engine.gradients import GradientRun
from gatel0rd.engine.optimizer import FlatAdam
from gatel0rd.models.actor_critic import ActorCritic, ActorCriticOutput, Categorical, agent_program
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo.chunks import ChunkBatch, store_memories
from gatel0rd.training.ppo.loss import LossTerms, StoredSteps, loss_gradients
from gatel0rd.training.ppo.rollout import RolloutBuffer
from gatel0rd.training.ppo.steps import is_described


class CompiledGradient:
    """Two programs of an agent with categorical actions, and an optimizer in whose buffer their gradients end up.

    Use :meth:`make`, which knows whether the compiled engine can run the agent.
    """

    def __init__(
        self, agent: ActorCritic, config: PPOConfig, encoder: Compiled, rest: Compiled, *, with_noise: bool
    ) -> None:
        self.agent, self.config, self._key = agent, config, _key_of(agent)
        self.with_noise = with_noise
        names = [f"encoder.{name}" for name in encoder.program.parameters] + rest.program.parameters
        known = dict(agent.named_parameters())
        self.parameters = {name: known[name] for name in names}  # in the order of the programs
        self.optimizer = FlatAdam(list(self.parameters.values()), gradients=True)
        places = [int(program.native.parameter_total) for program in (encoder, rest)]
        of_encoder, of_rest = self.optimizer.gradient.split(places)
        self.encoder = GradientRun(encoder, agent.encoder, of_encoder)
        self.rest = GradientRun(rest, agent, of_rest)

    @classmethod
    def make(cls, agent: ActorCritic, config: PPOConfig) -> CompiledGradient | None:
        """None where PyTorch has to do the work."""
        if agent.log_std is not None or not is_described(agent) or not can_run(agent.engine, [], agent):
            return None
        memory = agent.memory
        with_noise = memory is not None and memory.noise_size > 0 and memory.noise_std > 0
        with_noise = with_noise and config.gate_noise != "none"
        programs = (
            describe(lambda: frame_program(agent.encoder)),
            describe(lambda: agent_program(agent, True, with_noise, memory is not None)),
        )
        if programs[0] is None or programs[1] is None:
            return None
        used = {*(f"encoder.{name}" for name in programs[0].parameters), *programs[1].parameters}
        parameters = dict(agent.named_parameters())
        if used != set(parameters) or not all(parameter.requires_grad for parameter in parameters.values()):
            return None
        return cls(agent, config, Compiled(programs[0]), Compiled(programs[1]), with_noise=with_noise)

    def begin(self, rollout: RolloutBuffer, advantages: Tensor) -> bool:
        """Prepare for batches of a rollout; False if the agent is no longer what the programs describe."""
        dtype = self.optimizer.flat.dtype
        same = _key_of(self.agent) == self._key and (rollout.noise is not None) == self.with_noise
        frozen = any(not parameter.requires_grad for parameter in self.parameters.values())
        if not same or frozen or rollout.values.dtype != dtype:
            return False
        self.rollout, self.count = rollout, rollout.starts.shape[1]
        self.frames = rollout.observations.flatten(0, 1).flatten(1).to(dtype)  # [T·N, size]
        stored = (rollout.starts.to(dtype), rollout.actions, rollout.log_probs, rollout.values, advantages)
        self.stored = [tensor.flatten().numpy() for tensor in stored]
        return True

    @torch.no_grad()
    def compute(self, batch: ChunkBatch, noise: Tensor | None) -> LossTerms:
        """Write the gradient of a batch to the optimizer's buffer. Shape: noise of the gates [T, B, H]."""
        rows = (batch.steps * self.count + batch.columns).flatten()  # of frames, [T·B]
        chosen, shape = rows.numpy(), tuple(batch.steps.shape)
        starts, *stored = (torch.from_numpy(array[chosen].reshape(shape)) for array in self.stored)

        lanes = LANES if len(rows) % LANES == 0 else len(rows)
        frames = self.frames.index_select(0, rows).view(-1, lanes, self.frames.shape[1])
        (encoded,), _ = self.encoder.forward([frames], [])
        masks = [] if self.agent.memory is None else [starts.unsqueeze(-1)]
        sequences = [encoded.view(*shape, -1), *([] if noise is None else [noise]), *masks]
        (actor, critic, *others), state = self.rest.forward(sequences, batch.memories(self.rollout))
        outputs, latents, gates = [*others, None, None, None][:3]
        if self.config.refresh_memories:
            store_memories(self.agent, self.rollout, batch, outputs, latents)

        policy = Categorical(torch.log_softmax(actor, dim=-1))
        output = ActorCriticOutput(policy, critic[..., 0], outputs, latents, gates, state)
        terms, gradients = loss_gradients(output, StoredSteps(*stored), self.config)
        d_actor = through_softmax(policy.log_probs, gradients["log_probs"])
        d_others = [None, None, gradients.get("gates")][: len(others)]
        wanted = [True, *[False] * (len(sequences) - 1)]
        d_features, *_ = self.rest.backward([d_actor, gradients["values"].unsqueeze(-1), *d_others], wanted)
        assert d_features is not None
        self.encoder.backward([d_features.view(encoded.shape)], [False])
        return terms


def through_softmax(log_probs: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of logits from the one of log-probabilities: d/dz = d/d log p - p · sum of d/d log p. [..., A]."""
    slope = gradient.numpy()
    total = np.add.reduce(slope, axis=-1, keepdims=True)
    return torch.from_numpy(slope - np.exp(log_probs.numpy()) * total)


def _key_of(agent: ActorCritic) -> Hashable:
    """What the programs depend on and may change."""
    memory = None if agent.memory is None else agent.memory.program_key()
    return find_layout(agent.engine, [], agent), memory
