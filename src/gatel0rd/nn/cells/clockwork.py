"""Clockwork RNN: modules that tick at fixed rates (Koutník et al., 2014)."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import ProgramStep, State, Step, Values
from gatel0rd.nn.cells.torch_like import TorchLikeCell


class ClockworkState(NamedTuple):
    """Latent state h [B, H] and steps since the start of the sequence, modulo the common period, [B, 1]."""

    h: Tensor
    clock: Tensor


class ClockworkCell(TorchLikeCell):
    """Module i is updated, as in an Elman network, when the clock is a multiple of its period; else it holds.

    Connections run from slower modules to faster (and equally fast) ones only. Units are shared out as evenly as
    possible, the remainder to the faster modules: 8 units and 3 periods make 3 + 3 + 2.
    """

    periods: Tensor
    connections: Tensor

    def __init__(
        self, input_size: int, hidden_size: int, *, periods: tuple[int, ...] = (1, 4, 8), **options: Any
    ) -> None:
        super().__init__(input_size, hidden_size, num_chunks=1, **options)
        if len(periods) > hidden_size or any(period < 1 for period in periods):
            raise ValueError(f"periods are {periods}; expected at most hidden_size={hidden_size} positive integers")
        self.state_sizes = (hidden_size, 1)
        self.common_period = math.lcm(*periods)
        share, remainder = divmod(hidden_size, len(periods))
        units = [share + (index < remainder) for index in range(len(periods))]
        per_unit = torch.tensor(sorted(periods)).repeat_interleave(torch.tensor(units), output_size=hidden_size)
        like = self.weight_hh
        self.register_buffer("periods", per_unit.to(like), persistent=False)  # [H]
        connections = (per_unit[None, :] >= per_unit[:, None]).to(like)  # to row, from column
        self.register_buffer("connections", connections, persistent=False)

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        h_tm1, clock = state
        from_x = torch.nn.functional.linear(x_t, self.weight_ih, self.bias_ih)
        from_h = torch.nn.functional.linear(h_tm1, self.weight_hh * self.connections, self.bias_hh)
        due = torch.remainder(clock, self.periods) == 0  # [B, H]
        h_t = torch.where(due, torch.tanh(from_x + from_h), h_tm1)
        return Step(h_t, ClockworkState(h_t, torch.remainder(clock + 1, self.common_period)), None)

    def program_key(self) -> Hashable:
        return tuple(self.periods.tolist()), self.common_period

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep:
        h_tm1, clock = state
        candidate = self.projections_program(build, x, h_tm1, 0, "tanh", mask="connections")
        due = build.due(clock, [int(period) for period in self.periods.tolist()])
        h_t = build.select(due, candidate, h_tm1)
        return ProgramStep(h_t, (h_t, build.tick(clock, self.common_period)), None)

    def state_program(self, build: Builder, latents: Value) -> Values:
        return latents, build.value(1)  # new rows are zero: the clock starts there

    def state_from(self, latents: Tensor) -> State:
        return ClockworkState(latents, torch.zeros_like(latents[..., :1]))
