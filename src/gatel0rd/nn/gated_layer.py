"""GateL0RD's layer over time in the compiled engine: project, recur, read out.

Everything that does not depend on the state is computed for all time steps at once, as large products; only two
products per step stay in the loop over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatel0rd.engine import native
from gatel0rd.engine.builder import UnknownLayoutError, read_tanh_mlp
from gatel0rd.engine.compiled import flats
from gatel0rd.engine.tensors import map_batched, readable_gradient, resolve, restore
from gatel0rd.nn.cells.base import Cell, State
from gatel0rd.nn.cells.gatel0rd import GateL0RDCore, check_gate
from gatel0rd.nn.cells.stack import Stack

SMALLEST = 64
"""Hidden size from which large products pay; smaller layers run as programs, with batch entries in vector lanes."""


class Affine(NamedTuple):
    """W·input + b. Shape: [out, in], [out] or None."""

    weight: Tensor
    bias: Tensor | None


class Networks(NamedTuple):
    """The networks of a layer on [x, h]: layers of g and of r with tanh between them, p, and o (None without it)."""

    gate: tuple[Affine, ...]
    recommendation: tuple[Affine, ...]
    output: Affine
    output_gate: Affine | None


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


class RunLayer(Protocol):
    """A way to run one layer over time: :func:`run_layer`, or the one in PyTorch."""

    def __call__(
        self,
        networks: Networks,
        gate: str,
        x: Tensor,
        first: Tensor,
        *,
        noise: Tensor | None,
        resets: Tensor | None,
        active: Tensor | None,
    ) -> LayerRun: ...


def find_networks(cell: Cell) -> list[Networks] | None:
    """The networks of a GateL0RD, or of each one of a stack; None for other cells, and if they are not as they were
    made.
    """
    try:
        return [read_networks(part) for part in _parts(cell)]
    except UnknownLayoutError:
        return None


def read_networks(cell: Cell) -> Networks:
    """The networks of a GateL0RD; :class:`UnknownLayoutError` for anything else."""
    if type(cell) is not GateL0RDCore:
        raise UnknownLayoutError(f"{type(cell).__name__} is not a GateL0RD")
    check_gate(cell.gate)
    (g, ends_in_tanh), (r, r_ends_in_tanh) = read_tanh_mlp(cell.gate_net), read_tanh_mlp(cell.recommendation_net)
    heads = [cell.output_net] if cell.output_gate_net is None else [cell.output_net, cell.output_gate_net]
    if ends_in_tanh or not r_ends_in_tanh or any(type(head) is not nn.Linear for head in heads):
        raise UnknownLayoutError("a network of GateL0RD was replaced")
    output, *output_gate = map(read_affine, heads)
    gate, recommendation = (tuple(map(read_affine, layers)) for layers in (g, r))
    return Networks(gate, recommendation, output, output_gate[0] if output_gate else None)


def read_affine(layer: nn.Linear) -> Affine:
    """Weight and bias that are parameters, as nothing else is checked before it is read."""
    weight = layer._parameters.get("weight")
    if weight is None or "bias" not in layer._parameters:
        raise UnknownLayoutError("a weight is not a parameter")
    return Affine(weight, layer._parameters["bias"])


def can_run_layers(networks: list[Networks]) -> bool:
    """Whether all layers are large enough, and g and r have one layer each."""
    return all(
        len(layer.gate) == len(layer.recommendation) == 1 and len(layer.gate[0].weight) >= SMALLEST
        for layer in networks
    )


def run_layers(
    run: RunLayer,
    cell: Cell,
    networks: list[Networks],
    x: Tensor,
    start: State,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
) -> StackRun:
    """Run a cell or a stack over time, layer by layer. Shape: as :func:`gatel0rd.nn.unroll.unroll`."""
    cells = _parts(cell)
    noises = [None] * len(cells) if noise is None else noise.split([part.hidden_size for part in cells], dim=-1)
    runs: list[LayerRun] = []
    for part, own_networks, first, own in zip(cells, networks, start, noises, strict=True):
        assert isinstance(part, GateL0RDCore)
        if runs and isinstance(cell, Stack) and cell.dropout > 0:
            x = F.dropout(x, cell.dropout, cell.training)
        runs.append(run(own_networks, part.gate, x, first, noise=own, resets=resets, active=active))
        x = runs[-1].outputs
    final = tuple(run.states.select(0, -1) for run in runs)
    if len(runs) == 1:
        return StackRun(x, runs[0].states, runs[0].gates, final)
    states, gates = (torch.cat([getattr(run, name) for run in runs], dim=-1) for name in ("states", "gates"))
    return StackRun(x, states, gates, final)


def _parts(cell: Cell) -> list[Cell]:
    return cell.cells if type(cell) is Stack else [cell]


def run_layer(
    networks: Networks,
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
        networks: g and r with one layer each, p and o.
        gate: activation of g.

    Shape: x [T, B, I], first [B, H], noise [T, B, H], resets and active [T, B] boolean.
    """
    (g,), (r,), output, output_gate = networks
    parameters = [*g, *r, *output, *(output_gate or (None, None))]
    masks = (None if mask is None else mask.to(torch.bool) for mask in (resets, active))
    apply: Any = _Layer.apply
    return LayerRun(*apply(gate, *masks, x, first, noise, *parameters))


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
        x, first = resolve(x), resolve(first)
        weights = [None if parameter is None else resolve(parameter).contiguous() for parameter in parameters]
        outputs = weights[4].shape[0]  # type: ignore[union-attr]
        sizes = [steps, batch, inputs, hidden, outputs]
        masks = {
            name: None if mask is None else mask.contiguous() for name, mask in (("resets", resets), ("active", active))
        }
        states = x.new_empty(steps + 1, batch, hidden)
        states[0] = first
        result = x.new_empty(steps, batch, outputs)
        tensors: dict[str, Tensor | None] = {
            "x": x.contiguous(),
            "noise": None if noise is None else resolve(noise).contiguous(),
            **masks,
            "states": states,
            "before": states if resets is None else x.new_empty(steps, batch, hidden),
            "fresh": states[1:] if active is None else x.new_empty(steps, batch, hidden),
            "gates": x.new_empty(steps, batch, hidden),
            "recommended": x.new_empty(steps, batch, hidden),
            "read": result if weights[6] is None else torch.empty_like(result),
            "read_gate": None if weights[6] is None else torch.empty_like(result),
            "result": result,
        }
        networks = [[weights[k], weights[k + 1], None, None] for k in range(0, 8, 2)]
        _call(False, sizes, gate, networks, tensors)
        kept = [name for name in tensors if name not in ("noise", "result") and tensors[name] is not None]
        ctx.gate, ctx.sizes, ctx.kept = gate, sizes, kept
        saved = [*weights, *(tensors[name] for name in kept)]
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in saved]
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        return result, states[1:], tensors["gates"]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the compiled engine has no second derivatives; use engine='torch' for create_graph=True"
            )
        saved = [
            None if tensor is None else restore(tensor, dtype)
            for tensor, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        weights, tensors = saved[:8], dict(zip(ctx.kept, saved[8:], strict=True))
        wanted = ctx.needs_input_grad[3:]

        def run(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
            return _backward(ctx.gate, ctx.sizes, weights, tensors, gradients, wanted)

        return (None, None, None, *map_batched(run, gradients))


def _backward(
    gate: str,
    sizes: list[int],
    weights: Sequence[Tensor | None],
    tensors: Mapping[str, Tensor | None],
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Gradients of x, the first state, noise and the weights, as far as they are wanted."""
    x = tensors["x"]
    assert x is not None
    weight_gradients = [
        torch.zeros_like(weight) if weight is not None and need else None
        for weight, need in zip(weights, wanted[3:], strict=True)
    ]
    given = {
        name: None if gradient is None else gradient.contiguous()
        for name, gradient in zip(("d_result", "d_states", "d_gates"), map(readable_gradient, gradients), strict=True)
    }
    d_x = torch.empty_like(x) if wanted[0] else None
    d_first = x.new_empty(x.shape[1], sizes[3])
    d_noise = x.new_empty(*x.shape[:2], sizes[3]) if wanted[2] else None
    networks = [[*weights[k : k + 2], *weight_gradients[k : k + 2]] for k in range(0, 8, 2)]
    _call(True, sizes, gate, networks, {**tensors, **given, "d_x": d_x, "d_first": d_first, "d_noise": d_noise})
    return d_x, d_first if wanted[1] else None, d_noise, *weight_gradients
