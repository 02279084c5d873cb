"""The engine as operators of PyTorch, which torch.compile and torch.export see as one step of their graph.

``gatel0rd::gated_layer`` is a GateL0RD layer over time; ``gatel0rd::run_program`` is any program, given as text, so
that a graph that was saved needs nothing of the process that made it. Both have fake kernels and gradients; under vmap,
entries of the mapped dimension become entries of the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatel0rd.engine import native
from gatel0rd.engine.compiled import Compiled, flats
from gatel0rd.engine.layer import Affine, LayerRun, Networks, backward_layer, forward_layer
from gatel0rd.engine.program import Program, read_program
from gatel0rd.engine.tensors import resolve

Dims = tuple[Any, ...]


# ---- programs ----


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> Compiled:
    return Compiled(read_program(text))


@functools.lru_cache(maxsize=256)
def _program(text: str) -> Program:
    return read_program(text)


def _all_masks(program: Program, masks: Sequence[Tensor]) -> list[Tensor | None]:
    """Masks of all parameters, out of those that are there in the order of their numbers."""
    found = dict(zip(sorted(program.masks), masks, strict=True))
    return [found.get(number) for number in range(len(program.parameters))]


@torch.library.custom_op("gatel0rd::run_program", mutates_args=(), device_types="cpu")
def run_program(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
) -> list[Tensor]:
    """Outputs [T, B, ·] and final values [B, ·] of a program."""
    compiled = _compiled(program)
    compiled.check(sequences, initials)
    whole = [resolve(tensor).contiguous() for tensor in parameters]
    return list(
        compiled.forward(
            [resolve(tensor) for tensor in sequences],
            [resolve(tensor) for tensor in initials],
            flats(whole),
            flats(_all_masks(compiled.program, masks)),
            None,
        )
    )


@run_program.register_fake
def _(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
) -> list[Tensor]:
    described, like = _program(program), sequences[0]
    steps, batch = like.shape[:2]
    outputs = [like.new_empty(steps, batch, value.size) for value in described.outputs]
    return outputs + [like.new_empty(batch, value.size) for value in described.finals]


@torch.library.custom_op("gatel0rd::run_program_backward", mutates_args=(), device_types="cpu")
def run_program_backward(
    program: str,
    sequences: Sequence[Tensor],
    initials: Sequence[Tensor],
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor],
    gradients: Sequence[Tensor],
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Gradients of sequences, initial tensors and parameters as far as they are wanted, empty tensors for the others.

    The forward pass is run once more: an operator cannot keep what is no tensor.
    """
    compiled, tape = _compiled(program), native.module().Tape()
    given, start = [resolve(tensor) for tensor in sequences], [resolve(tensor) for tensor in initials]
    whole, buffers = [resolve(tensor).contiguous() for tensor in parameters], _all_masks(compiled.program, masks)
    compiled.forward(given, start, flats(whole), flats(buffers), tape)
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
    gradients: Sequence[Tensor],
    wanted: Sequence[bool],
) -> list[Tensor]:
    inputs = (*sequences, *initials, *parameters)
    return [tensor.new_empty(tensor.shape if need else (0,)) for tensor, need in zip(inputs, wanted, strict=True)]


def _keep_program(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    program, *groups = inputs
    ctx.program, ctx.counts = program, [len(group) for group in groups]
    ctx.save_for_backward(*(tensor for group in groups for tensor in group))


def _differentiate_program(ctx: Any, gradients: list[Tensor]) -> Any:
    groups = [list(group) for group in _split(ctx.saved_tensors, ctx.counts)]
    inputs = [tensor for group in groups[:3] for tensor in group]
    wanted = [tensor.requires_grad for tensor in inputs]
    found = run_program_backward(ctx.program, *groups, gradients, wanted)
    kept = [gradient if need else None for gradient, need in zip(found, wanted, strict=True)]
    return (None, *map(list, _split(kept, ctx.counts[:3])), [None] * ctx.counts[3])


run_program.register_autograd(_differentiate_program, setup_context=_keep_program)


def _split(values: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    ends = [sum(counts[: k + 1]) for k in range(len(counts))]
    return [values[end - count : end] for end, count in zip(ends, counts, strict=True)]


# ---- vmap ----


def _entry(value: Any, dim: Any, index: int) -> Any:
    """One entry of the mapped dimension; lists of tensors have lists of dimensions."""
    if isinstance(value, list | tuple):
        return [_entry(one, of_one, index) for one, of_one in zip(value, dim, strict=True)]
    return value if dim is None else value.select(dim, index)


def _map_by_loop(operator: Any, info: Any, in_dims: Dims, *given: Any) -> tuple[Any, Any]:
    """One call per entry: what every operator can do."""
    runs = [
        operator(*(_entry(value, dim, k) for value, dim in zip(given, in_dims, strict=True)))
        for k in range(info.batch_size)
    ]
    stacked = [torch.stack(parts) for parts in zip(*runs, strict=True)]
    return (stacked, [0] * len(stacked)) if isinstance(runs[0], list) else (tuple(stacked), (0,) * len(stacked))


def _fold(tensor: Tensor | None, dim: int | None, count: int, batch_dim: int) -> Tensor | None:
    """Entries of the mapped dimension as entries of the batch. Shape: [T, B, ·] per entry -> [T, N·B, ·]."""
    if tensor is None:
        return None
    if dim is None:
        whole = tensor.unsqueeze(batch_dim).expand(*tensor.shape[:batch_dim], count, *tensor.shape[batch_dim:])
    else:
        whole = tensor.movedim(dim, batch_dim)
    return whole.flatten(batch_dim, batch_dim + 1)


def _unfold(tensor: Tensor, count: int, batch_dim: int) -> Tensor:
    shape = tensor.shape
    return tensor.view(*shape[:batch_dim], count, shape[batch_dim] // count, *shape[batch_dim + 1 :])


def _map_program(info: Any, in_dims: Dims, *given: Any) -> tuple[Any, Any]:
    program, sequences, initials, parameters, masks = given
    _, sequence_dims, initial_dims, *others = in_dims
    if any(dim is not None for dims in others for dim in dims):
        return _map_by_loop(run_program, info, in_dims, *given)
    count = info.batch_size
    folded = [_fold(value, dim, count, 1) for value, dim in zip(sequences, sequence_dims, strict=True)]
    starts = [_fold(value, dim, count, 0) for value, dim in zip(initials, initial_dims, strict=True)]
    found = run_program(program, folded, starts, parameters, masks)
    timed = len(_program(program).outputs)
    dims = [1] * timed + [0] * (len(found) - timed)
    return [_unfold(tensor, count, dim) for tensor, dim in zip(found, dims, strict=True)], dims


run_program.register_vmap(_map_program)
run_program_backward.register_vmap(functools.partial(_map_by_loop, run_program_backward))


# ---- layers ----

SAVED = ("states", "gates", "before", "fresh", "recommended", "read", "read_gate")
"""What the operator gives after its outputs; what is not there is an empty tensor."""


@torch.library.custom_op("gatel0rd::gated_layer", mutates_args=(), device_types="cpu")
def gated_layer(
    gate: str,
    program: str,
    x: Tensor,
    first: Tensor,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
    gate_weight: Tensor,
    gate_bias: Tensor | None,
    recommendation_weight: Tensor,
    recommendation_bias: Tensor | None,
    output_weight: Tensor,
    output_bias: Tensor | None,
    output_gate_weight: Tensor | None,
    output_gate_bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Outputs [T, B, O], then what :data:`SAVED` names; states begin with the first, [T + 1, B, H].

    ``program``: the same as a program, by which small layers run faster; empty to run as large products.
    """
    parameters = (
        gate_weight,
        gate_bias,
        recommendation_weight,
        recommendation_bias,
        output_weight,
        output_bias,
        output_gate_weight,
        output_gate_bias,
    )
    if program:
        present = [weight for weight in parameters if weight is not None]
        outputs, states, gates, _ = run_program(program, _sequences(x, noise, resets, active), [first], present, [])
        nothing = [x.new_empty(0) for _ in SAVED[2:]]
        return (outputs, torch.cat([first.unsqueeze(0), states]), gates, *nothing)
    weights = [None if weight is None else resolve(weight).contiguous() for weight in parameters]
    tensors = forward_layer(gate, x, first, noise, resets, active, weights)
    result, *saved = (
        x.new_empty(0) if tensor is None else tensor for tensor in (tensors[name] for name in ("result", *SAVED))
    )
    return (result, *saved)  # type: ignore[return-value]


def _sequences(x: Tensor, noise: Tensor | None, resets: Tensor | None, active: Tensor | None) -> list[Tensor]:
    """What a cell's program is given, in its order."""
    masks = [mask.to(x.dtype).unsqueeze(-1) for mask in (resets, active) if mask is not None]
    return [x, *([] if noise is None else [noise]), *masks]


@gated_layer.register_fake
def _(
    gate: str, program: str, x: Tensor, first: Tensor, noise: Any, resets: Any, active: Any, *parameters: Any
) -> tuple[Tensor, ...]:
    steps, batch, _ = x.shape
    hidden, outputs = first.shape[-1], parameters[4].shape[0]
    of_state, nothing = (steps, batch, hidden), (0,)
    read = nothing if program or parameters[6] is None else (steps, batch, outputs)
    shapes = {
        "states": (steps + 1, batch, hidden),
        "gates": of_state,
        "before": nothing if program or resets is None else of_state,
        "fresh": nothing if program or active is None else of_state,
        "recommended": nothing if program else of_state,
        "read": read,
        "read_gate": read,
    }
    return (x.new_empty(steps, batch, outputs), *(x.new_empty(shapes[name]) for name in SAVED))


@torch.library.custom_op("gatel0rd::gated_layer_backward", mutates_args=(), device_types="cpu")
def gated_layer_backward(
    gate: str,
    program: str,
    x: Tensor,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
    parameters: Sequence[Tensor],
    present: Sequence[bool],
    saved: Sequence[Tensor],
    gradients: Sequence[Tensor],
) -> list[Tensor]:
    """Gradients of x, the first state, noise and the parameters that are there.

    Args:
        parameters: those of the eight that are there.
        present: which are.
        saved: outputs, and what :data:`SAVED` names.
        gradients: of outputs, states (with the first) and gates.
    """
    d_result, d_states, d_gates = gradients
    if program:
        sequences, first = _sequences(x, noise, resets, active), saved[1][0]
        wanted = [True, *([] if noise is None else [True]), *(False for mask in (resets, active) if mask is not None)]
        given = [d_result, d_states[1:], d_gates, torch.zeros_like(first)]
        found = run_program_backward(
            program, sequences, [first], parameters, [], given, wanted + [True] * (1 + len(parameters))
        )
        d_first, *rest = found[len(sequences) :]
        d_noise = torch.zeros_like(d_gates) if noise is None else found[1]
        return [found[0], d_first + d_states[0], d_noise, *rest]
    remaining = iter(parameters)
    weights = [resolve(next(remaining)).contiguous() if there else None for there in present]
    tensors: dict[str, Tensor | None] = {
        "x": resolve(x).contiguous(),
        "resets": None if resets is None else resets.contiguous(),
        "active": None if active is None else active.contiguous(),
    }
    tensors |= {
        name: tensor.contiguous() if tensor.numel() else None
        for name, tensor in zip(("result", *SAVED), saved, strict=True)
    }
    all_gradients = [d_result, d_states[1:], d_gates]
    d_x, d_first, *others = backward_layer(gate, weights, tensors, all_gradients, [True] * 3 + list(present))
    assert d_x is not None and d_first is not None
    return [d_x, d_first + d_states[0], *(gradient for gradient in others if gradient is not None)]


@gated_layer_backward.register_fake
def _(
    gate: str,
    program: str,
    x: Tensor,
    noise: Any,
    resets: Any,
    active: Any,
    parameters: Sequence[Tensor],
    present: Any,
    saved: Sequence[Tensor],
    gradients: Any,
) -> list[Tensor]:
    states, gates = saved[1], saved[2]
    like = (x, states.new_empty(states.shape[1:]), gates, *parameters)
    return [tensor.new_empty(tensor.shape) for tensor in like]


def _keep_layer(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    gate, program, x, _, noise, resets, active, *parameters = inputs
    ctx.gate, ctx.program = gate, program
    ctx.present = [parameter is not None for parameter in parameters]
    ctx.save_for_backward(
        x, noise, resets, active, *(parameter for parameter in parameters if parameter is not None), *output
    )
    ctx.mark_non_differentiable(*output[3:])


def _differentiate_layer(ctx: Any, *gradients: Tensor) -> Any:
    x, noise, resets, active, *rest = ctx.saved_tensors
    count = sum(ctx.present)
    found = gated_layer_backward(
        ctx.gate,
        ctx.program,
        x,
        noise,
        resets,
        active,
        rest[:count],
        ctx.present,
        rest[count:],
        list(gradients[:3]),
    )
    remaining = iter(found[3:])
    return (
        None,
        None,
        *found[:2],
        None if noise is None else found[2],
        None,
        None,
        *(next(remaining) if there else None for there in ctx.present),
    )


gated_layer.register_autograd(_differentiate_layer, setup_context=_keep_layer)


def _map_layer(info: Any, in_dims: Dims, *given: Any) -> tuple[Any, Any]:
    if any(dim is not None for dim in in_dims[7:]):
        return _map_by_loop(gated_layer, info, in_dims, *given)
    gate, program, *tensors = given
    count = info.batch_size
    batch_dims = [1, 0, 1, 1, 1]  # of x, the first state, noise, resets and active
    folded = [_fold(*one) for one in zip(tensors[:5], in_dims[2:7], [count] * 5, batch_dims, strict=True)]
    found = gated_layer(gate, program, *folded, *tensors[5:])
    dims = tuple(1 if tensor.dim() == 3 else None for tensor in found)
    return tuple(_unfold(tensor, count, 1) if dim else tensor for tensor, dim in zip(found, dims, strict=True)), dims


gated_layer.register_vmap(_map_layer)
gated_layer_backward.register_vmap(functools.partial(_map_by_loop, gated_layer_backward))


def run_layer_operator(
    networks: Networks,
    gate: str,
    x: Tensor,
    first: Tensor,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
    program: str = "",
) -> LayerRun:
    """As :func:`gatel0rd.engine.layer.run_layer`, by the operator.

    ``program``: the same as a program, by which small layers run faster; empty to run as large products.
    """
    (g,), (r,), output, output_gate = networks
    assert output is not None
    o = Affine(None, None) if output_gate is None else output_gate  # type: ignore[arg-type]
    result, states, gates, *_ = gated_layer(gate, program, x, first, noise, resets, active, *g, *r, *output, *o)
    return LayerRun(result, states[1:], gates)
