"""The recurrence of a gated layer by Triton's kernels, as operators of PyTorch with a registered gradient."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gatel0rd.engine.triton import kernels

Precision = Literal["ieee", "tf32"]
LARGEST = 512
"""Hidden size up to which the kernels run; larger layers are PyTorch's."""
RESIDENT = 64
"""Hidden size up to which state and weights stay on the multiprocessor; beyond, float32 would spill registers."""
GATES = {"retanh": 0, "sigmoid": 1, "heaviside": 2}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# batch entries of one program: the least that matrix units take
_BLOCK_B = 16
_TILE = 64


class Launch(NamedTuple):
    """Which kernels a layer takes, and with which options."""

    forward: Any
    backward: Any
    options: dict[str, Any]


@functools.cache
def plan(hidden: int, gate: str, precision: Precision, wide: bool, resets: bool, active: bool) -> Launch:
    """The kernels for a hidden size. ``wide``: in float64, for tests in Triton's interpreter."""
    resident = hidden <= RESIDENT
    block = max(16, triton.next_power_of_2(hidden)) if resident else _TILE
    options = {
        "HAS_RESETS": resets,
        "HAS_ACTIVE": active,
        "GATE": GATES[gate],
        "PRECISION": precision,
        "ACC": tl.float64 if wide else tl.float32,
        "BLOCK_B": _BLOCK_B,
        "BLOCK_H": block,
        "num_warps": 8,
        "num_stages": 1,
    }
    if resident:
        return Launch(kernels.forward_resident, kernels.backward_resident, options)
    return Launch(kernels.forward_tiled, kernels.backward_tiled, options)


def _grid(batch: int) -> tuple[int]:
    return (triton.cdiv(batch, _BLOCK_B),)


def _bytes(mask: Tensor | None, like: Tensor) -> Tensor:
    """A boolean mask as the kernels read it; any tensor where there is none."""
    return like if mask is None else mask.contiguous().view(torch.uint8)


def _state_type(given: Tensor) -> torch.dtype:
    return torch.float64 if given.dtype == torch.float64 else torch.float32


@torch.library.custom_op("gatel0rd::recur", mutates_args=())
def recur(
    given: Tensor,
    first: Tensor,
    weight: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    gate: str,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, fresh states (empty without ``active``), gates and recommended states.

    Shape: given [T, B, 2·H], first [B, H], weight [2·H, H], resets and active [T, B] -> [T, B, H] each, in float32.
    """
    steps, batch, hidden = given.shape[0], given.shape[1], first.shape[-1]
    dtype = _state_type(given)
    given, first, weight = given.contiguous(), first.to(dtype).contiguous(), weight.contiguous()
    states, gates, recommended = (torch.empty(steps, batch, hidden, dtype=dtype, device=given.device) for _ in range(3))
    fresh = torch.empty_like(states) if active is not None else states.new_empty(0)
    launch = plan(hidden, gate, precision, dtype == torch.float64, resets is not None, active is not None)
    masks = (_bytes(resets, given), _bytes(active, given))
    launch.forward[_grid(batch)](
        given, first, weight, *masks, states, fresh, gates, recommended, steps, batch, hidden, **launch.options
    )
    return states, fresh, gates, recommended


@recur.register_fake
def _(
    given: Tensor, first: Tensor, weight: Tensor, resets: Any, active: Any, gate: str, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape, dtype = (*given.shape[:2], first.shape[-1]), _state_type(given)
    states, gates, recommended = (given.new_empty(shape, dtype=dtype) for _ in range(3))
    return states, given.new_empty((0,) if active is None else shape, dtype=dtype), gates, recommended


@torch.library.custom_op("gatel0rd::recur_backward", mutates_args=())
def recur_backward(
    first: Tensor,
    weight: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    states: Tensor,
    gates: Tensor,
    recommended: Tensor,
    d_states: Tensor,
    d_fresh: Tensor,
    d_gates: Tensor,
    gate: str,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Gradients of ``given`` and ``first``. Shape: [T, B, 2·H], [B, H]."""
    steps, batch, hidden = states.shape
    d_given = states.new_empty(steps, batch, 2 * hidden)
    d_first = states.new_zeros(batch, hidden)
    wide = states.dtype == torch.float64
    launch = plan(hidden, gate, precision, wide, resets is not None, active is not None)
    launch.backward[_grid(batch)](
        first.to(states.dtype).contiguous(),
        weight.contiguous(),
        _bytes(resets, states),
        _bytes(active, states),
        states,
        gates,
        recommended,
        d_states.contiguous(),
        d_fresh.contiguous(),
        d_gates.contiguous(),
        d_given,
        d_first,
        steps,
        batch,
        hidden,
        **launch.options,
    )
    return d_given, d_first


@recur_backward.register_fake
def _(first: Tensor, weight: Tensor, resets: Any, active: Any, states: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return states.new_empty(*states.shape[:2], 2 * states.shape[2]), states.new_empty(states.shape[1:])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    given, first, weight, resets, active, gate, precision = inputs
    states, _, gates, recommended = output
    ctx.gate, ctx.precision, ctx.dtype = gate, precision, given.dtype
    ctx.save_for_backward(first, weight, resets, active, states, gates, recommended)
    ctx.mark_non_differentiable(recommended)


def _differentiate(ctx: Any, d_states: Tensor, d_fresh: Tensor, d_gates: Tensor, _: Tensor) -> tuple[Any, ...]:
    first, weight, resets, active, states, gates, recommended = ctx.saved_tensors
    d_given, d_first = recur_backward(
        first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, ctx.gate, ctx.precision
    )
    before = torch.cat([first.to(states.dtype).unsqueeze(0), states[:-1]])
    if resets is not None:
        before = before.masked_fill(resets.unsqueeze(-1), 0)
    d_given = d_given.to(ctx.dtype)
    d_weight = d_given.flatten(0, 1).t() @ before.to(ctx.dtype).flatten(0, 1)  # [2·H, T·B] · [T·B, H]
    return d_given, d_first.to(first.dtype), d_weight.to(weight.dtype), None, None, None, None


recur.register_autograd(_differentiate, setup_context=_keep)
