"""GateL0RD: gates that can be exactly zero, an output apart from the latent state."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor, nn

from gatel0rd.engine.builder import Builder, UnknownLayoutError
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import Cell, ProgramStep, State, Step, Values
from gatel0rd.nn.config import GateName
from gatel0rd.nn.functional import GATES
from gatel0rd.nn.mlp import fan_in_widths, reset_linear, tanh_mlp

OWN_GATES = dict(GATES)
"""The gates that the compiled code has, as they are in PyTorch."""


def check_gate(name: str) -> None:
    """A gate that somebody added or replaced is an :class:`UnknownLayoutError`."""
    if name not in OWN_GATES or GATES.get(name) is not OWN_GATES[name]:
        raise UnknownLayoutError(f"the gate {name} is not one of the engine's")


class GateL0RDCore(Cell):
    r"""One step of GateL0RD: what :class:`gatel0rd.nn.GateL0RD` and :class:`gatel0rd.nn.GateL0RDCell` are made of.

    .. math::
        s_t &= g(x_t, h_{t-1}) + ε,  ε ~ N(0, noise_std²)      (Eqs. 6, 10)
        Λ(s) &= max(0, tanh(s))                                (Eq. 7)
        h_t &= Λ(s_t)·r(x_t, h_{t-1}) + (1 - Λ(s_t))·h_{t-1}   (Eq. 8)
        y_t &= p(x_t, h_t)·o(x_t, h_t)                         (Eq. 9)

    Args:
        input_size, hidden_size, output_size: sizes of x_t, h_t and y_t.
        net_layers: layers of g and r, of widths 2^(L-1)·H … H with tanh between.
        gate: Λ, one of ``retanh``, ``sigmoid``, ``heaviside`` (straight-through).
        noise_std: standard deviation of ε; the noise itself is passed to each step.
        output_gate: False leaves out o, so that y_t = p(x_t, h_t).
        memory_only: how many of the last features of x_t only g and r see: what the memory may react to, and what
            the output cannot use without remembering it.
        scalar_gate: True: one gate opens or closes all dimensions together, and there is one ε for all.
        headless: True leaves out p and o, so that y_t = h_t.

    Deviations: 0.1 is used as a standard deviation, as in the authors' code; the paper's text has Σ_ii = 0.1.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int | None = None,
        *,
        net_layers: int = 1,
        gate: GateName = "retanh",
        noise_std: float = 0.1,
        output_gate: bool = True,
        memory_only: int = 0,
        scalar_gate: bool = False,
        headless: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if headless and output_size not in (None, hidden_size):
            raise ValueError(
                f"output_size is {output_size}; without networks for it, the output is the state, {hidden_size}"
            )
        if gate not in GATES:
            raise ValueError(f"gate is {gate!r}; expected one of {', '.join(GATES)}")
        if net_layers not in (1, 2, 3):
            raise ValueError(f"net_layers is {net_layers}; expected 1, 2 or 3 layers for g and r")
        if noise_std < 0:
            raise ValueError(f"noise_std is {noise_std}; expected a standard deviation, 0 (no noise) or more")
        if not 0 <= memory_only < input_size:
            raise ValueError(f"memory_only is {memory_only}; expected at least 0 and less than input_size {input_size}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.seen_size = input_size - memory_only
        self.output_size = output_size or hidden_size
        self.latent_size = hidden_size
        self.noise_size = gate_size = 1 if scalar_gate else hidden_size
        self.state_sizes = (hidden_size,)
        self.noise_std = noise_std
        self.gate, self.net_layers = gate, net_layers

        both, widths = input_size + hidden_size, fan_in_widths(net_layers, hidden_size)
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.gate_net = tanh_mlp(both, [*widths[:-1], gate_size], last_tanh=False, **options)  # type: ignore[arg-type]
        self.recommendation_net = tanh_mlp(both, widths, last_tanh=True, **options)  # type: ignore[arg-type]
        seen = self.seen_size + hidden_size
        self.output_net = None if headless else nn.Linear(seen, self.output_size, **options)  # type: ignore[arg-type]
        gated = output_gate and not headless
        self.output_gate_net = nn.Linear(seen, self.output_size, **options) if gated else None  # type: ignore[arg-type]

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        (h_tm1,) = state
        xh = torch.cat([x_t, h_tm1], dim=-1)
        s_t = self.gate_net(xh) if noise_t is None else self.gate_net(xh) + noise_t
        gate = GATES[self.gate](s_t)  # Λ(s_t), [B, H]
        # this form keeps h bit-exact where the gate is 0: 0·r + 1·h
        h_t = gate * self.recommendation_net(xh) + (1 - gate) * h_tm1
        if self.output_net is None:
            return Step(h_t, (h_t,), gate)
        seen = x_t if self.seen_size == self.input_size else x_t.narrow(-1, 0, self.seen_size)
        xh = torch.cat([seen, h_t], dim=-1)
        y_t = torch.tanh(self.output_net(xh))
        if self.output_gate_net is not None:
            y_t = y_t * torch.sigmoid(self.output_gate_net(xh))
        return Step(y_t, (h_t,), gate)

    def program_key(self) -> Hashable:
        return self.gate, GATES.get(self.gate)

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep:
        check_gate(self.gate)
        (h_tm1,) = state
        gate = build.mlp(self.gate_net, [x, h_tm1], last=self.gate, addend=noise)
        h_t = build.blend(gate, build.mlp(self.recommendation_net, [x, h_tm1]), h_tm1)
        if self.output_net is None:
            return ProgramStep(h_t, (h_t,), gate)
        seen = x if self.seen_size == self.input_size else build.view(x, 0, self.seen_size)
        y_t = build.linear(self.output_net, [seen, h_t], "tanh")
        if self.output_gate_net is not None:
            y_t = build.multiply(y_t, build.linear(self.output_gate_net, [seen, h_t], "sigmoid"))
        return ProgramStep(y_t, (h_t,), gate)

    def state_from(self, latents: Tensor) -> State:
        return (latents,)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        reset_linear(self, generator)

    def extra_repr(self) -> str:
        return f"gate={self.gate}, noise_std={self.noise_std}"
