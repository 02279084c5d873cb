"""Tensors as the compiled code reads them: plain memory, whatever autograd or a hook made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]


def resolve(tensor: Tensor) -> Tensor:
    """The same numbers without a pending negation (``tensor.is_neg()``), which lives outside of the memory."""
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def own_result(result: Tensor) -> Tensor:
    """A result that the caller may change in place: a copy wherever a backward pass might read the original."""
    return result.clone() if torch.is_grad_enabled() else result


def restore(saved: Tensor, dtype: torch.dtype) -> Tensor:
    """A saved tensor as the backward pass reads it: contiguous, whatever a saved-tensor hook returned."""
    if saved.dtype != dtype or saved.device.type != "cpu":
        raise RuntimeError(
            f"a saved-tensor hook returned a tensor of type {saved.dtype} on {saved.device}; "
            f"expected {dtype} on cpu, as it was saved"
        )
    return resolve(saved).contiguous()


def readable_gradient(gradient: Tensor | None) -> Tensor | None:
    """A gradient that comes from autograd or from the caller, as strided memory."""
    if gradient is None:
        return None
    return resolve(gradient if gradient.layout is torch.strided else gradient.to_dense())


def map_batched(
    backward: Callable[[Gradients], tuple[Tensor | None, ...]], gradients: Gradients
) -> tuple[Tensor | None, ...]:
    """``backward(gradients)``, once per entry where gradients are batched (``is_grads_batched``, or vmap over
    ``torch.autograd.grad``).
    """
    functorch = torch._C._functorch
    given = [gradient for gradient in gradients if gradient is not None]
    wrap: Callable[[Tensor, int, int], Tensor]
    if any(functorch.is_batchedtensor(gradient) for gradient in given):
        level, wrap = max(map(functorch.maybe_get_level, given)), functorch._add_batch_dim
        whole = [
            functorch.get_unwrapped(gradient).movedim(functorch.maybe_get_bdim(gradient), 0)
            if gradient is not None and functorch.maybe_get_level(gradient) == level
            else None
            for gradient in gradients
        ]
    elif (level := _vmap_level()) and any(map(_is_batched, given)):  # the vmap that is_grads_batched uses
        wrap = torch._add_batch_dim
        whole = [
            torch._remove_batch_dim(gradient, level, 1, 0) if gradient is not None and _is_batched(gradient) else None
            for gradient in gradients
        ]
    else:
        return backward(gradients)
    count = next(len(entries) for entries in whole if entries is not None)
    runs = [
        map_batched(
            backward,
            [one if entries is None else entries[k] for one, entries in zip(gradients, whole, strict=True)],
        )
        for k in range(count)
    ]
    stacked = ([part for part in parts if part is not None] for parts in zip(*runs, strict=True))
    return tuple(wrap(torch.stack(parts), 0, level) if parts else None for parts in stacked)


def _vmap_level() -> int:
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    return level


def _is_batched(tensor: Tensor) -> bool:
    return "Batched" in repr(torch._C._dispatch_keys(tensor))
