"""GateL0RD's layer over time in the compiled engine: project, recur, read out.

Everything that does not depend on the state is computed for all time steps at once, as large products; only two
products per step stay in the loop over time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatel0rd.engine import native
from gatel0rd.engine.compiled import flats, pooled_empty
from gatel0rd.nn.cells.base import Cell, State
from gatel0rd.nn.cells.gatel0rd import GateL0RDCore
from gatel0rd.nn.cells.stack import Stack

SMALLEST = 64
"""Hidden size from which large products pay; smaller layers run as programs, with batch entries in vector lanes."""


class LayerRun(NamedTuple):
    """What a layer gives: outputs [T, B, O], states after each step [T, B, H], gates [T, B, H]."""

    outputs: Tensor
    states: Tensor
    gates: Tensor


class StackRun(NamedTuple):
    """What stacked layers give: outputs of the last, states and gates of all laid end to end, final states."""

    outputs: Tensor
    states: Tensor
    gates: Tensor
    final: State


def can_run_layers(cell: Cell) -> bool:
    """Whether a cell, or each one of a stack, is a GateL0RD whose g and r have one layer, and large enough."""
    return all(
        type(part) is GateL0RDCore
        and part.net_layers == 1
        and part.hidden_size >= SMALLEST
        and part.seen_size == part.input_size
        for part in _parts(cell)
    )


def run_layers(
    cell: Cell, x: Tensor, start: State, noise: Tensor | None, resets: Tensor | None, active: Tensor | None
) -> StackRun:
    """Run a cell or a stack over time, layer by layer. Shape: as :func:`gatel0rd.nn.unroll.unroll`."""
    cells = _parts(cell)
    noises = [None] * len(cells) if noise is None else noise.split([part.hidden_size for part in cells], dim=-1)
    runs: list[LayerRun] = []
    for part, first, own in zip(cells, start, noises, strict=True):
        assert isinstance(part, GateL0RDCore)
        if runs and isinstance(cell, Stack):
            x = F.dropout(x, cell.dropout, cell.training)
        networks = [part.gate_net[0], part.recommendation_net[0], part.output_net, part.output_gate_net]
        runs.append(run_layer(networks, part.gate, x, first, noise=own, resets=resets, active=active))  # type: ignore[arg-type]
        x = runs[-1].outputs
    final = tuple(run.states[-1] for run in runs)
    if len(runs) == 1:
        return StackRun(x, runs[0].states, runs[0].gates, final)
    states, gates = (torch.cat([getattr(run, name) for run in runs], dim=-1) for name in ("states", "gates"))
    return StackRun(x, states, gates, final)


def _parts(cell: Cell) -> list[Cell]:
    return cell.cells if isinstance(cell, Stack) else [cell]


def run_layer(
    networks: list[nn.Linear | None],
    gate: str,
    x: Tensor,
    first: Tensor,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
) -> LayerRun:
    """Run over time.

    Args:
        networks: g, r, p and o (None without output gate), each a linear layer on [x, h].
        gate: activation of g.

    Shape: x [T, B, I], first [B, H], noise [T, B, H], resets and active [T, B] boolean.
    """
    parameters = [
        None if network is None else getattr(network, name) for network in networks for name in ("weight", "bias")
    ]
    apply: Any = _Layer.apply
    return LayerRun(*apply(gate, resets, active, x, first, noise, *parameters))


def _call(
    backward: bool, sizes: list[int], gate: str, networks: list[list[Tensor | None]], tensors: dict[str, Tensor | None]
) -> None:
    """One call of the engine, which checks every size; tensors go by the names of ``Layer`` in native/program.hpp."""
    x = tensors["x"]
    assert x is not None
    given = {name: (tensor.data_ptr(), tensor.numel()) for name, tensor in tensors.items() if tensor is not None}
    native.module().layer(
        x.dtype == torch.float64,
        backward,
        sizes,
        torch.get_num_threads(),
        native.activation_numbers()[gate],
        [flats(row) for row in networks],
        given,
    )


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gate: str,
        resets: Tensor | None,
        active: Tensor | None,
        x: Tensor,
        first: Tensor,
        noise: Tensor | None,
        *parameters: Tensor | None,
    ) -> Any:
        steps, batch, inputs = x.shape
        hidden = first.shape[-1]
        weights = [None if parameter is None else parameter.contiguous() for parameter in parameters]
        outputs = weights[4].shape[0]  # type: ignore[union-attr]
        sizes = [steps, batch, inputs, hidden, outputs]
        masks = {
            name: None if mask is None else mask.contiguous() for name, mask in (("resets", resets), ("active", active))
        }
        empty = partial(pooled_empty, like=x)
        states = empty(steps + 1, batch, hidden)
        states[0] = first
        result = empty(steps, batch, outputs)
        tensors: dict[str, Tensor | None] = {
            "x": x.contiguous(),
            "noise": None if noise is None else noise.contiguous(),
            **masks,
            "states": states,
            "before": states if resets is None else empty(steps, batch, hidden),
            "fresh": states[1:] if active is None else empty(steps, batch, hidden),
            "gates": empty(steps, batch, hidden),
            "recommended": empty(steps, batch, hidden),
            "read": result if weights[6] is None else empty(steps, batch, outputs),
            "read_gate": None if weights[6] is None else empty(steps, batch, outputs),
            "result": result,
        }
        networks = [[weights[k], weights[k + 1], None, None] for k in range(0, 8, 2)]
        _call(False, sizes, gate, networks, tensors)
        kept = [name for name in tensors if name not in ("noise", "result") and tensors[name] is not None]
        ctx.gate, ctx.sizes, ctx.kept = gate, sizes, kept
        ctx.save_for_backward(*weights, *(tensors[name] for name in kept))
        ctx.set_materialize_grads(False)
        return result, states[1:], tensors["gates"]

    @staticmethod
    def backward(ctx: Any, d_result: Tensor | None, d_states: Tensor | None, d_gates: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the compiled engine has no second derivatives; use engine='torch' for create_graph=True"
            )
        saved = ctx.saved_tensors
        weights, tensors = list(saved[:8]), dict(zip(ctx.kept, saved[8:], strict=True))
        wanted = ctx.needs_input_grad[3:]
        x = tensors["x"]
        gradients = [
            torch.zeros_like(weight) if weight is not None and need else None
            for weight, need in zip(weights, wanted[3:], strict=True)
        ]
        given = {"d_result": d_result, "d_states": d_states, "d_gates": d_gates}
        tensors |= {name: None if tensor is None else tensor.contiguous() for name, tensor in given.items()}
        tensors["d_x"] = torch.empty_like(x) if wanted[0] else None
        tensors["d_first"] = x.new_empty(x.shape[1], ctx.sizes[3])
        networks = [[weights[k], weights[k + 1], gradients[k], gradients[k + 1]] for k in range(0, 8, 2)]
        d_noise = x.new_empty(*x.shape[:2], ctx.sizes[3]) if wanted[2] else None
        tensors["d_noise"] = d_noise
        _call(True, ctx.sizes, ctx.gate, networks, tensors)
        return (None, None, None, tensors["d_x"], tensors["d_first"] if wanted[1] else None, d_noise, *gradients)
