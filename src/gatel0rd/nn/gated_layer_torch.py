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

from gatel0rd.engine.layer import Affine, LayerRun, Networks, project
from gatel0rd.engine.tensors import own_result
from gatel0rd.nn.functional import GATES


class Recurrence(NamedTuple):
    """What a recurrence gives at every step: states, fresh states (before any is held) and gates, [T, B, H]."""

    states: Tensor
    fresh: Tensor
    gates: Tensor


def run_layer_in_torch(
    networks: Networks,
    gate: str,
    x: Tensor,
    first: Tensor,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
) -> LayerRun:
    """Run over time. Shape: as :func:`gatel0rd.engine.layer.run_layer`."""
    g, r = networks.gate, networks.recommendation
    from_x, from_h = split_first_layers(networks, x.shape[-1])
    if len(g) == 1:
        found = recur_in_torch(project(x, from_x, noise), from_h, first, resets, active, gate)
    else:
        given = project(x, from_x, None)
        found = recur_deep(given, from_h, first, resets, active, gate, noise, g[1:], r[1:])
    return read_out(networks, x, found)


def split_first_layers(networks: Networks, input_size: int) -> tuple[Affine, Tensor]:
    """The first layers of g and r on [x, h] as one: what x is multiplied with, with biases, and what h is."""
    both = join(networks.gate[0], networks.recommendation[0])
    from_x, from_h = both.weight.split([input_size, both.weight.shape[1] - input_size], dim=1)
    return Affine(from_x, both.bias), from_h


def read_out(networks: Networks, x: Tensor, found: Recurrence) -> LayerRun:
    """Outputs p·o of all steps, in the type of the states."""
    states, fresh, gates = found
    _, _, output, output_gate = networks
    if output is None:
        return LayerRun(own_result(fresh), states, gates)
    xh = torch.cat([x, fresh], dim=-1)
    if output_gate is None:
        return LayerRun(own_result(torch.tanh(F.linear(xh, *output).to(states.dtype))), states, gates)
    read = F.linear(xh, *join(output, output_gate)).to(states.dtype)
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
