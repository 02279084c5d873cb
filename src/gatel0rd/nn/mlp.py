"""Small feed-forward networks: f_pre, f_init, f_post and the subnetworks of GateL0RD are all made here."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def fan_in_widths(num_layers: int, width: int) -> list[int]:
    """Layer widths that halve towards the last one: 2^(n-1)·width, …, 2·width, width."""
    return [width * 2**exponent for exponent in reversed(range(num_layers))]


def tanh_mlp(
    input_size: int,
    widths: Sequence[int],
    *,
    last_tanh: bool,
    bias: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Linear layers of the given widths with tanh between them, and after the last one if ``last_tanh``."""
    layers: list[nn.Module] = []
    for index, width in enumerate(widths):
        layers.append(nn.Linear(input_size, width, bias=bias, device=device, dtype=dtype))
        if last_tanh or index < len(widths) - 1:
            layers.append(nn.Tanh())
        input_size = width
    return nn.Sequential(*layers)


def uniform_(parameter: Tensor, fan_in: int, generator: torch.Generator | None) -> None:
    """Fill with U(-1/√fan_in, 1/√fan_in), PyTorch's default for linear and recurrent layers."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    nn.init.uniform_(parameter, -bound, bound, generator=generator)


def reset_linear(module: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the weights of every linear layer inside ``module`` afresh from ``generator``."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            uniform_(layer.weight, layer.in_features, generator)
            if layer.bias is not None:
                uniform_(layer.bias, layer.in_features, generator)
