"""Programs as an operator: ``gatel0rd::run_program``, whose program is given as text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatel0rd.engine import native
from gatel0rd.engine.compiled import Compiled, flats, pooled_bytes, tape_bytes
from gatel0rd.engine.operators.mapping import Dims, fold, map_by_loop, unfold
from gatel0rd.engine.program import Program, read_program
from gatel0rd.engine.tensors import resolve


@functools.lru_cache(maxsize=256)
def program_of(text: str) -> Program:
    return read_program(text)


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> Compiled:
    return Compiled(program_of(text))


def _all_masks(program: Program, masks: Sequence[Tensor]) -> list[Tensor | None]:
    """Masks of all parameters, out of those that are there in the order of their numbers."""
    found = dict(zip(sorted(program.masks), masks, strict=True))
    return [found.get(number) for number in range(len(program.parameters))]


# Schemas are written out: PyTorch below 2.7 reads no list[Tensor].
@torch.library.custom_op(
    "gatel0rd::run_program",
    mutates_args=(),
    device_types="cpu",
    schema="(str program, Tensor[] sequences, Tensor[] initials, Tensor[] parameters, Tensor[] masks, "
    "bool keep) -> Tensor[]",
)
def run_program(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
    keep: bool,
) -> list[Tensor]:
    """Outputs [T, B, ·] and final values [B, ·] of a program, then its tape, which is empty unless it is kept."""
    compiled = _compiled(program)
    compiled.check(sequences, initials)
    whole = [resolve(tensor).contiguous() for tensor in parameters]
    bytes_ = pooled_bytes(tape_bytes(compiled.program, sequences[0]) if keep else 0)
    results = compiled.forward(
        [resolve(tensor) for tensor in sequences],
        [resolve(tensor) for tensor in initials],
        flats(whole),
        flats(_all_masks(compiled.program, masks)),
        native.module().Tape(*flats([bytes_])) if keep else None,
    )
    return [*results, bytes_]


@run_program.register_fake
def _(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
    keep: bool,
) -> list[Tensor]:
    described, like = program_of(program), sequences[0]
    steps, batch = like.shape[:2]
    outputs = [like.new_empty(steps, batch, value.size) for value in described.outputs]
    finals = [like.new_empty(batch, value.size) for value in described.finals]
    tape = like.new_empty(tape_bytes(described, like) if keep else 0, dtype=torch.uint8)
    return [*outputs, *finals, tape]


@torch.library.custom_op(
    "gatel0rd::run_program_backward",
    mutates_args=(),
    device_types="cpu",
    schema="(str program, Tensor[] sequences, Tensor[] initials, Tensor[] parameters, Tensor[] masks, Tensor kept, "
    "Tensor?[] gradients, bool[] wanted) -> Tensor[]",
)
def run_program_backward(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
    kept: Tensor,
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Gradients of sequences, initial tensors and parameters as far as they are wanted, empty tensors for the others.

    The forward pass is run once more if its tape was not kept, or not by this program and instruction set.
    """
    compiled = _compiled(program)
    given, start = [resolve(tensor) for tensor in sequences], [resolve(tensor) for tensor in initials]
    whole, buffers = [resolve(tensor).contiguous() for tensor in parameters], _all_masks(compiled.program, masks)
    tape = compiled.open_tape(kept, given, start, whole, buffers)
    found = compiled.backward(given, start, whole, buffers, tape, gradients, wanted)
    # parts of one flat gradient; results of an operator share no memory
    return [sequences[0].new_empty(0) if gradient is None else gradient.clone() for gradient in found]


@run_program_backward.register_fake
def _(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
    kept: Tensor,
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor]:
    inputs = (*sequences, *initials, *parameters)
    return [tensor.new_empty(tensor.shape if need else (0,)) for tensor, need in zip(inputs, wanted, strict=True)]


def _keep_program(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    program, *groups, _ = inputs
    ctx.program, ctx.counts = program, [len(group) for group in groups]
    ctx.save_for_backward(*(tensor for group in groups for tensor in group), output[-1])
    ctx.set_materialize_grads(False)


def _differentiate_program(ctx: Any, gradients: list[Tensor | None]) -> Any:
    *tensors, tape = ctx.saved_tensors
    groups = [list(group) for group in _split(tensors, ctx.counts)]
    inputs = [tensor for group in groups[:3] for tensor in group]
    wanted = [tensor.requires_grad for tensor in inputs]
    found = run_program_backward(ctx.program, *groups, tape, gradients[:-1], wanted)
    kept = [gradient if need else None for gradient, need in zip(found, wanted, strict=True)]
    return (None, *map(list, _split(kept, ctx.counts[:3])), [None] * ctx.counts[3], None)


run_program.register_autograd(_differentiate_program, setup_context=_keep_program)


def _split(values: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    ends = [sum(counts[: k + 1]) for k in range(len(counts))]
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]


def _map_program(info: Any, in_dims: Dims, *given: Any) -> tuple[Any, Any]:
    program, sequences, initials, parameters, masks, _ = given
    _, sequence_dims, initial_dims, *others, _ = in_dims
    if any(dim is not None for dims in others for dim in dims):
        return map_by_loop(run_program, info, in_dims, *given)
    count = info.batch_size
    folded = [fold(value, dim, count, 1) for value, dim in zip(sequences, sequence_dims, strict=True)]
    starts = [fold(value, dim, count, 0) for value, dim in zip(initials, initial_dims, strict=True)]
    *found, tape = run_program(program, folded, starts, parameters, masks, False)
    timed = len(program_of(program).outputs)
    dims = [1] * timed + [0] * (len(found) - timed)
    parts = [unfold(tensor, count, dim) for tensor, dim in zip(found, dims, strict=True)]
    return [*parts, tape], [*dims, None]


run_program.register_vmap(_map_program)
run_program_backward.register_vmap(functools.partial(map_by_loop, run_program_backward))
