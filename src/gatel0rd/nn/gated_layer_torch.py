"""GateL0RD's layer over time in plain PyTorch: project, recur, read out.

As in :mod:`gatel0rd.nn.gated_layer`, but for any device, for second derivatives, and under torch.func: per step, one
product and a few elementwise operations, where the cell calls eight layers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.nn.functional import GATES
from gatel0rd.nn.gated_layer import Affine, LayerRun, Networks


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
    """Run over time. Shape: as :func:`gatel0rd.nn.gated_layer.run_layer`."""
    g, r, output, output_gate = networks
    inputs = x.shape[-1]
    both = join(g[0], r[0])  # the first layers of g and r on the same [x, h]
    weight, width = both.weight[:, inputs:].t(), g[0].weight.shape[0]
    given = F.linear(x, both.weight[:, :inputs], both.bias)
    if noise is not None and len(g) == 1:
        given = torch.cat([given[..., :width] + noise, given[..., width:]], dim=-1)
    later_noise = [None] * len(x) if noise is None or len(g) == 1 else noise.unbind(0)
    squash, fused = GATES[gate], len(g) == 1 and gate == "retanh"
    h, states, fresh, gates = first, [], [], []
    for t, given_t in enumerate(given.unbind(0)):
        if resets is not None:
            h = h.masked_fill(resets[t].unsqueeze(-1), 0)
        s = torch.addmm(given_t, h, weight).to(first.dtype)  # autocast computes products in fewer bits; states keep all
        if fused:
            s = torch.tanh(s)
            gate_t, recommended = torch.relu(s[:, :width]), s[:, width:]
        else:
            gate_t = squash(finish(s[:, :width], g[1:], later_noise[t]))
            recommended = torch.tanh(finish(s[:, width:], r[1:], None))
        new = torch.lerp(h, recommended, gate_t)  # h + Λ·(r - h): h to the bit where the gate is 0
        h = new if active is None else torch.where(active[t].unsqueeze(-1), new, h)
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
