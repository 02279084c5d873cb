"""Long short-term memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import ProgramStep, State, Step, Values
from gatel0rd.nn.cells.torch_like import TorchLikeCell


class LSTMState(NamedTuple):
    """Output h and cell state c, [B, H] each."""

    h: Tensor
    c: Tensor


class LSTMCell(TorchLikeCell):
    """As ``nn.LSTMCell``.

    c_t = σ(f)·c_{t-1} + σ(i)·tanh(g),  h_t = σ(o)·tanh(c_t)  with i, f, g, o the rows of the summed projections.
    """

    def __init__(self, input_size: int, hidden_size: int, **options: Any) -> None:
        super().__init__(input_size, hidden_size, num_chunks=4, **options)
        self.latent_size = 2 * hidden_size
        self.state_sizes = (hidden_size, hidden_size)

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        h_tm1, c_tm1 = state
        from_x, from_h = self.projections(x_t, h_tm1)
        i, f, g, o = (from_x + from_h).chunk(4, dim=-1)
        c_t = torch.sigmoid(f) * c_tm1 + torch.sigmoid(i) * torch.tanh(g)
        h_t = torch.sigmoid(o) * torch.tanh(c_t)
        return Step(h_t, LSTMState(h_t, c_t), None)

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep:
        h_tm1, c_tm1 = state
        i, f, o = (self.projections_program(build, x, h_tm1, chunk, "sigmoid") for chunk in (0, 1, 3))
        g = self.projections_program(build, x, h_tm1, 2, "tanh")
        c_t = build.add(build.multiply(f, c_tm1), build.multiply(i, g))
        h_t = build.multiply(o, build.activate(c_t, "tanh"))
        return ProgramStep(h_t, (h_t, c_t), None)

    def state_program(self, build: Builder, latents: Value) -> Values:
        return tuple(build.split(latents, self.state_sizes))

    def latents_program(self, build: Builder, state: Values) -> Value:
        return state[1]

    def state_from(self, latents: Tensor) -> State:
        h, c = latents.chunk(2, dim=-1)
        return LSTMState(h, c)

    def latents(self, state: State) -> Tensor:
        return state[1]

    def state_at(self, output: Tensor, latents: Tensor) -> State:
        return LSTMState(output, latents)
