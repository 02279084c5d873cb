"""GateL0RD's layer on a GPU: the loop over time in one kernel, once it was seen to compute what PyTorch does."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from gatel0rd.engine import gpu, in_graph
from gatel0rd.engine.layer import Affine, LayerRun, Networks, project
from gatel0rd.nn.arguments import is_under_autocast
from gatel0rd.nn.gated_layer import RunLayer, are_one_layer_each
from gatel0rd.nn.gated_layer_torch import Recurrence, read_out, run_layer_in_torch, split_first_layers

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.02}
"""Relative to the largest entry; with tf32 that of float16, which has as many bits."""


class Draw(NamedTuple):
    """Gate noise that is to be drawn: inside of the kernel on a GPU, else by :meth:`Cell.sample_noise`."""

    generator: torch.Generator | None = None


class KernelCase(NamedTuple):
    """What a kernel is compiled for."""

    device: torch.device
    hidden: int
    dtype: torch.dtype
    gate: str
    resets: bool
    active: bool
    draws: bool = False
    recompute: bool = False

    def __str__(self) -> str:
        named = {"resets": self.resets, "lengths": self.active, "noise": self.draws, "recompute": self.recompute}
        options = "".join(f", {name}" for name, used in named.items() if used)
        return f"hidden size {self.hidden}, {self.dtype}, gate {self.gate}{options}"


class KernelWarning(RuntimeWarning):
    """A kernel is not used, as it does not compile or its results differ from PyTorch's."""


def find_kernel(
    networks: Networks,
    gate: str,
    x: Tensor,
    noise: Tensor | Draw | None,
    noise_std: float,
    resets: Tensor | None,
    active: Tensor | None,
    recompute: bool,
) -> RunLayer | None:
    """How a layer runs by a kernel, with a seed of its own if it is to draw its gate noise; None if there is none."""
    if not are_one_layer_each(networks):
        return None
    hidden = len(networks.gate[0].weight)
    draws, recompute = isinstance(noise, Draw) and noise_std > 0, recompute and torch.is_grad_enabled()
    if not _has_kernel(x.device, hidden, x.dtype, gate, resets is not None, active is not None, draws, recompute):
        return None
    if not isinstance(noise, Draw) or not draws:
        return partial(run_layer_by_kernels, recompute=recompute)
    seed = sample_seed(x.device, noise.generator)
    return partial(run_layer_by_kernels, seed=seed, noise_std=noise_std, recompute=recompute)


@in_graph.decide_once
def _has_kernel(device: torch.device, hidden: int, dtype: torch.dtype, *rest: Any) -> bool:
    if torch._C._functorch.peek_interpreter_stack() is not None:  # asked here, as a graph's recorder always sees one
        return False
    return not gpu.reason_against(device.type, hidden, dtype) and is_trusted(KernelCase(device, hidden, dtype, *rest))


def sample_seed(device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """A seed for gate noise. It stays on its device: nothing waits for it, and a CUDA graph draws another each time."""
    return torch.randint(2**63 - 1, (1,), device=device, generator=generator)


def run_layer_by_kernels(
    networks: Networks,
    gate: str,
    x: Tensor,
    first: Tensor,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
    seed: Tensor | None = None,
    noise_std: float = 0.0,
    recompute: bool = False,
) -> LayerRun:
    """As :func:`gatel0rd.nn.gated_layer_torch.run_layer_in_torch`, by Triton.

    Args:
        seed, noise_std: draw gate noise inside of the kernel.
        recompute: keep states alone for the backward pass.
    """
    from gatel0rd.engine.triton.recurrence import project_and_recur

    from_x, from_h = split_first_layers(networks, x.shape[-1])
    if recompute:
        # as autocast would do it outside of an operator; noise keeps its bits, and the sums get them
        dtype = torch.get_autocast_dtype(x.device.type) if is_under_autocast(x) else x.dtype
        small = [None if tensor is None else tensor.to(dtype) for tensor in (x, *from_x)]
        weight = from_h.to(dtype if noise is None else torch.promote_types(dtype, noise.dtype))
        how = (seed, noise_std, gate, gpu.precision())
        states, fresh, gates = project_and_recur(*small, noise, first, weight, resets, active, *how)
        return read_out(networks, x, _as_recurrence(states, fresh, gates, first.dtype))
    given = project(x, from_x, noise)
    return read_out(networks, x, recur_by_kernels(given, from_h, first, resets, active, gate, seed, noise_std))


def recur_by_kernels(
    given: Tensor,
    weight: Tensor,
    first: Tensor,
    resets: Tensor | None,
    active: Tensor | None,
    gate: str,
    seed: Tensor | None = None,
    noise_std: float = 0.0,
) -> Recurrence:
    """As :func:`gatel0rd.nn.gated_layer_torch.recur_in_torch`, by Triton."""
    from gatel0rd.engine.triton.recurrence import recur

    how = (seed, noise_std, gate, gpu.precision())
    states, fresh, gates, _ = recur(given, first, weight.to(given.dtype), resets, active, *how)
    return _as_recurrence(states, fresh, gates, first.dtype)


def _as_recurrence(states: Tensor, fresh: Tensor, gates: Tensor, dtype: torch.dtype) -> Recurrence:
    """In the type of the layer; fresh states are empty where no state is held."""
    return Recurrence(*(tensor.to(dtype) for tensor in (states, fresh if fresh.dim() > 1 else states, gates)))


_trusted: dict[tuple[object, ...], bool] = {}


def is_trusted(case: KernelCase) -> bool:
    """Compare a kernel with PyTorch on a small sample, the first time that it is used on a device.

    A difference, or an error while it is compiled, is a warning that names the case. While a CUDA graph is captured
    nothing can be compared: PyTorch is used unless the case was called before, as a capture's warm-up does.
    """
    key = (*case, gpu.precision())
    if key not in _trusted:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return False
        _trusted[key] = _compare_or_warn(case)
    return _trusted[key]


def _compare_or_warn(case: KernelCase) -> bool:
    try:
        with unset_fake_temporarily(), torch.random.fork_rng(devices=[]), torch.enable_grad():
            difference = compare_with_torch(case)
    except Exception as error:  # whatever a compiler or a driver raises
        warnings.warn(f"a kernel fails ({case}) and PyTorch is used: {error}", KernelWarning, stacklevel=2)
        return False
    most = TOLERANCE[torch.float16 if case.dtype == torch.float32 and gpu.precision() == "tf32" else case.dtype]
    if not difference <= most:
        warnings.warn(
            f"a kernel differs from PyTorch by {difference:.1e} ({case}), where {most} was expected, and is not used",
            KernelWarning,
            stacklevel=2,
        )
        return False
    return True


def compare_with_torch(case: KernelCase) -> float:
    """The largest difference between the kernel's and PyTorch's results and gradients, relative to the largest one.

    Gates are clearly open or closed: near zero, rounding alone would decide, and the gradient with it.
    """
    from gatel0rd.engine.triton.recurrence import draw_noise

    steps, batch, inputs, hidden = 5, 19, 3, case.hidden
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(case.device, case.dtype)

    size = (inputs + hidden) ** -0.5
    leaves = [draw(steps, batch, inputs), draw(batch, hidden)]
    leaves += [draw(hidden, inputs + hidden) * (0.2 * size), 1.5 * draw(hidden).sign()]
    leaves += [draw(hidden, inputs + hidden) * size, draw(hidden)]
    drawn = (torch.rand(2, steps, batch, generator=generator) < 0.5).to(case.device)
    resets, active = (mask if use else None for mask, use in zip(drawn, (case.resets, case.active), strict=True))
    seed = torch.full((1,), 2**40 + 1, device=case.device) if case.draws else None
    noise = None if seed is None else draw_noise(seed, steps, batch, hidden, 0.1).to(case.dtype)
    weights = [draw(steps, batch, hidden) for _ in range(3)]
    by_kernels = partial(run_layer_by_kernels, seed=seed, noise_std=0.1, recompute=case.recompute)
    found = []
    for run in (by_kernels, partial(run_layer_in_torch, noise=noise)):
        x, first, *parameters = own = [tensor.clone().requires_grad_() for tensor in leaves]
        networks = Networks((Affine(*parameters[:2]),), (Affine(*parameters[2:]),), None, None)
        results = run(networks, case.gate, x, first, resets=resets, active=active)
        total = sum((result * factor).sum() for result, factor in zip(results, weights, strict=True))
        assert isinstance(total, Tensor)
        found.append([*results, *torch.autograd.grad(total, own)])
    differences = [((a - b).abs().max() / b.abs().max()).item() for a, b in zip(*found, strict=True)]
    return float(max(differences)) if all(value == value for value in differences) else float("inf")
