"""Random numbers of the engine: a counter and a seed go in, numbers come out, the same with any number of threads."""

from __future__ import annotations

import torch
from torch import Tensor

from gatel0rd.engine import in_graph, native
from gatel0rd.engine.eligibility import reason_against_tensors, reason_against_tracing
from gatel0rd.engine.operators.random import draw_at_once, draw_numbers


@in_graph.leave_old_graphs
def sample_normal(
    shape: tuple[int, ...], std: float, *, like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Normal numbers with the dtype and device of ``like``, from a seed that ``generator`` gives.

    The engine draws them several times as fast as ``torch.randn``, which is used where the engine cannot run: on other
    devices, under torch.func, while something is traced or exported.
    """
    if torch.compiler.is_compiling():
        if generator is None and in_graph.draws(like.dtype, like.device.type):
            drawn: Tensor = draw_numbers(torch.randint(2**62, (), device="cpu"), shape, std, like.dtype)
            return drawn
    elif native.is_available() and not (reason_against_tracing() or _reason_against_drawing(like)):
        seed = torch.randint(2**63 - 1, (), generator=generator, device="cpu")
        return draw_at_once(int(seed), shape, std, like.dtype)
    if generator is None:  # a graph whose sizes vary takes no such argument
        return std * torch.randn(shape, dtype=like.dtype, device=like.device)
    return std * torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)


def _reason_against_drawing(like: Tensor) -> str:
    """As :func:`reason_against_tensors`; inside of torch.func no random numbers are plain, whatever ``like`` is."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "torch.func is active"
    return reason_against_tensors([like])


def draw_noise(shape: tuple[int, int, int], scale: float, *, seed: int, counter: int, dtype: torch.dtype) -> Tensor:
    """The normal numbers that a program draws for one batch, [T, B, size]."""
    out = torch.empty(shape, dtype=dtype, device="cpu")
    native.module().draw_normal(dtype == torch.float64, out.data_ptr(), *shape, seed, counter, scale)
    return out


def draw_feed(shape: tuple[int, int], probability: float, *, seed: int, counter: int) -> Tensor:
    """The sampling mask that a program draws for one batch, before its first steps are set, [T, B]."""
    out = torch.empty(shape, dtype=torch.float32, device="cpu")
    native.module().draw_bernoulli(False, out.data_ptr(), *shape, seed, counter, probability)
    return out.bool()
