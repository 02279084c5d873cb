"""Rules of vmap: one call for all entries where they can be entries of the batch, else one for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Dims = tuple[Any, ...]


def entry(value: Any, dim: Any, index: int) -> Any:
    """One entry of the mapped dimension; lists of tensors have lists of dimensions."""
    if isinstance(value, list | tuple):
        return [entry(one, of_one, index) for one, of_one in zip(value, dim, strict=True)]
    return value if dim is None else value.select(dim, index)


def map_by_loop(operator: Any, info: Any, in_dims: Dims, *given: Any) -> tuple[Any, Any]:
    """One call per entry: what every operator can do."""
    runs = [
        operator(*(entry(value, dim, k) for value, dim in zip(given, in_dims, strict=True)))
        for k in range(info.batch_size)
    ]
    stacked = [torch.stack(parts) for parts in zip(*runs, strict=True)]
    return (stacked, [0] * len(stacked)) if isinstance(runs[0], list) else (tuple(stacked), (0,) * len(stacked))


def fold(tensor: Tensor | None, dim: int | None, count: int, batch_dim: int) -> Tensor | None:
    """Entries of the mapped dimension as entries of the batch. Shape: [T, B, ·] per entry -> [T, N·B, ·]."""
    if tensor is None:
        return None
    if dim is None:
        whole = tensor.unsqueeze(batch_dim).expand(*tensor.shape[:batch_dim], count, *tensor.shape[batch_dim:])
    else:
        whole = tensor.movedim(dim, batch_dim)
    return whole.flatten(batch_dim, batch_dim + 1)


def unfold(tensor: Tensor, count: int, batch_dim: int) -> Tensor:
    shape = tensor.shape
    return tensor.view(*shape[:batch_dim], count, shape[batch_dim] // count, *shape[batch_dim + 1 :])
