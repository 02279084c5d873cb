"""A price on open gates that finds its own λ: it is adjusted while training (dual ascent)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatel0rd.nn.functional import l0_penalty

LOWEST, HIGHEST = 1e-8, 10.0
"""Between these λ stays."""
STEEPEST = 2.0
"""The largest logarithmic distance from the target that counts: what is measured may be zero."""
FLOOR = 1e-3
"""Added to what is measured, relative to the target, so that its logarithm is finite."""


class SparsityWeight(nn.Module):
    r"""λ, and how it follows what is measured: :math:`\log λ ← \log λ + η \log(\text{measured} / \text{target})`.

    Args:
        weight: λ at the beginning.
        speed: η, how fast λ follows.
        highest: the largest λ.
        device, dtype: of λ. It has at least 32 bits and keeps its type when the module is cast, as it moves by factors
            near 1, which have no room in fewer.

    Attributes:
        weight: λ, a buffer: ``state_dict`` keeps it, so that training resumes where it stopped.
    """

    weight: Tensor

    def __init__(
        self,
        weight: float,
        *,
        speed: float,
        highest: float = HIGHEST,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not LOWEST <= weight <= highest:
            raise ValueError(f"weight is {weight}; expected {LOWEST:g} to {highest:g}")
        if not 0 < speed <= 1:
            raise ValueError(f"speed is {speed}; expected a number above 0, at most 1")
        self.speed, self.highest = speed, highest
        wide = torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)
        self.register_buffer("weight", torch.tensor(weight, device=device, dtype=wide))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SparsityWeight:
        """What ``.to()`` and its like call: λ goes to another device, but to no other type."""
        before = self.weight
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.weight.dtype != before.dtype:
            self.weight = before.to(self.weight.device)
        return self

    @torch.no_grad()
    def adjust(self, ratio: Tensor | float) -> None:
        """Raise λ if more was measured than the target says (``ratio`` above 1), else lower it; leave it as it is where
        nothing was measured (``ratio`` is not finite).
        """
        ratio = torch.as_tensor(ratio, dtype=self.weight.dtype, device=self.weight.device)
        distance = torch.log(ratio + FLOOR).clamp(-STEEPEST, STEEPEST)
        factor = torch.where(ratio.isfinite(), torch.exp(self.speed * distance), 1)
        self.weight.mul_(factor).clamp_(LOWEST, self.highest)

    def extra_repr(self) -> str:
        return f"speed={self.speed}, highest={self.highest}"


class GateRate(SparsityWeight):
    r"""A price on open gates that finds its own λ, so that a given share of the gates is open.

    .. math::
        \log λ ← \log λ + η \log(ρ / \text{target}),\quad \text{loss} = λρ,\quad ρ = \text{mean}\, Θ(Λ(s))

    In place of ``λ * l0_penalty(gates)``: λ rises while a larger share ρ of the gates is open than the target says, and
    falls while a smaller one is. The target is a budget: a task that needs fewer open gates may stay below it.

    Args:
        target: share of (time, sequence, dimension) with an open gate that should be reached, above 0 and below 1.
        weight: λ at the beginning.
        speed: η, how fast λ follows at every call.
        highest: the largest λ; raise it if your loss is a sum.
        device, dtype: of λ. It has at least 32 bits and keeps its type when the module is cast.

    Inputs: gates
        - **gates**: Λ(s_t) as the layer returns them with ``return_gates=True``, of any shape (``gates.data`` of a
          ``PackedSequence``). In ``eval()`` mode λ stays as it is, and where there are no gates or one is no number.

    Outputs: the price, a scalar to add to the loss, of the type of the gates.

    Example:
        >>> import torch
        >>> from gatel0rd import GateL0RD, GateRate
        >>> rnn, sparsity = GateL0RD(10, 20), GateRate(0.05, weight=0.001)
        >>> output, _, gates = rnn(torch.randn(5, 3, 10), return_gates=True)
        >>> loss = output.square().mean() + sparsity(gates)
        >>> bool(sparsity.weight > 0.001)  # about half of the gates of a new layer are open
        True
    """

    def __init__(
        self,
        target: float,
        *,
        weight: float = 0.001,
        speed: float = 0.01,
        highest: float = HIGHEST,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not 0 < target < 1:
            raise ValueError(f"target is {target}; expected a share of open gates, above 0 and below 1")
        super().__init__(weight, speed=speed, highest=highest, device=device, dtype=dtype)
        self.target = target

    def forward(self, gates: Tensor) -> Tensor:
        penalty = l0_penalty(gates)
        if self.training:
            self.adjust(penalty.detach().to(self.weight.dtype) / self.target)
        # a copy of λ: the next call changes it, perhaps before backward()
        return (self.weight.clone() * penalty).to(penalty.dtype)

    def extra_repr(self) -> str:
        return f"{self.target}, {super().extra_repr()}"
