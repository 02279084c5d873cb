"""GateL0RD's layer over time in plain PyTorch: project, recur, read out.

As in :mod:`gatel0rd.engine.layer`, but for any device, for second derivatives, and under torch.func: per step, one
product and a few elementwise operations, where the cell calls eight layers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.engine.layer import Affine, LayerRun, Networks
from gatel0rd.nn.functional import GATES


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
    g, r, output, output_gate = networks
    both = join(g[0], r[0])  # the first layers of g and r on the same [x, h]
    widths = [len(g[0].weight), len(r[0].weight)]
    from_x, from_h = both.weight.split([x.shape[-1], first.shape[-1]], dim=1)
    given, weight = F.linear(x, from_x, both.bias), from_h.t()
    if noise is not None and len(g) == 1:
        for_gate, for_recommendation = given.split(widths, dim=-1)
        given = torch.cat([for_gate + noise, for_recommendation], dim=-1)
    squash, fused = GATES[gate], len(g) == 1 and gate == "retanh"
    h, states, fresh, gates = first, [], [], []
    given_steps = given.unbind(0)
    noises, reset_steps, active_steps = (
        [None] * len(given_steps) if tensor is None else tensor.unbind(0)
        for tensor in (
            None if len(g) == 1 else noise,
            None if resets is None else resets.unsqueeze(-1),
            None if active is None else active.unsqueeze(-1),
        )
    )
    for given_t, noise_t, reset_t, active_t in zip(given_steps, noises, reset_steps, active_steps, strict=True):
        if reset_t is not None:
            h = h.masked_fill(reset_t, 0)
        s = torch.addmm(given_t, h, weight).to(first.dtype)  # autocast computes products in fewer bits; states keep all
        if fused:
            gate_t, recommended = torch.tanh(s).split(widths, dim=-1)
            gate_t = torch.relu(gate_t)
        else:
            for_gate, for_recommendation = s.split(widths, dim=-1)
            gate_t = squash(finish(for_gate, g[1:], noise_t))
            recommended = torch.tanh(finish(for_recommendation, r[1:], None))
        new = torch.lerp(h, recommended, gate_t)  # h + Λ·(r - h): h to the bit where the gate is 0
        h = new if active_t is None else torch.where(active_t, new, h)
        states.append(h)
        fresh.append(new)
        gates.append(gate_t)
    after = torch.stack(states)
    xh = torch.cat([x, after if active is None else torch.stack(fresh)], dim=-1)
    if output_gate is None:
        return LayerRun(torch.tanh(F.linear(xh, *output)), after, torch.stack(gates))
    read = F.linear(xh, *join(output, output_gate)).to(first.dtype)
    p, o = read.split([output.weight.shape[0], output_gate.weight.shape[0]], dim=-1)
    return LayerRun(torch.tanh(p) * torch.sigmoid(o), after, torch.stack(gates))


def join(a: Affine, b: Affine) -> Affine:
    """Two affine maps of the same input as one. Shape: [A, I] and [B, I] -> [A + B, I]."""
    bias = None
    if a.bias is not None or b.bias is not None:
        parts = [map.weight.new_zeros(len(map.weight)) if map.bias is None else map.bias for map in (a, b)]
        bias = torch.cat(parts)
    return Affine(torch.cat([a.weight, b.weight]), bias)


def finish(s: Tensor, layers: tuple[Affine, ...], noise: Tensor | None) -> Tensor:
    """What is left of g or r after its first product: tanh and the layers that follow, then noise."""
    for layer in layers:
        s = F.linear(torch.tanh(s), *layer).to(s.dtype)
    return s if noise is None else s + noise
