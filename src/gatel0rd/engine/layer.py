"""A gated layer over time in the compiled engine: project, recur, read out.

Everything that does not depend on the state is computed for all time steps at once, as large products; only two
products per step stay in the loop over time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.engine import native
from gatel0rd.engine.compiled import flats, pooled_empty
from gatel0rd.engine.tensors import map_batched, own_result, readable_gradient, resolve, restore

KEPT = ("x", "resets", "active", "states", "before", "fresh", "gates", "recommended", "read", "read_gate", "result")
"""What a backward pass reads, by name; without an output gate the result is all that was read."""


class Affine(NamedTuple):
    """W·input + b. Shape: [out, in], [out] or None."""

    weight: Tensor
    bias: Tensor | None


class Networks(NamedTuple):
    """The networks of a layer on [x, h]: layers of g and of r with tanh between them, p and o (None without them)."""

    gate: tuple[Affine, ...]
    recommendation: tuple[Affine, ...]
    output: Affine | None
    output_gate: Affine | None


class LayerRun(NamedTuple):
    """What a layer gives: outputs [T, B, O], states after each step [T, B, H], gates [T, B, H]."""

    outputs: Tensor
    states: Tensor
    gates: Tensor


def project(x: Tensor, to_sums: Affine, noise: Tensor | None) -> Tensor:
    """What the sums of gate and recommendation get from the input, and the gate's from its noise, at all steps.

    Shape: x [T, B, I], noise [T, B, G] -> [T, B, G + H].
    """
    given = F.linear(x, *to_sums)
    if noise is None:
        return given
    gates = noise.shape[-1]
    for_gate, for_recommendation = given.split([gates, given.shape[-1] - gates], dim=-1)
    return torch.cat([for_gate + noise, for_recommendation], dim=-1)


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
    assert output is not None
    parameters = [*g, *r, *output, *(output_gate or (None, None))]
    masks = (None if mask is None else mask.to(torch.bool) for mask in (resets, active))
    apply: Any = _Layer.apply
    result, states, gates = apply(gate, *masks, x, first, noise, *parameters)
    return LayerRun(own_result(result) if output_gate is None else result, states, gates)


def forward_layer(
    gate: str,
    x: Tensor,
    first: Tensor,
    noise: Tensor | None,
    resets: Tensor | None,
    active: Tensor | None,
    weights: Sequence[Tensor | None],
) -> dict[str, Tensor | None]:
    """The layer without autograd: its results, and what :func:`backward_layer` needs.

    Names are those of ``Layer`` in native/program.hpp; ``states`` begins with ``first``, [T + 1, B, H]. Where no state
    is cleared or held, ``before`` and ``fresh`` are parts of it and missing here.
    """
    steps, batch, inputs = x.shape
    hidden, outputs = first.shape[-1], weights[4].shape[0]  # type: ignore[union-attr]
    empty = partial(pooled_empty, like=x)
    states = empty(steps + 1, batch, hidden)
    states[0] = first
    result = empty(steps, batch, outputs)
    tensors: dict[str, Tensor | None] = {
        "x": resolve(x).contiguous(),
        "noise": None if noise is None else resolve(noise).contiguous(),
        "resets": None if resets is None else resets.contiguous(),
        "active": None if active is None else active.contiguous(),
        "states": states,
        "before": None if resets is None else empty(steps, batch, hidden),
        "fresh": None if active is None else empty(steps, batch, hidden),
        "gates": empty(steps, batch, hidden),
        "recommended": empty(steps, batch, hidden),
        "read": None if weights[6] is None else empty(steps, batch, outputs),
        "read_gate": None if weights[6] is None else empty(steps, batch, outputs),
        "result": result,
    }
    sizes = [steps, batch, inputs, hidden, outputs]
    _call(False, sizes, gate, [[weights[k], weights[k + 1], None, None] for k in range(0, 8, 2)], tensors)
    return tensors


def backward_layer(
    gate: str,
    weights: Sequence[Tensor | None],
    tensors: Mapping[str, Tensor | None],
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Gradients of x, the first state, noise and the weights, as far as they are wanted.

    Args:
        tensors: of :func:`forward_layer`.
        gradients: of outputs, states after each step, and gates.
    """
    x, states, output = tensors["x"], tensors["states"], weights[4]
    assert x is not None and states is not None and output is not None
    sizes = [*x.shape, states.shape[-1], output.shape[0]]
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


def _call(
    backward: bool, sizes: list[int], gate: str, networks: list[list[Tensor | None]], tensors: dict[str, Tensor | None]
) -> None:
    """One call of the engine, which checks every size."""
    x, states = tensors["x"], tensors["states"]
    assert x is not None and states is not None
    parts = {"before": states, "fresh": states[1:], "read": tensors["result"]}  # the same memory where it is the same
    whole = {name: parts.get(name) if tensor is None else tensor for name, tensor in tensors.items()}
    given = {name: (tensor.data_ptr(), tensor.numel()) for name, tensor in whole.items() if tensor is not None}
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
        weights = [None if parameter is None else resolve(parameter).contiguous() for parameter in parameters]
        tensors = forward_layer(gate, x, first, noise, resets, active, weights)
        result = tensors["result"]
        if weights[6] is not None:
            tensors["result"] = None  # only what was read is needed; the caller may change the result
        saved = [*weights, *(tensors[name] for name in KEPT)]
        ctx.gate, ctx.dtypes = gate, [None if tensor is None else tensor.dtype for tensor in saved]
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        assert tensors["states"] is not None
        return result, tensors["states"][1:], tensors["gates"]

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
        weights, tensors = saved[:8], dict(zip(KEPT, saved[8:], strict=True))
        wanted = ctx.needs_input_grad[3:]

        def run(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
            return backward_layer(ctx.gate, weights, tensors, gradients, wanted)

        return (None, None, None, *map_batched(run, gradients))
