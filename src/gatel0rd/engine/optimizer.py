"""The training step around a program: flat parameters, loss and gradients in one call, clipping and Adam in another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatel0rd.engine import native
from gatel0rd.engine.compiled import Compiled, flats, view_of
from gatel0rd.engine.program import Program


class FlatAdam:
    """Adam with clipping, on parameters that become views of one buffer, in one call.

    Args:
        parameters: what to train.
        gradients: whether their ``grad`` becomes a view of one buffer too, which :meth:`update` clears.
    """

    def __init__(self, parameters: Sequence[Tensor], *, gradients: bool) -> None:
        self.flat = flatten(parameters)
        self.gradient, self.mean, self.square = (torch.zeros_like(self.flat) for _ in range(3))
        self.wide = self.flat.dtype == torch.float64
        self.updates = 0
        self.views: list[tuple[Tensor, int, int]] = []  # parameters, where they are, where their gradients are
        if gradients:
            for parameter, part in zip(parameters, self.parts(self.gradient, parameters), strict=True):
                parameter.grad = part
                self.views.append((parameter, parameter.data_ptr(), part.data_ptr()))

    @staticmethod
    def parts(flat: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        """A flat buffer, cut into the shapes of the parameters."""
        pieces = flat.split([parameter.numel() for parameter in parameters])
        return [piece.view(parameter.shape) for piece, parameter in zip(pieces, parameters, strict=True)]

    def update(self, *, rate: float, betas: tuple[float, float], epsilon: float, clip: float) -> float:
        """Clip the gradient's norm and take a step of Adam; returns the norm before clipping."""
        for parameter, place, gradient_place in self.views:
            if parameter.data_ptr() != place or parameter.grad is None or parameter.grad.data_ptr() != gradient_place:
                raise RuntimeError("weights or gradients were replaced after training began; make a new optimizer")
        self.updates += 1
        norm: float = native.module().adam(
            self.wide,
            self.flat.data_ptr(),
            self.gradient.data_ptr(),
            self.mean.data_ptr(),
            self.square.data_ptr(),
            self.flat.numel(),
            rate,
            *betas,
            epsilon,
            clip,
            self.updates,
        )
        if self.views:
            self.gradient.zero_()
        return norm


class FlatTrainer(FlatAdam):
    """Trains a module by a program that computes its own loss.

    The module's parameters become views of one flat buffer, so that clipping and Adam are single operations.

    Args:
        module: whose parameters the program uses; all of them.
        program: with loss slots and no outputs that anyone reads.
        sequences: tensors [T + 1, N, ·] from which batches are taken by index, without copies.
        steps: time steps of the program.
        seed: of noise and sampling masks. The numbers do not depend on the number of threads.
    """

    def __init__(
        self, module: nn.Module, program: Program, sequences: Sequence[Tensor], *, steps: int, seed: int
    ) -> None:
        self.compiled = Compiled(program)
        self.parameters = self.compiled.parameters(module)
        owned = {id(parameter) for parameter in self.parameters}
        unused = [name for name, parameter in module.named_parameters() if id(parameter) not in owned]
        if unused:
            raise ValueError(f"the program does not use {', '.join(unused)}")
        super().__init__(self.parameters, gradients=False)
        self.masks = self.compiled.masks(module)
        self.compiled.check(sequences, [], shift=1)
        self.module, self.count = module, sequences[0].shape[1]
        self.sequences, self.steps, self.seed = list(sequences), steps, seed
        # addresses stay what they are: parameters are views of the flat buffer from now on
        self._views = [view_of(sequence) for sequence in self.sequences]
        self._parameters = flats(self.parameters)
        self._first = next(module.parameters()).data_ptr()
        self._masks = flats(self.masks)

    def losses(self, index: Tensor, *, probability: float, weights: Sequence[float], counter: int) -> list[float]:
        """Loss sums of a batch, by slot of the program; their weighted gradient is kept for :meth:`update`.

        Args:
            index: which sequences, int64.
            probability: of feeding the real input.
            weights: factor of each loss sum in the total.
            counter: number of this batch, from which its random numbers follow.
        """
        if index.dtype != torch.int64 or not index.is_contiguous():
            index = index.to(torch.int64).contiguous()
        if len(index):
            low, high = (int(edge) for edge in index.aminmax())
            if not 0 <= low <= high < self.count:
                raise IndexError(f"the batch names sequences {low} to {high} of {self.count}")
        if next(self.module.parameters()).data_ptr() != self._first:
            raise RuntimeError("the module's parameters were replaced after training began; make a new trainer")
        losses: list[float] = self.compiled.native.train(
            self.wide,
            self.steps,
            len(index),
            torch.get_num_threads(),
            *flats([index]),
            self._views,
            self._parameters,
            self._masks,
            self.seed,
            counter,
            probability,
            list(weights),
            *flats([self.gradient]),
        )
        return losses


def flatten(parameters: Sequence[Tensor]) -> Tensor:
    """One buffer with the parameters' values, of which the parameters become views."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.data = part.view(parameter.shape)
    return flat
