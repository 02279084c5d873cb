"""Time: a cell over a sequence, compiled or in the only loop over time in Python; resets and lengths, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gatel0rd.engine import EngineName, ProgramCache, can_run
from gatel0rd.engine.builder import ProgramBuilder
from gatel0rd.engine.program import Program, Value
from gatel0rd.nn.cells.base import Cell, ProgramStep, State
from gatel0rd.nn.gated_layer import can_run_layers, run_layers

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
    for t in range(lengths.pop()):
        carry, outputs = step(carry, *(None if column is None else column[t] for column in inputs))
        rows.append(outputs)
    if not rows:
        raise ValueError("the sequence has 0 time steps; expected at least 1")
    return carry, [_stack_time(column) for column in zip(*rows, strict=True)]


def select(condition: Tensor, where_true: State, where_false: State) -> State:
    """Take whole states per sequence. Shape: condition [B] bool."""
    mask = condition.unsqueeze(-1)  # [B] -> [B, 1]
    return tuple(torch.where(mask, a, b) for a, b in zip(where_true, where_false, strict=True))


def unroll(
    cell: Cell,
    x: Tensor,
    state: State | None = None,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
    engine: EngineName = "auto",
    cache: ProgramCache | None = None,
) -> Unrolled:
    """Run a cell over time: on the compiled engine where it can run, else step by step in PyTorch.

    Args:
        x: inputs, [T, B, I].
        state: where to start; zeros if not given.
        noise: gate noise from :meth:`Cell.sample_noise`, [T, B, noise_size].
        resets: True where a new episode starts: the state is set to zero **before** that step, [T, B].
        active: False where a sequence has ended: the state is held there, [T, B].
        engine: ``auto``, ``native`` (an error where it cannot run) or ``torch``.
        cache: where compiled programs of this cell are kept between calls.
    """
    start = cell.initial_state(x.shape[1], x) if state is None else state
    floats = [tensor for tensor in (x, noise, *start) if tensor is not None]
    if len(x) > 0 and can_run(engine, floats, cell):
        if x.shape[1] > 0 and can_run_layers(cell):
            return Unrolled(*run_layers(cell, x, start, noise, resets, active))
        use = (noise is not None, resets is not None, active is not None)
        cache = ProgramCache() if cache is None else cache
        compiled = cache.get_or_make((use, cell.program_key()), lambda: cell_program(cell, *use), engine)
        if compiled is not None and (engine == "native" or compiled.program.pays(x.shape[1])):
            masks = [mask.to(x.dtype).unsqueeze(-1) for mask in (resets, active) if mask is not None]
            sequences = [x, *([] if noise is None else [noise]), *masks]
            outputs, finals = compiled.run(cell, sequences, list(start))
            gates = outputs[2] if len(outputs) > 2 else None
            return Unrolled(outputs[0], outputs[1], gates, tuple(finals))
    return _unroll_in_torch(cell, x, start, noise, resets, active)


def _unroll_in_torch(
    cell: Cell, x: Tensor, start: State, noise: Tensor | None, resets: Tensor | None, active: Tensor | None
) -> Unrolled:
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
