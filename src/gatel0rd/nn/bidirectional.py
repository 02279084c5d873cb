"""Layers that read a sequence from both ends."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.engine import EngineName, ProgramCache
from gatel0rd.nn.cells import Stack, State
from gatel0rd.nn.unroll import Unrolled, unroll


def unroll_both_ways(
    forward: Stack,
    backward: Stack,
    x: Tensor,
    state: State | None,
    *,
    noise: Tensor | None = None,
    active: Tensor | None = None,
    engine: EngineName = "auto",
    cache: ProgramCache,
    recompute: bool = False,
) -> Unrolled:
    """Each layer from the first to the last step and from the last to the first; both outputs go to the next layer.

    Args:
        forward, backward: the layers of both directions; those after the first read the outputs of both.
        state: where to start, layer by layer, the forward direction first, as in ``nn.GRU``.
        noise: gate noise of all layers in the same order.
        active: False where a sequence has no step, [T, B]: both directions hold their state there.
    """
    cells = [cell for pair in zip(forward.cells, backward.cells, strict=True) for cell in pair]
    noises = [None] * len(cells) if noise is None else noise.split([cell.noise_size for cell in cells], dim=-1)
    from_end = None if active is None else active.flip(0)
    runs: list[Unrolled] = []
    for index, (cell, drawn) in enumerate(zip(cells, noises, strict=True)):
        if index % 2 == 0 and runs:
            x = torch.cat([run.outputs for run in runs[-2:]], dim=-1)
            x = F.dropout(x, forward.dropout, forward.training) if forward.dropout > 0 else x
        start = None if state is None else (state[index],)
        given, valid = (x, active) if index % 2 == 0 else (x.flip(0), from_end)
        run = unroll(
            cell,
            given,
            start,
            noise=drawn,
            active=valid,
            engine=engine,
            cache=cache.layers[index],
            recompute=recompute,
        )
        if index % 2 == 1:
            assert run.gates is not None
            outputs, latents, gates = (tensor.flip(0) for tensor in (run.outputs, run.latents, run.gates))
            run = Unrolled(outputs, latents, gates, run.state)
        runs.append(run)
    outputs, latents, gates = (
        torch.cat([getattr(run, name) for run in part], dim=-1)
        for name, part in (("outputs", runs[-2:]), ("latents", runs), ("gates", runs))
    )
    return Unrolled(outputs, latents, gates, tuple(tensor for run in runs for tensor in run.state))
