"""The contract of every recurrent cell: one step, and how a state begins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from gatel0rd.engine.builder import Builder, ProgramModule
from gatel0rd.engine.program import Value
from gatel0rd.engine.random import sample_normal

State = tuple[Tensor, ...]
"""A cell's state: tensors with the batch first. Cells with more than one tensor use a NamedTuple."""


class Step(NamedTuple):
    """What one step of a cell gives: output [B, O], next state, gates [B, G] (None if the cell has no sparse gate)."""

    output: Tensor
    state: State
    gates: Tensor | None


Values = tuple[Value, ...]


class ProgramStep(NamedTuple):
    """A :class:`Step` in a program: output, next state, gates."""

    output: Value
    state: Values
    gates: Value | None


class Cell(ProgramModule):
    """One step of a recurrent network. Time, resets and lengths are the business of :mod:`gatel0rd.nn.unroll`.

    Attributes:
        input_size, hidden_size, output_size: sizes of x_t, of the latent state and of the output.
        latent_size: how many numbers fix a state (H, or 2·H for an LSTM); f_init predicts that many.
        noise_size: how many standard normal numbers a step takes (0 for deterministic cells).
        noise_std: by how much they are scaled.
        state_sizes: features of each tensor of the state.
    """

    described: ClassVar[Mapping[str, str]] = {
        "forward": "program",
        "latents": "latents_program",
        "state_from": "state_program",
        "initial_state": "state_program",
    }

    input_size: int
    hidden_size: int
    output_size: int
    latent_size: int
    noise_size: int = 0
    noise_std: float = 0.0
    state_sizes: tuple[int, ...]

    @abstractmethod
    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        """Advance one step. Shape: x_t [B, I], noise_t [B, noise_size]."""

    @abstractmethod
    def state_from(self, latents: Tensor) -> State:
        """The state that starts a sequence, given its ``latent_size`` numbers. Shape: [B, latent_size]."""

    @abstractmethod
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh."""

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep | None:
        """The step once more, as instructions for the compiled engine; None: this cell runs in PyTorch only.

        ``state`` are the values of the state's tensors, and :meth:`state_program` says how they start.
        """
        return None

    def program_key(self) -> Hashable:
        """What the program depends on and may change after the first call."""
        return ()

    def state_program(self, build: Builder, latents: Value) -> Values:
        """:meth:`state_from` as instructions: here, the latents are the state."""
        return (latents,)

    def latents_program(self, build: Builder, state: Values) -> Value:
        """:meth:`latents` as instructions."""
        return state[0]

    def latents(self, state: State) -> Tensor:
        """The part of the state that a figure shows. Shape: [B, H]."""
        return state[0]

    def state_at(self, output: Tensor, latents: Tensor) -> State | None:
        """The state that a step left behind, from its output and latents; None where they do not tell it."""
        return (latents,) if self.state_sizes == (self.hidden_size,) else None

    def initial_state(self, batch_size: int, like: Tensor) -> State:
        """The all-zero start, with the dtype and device of ``like``."""
        return self.state_from(like.new_zeros(batch_size, self.latent_size))

    def sample_noise(
        self, steps: int, batch_size: int, like: Tensor, generator: torch.Generator | None = None
    ) -> Tensor | None:
        """Gate noise ε for a whole sequence, None for a cell without noise. Shape: [T, B, noise_size]."""
        if self.noise_size == 0 or self.noise_std == 0:
            return None
        shape = (steps, batch_size, self.noise_size)
        return sample_normal(shape, self.noise_std, like=like, generator=generator)
