"""Chunks of rollouts: the stretches of time through which gradients flow, from stored memories.

The encoder sees all frames of a batch at once, the memory runs over whole chunks, and episodes that start inside a
chunk reset it there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gatel0rd.models.actor_critic import ActorCritic, ActorCriticOutput
from gatel0rd.nn.cells import State
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo.rollout import RolloutBuffer


@dataclass(frozen=True)
class ChunkBatch:
    """Some chunks of a rollout: the places they are taken from."""

    times: Tensor  # [B], of the first step
    columns: Tensor  # [B]
    steps: Tensor  # [T, B], times of all steps

    def select(self, tensor: Tensor) -> Tensor:
        """The chunks' part of a rollout's tensor. Shape: [rollout's T, N, ...] -> [T, B, ...]."""
        return tensor[self.steps, self.columns]

    @property
    def half(self) -> int:
        """Steps of half a chunk."""
        return max(len(self.steps) // 2, 1)

    def memories(self, rollout: RolloutBuffer) -> State:
        """The memories that are stored for the first steps, [B, ·] each."""
        # through NumPy, which takes a fraction of the time to pick a few rows
        place = self.times.numpy() // self.half, self.columns.numpy()
        return tuple(torch.from_numpy(memory.numpy()[place]) for memory in rollout.memories)


def chunk_starts(config: PPOConfig, count: int, *, shifted: bool) -> tuple[Tensor, Tensor]:
    """First steps and columns of all chunks of a rollout; shifted by half a chunk, one chunk per column less fits in.

    Shape: [chunks] each.
    """
    first = config.chunk // 2 if shifted else 0
    times = torch.arange(first, config.steps - config.chunk + 1, config.chunk)
    return times.repeat_interleave(count), torch.arange(count).repeat(len(times))


def chunk_batches(config: PPOConfig, count: int, epoch: int, generator: torch.Generator) -> list[ChunkBatch]:
    """The chunks of an epoch in random order, in batches of ``batch_size`` frames."""
    shifted = config.shift_chunks and epoch % 2 == 1 and config.steps > config.chunk > 1
    times, columns = chunk_starts(config, count, shifted=shifted)
    offsets = torch.arange(config.chunk)[:, None]
    order = torch.randperm(len(times), generator=generator).split(config.batch_size // config.chunk)
    return [ChunkBatch(times[chosen], columns[chosen], times[chosen] + offsets) for chosen in order]


def run_chunks(
    agent: ActorCritic, rollout: RolloutBuffer, batch: ChunkBatch, *, noise: Tensor | None, refresh: bool
) -> ActorCriticOutput:
    """Run the agent over chunks, from the memories that are stored for their first steps.

    With ``refresh`` the memories in the middle of the chunks are stored anew, for later chunks that start there.
    """
    features = agent.encode(batch.select(rollout.observations))
    output = agent.forward_features(features, batch.memories(rollout), batch.select(rollout.starts), noise)
    if refresh:
        store_memories(agent, rollout, batch, output.outputs, output.latents)
    return output


def store_memories(
    agent: ActorCritic, rollout: RolloutBuffer, batch: ChunkBatch, outputs: Tensor | None, latents: Tensor | None
) -> None:
    """Store the memories in the middle of chunks anew. Shape: outputs [T, B, O], latents [T, B, H]."""
    if agent.memory is None:
        return
    assert outputs is not None and latents is not None
    middle = agent.memory.state_at(outputs[batch.half - 1].detach(), latents[batch.half - 1].detach())
    if middle is not None:
        place = batch.times.numpy() // batch.half + 1, batch.columns.numpy()
        for memory, new in zip(rollout.memories, middle, strict=True):
            memory.numpy()[place] = new.numpy()
