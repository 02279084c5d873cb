"""The recurrence of a gated layer by Triton's kernels, as operators of PyTorch with registered gradients.

``recur`` keeps gates and recommendations for its gradient; ``project_and_recur`` keeps states alone, and computes the
others once more from the layer's input.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gatel0rd.engine.layer import Affine, project
from gatel0rd.engine.triton import kernels

Precision = Literal["ieee", "tf32"]
RESIDENT = 64
"""Hidden size up to which state and weights stay on the multiprocessor; beyond, float32 would spill registers."""
GATES = {"retanh": 0, "sigmoid": 1, "heaviside": 2}

# batch entries of one program: the least that matrix units take
_BLOCK_B = 16
_TILE = 64


class Launch(NamedTuple):
    """Which kernels a layer takes, and with which options."""

    forward: Any
    backward: Any
    recompute: Any
    options: dict[str, Any]

    def options_of(self, kernel: Any, **own: Any) -> dict[str, Any]:
        """Those that a kernel knows, and those of the compiler."""
        return {name: value for name, value in (self.options | own).items() if name.islower() or name in _names(kernel)}


def _names(kernel: Any) -> list[str]:
    names: list[str] = kernel.arg_names
    return names


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
        return Launch(kernels.forward_resident, kernels.backward_resident, kernels.recompute, options)
    return Launch(kernels.forward_tiled, kernels.backward_tiled, kernels.recompute, options)


def _blocks(batch: int) -> int:
    return int(triton.cdiv(batch, _BLOCK_B))


def _bytes(mask: Tensor | None, like: Tensor) -> Tensor:
    """A boolean mask as the kernels read it; any tensor where there is none."""
    return like if mask is None else mask.contiguous().view(torch.uint8)


def _state_type(given: Tensor) -> torch.dtype:
    return torch.float64 if given.dtype == torch.float64 else torch.float32


def _plan_for(states: Tensor, gate: str, precision: Any, resets: Tensor | None, active: Tensor | None) -> Launch:
    wide = states.dtype == torch.float64
    return plan(states.shape[-1], gate, precision, wide, resets is not None, active is not None)


def draw_noise(seed: Tensor, steps: int, batch: int, hidden: int, noise_std: float) -> Tensor:
    """The gate noise that :func:`recur` draws from a seed, in float32. Shape: [T, B, H]."""
    noise = torch.empty(steps, batch, hidden, device=seed.device)
    options = {"BLOCK_B": _BLOCK_B, "BLOCK_H": _TILE}
    kernels.draw_noise[(steps, _blocks(batch))](seed, noise, noise_std, batch, hidden, **options)
    return noise


def _run_forward(
    given: Tensor,
    first: Tensor,
    weight: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    seed: Tensor | None,
    noise_std: float,
    gate: str,
    precision: str,
    *,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    steps, batch, hidden = given.shape[0], given.shape[1], first.shape[-1]
    dtype = _state_type(given)
    given, first, weight = given.contiguous(), first.to(dtype).contiguous(), weight.contiguous()
    states = torch.empty(steps, batch, hidden, dtype=dtype, device=given.device)
    gates, fresh, recommended = (
        torch.empty_like(states) if needed else states.new_empty(0) for needed in (True, active is not None, keep)
    )
    launch = _plan_for(states, gate, precision, resets, active)
    launch.forward[(_blocks(batch),)](
        given,
        given if seed is None else seed,
        first,
        weight,
        _bytes(resets, given),
        _bytes(active, given),
        states,
        fresh,
        gates,
        recommended,
        noise_std,
        steps,
        batch,
        hidden,
        **launch.options_of(launch.forward, DRAW=seed is not None, KEEP=keep),
    )
    return states, fresh, gates, recommended


@torch.library.custom_op("gatel0rd::recur", mutates_args=())
def recur(
    given: Tensor,
    first: Tensor,
    weight: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    seed: Tensor | None,
    noise_std: float,
    gate: str,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, fresh states (empty without ``active``), gates and recommended states.

    With a ``seed`` gate noise is drawn from it inside of the kernel; else ``given`` has it already.

    Shape: given [T, B, 2·H], first [B, H], weight [2·H, H], resets and active [T, B], seed [1] -> [T, B, H] each, in
    float32.
    """
    return _run_forward(given, first, weight, resets, active, seed, noise_std, gate, precision, keep=True)


def _empty_results(given: Tensor, hidden: int, *needed: bool) -> tuple[Tensor, ...]:
    shape, dtype = (*given.shape[:2], hidden), _state_type(given)
    return tuple(given.new_empty(shape if one else (0,), dtype=dtype) for one in needed)


@recur.register_fake
def _(given: Tensor, first: Tensor, weight: Tensor, resets: Any, active: Any, *rest: Any) -> tuple[Tensor, ...]:
    return _empty_results(given, first.shape[-1], True, active is not None, True, True)


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
    launch = _plan_for(states, gate, precision, resets, active)
    launch.backward[(_blocks(batch),)](
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
        **launch.options_of(launch.backward),
    )
    return d_given, d_first


@recur_backward.register_fake
def _(first: Tensor, weight: Tensor, resets: Any, active: Any, states: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return states.new_empty(*states.shape[:2], 2 * states.shape[2]), states.new_empty(states.shape[1:])


@torch.library.custom_op("gatel0rd::recompute", mutates_args=())
def recompute(
    given: Tensor,
    first: Tensor,
    weight: Tensor,
    resets: Tensor | None,
    states: Tensor,
    seed: Tensor | None,
    noise_std: float,
    gate: str,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Gates and recommended states from the states that :func:`recur` found, by its arithmetic. Shape: [T, B, H]."""
    steps, batch, hidden = states.shape
    gates, recommended = torch.empty_like(states), torch.empty_like(states)
    launch = _plan_for(states, gate, precision, resets, None)
    launch.recompute[(steps, _blocks(batch))](
        given.contiguous(),
        given if seed is None else seed,
        first.to(states.dtype).contiguous(),
        weight.contiguous(),
        _bytes(resets, states),
        states,
        gates,
        recommended,
        noise_std,
        batch,
        hidden,
        **launch.options_of(launch.recompute, DRAW=seed is not None),
    )
    return gates, recommended


@recompute.register_fake
def _(given: Tensor, first: Tensor, weight: Tensor, resets: Any, states: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(states), torch.empty_like(states)


def _weight_gradient(d_given: Tensor, first: Tensor, states: Tensor, resets: Tensor | None) -> Tensor:
    """Of the weights of the state before each step. Shape: [2·H, T·B] · [T·B, H]."""
    before = torch.cat([first.to(states.dtype).unsqueeze(0), states[:-1]])
    if resets is not None:
        before = before.masked_fill(resets.unsqueeze(-1), 0)
    return d_given.flatten(0, 1).t() @ before.to(d_given.dtype).flatten(0, 1)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    given, first, weight, resets, active, _, _, ctx.gate, ctx.precision = inputs
    states, _, gates, recommended = output
    ctx.dtype = given.dtype
    ctx.save_for_backward(first, weight, resets, active, states, gates, recommended)
    ctx.mark_non_differentiable(recommended)


def _differentiate(ctx: Any, d_states: Tensor, d_fresh: Tensor, d_gates: Tensor, _: Tensor) -> tuple[Any, ...]:
    first, weight, resets, active, states, gates, recommended = ctx.saved_tensors
    d_given, d_first = recur_backward(
        first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, ctx.gate, ctx.precision
    )
    d_given = d_given.to(ctx.dtype)
    d_weight = _weight_gradient(d_given, first, states, resets).to(weight.dtype)
    return d_given, d_first.to(first.dtype), d_weight, None, None, None, None, None, None


recur.register_autograd(_differentiate, setup_context=_keep)


@torch.library.custom_op("gatel0rd::project_and_recur", mutates_args=())
def project_and_recur(
    x: Tensor,
    weight_x: Tensor,
    bias: Tensor | None,
    noise: Tensor | None,
    first: Tensor,
    weight: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    seed: Tensor | None,
    noise_std: float,
    gate: str,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """States, fresh states and gates, as :func:`recur` from :func:`project`, keeping states alone for the gradient.

    Shape: x [T, B, I], weight_x [2·H, I], bias [2·H], noise [T, B, H], others as there.
    """
    given = project(x, Affine(weight_x, bias), noise)
    return _run_forward(given, first, weight, resets, active, seed, noise_std, gate, precision, keep=False)[:3]


@project_and_recur.register_fake
def _(
    x: Tensor, weight_x: Any, bias: Any, noise: Any, first: Tensor, weight: Any, resets: Any, active: Any, *rest: Any
) -> tuple[Tensor, ...]:
    return _empty_results(x, first.shape[-1], True, active is not None, True)


def _keep_states(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.noise_std, ctx.gate, ctx.precision = inputs
    ctx.save_for_backward(*tensors, output[0])


def _recompute_and_differentiate(ctx: Any, d_states: Tensor, d_fresh: Tensor, d_gates: Tensor) -> tuple[Any, ...]:
    x, weight_x, bias, noise, first, weight, resets, active, seed, states = ctx.saved_tensors
    how = (ctx.gate, ctx.precision)
    given = project(x, Affine(weight_x, bias), noise)
    gates, recommended = recompute(given, first, weight, resets, states, seed, ctx.noise_std, *how)
    dtype = given.dtype
    del given  # as large as what comes next
    d_given, d_first = recur_backward(
        first, weight, resets, active, states, gates, recommended, d_states, d_fresh, d_gates, *how
    )
    d_given = d_given.to(dtype)
    d_weight = _weight_gradient(d_given, first, states, resets).to(weight.dtype)
    d_noise = None if noise is None else d_given[..., : noise.shape[-1]]
    d_given = d_given.to(x.dtype)  # noise may have more bits
    d_x = d_given @ weight_x if ctx.needs_input_grad[0] else None
    d_weight_x = d_given.flatten(0, 1).t() @ x.flatten(0, 1)
    d_bias = None if bias is None else d_given.sum((0, 1))
    return d_x, d_weight_x, d_bias, d_noise, d_first.to(first.dtype), d_weight, *[None] * 6


project_and_recur.register_autograd(_recompute_and_differentiate, setup_context=_keep_states)
