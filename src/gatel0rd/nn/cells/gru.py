"""Gated recurrent unit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import ProgramStep, State, Step, Values
from gatel0rd.nn.cells.torch_like import TorchLikeCell


class GRUCell(TorchLikeCell):
    """As ``nn.GRUCell``.

    r = σ(x_r + h_r),  z = σ(x_z + h_z),  n = tanh(x_n + r·h_n),  h_t = (1 - z)·n + z·h_{t-1}
    with x_* and h_* the rows of the two projections.
    """

    def __init__(self, input_size: int, hidden_size: int, **options: Any) -> None:
        super().__init__(input_size, hidden_size, num_chunks=3, **options)

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        (h_tm1,) = state
        from_x, from_h = self.projections(x_t, h_tm1)
        x_reset, x_update, x_new = from_x.chunk(3, dim=-1)
        h_reset, h_update, h_new = from_h.chunk(3, dim=-1)
        reset = torch.sigmoid(x_reset + h_reset)
        update = torch.sigmoid(x_update + h_update)
        new = torch.tanh(x_new + reset * h_new)
        h_t = (1 - update) * new + update * h_tm1
        return Step(h_t, (h_t,), None)

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep:
        (h_tm1,) = state
        reset = self.projections_program(build, x, h_tm1, 0, "sigmoid")
        update = self.projections_program(build, x, h_tm1, 1, "sigmoid")
        rows = (2 * self.hidden_size, self.hidden_size)
        x_new = build.affine(self, [("weight_ih", [x])], ["bias_ih"], rows=rows)
        h_new = build.affine(self, [("weight_hh", [h_tm1])], ["bias_hh"], rows=rows)
        new = build.add(x_new, build.multiply(h_new, reset), "tanh")
        h_t = build.blend(update, h_tm1, new)
        return ProgramStep(h_t, (h_t,), None)
