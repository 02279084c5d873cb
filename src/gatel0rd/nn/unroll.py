"""Time: the only loop over time steps in Python. Resets and lengths are handled here, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gatel0rd.nn.cells.base import Cell, State

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
) -> Unrolled:
    """Run a cell over time.

    Args:
        x: inputs, [T, B, I].
        state: where to start; zeros if not given.
        noise: gate noise from :meth:`Cell.sample_noise`, [T, B, noise_size].
        resets: True where a new episode starts: the state is set to zero **before** that step, [T, B].
        active: False where a sequence has ended: the state is held there, [T, B].
    """
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

    start = zeros if state is None else state
    final, (outputs, latents, gates) = scan(step, start, (x, noise, resets, active))
    assert outputs is not None and latents is not None
    return Unrolled(outputs, latents, gates, final)


def _stack_time(column: tuple[Column, ...]) -> Column:
    tensors = [tensor for tensor in column if tensor is not None]
    return torch.stack(tensors) if tensors else None
