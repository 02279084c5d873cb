"""Tensors as the compiled code reads them: plain memory, whatever autograd or a hook made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Gradients = Sequence[Tensor | None]


def resolve(tensor: Tensor) -> Tensor:
    """The same numbers without a pending negation (``tensor.is_neg()``), which lives outside of the memory."""
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def restore(saved: Tensor | None, dtype: torch.dtype | None) -> Tensor | None:
    """A saved tensor as the backward pass reads it: contiguous, whatever a saved-tensor hook returned."""
    if saved is None:
        return None
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
    batched = [gradient for gradient in gradients if gradient is not None and functorch.is_batchedtensor(gradient)]
    if not batched:
        return backward(gradients)
    level = max(functorch.maybe_get_level(gradient) for gradient in batched)
    of_level = [gradient for gradient in batched if functorch.maybe_get_level(gradient) == level]
    count = functorch.get_unwrapped(of_level[0]).shape[functorch.maybe_get_bdim(of_level[0])]

    def entry(gradient: Tensor | None, index: int) -> Tensor | None:
        if not any(gradient is other for other in of_level):
            return gradient
        assert gradient is not None
        return functorch.get_unwrapped(gradient).select(functorch.maybe_get_bdim(gradient), index)

    runs = [map_batched(backward, [entry(gradient, k) for gradient in gradients]) for k in range(count)]
    return tuple(
        None if any(part is None for part in parts) else functorch._add_batch_dim(torch.stack(parts), 0, level)
        for parts in zip(*runs, strict=True)
    )
