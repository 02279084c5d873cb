"""What layer and cell are given: checks that say what was expected, and the types that autocast left behind."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gatel0rd.engine.in_graph import decide_once


def check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not hasattr(size, "__index__"):
            raise TypeError(f"{name} is {size!r}; expected a whole number")
        if size < 1:
            raise ValueError(f"{name} is {size}; expected a positive number")


def check_probability(name: str, value: float) -> None:
    if not hasattr(value, "__float__"):
        raise TypeError(f"{name} is {value!r}; expected a number")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; expected a probability between 0 and 1")


def is_under_autocast(x: Tensor) -> bool:
    kind = x.device.type
    return _has_autocast(kind) and torch.is_autocast_enabled(kind)


@decide_once
def _has_autocast(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind)


def first_weight(module: nn.Module, otherwise: Tensor | None = None) -> Tensor:
    """A weight of the module, whose type and device count; ``otherwise``, or PyTorch's default, where there is none, as
    in quantized modules.
    """
    found = next(module.parameters(), None)
    if found is not None:
        return found
    copies = (getattr(part, "_former_parameters", {}) for part in module.modules())  # in replicas of nn.DataParallel
    weight = next((weight for own in copies for weight in own.values()), otherwise)
    return torch.empty(0) if weight is None else weight


def leave_autocast(module: nn.Module, x: Tensor, hx: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Under autocast, input and state in the type of the weights; what came before may have left them in another."""
    if not is_under_autocast(x):
        return x, hx
    dtype = first_weight(module, x).dtype
    return x.to(dtype), hx.to(dtype) if isinstance(hx, Tensor) else hx


def check_input(module: nn.Module, x: Tensor, input_size: int) -> None:
    if x.shape[-1] != input_size:
        raise ValueError(f"input has {x.shape[-1]} features; the layer was made with input_size={input_size}")
    weight = first_weight(module, x)
    if x.dtype != weight.dtype:
        raise ValueError(f"input is {x.dtype} and the weights are {weight.dtype}; convert one of them with .to()")


def check_state(hx: Tensor, expected: tuple[int, ...], x: Tensor) -> None:
    if not isinstance(hx, Tensor):
        kind = type(hx).__name__
        raise TypeError(f"hx is a {kind}; expected one tensor of shape {expected}, as in nn.GRU (nn.LSTM has two)")
    if tuple(hx.shape) != expected:
        raise ValueError(f"hx has shape {tuple(hx.shape)}; expected {expected}")
    if hx.dtype != x.dtype:
        raise ValueError(f"hx is {hx.dtype} and input is {x.dtype}; expected the same dtype")
