"""The paper's mathematics as pure functions: gates, penalties, gate statistics, sampling schedule, returns."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = [
    "GATES",
    "PENALTIES",
    "any_open_penalty",
    "dims_used",
    "heaviside",
    "l0_penalty",
    "l1_penalty",
    "l2_penalty",
    "open_rate",
    "open_times",
    "retanh",
    "sampling_probability",
    "squared_mean_penalty",
]


def retanh(s: Tensor) -> Tensor:
    """Rectified tanh, a gate that can be exactly zero (Eq. 7): Λ(s) = max(0, tanh(s)).

    Example:
        >>> import torch
        >>> from gatel0rd import retanh
        >>> retanh(torch.tensor([-2.0, 0.0, 0.5]))
        tensor([0.0000, 0.0000, 0.4621])
    """
    return torch.relu(torch.tanh(s))


def heaviside(s: Tensor) -> Tensor:
    """Step function with a straight-through gradient (Fig. 1c): Θ(s) = 1 if s > 0 else 0, dΘ/ds := 1.

    Example:
        >>> import torch
        >>> from gatel0rd.nn.functional import heaviside
        >>> s = torch.tensor([-2.0, 0.5], requires_grad=True)
        >>> heaviside(s).sum().backward()
        >>> heaviside(s).tolist(), s.grad.tolist()
        ([0.0, 1.0], [1.0, 1.0])
    """
    # s - s.detach() is exactly 0 for finite s, so the value stays exactly 0 or 1; a NaN stays one, infinity does not
    return (s > 0).to(s.dtype) + (s - s.detach()).masked_fill(s.isinf(), 0)


GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "retanh": retanh,
    "sigmoid": torch.sigmoid,
    "heaviside": heaviside,
}
"""Gate functions Λ by the name that ablations use."""


def l0_penalty(gates: Tensor) -> Tensor:
    """Share of open gates, the L0 term of Eq. 5: mean of Θ(Λ(s)).

    Composed with :func:`retanh` its gradient with respect to s is tanh'(s) for open gates and 0 for closed ones.

    Deviations: a mean over time, batch and dimensions, where Eq. 5 sums (the paper's λ values only fit means).

    Example:
        >>> import torch
        >>> from gatel0rd import l0_penalty
        >>> l0_penalty(torch.tensor([0.0, 0.1, 0.9, 0.0])).item()
        0.5
    """
    return heaviside(gates).mean()


def any_open_penalty(gates: Tensor, free: float = 0.0) -> Tensor:
    """Share of (time, sequence) at which any gate is open, as far as it exceeds a free budget: max(0, mean − free).

    What counts is whether the state changes at all, as in models of events; gates that open together cost as much as
    one. The gradient goes to the widest gate of each step, straight through as in :func:`l0_penalty`.

    Shape: (T, B, H) -> ().

    Example:
        >>> import torch
        >>> from gatel0rd.nn.functional import any_open_penalty
        >>> gates = torch.zeros(4, 1, 3)
        >>> gates[2, 0, :2] = 0.5  # two gates, one step of four
        >>> any_open_penalty(gates).item()
        0.25
    """
    return torch.relu(heaviside(gates.amax(dim=-1)).mean() - free)


def l1_penalty(gates: Tensor) -> Tensor:
    """Mean absolute gate activation (ablation 5).

    Example:
        >>> import torch
        >>> from gatel0rd import l1_penalty
        >>> l1_penalty(torch.tensor([0.0, 1.0, 0.5, 0.5])).item()
        0.5
    """
    return gates.abs().mean()


def l2_penalty(gates: Tensor) -> Tensor:
    """Mean squared gate activation (ablation 5).

    Example:
        >>> import torch
        >>> from gatel0rd import l2_penalty
        >>> l2_penalty(torch.tensor([0.0, 1.0, 0.5, 0.5])).item()
        0.375
    """
    return gates.square().mean()


def squared_mean_penalty(gates: Tensor) -> Tensor:
    """Square of the mean gate activation: what the authors' code calls L2 (preset ``reference``).

    Example:
        >>> import torch
        >>> from gatel0rd.nn.functional import squared_mean_penalty
        >>> squared_mean_penalty(torch.tensor([0.0, 1.0, 0.5, 0.5])).item()
        0.25
    """
    return gates.mean().square()


PENALTIES: dict[str, Callable[[Tensor], Tensor]] = {
    "l0": l0_penalty,
    "l1": l1_penalty,
    "l2": l2_penalty,
    "squared_mean": squared_mean_penalty,
}
"""Penalties on gate activations by the name that configurations use."""


def open_rate(gates: Tensor) -> Tensor:
    """Share of (time, sequence, dimension) with an open gate. Shape: (T, B, H) -> ().

    Example:
        >>> import torch
        >>> from gatel0rd.nn.functional import open_rate
        >>> open_rate(torch.tensor([[[0.0, 0.3]], [[0.0, 0.0]]])).item()
        0.25
    """
    return _share(gates > 0)


def open_times(gates: Tensor) -> Tensor:
    """Share of (time, sequence) at which any gate is open. Shape: (T, B, H) -> ().

    Example:
        >>> import torch
        >>> from gatel0rd.nn.functional import open_times
        >>> open_times(torch.tensor([[[0.0, 0.3]], [[0.0, 0.0]]])).item()
        0.5
    """
    return _share((gates > 0).any(dim=-1))


def dims_used(gates: Tensor) -> Tensor:
    """Share of (sequence, dimension) whose gate opens at least once. Shape: (T, B, H) -> ().

    Time is the first dimension: transpose the gates of a layer with ``batch_first``.

    Example:
        >>> import torch
        >>> from gatel0rd.nn.functional import dims_used
        >>> dims_used(torch.tensor([[[0.0, 0.3]], [[0.0, 0.0]]])).item()
        0.5
    """
    return _share((gates > 0).any(dim=0))


def _share(flags: Tensor) -> Tensor:
    """Share of what is true, with 64 bits where the device has them."""
    return flags.to(torch.float32 if flags.device.type == "mps" else torch.float64).mean()


def sampling_probability(epoch: int, *, decay: float, minimum: float) -> float:
    """Probability of feeding the real input in scheduled sampling: p_i = max(k^i, p_min).

    Example:
        >>> from gatel0rd.nn.functional import sampling_probability
        >>> [sampling_probability(epoch, decay=0.5, minimum=0.2) for epoch in range(4)]
        [1.0, 0.5, 0.25, 0.2]
    """
    return max(decay**epoch, minimum)
