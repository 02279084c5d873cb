"""A gated layer over time as an operator: ``gatel0rd::gated_layer``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gatel0rd.engine.layer import Affine, LayerRun, Networks, backward_layer, forward_layer
from gatel0rd.engine.operators.mapping import Dims, fold, map_by_loop, unfold
from gatel0rd.engine.operators.programs import run_program, run_program_backward
from gatel0rd.engine.tensors import own_result, resolve

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
        sequences = _sequences(x, noise, resets, active)
        outputs, states, gates, *_ = run_program(program, sequences, [first], present, [], False)
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


@torch.library.custom_op(
    "gatel0rd::gated_layer_backward",
    mutates_args=(),
    device_types="cpu",
    schema="(str gate, str program, Tensor x, Tensor? noise, Tensor? resets, Tensor? active, Tensor[] parameters, "
    "bool[] present, Tensor[] saved, Tensor?[] gradients) -> Tensor[]",
)
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
    gradients: Sequence[Tensor | None],
) -> list[Tensor]:
    """Gradients of x, the first state, noise and the parameters that are there.

    Args:
        parameters: those of the eight that are there.
        present: which are.
        saved: outputs (empty where they are not read), and what :data:`SAVED` names.
        gradients: of outputs, states (with the first) and gates; None where there is none.
    """
    d_result, d_states, d_gates = gradients
    d_after = None if d_states is None else d_states[1:]
    if program:
        sequences, first = _sequences(x, noise, resets, active), saved[1][0]
        wanted = [True, *([] if noise is None else [True]), *(False for mask in (resets, active) if mask is not None)]
        given = [d_result, d_after, d_gates, None]
        wanted += [True] * (1 + len(parameters))
        no_tape = x.new_empty(0, dtype=torch.uint8)
        found = run_program_backward(program, sequences, [first], parameters, [], no_tape, given, wanted)
        d_first, *rest = found[len(sequences) :]
        d_noise = torch.zeros_like(saved[2]) if noise is None else found[1]
        return [found[0], d_first if d_states is None else d_first + d_states[0], d_noise, *rest]
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
    wanted = [True] * 3 + list(present)
    d_x, d_first, *others = backward_layer(gate, weights, tensors, [d_result, d_after, d_gates], wanted)
    assert d_x is not None and d_first is not None
    d_first = d_first if d_states is None else d_first + d_states[0]
    return [d_x, d_first, *(gradient for gradient in others if gradient is not None)]


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
    result = None if _leaves_result(program, parameters[6]) else output[0]
    present = (parameter for parameter in parameters if parameter is not None)
    ctx.save_for_backward(x, noise, resets, active, *present, result, *output[1:])
    ctx.mark_non_differentiable(*output[3:])
    ctx.set_materialize_grads(False)


def _leaves_result(program: str, output_gate_weight: Tensor | None) -> bool:
    """Whether the backward pass leaves the outputs alone, so that the caller may change them in place."""
    return bool(program) or output_gate_weight is not None


def _differentiate_layer(ctx: Any, *gradients: Tensor | None) -> Any:
    x, noise, resets, active, *rest = ctx.saved_tensors
    count = sum(ctx.present)
    result = x.new_empty(0) if rest[count] is None else rest[count]
    found = gated_layer_backward(
        ctx.gate,
        ctx.program,
        x,
        noise,
        resets,
        active,
        rest[:count],
        ctx.present,
        [result, *rest[count + 1 :]],
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
        return map_by_loop(gated_layer, info, in_dims, *given)
    gate, program, *tensors = given
    count = info.batch_size
    batch_dims = [1, 0, 1, 1, 1]  # of x, the first state, noise, resets and active
    folded = [fold(*one) for one in zip(tensors[:5], in_dims[2:7], [count] * 5, batch_dims, strict=True)]
    found = gated_layer(gate, program, *folded, *tensors[5:])
    dims = tuple(1 if tensor.dim() == 3 else None for tensor in found)
    return tuple(unfold(tensor, count, 1) if dim else tensor for tensor, dim in zip(found, dims, strict=True)), dims


gated_layer.register_vmap(_map_layer)
gated_layer_backward.register_vmap(functools.partial(map_by_loop, gated_layer_backward))


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
    return LayerRun(result if _leaves_result(program, o.weight) else own_result(result), states[1:], gates)
