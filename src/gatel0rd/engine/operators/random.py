"""Normal numbers as an operator: ``gatel0rd::draw_numbers``, whose seed is a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gatel0rd.engine import native
from gatel0rd.engine.compiled import pooled_bytes


@torch.library.custom_op("gatel0rd::draw_numbers", mutates_args=(), device_types="cpu")
def draw_numbers(seed: Tensor, shape: Sequence[int], std: float, dtype: torch.dtype) -> Tensor:
    """Normal numbers of a seed, the same whenever they are drawn: a graph may draw them again for its backward pass."""
    return draw_at_once(int(seed), shape, std, dtype)


@draw_numbers.register_fake
def _(seed: Tensor, shape: Sequence[int], std: float, dtype: torch.dtype) -> Tensor:
    return seed.new_empty(shape, dtype=dtype)


def draw_at_once(seed: int, shape: Sequence[int], std: float, dtype: torch.dtype) -> Tensor:
    """What :func:`draw_numbers` gives, outside of graphs."""
    count = torch.Size(shape).numel()
    out = pooled_bytes(count * dtype.itemsize).view(dtype).view(tuple(shape))
    wide = dtype == torch.float64
    native.module().draw_numbers(wide, out.data_ptr(), count, torch.get_num_threads(), seed, std)
    return out
