"""GateL0RD's layer on a GPU: the loop over time in one kernel, once it was seen to compute what PyTorch does."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from gatel0rd.engine import gpu
from gatel0rd.nn.gated_layer_torch import Recurrence, recur_in_torch

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.02}
"""Relative to the largest entry; with tf32 that of float16, which has as many bits."""


class KernelWarning(RuntimeWarning):
    """A kernel is not used, as it does not compile or its results differ from PyTorch's."""


def recur_by_kernels(
    given: Tensor, weight: Tensor, first: Tensor, resets: Tensor | None, active: Tensor | None, gate: str
) -> Recurrence:
    """As :func:`gatel0rd.nn.gated_layer_torch.recur_in_torch`, by Triton."""
    from gatel0rd.engine.triton.recurrence import recur

    states, fresh, gates, _ = recur(given, first, weight.to(given.dtype), resets, active, gate, gpu.precision())
    return Recurrence(*(tensor.to(first.dtype) for tensor in (states, states if active is None else fresh, gates)))


_trusted: dict[tuple[object, ...], bool] = {}


def is_trusted(device: torch.device, hidden: int, dtype: torch.dtype, gate: str, resets: bool, active: bool) -> bool:
    """Compare a kernel with PyTorch on a small sample, the first time that it is used on a device.

    A difference, or an error while it is compiled, is a warning that names the case. While a CUDA graph is captured
    nothing can be compared: PyTorch is used unless the case was called before, as a capture's warm-up does.
    """
    case = (device, hidden, dtype, gate, resets, active, gpu.precision())
    if case not in _trusted:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return False
        _trusted[case] = _compare_or_warn(device, hidden, dtype, gate, resets, active)
    return _trusted[case]


def _compare_or_warn(
    device: torch.device, hidden: int, dtype: torch.dtype, gate: str, resets: bool, active: bool
) -> bool:
    case = f"hidden size {hidden}, {dtype}, gate {gate}" + ", resets" * resets + ", lengths" * active
    try:
        with unset_fake_temporarily(), torch.random.fork_rng(devices=[]), torch.enable_grad():
            difference = compare_with_torch(device, hidden, dtype, gate, resets, active)
    except Exception as error:  # whatever a compiler or a driver raises
        warnings.warn(f"a kernel fails ({case}) and PyTorch is used: {error}", KernelWarning, stacklevel=2)
        return False
    most = TOLERANCE[torch.float16 if dtype == torch.float32 and gpu.precision() == "tf32" else dtype]
    if not difference <= most:
        warnings.warn(
            f"a kernel differs from PyTorch by {difference:.1e} ({case}), where {most} was expected, and is not used",
            KernelWarning,
            stacklevel=2,
        )
        return False
    return True


def compare_with_torch(
    device: torch.device, hidden: int, dtype: torch.dtype, gate: str, resets: bool, active: bool
) -> float:
    """The largest difference between the kernel's and PyTorch's results and gradients, relative to the largest one."""
    steps, batch = 5, 19
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device, dtype)

    inputs = [draw(steps, batch, 2 * hidden), draw(2 * hidden, hidden) / hidden**0.5, draw(batch, hidden)]
    drawn = (torch.rand(2, steps, batch, generator=generator) < 0.5).to(device)
    starts, lengths = (mask if use else None for mask, use in zip(drawn, (resets, active), strict=True))
    weights = [draw(steps, batch, hidden) for _ in range(3)]
    found = []
    for recur in (recur_by_kernels, recur_in_torch):
        given, weight, first = leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        results = recur(given, weight, first, starts, lengths, gate)
        total = sum((result * factor).sum() for result, factor in zip(results, weights, strict=True))
        assert isinstance(total, Tensor)
        found.append([*results, *torch.autograd.grad(total, leaves)])
    differences = [((a - b).abs().max() / b.abs().max()).item() for a, b in zip(*found, strict=True)]
    return float(max(differences)) if all(value == value for value in differences) else float("inf")
