"""GateL0RD's layer over time in plain PyTorch: project, recur, read out.

As in :mod:`gatel0rd.engine.layer`, but for any device, for second derivatives, and under torch.func: per step, one
product and a few elementwise operations, where the cell calls eight layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.engine.layer import Affine, LayerRun, Networks
from gatel0rd.nn.functional import GATES


class Recurrence(NamedTuple):
    """What a recurrence gives at every step: states, fresh states (before any is held) and gates, [T, B, H]."""

    states: Tensor
    fresh: Tensor
    gates: Tensor


Recur = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, str], Recurrence]
"""A recurrence whose networks have one layer: given [T, B, 2·H], weight [2·H, H], first state, resets, active, gate."""


def run_layer_in_torch(
    networks: Networks,
    gate: str,
    x: Tensor,
    first: Tensor,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
    recur: Recur | None = None,
) -> LayerRun:
    """Run over time. Shape: as :func:`gatel0rd.engine.layer.run_layer`.

    ``recur``: how the loop over time runs, for networks g and r of one layer; in PyTorch if not given.
    """
    g, r, output, output_gate = networks
    both = join(g[0], r[0])  # the first layers of g and r on the same [x, h]
    from_x, from_h = both.weight.split([x.shape[-1], first.shape[-1]], dim=1)
    given = F.linear(x, from_x, both.bias)
    if len(g) == 1:
        if noise is not None:
            for_gate, for_recommendation = given.split([len(g[0].weight), len(r[0].weight)], dim=-1)
            given = torch.cat([for_gate + noise, for_recommendation], dim=-1)
        loop = recur_in_torch if recur is None else recur
        states, fresh, gates = loop(given, from_h, first, resets, active, gate)
    else:
        states, fresh, gates = recur_deep(given, from_h, first, resets, active, gate, noise, g[1:], r[1:])
    if output is None:
        return LayerRun(fresh, states, gates)
    xh = torch.cat([x, fresh], dim=-1)
    if output_gate is None:
        return LayerRun(torch.tanh(F.linear(xh, *output).to(first.dtype)), states, gates)
    read = F.linear(xh, *join(output, output_gate)).to(first.dtype)
    p, o = read.split([len(output.weight), len(output_gate.weight)], dim=-1)
    return LayerRun(torch.tanh(p) * torch.sigmoid(o), states, gates)


def recur_in_torch(
    given: Tensor, weight: Tensor, first: Tensor, resets: Tensor | None, active: Tensor | None, gate: str
) -> Recurrence:
    """The loop over time: one product and a few elementwise operations per step."""
    squash, widths = GATES[gate], [len(weight) - first.shape[-1], first.shape[-1]]  # of gate and recommendation

    def step(s: Tensor, _: Tensor | None) -> tuple[Tensor, Tensor]:
        if gate == "retanh":
            gate_t, recommended = torch.tanh(s).split(widths, dim=-1)
            return torch.relu(gate_t), recommended
        for_gate, for_recommendation = s.split(widths, dim=-1)
        return squash(for_gate), torch.tanh(for_recommendation)

    return _loop(step, given, weight, first, resets, active, None)


def recur_deep(
    given: Tensor,
    weight: Tensor,
    first: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    gate: str,
    noise: Tensor | None,
    g: tuple[Affine, ...],
    r: tuple[Affine, ...],
) -> Recurrence:
    """The same for networks of several layers; ``g`` and ``r`` are those after the first."""
    squash = GATES[gate]

    def step(s: Tensor, noise_t: Tensor | None) -> tuple[Tensor, Tensor]:
        for_gate, for_recommendation = s.chunk(2, dim=-1)  # hidden layers of the same width
        return squash(_finish(for_gate, g, noise_t)), torch.tanh(_finish(for_recommendation, r, None))

    return _loop(step, given, weight, first, resets, active, noise)


def _loop(
    step: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]],
    given: Tensor,
    weight: Tensor,
    first: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    noise: Tensor | None,
) -> Recurrence:
    """``gates, recommended = step(given + W·h, noise)`` at every step."""
    h, from_h, states, fresh, gates = first, weight.t(), [], [], []
    steps = given.unbind(0)
    masks = (None if mask is None else mask.unsqueeze(-1) for mask in (resets, active))
    columns = ([None] * len(steps) if tensor is None else tensor.unbind(0) for tensor in (noise, *masks))
    for given_t, noise_t, reset_t, active_t in zip(steps, *columns, strict=True):
        if reset_t is not None:
            h = h.masked_fill(reset_t, 0)
        s = torch.addmm(given_t, h, from_h).to(first.dtype)  # autocast computes products in fewer bits; states keep all
        gate_t, recommended = step(s, noise_t)
        new = torch.lerp(h, recommended, gate_t)  # h + Λ·(r - h): h to the bit where the gate is 0
        h = new if active_t is None else torch.where(active_t, new, h)
        states.append(h)
        fresh.append(new)
        gates.append(gate_t)
    after = torch.stack(states)
    return Recurrence(after, after if active is None else torch.stack(fresh), torch.stack(gates))


def join(a: Affine, b: Affine) -> Affine:
    """Two affine maps of the same input as one. Shape: [A, I] and [B, I] -> [A + B, I]."""
    bias = None
    if a.bias is not None or b.bias is not None:
        parts = [map.weight.new_zeros(len(map.weight)) if map.bias is None else map.bias for map in (a, b)]
        bias = torch.cat(parts)
    return Affine(torch.cat([a.weight, b.weight]), bias)


def _finish(s: Tensor, layers: tuple[Affine, ...], noise: Tensor | None) -> Tensor:
    """What is left of g or r after its first product: tanh and the layers that follow, then noise."""
    for layer in layers:
        s = F.linear(torch.tanh(s), *layer).to(s.dtype)
    return s if noise is None else s + noise
