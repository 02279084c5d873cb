"""Time: a cell over a sequence, by the fastest path that computes what the cell does; resets and lengths, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.engine import EngineName, ProgramCache, find_layout, in_graph
from gatel0rd.engine.builder import ProgramBuilder
from gatel0rd.engine.eligibility import is_plain
from gatel0rd.engine.layer import Networks, run_layer
from gatel0rd.engine.operators import run_layer_operator
from gatel0rd.engine.program import Program, Value
from gatel0rd.nn.cells.base import Cell, ProgramStep, State
from gatel0rd.nn.cells.stack import Stack
from gatel0rd.nn.gated_layer import (
    SMALLEST,
    RunLayer,
    are_gated_layers,
    can_run_layers,
    find_networks,
    gates_of,
    layers_of,
    may_be_large,
    run_layers,
)
from gatel0rd.nn.gated_layer_gpu import Draw, find_kernel
from gatel0rd.nn.gated_layer_torch import run_layer_in_torch

Carry = TypeVar("Carry")
Column = Tensor | None


class Unrolled(NamedTuple):
    """A cell run over time: outputs [T, B, O], latents [T, B, H], gates [T, B, G] or None, and the final state."""

    outputs: Tensor
    latents: Tensor
    gates: Tensor | None
    state: State


def scan(
    step: Callable[..., tuple[Carry, tuple[Column, ...]]], carry: Carry, inputs: Sequence[Column]
) -> tuple[Carry, list[Column]]:
    """Call ``carry, outputs = step(carry, *inputs_t)`` for every time step; stack the outputs over time.

    ``inputs`` have time first and the same length; one that is None is passed as None at every step.
    """
    lengths = {len(column) for column in inputs if column is not None}
    if len(lengths) != 1:
        raise ValueError(f"inputs have {sorted(lengths)} time steps; expected the same number, at least one input")
    rows: list[tuple[Column, ...]] = []
    steps = lengths.pop()
    # unbound at once: the gradient of column[t] would be a tensor of all steps, at every step
    columns = [[None] * steps if column is None else column.unbind(0) for column in inputs]
    for inputs_t in zip(*columns, strict=True):
        carry, outputs = step(carry, *inputs_t)
        rows.append(outputs)
    if not rows:
        raise ValueError("the sequence has 0 time steps; expected at least 1")
    return carry, [_stack_time(column) for column in zip(*rows, strict=True)]


def select(condition: Tensor, where_true: State, where_false: State) -> State:
    """Take whole states per sequence. Shape: condition [B] bool."""
    mask = condition.unsqueeze(-1)  # [B] -> [B, 1]
    return tuple(torch.where(mask, a, b) for a, b in zip(where_true, where_false, strict=True))


@in_graph.leave_old_graphs
def unroll(
    cell: Cell,
    x: Tensor,
    state: State | None = None,
    *,
    noise: Tensor | Draw | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
    engine: EngineName = "auto",
    cache: ProgramCache | None = None,
    recompute: bool = False,
) -> Unrolled:
    """Run a cell over time: on the compiled engine where it can run, else in PyTorch; step by step only where the cell
    is no plain GateL0RD.

    Args:
        x: inputs, [T, B, I].
        state: where to start; zeros if not given.
        noise: gate noise from :meth:`Cell.sample_noise`, [T, B, noise_size], or :class:`Draw`.
        resets: True where a new episode starts: the state is set to zero **before** that step, [T, B].
        active: False where a sequence has ended: the state is held there, [T, B].
        engine: ``auto``, ``native`` (an error where it cannot run) or ``torch``.
        cache: where compiled programs of this cell are kept between calls.
        recompute: for kernels on a GPU: keep states alone for the backward pass, see :class:`gatel0rd.nn.GateL0RD`.
    """
    start = cell.initial_state(x.shape[1], x) if state is None else state
    if x.device.type == "cuda" and engine == "auto":
        return _unroll_on_gpu(cell, x, start, noise, resets, active, recompute)
    if isinstance(noise, Draw):
        noise = cell.sample_noise(len(x), x.shape[1], x, noise.generator)
    floats = [tensor for tensor in (x, noise, *start) if tensor is not None]
    if torch.compiler.is_compiling() or in_graph.is_only_mapped(floats, cell):
        return unroll_in_graph(cell, x, start, noise, resets, active, engine)
    layout = find_layout(engine, floats, cell, masks=[resets, active], called=False) if len(x) > 0 else None
    if layout is not None:
        networks = find_networks(cell) if x.shape[1] > 0 and may_be_large(cell) else None
        if networks is not None and can_run_layers(networks):
            return Unrolled(*run_layers([run_layer] * len(networks), cell, networks, x, start, noise, resets, active))
        if isinstance(cell, Stack) and cell.dropout > 0 and cell.training:
            return _unroll_layer_by_layer(cell, x, start, noise, resets, active, engine, cache)
        use = (noise is not None, resets is not None, active is not None)
        cache = ProgramCache() if cache is None else cache
        compiled = cache.get_or_make((use, layout, cell.program_key()), lambda: cell_program(cell, *use), engine)
        if compiled is not None and (engine == "native" or compiled.program.pays(x.shape[1])):
            outputs, finals = compiled.run(cell, _sequences(x, noise, resets, active), list(start))
            gates = outputs[2] if len(outputs) > 2 else None
            return Unrolled(outputs[0], outputs[1], gates, tuple(finals))
    networks = find_networks(cell) if len(x) > 0 and is_plain(cell) else None
    return _unroll_in_torch(networks, cell, x, start, noise, resets, active)


def unroll_in_graph(
    cell: Cell,
    x: Tensor,
    start: State,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
    engine: EngineName,
) -> Unrolled:
    """What torch.compile and torch.export record, and vmap maps: operators of the engine where it could run."""
    floats = [tensor for tensor in (x, noise, *start) if tensor is not None]
    networks = find_networks(cell) if in_graph.is_plain(cell) else None
    if engine != "torch" and in_graph.takes(floats, cell):
        exports = in_graph.is_exporting()  # of which ONNX is made, layer by layer
        if networks is not None and (are_gated_layers(networks) if exports else can_run_layers(networks)):
            programs = _layer_programs(cell, noise is not None, resets is not None, active is not None)
            runs = [partial(run_layer_operator, program=program) for program in programs]
            return Unrolled(*run_layers(runs, cell, networks, x, start, noise, resets, active))
        if isinstance(cell, Stack) and cell.dropout > 0 and cell.training:
            return _unroll_layer_by_layer(cell, x, start, noise, resets, active, engine, None)
        text = _program_text(cell, noise is not None, resets is not None, active is not None)
        if text:
            tensors = in_graph.run(text, cell, _sequences(x, noise, resets, active), list(start))
            count = len(tensors) - len(start)
            return Unrolled(tensors[0], tensors[1], tensors[2] if count > 2 else None, tuple(tensors[count:]))
    return _unroll_in_torch(networks, cell, x, start, noise, resets, active)


def _sequences(x: Tensor, noise: Tensor | None, resets: Tensor | None, active: Tensor | None) -> list[Tensor]:
    """What :func:`cell_program` reads at every step, in its order; masks have one feature of the type of ``x``."""
    masks = [mask.to(x.dtype).unsqueeze(-1) for mask in (resets, active) if mask is not None]
    return [x, *([] if noise is None else [noise]), *masks]


def _unroll_in_torch(
    networks: list[Networks] | None,
    cell: Cell,
    x: Tensor,
    start: State,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
    ways: Sequence[RunLayer | None] = (),
) -> Unrolled:
    """Layer by layer if their networks are known, else step by step; by the ways that are given, else in PyTorch."""
    if networks is None:
        return unroll_steps(cell, x, start, noise, resets, active)
    chosen = [way or run_layer_in_torch for way in ways or [None] * len(networks)]
    return Unrolled(*run_layers(chosen, cell, networks, x, start, noise, resets, active))


def _unroll_on_gpu(
    cell: Cell,
    x: Tensor,
    start: State,
    noise: Tensor | Draw | None,
    resets: Tensor | None,
    active: Tensor | None,
    recompute: bool,
) -> Unrolled:
    """By kernels where there are some, else in PyTorch."""
    networks = find_networks(cell) if len(x) > 0 and in_graph.is_plain(cell) else None
    ways: list[RunLayer | None] = []
    if networks is not None:
        parts = zip(networks, layers_of(cell), gates_of(cell), strict=True)
        ways = [
            find_kernel(layer, gate, x, noise, part.noise_std, resets, active, recompute) for layer, part, gate in parts
        ]
    if isinstance(noise, Draw):
        if not ways or None in ways:
            drawn = cell.sample_noise(len(x), x.shape[1], x, noise.generator)
            return _unroll_on_gpu(cell, x, start, drawn, resets, active, recompute)
        noise = None
    return _unroll_in_torch(networks, cell, x, start, noise, resets, active, ways)


@in_graph.decide_once
def _program_text(cell: Cell, with_noise: bool, with_resets: bool, with_active: bool) -> str:
    return in_graph.describe(lambda: cell_program(cell, with_noise, with_resets, with_active))


@in_graph.decide_once
def _layer_programs(cell: Cell, with_noise: bool, with_resets: bool, with_active: bool) -> list[str]:
    """Programs of GateL0RD's layers, empty for those that run as large products."""
    return [
        "" if part.hidden_size >= SMALLEST else _program_text(part, with_noise, with_resets, with_active)
        for part in layers_of(cell)
    ]


def _unroll_layer_by_layer(
    stack: Stack,
    x: Tensor,
    start: State,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
    engine: EngineName,
    cache: ProgramCache | None,
) -> Unrolled:
    """Each layer over all time steps, so that dropout is drawn between them once."""
    cells = stack.cells
    runs: list[Unrolled] = []
    noises = [None] * len(cells) if noise is None else noise.split([part.noise_size for part in cells], dim=-1)
    for index, (part, state, drawn) in enumerate(zip(cells, stack.split(start), noises, strict=True)):
        x = F.dropout(x, stack.dropout, stack.training) if runs else x
        own, noise = None if cache is None else cache.layers[index], drawn if part.noise_size else None
        runs.append(unroll(part, x, state, noise=noise, resets=resets, active=active, engine=engine, cache=own))
        x = runs[-1].outputs
    gates = [run.gates for run in runs if run.gates is not None]
    latents = torch.cat([run.latents for run in runs], dim=-1)
    state = tuple(tensor for run in runs for tensor in run.state)
    return Unrolled(x, latents, torch.cat(gates, dim=-1) if gates else None, state)


def unroll_steps(
    cell: Cell, x: Tensor, start: State, noise: Tensor | None, resets: Tensor | None, active: Tensor | None
) -> Unrolled:
    """Call the cell at every step, in PyTorch: what every other path must equal."""
    zeros = cell.initial_state(x.shape[1], x)

    def step(
        state: State, x_t: Tensor, noise_t: Column, reset_t: Column, active_t: Column
    ) -> tuple[State, tuple[Column, ...]]:
        if reset_t is not None:
            state = select(reset_t, zeros, state)
        output, next_state, gates = cell(x_t, state, noise_t)
        if active_t is not None:
            next_state = select(active_t, next_state, state)
        return next_state, (output, cell.latents(next_state), gates)

    final, (outputs, latents, gates) = scan(step, start, (x, noise, resets, active))
    assert outputs is not None and latents is not None
    return Unrolled(outputs, latents, gates, final)


def cell_program(cell: Cell, with_noise: bool, with_resets: bool, with_active: bool) -> Program | None:
    """A cell over time: outputs are the cell's outputs, latents and (if it has them) gates; finals are its state."""
    build = ProgramBuilder(cell)
    x = build.read(build.sequence(cell.input_size))
    noise = build.read(build.sequence(cell.noise_size)) if with_noise else None
    reset, active = (build.read(build.sequence(1)) if given else None for given in (with_resets, with_active))
    step = carry_cell(build, cell, x, noise, reset=reset, active=active)
    if step is None:
        return None
    return build.finish([step.output, cell.latents_program(build, step.state), step.gates], step.state)


def carry_cell(
    build: ProgramBuilder,
    cell: Cell,
    x: Value,
    noise: Value | None,
    *,
    reset: Value | None = None,
    active: Value | None = None,
) -> ProgramStep | None:
    """One step of a cell in a program that carries its state, which starts as the next tensors that a run is given.

    Args:
        reset, active: one row each, as in :func:`unroll`.
    """
    state = build.enter(build.initial(size) for size in cell.state_sizes)
    if reset is not None:
        state = tuple(build.clear(value, reset) for value in state)
    step = cell.program(build, x, state, noise)
    if step is None:
        return None
    if active is not None:
        held = tuple(build.select(active, new, old) for new, old in zip(step.state, state, strict=True))
        step = step._replace(state=held)
    build.leave(step.state)
    return step


def _stack_time(column: tuple[Column, ...]) -> Column:
    tensors = [tensor for tensor in column if tensor is not None]
    return torch.stack(tensors) if tensors else None
