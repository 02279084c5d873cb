"""Elman's simple recurrent network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import ProgramStep, State, Step, Values
from gatel0rd.nn.cells.torch_like import TorchLikeCell


class ElmanCell(TorchLikeCell):
    """h_t = tanh(W_ih·x_t + b_ih + W_hh·h_{t-1} + b_hh), as ``nn.RNNCell``."""

    def __init__(self, input_size: int, hidden_size: int, **options: Any) -> None:
        super().__init__(input_size, hidden_size, num_chunks=1, **options)

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        (h_tm1,) = state
        from_x, from_h = self.projections(x_t, h_tm1)
        h_t = torch.tanh(from_x + from_h)
        return Step(h_t, (h_t,), None)

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep:
        h_t = self.projections_program(build, x, state[0], 0, "tanh")
        return ProgramStep(h_t, (h_t,), None)
