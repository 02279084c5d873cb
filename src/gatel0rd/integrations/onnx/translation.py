"""The layer's operator for ``torch.onnx.export(..., dynamo=True)`` of a user's own module: a loop over time in ONNX."""

# mypy: ignore-errors

from collections.abc import Callable
from typing import Any

import torch
from onnx import TensorProto, helper
from onnxscript import BOOL, FLOAT, INT64, graph, script
from onnxscript import opset18 as op

import gatel0rd.engine.operators  # noqa: F401  (the operators are there once this is imported)

KINDS = {"retanh": 0, "sigmoid": 1, "heaviside": 2}


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What ``torch.onnx.export`` takes as ``custom_translation_table`` for modules that contain ``GateL0RD``.

    Example::

        torch.onnx.export(model, (x,), "model.onnx", dynamo=True, custom_translation_table=translations())
    """
    operators = torch.ops.gatel0rd
    return {operators.gated_layer.default: translate_layer, operators.run_program.default: refuse_program}


@script(default_opset=op)
def recur(
    given: FLOAT, first: FLOAT, weight: FLOAT, resets: BOOL, active: BOOL, kind: INT64
) -> tuple[FLOAT, FLOAT, FLOAT]:
    """States, fresh states and gates. Shape: given [T, B, 2·H], weight [H, 2·H], masks [T, B, 1] boolean."""

    @graph()
    def step(state, given_t, reset_t, active_t):
        zero = op.CastLike(op.Constant(value_float=0.0), state)
        one = op.CastLike(op.Constant(value_float=1.0), state)
        before = op.Where(reset_t, zero, state)
        s_gate, s_recommend = op.Split(op.Add(given_t, op.MatMul(before, weight)), axis=-1, num_outputs=2)
        straight = op.CastLike(op.Greater(s_gate, zero), state)
        smooth = op.Where(op.Equal(kind, 0), op.Relu(op.Tanh(s_gate)), op.Sigmoid(s_gate))
        gate = op.Where(op.Equal(kind, 2), straight, smooth)
        fresh = op.Add(op.Mul(gate, op.Tanh(s_recommend)), op.Mul(op.Sub(one, gate), before))
        after = op.Where(active_t, fresh, before)
        return after, op.Identity(after), fresh, gate

    _, states, fresh, gates = op.Scan(first, given, resets, active, body=step, num_scan_inputs=3)
    return states, fresh, gates


def translate_layer(
    gate,
    program,
    x,
    first,
    noise,
    resets,
    active,
    gate_weight,
    gate_bias,
    recommendation_weight,
    recommendation_bias,
    output_weight,
    output_bias,
    output_gate_weight,
    output_gate_bias,
):
    """``gatel0rd::gated_layer`` in ONNX; of what it keeps for gradients only states and gates are there."""
    inputs = x.shape[-1]
    both = op.Transpose(op.Concat(gate_weight, recommendation_weight, axis=0), perm=[1, 0])  # [I + H, 2·H]
    from_x = op.Slice(both, op.Constant(value_ints=[0]), op.Constant(value_ints=[inputs]), op.Constant(value_ints=[0]))
    from_h = op.Slice(
        both, op.Constant(value_ints=[inputs]), op.Constant(value_ints=[2**31 - 1]), op.Constant(value_ints=[0])
    )
    given = op.MatMul(x, from_x)
    if gate_bias is not None:
        given = op.Add(given, op.Concat(gate_bias, recommendation_bias, axis=0))
    if noise is not None:
        for_gate, for_recommendation = op.Split(given, axis=-1, num_outputs=2)
        given = op.Concat(op.Add(for_gate, noise), for_recommendation, axis=-1)
    last = op.Constant(value_ints=[-1])
    sizes = op.Concat(op.Shape(x, start=0, end=2), op.Constant(value_ints=[1]), axis=0)  # T, B, 1
    none = op.Expand(op.Constant(value=helper.make_tensor("none", TensorProto.BOOL, [1], [False])), sizes)
    starts = none if resets is None else op.Unsqueeze(resets, last)
    lengths = op.Not(none) if active is None else op.Unsqueeze(active, last)
    states, fresh, gates = recur(given, first, from_h, starts, lengths, op.Constant(value_int=KINDS[gate]))
    xh = op.Concat(x, fresh, axis=-1)
    outputs = op.Tanh(_linear(xh, output_weight, output_bias))
    if output_gate_weight is not None:
        outputs = op.Mul(outputs, op.Sigmoid(_linear(xh, output_gate_weight, output_gate_bias)))
    with_first = op.Concat(op.Unsqueeze(first, op.Constant(value_ints=[0])), states, axis=0)
    nothing = op.Constant(value_floats=[0.0])
    return outputs, with_first, gates, nothing, nothing, nothing, nothing, nothing


def refuse_program(program, sequences, initials, parameters, masks, keep):
    """``gatel0rd::run_program``, of which there is no translation: an error that says so."""
    raise NotImplementedError(
        "layers with headless=True, scalar_gate=True or net_layers above 1, and cells other than GateL0RD, have no "
        "translation to ONNX; make the module with engine='torch', or export with dynamo=False, both for one length"
    )


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    product = op.MatMul(x, op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else op.Add(product, bias)
