"""GateL0RD and stacks of it as gated layers over time, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatel0rd.engine.builder import UnknownLayoutError, read_tanh_mlp
from gatel0rd.engine.layer import Affine, LayerRun, Networks
from gatel0rd.nn.cells.base import Cell, State
from gatel0rd.nn.cells.gatel0rd import GateL0RDCore, check_gate
from gatel0rd.nn.cells.stack import Stack

SMALLEST = 64
"""Hidden size from which large products pay; smaller layers run as programs, with batch entries in vector lanes."""


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
        return [read_networks(part) for part in layers_of(cell)]
    except UnknownLayoutError:
        return None


def read_networks(cell: Cell) -> Networks:
    """The networks of a GateL0RD; :class:`UnknownLayoutError` for anything else."""
    if type(cell) is not GateL0RDCore:
        raise UnknownLayoutError(f"{type(cell).__name__} is not a GateL0RD")
    if cell.seen_size != cell.input_size:
        raise UnknownLayoutError("the output does not see the whole input")
    check_gate(cell.gate)
    (g, ends_in_tanh), (r, r_ends_in_tanh) = read_tanh_mlp(cell.gate_net), read_tanh_mlp(cell.recommendation_net)
    heads = [head for head in (cell.output_net, cell.output_gate_net) if head is not None]
    if ends_in_tanh or not r_ends_in_tanh or any(type(head) is not nn.Linear for head in heads):
        raise UnknownLayoutError("a network of GateL0RD was replaced")
    gate, recommendation = (tuple(map(read_affine, layers)) for layers in (g, r))
    output, output_gate = [*map(read_affine, heads), None, None][:2]
    return Networks(gate, recommendation, output, output_gate)


def read_affine(layer: nn.Linear) -> Affine:
    """Weight and bias that are parameters, as nothing else is checked before it is read."""
    weight = layer._parameters.get("weight")
    if weight is None or "bias" not in layer._parameters:
        raise UnknownLayoutError("a weight is not a parameter")
    return Affine(weight, layer._parameters["bias"])


def gates_of(cell: Cell) -> list[str]:
    """The gates of a GateL0RD, or of each one of a stack."""
    return [part.gate for part in layers_of(cell) if isinstance(part, GateL0RDCore)]


def may_be_large(cell: Cell) -> bool:
    """Whether it is worth while to ask :func:`find_networks` and :func:`can_run_layers`."""
    return all(part.hidden_size >= SMALLEST for part in layers_of(cell))


def are_one_layer_each(networks: Networks) -> bool:
    """Whether g and r have one layer each, and a gate for each dimension."""
    g, r = networks.gate, networks.recommendation
    return len(g) == len(r) == 1 and len(g[0].weight) == len(r[0].weight)


def are_gated_layers(networks: list[Networks]) -> bool:
    """Whether g and r have one layer each, a gate for each dimension, and there is an output."""
    return all(are_one_layer_each(layer) and layer.output is not None for layer in networks)


def can_run_layers(networks: list[Networks]) -> bool:
    """Whether all layers are gated layers of the engine, and large enough to run so."""
    return are_gated_layers(networks) and all(len(layer.gate[0].weight) >= SMALLEST for layer in networks)


def run_layers(
    ways: Sequence[RunLayer],
    cell: Cell,
    networks: list[Networks],
    x: Tensor,
    start: State,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
) -> StackRun:
    """Run a cell or a stack over time, layer by layer, each in its way. Shape: as :func:`gatel0rd.nn.unroll.unroll`."""
    cells = layers_of(cell)
    noises = [None] * len(cells) if noise is None else noise.split([part.noise_size for part in cells], dim=-1)
    runs: list[LayerRun] = []
    for run, part, own_networks, first, own in zip(ways, cells, networks, start, noises, strict=True):
        assert isinstance(part, GateL0RDCore)
        if runs and isinstance(cell, Stack) and cell.dropout > 0:
            x = F.dropout(x, cell.dropout, cell.training)
        runs.append(run(own_networks, part.gate, x, first, noise=own, resets=resets, active=active))
        x = runs[-1].outputs
    final = tuple(found.states.select(0, -1) for found in runs)
    if len(runs) == 1:
        return StackRun(x, runs[0].states, runs[0].gates, final)
    states, gates = (torch.cat([getattr(found, name) for found in runs], dim=-1) for name in ("states", "gates"))
    return StackRun(x, states, gates, final)


def layers_of(cell: Cell) -> list[Cell]:
    """The cells of a stack, or the cell itself."""
    return cell.cells if type(cell) is Stack else [cell]
