"""A layer in the place of a cell, without memory: the baseline that says what a memory is worth."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import Cell, ProgramStep, State, Step, Values
from gatel0rd.nn.mlp import reset_linear


class FeedForwardCell(Cell):
    """h_t = tanh(W·x_t + b): the state is the last output, which nothing reads."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = self.output_size = self.latent_size = hidden_size
        self.state_sizes = (hidden_size,)
        self.layer = nn.Linear(input_size, hidden_size, device=device, dtype=dtype)

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        h_t = torch.tanh(self.layer(x_t))
        return Step(h_t, (h_t,), None)

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep:
        h_t = build.linear(self.layer, [x], "tanh")
        return ProgramStep(h_t, (h_t,), None)

    def state_from(self, latents: Tensor) -> State:
        return (latents,)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        reset_linear(self, generator)
