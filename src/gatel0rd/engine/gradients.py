"""A program's forward and backward pass without autograd, whose gradients go where an optimizer expects them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gatel0rd.engine import native
from gatel0rd.engine.compiled import NOTHING, Compiled, Results, _run_arguments, flats, view_of


class GradientRun:
    """Runs a program and its backward pass many times, while the parameters stay where they are.

    Args:
        compiled: the program.
        root: the module whose parameters it uses.
        gradient: where the gradients are written, those of the parameters in the program's order laid end to end.
    """

    def __init__(self, compiled: Compiled, root: nn.Module, gradient: Tensor) -> None:
        if gradient.numel() != compiled.native.parameter_total or not gradient.is_contiguous():
            raise ValueError(
                f"the gradient has {gradient.numel()} elements; the parameters have {compiled.native.parameter_total}"
            )
        self.compiled, self.gradient = compiled, gradient
        self._kept = compiled.parameters(root), compiled.masks(root)  # their addresses are used below
        self._parameters, self._masks = flats(self._kept[0]), flats(self._kept[1])
        self._inputs: tuple[Sequence[Tensor], Sequence[Tensor]] = (), ()
        self._tape: Any = None

    def forward(self, sequences: Sequence[Tensor], initials: Sequence[Tensor]) -> Results:
        """Outputs and final values; what a backward pass needs is kept until the next call."""
        self.compiled.check(sequences, initials)
        for tensor in (*sequences, *initials):
            if tensor.dtype != self.gradient.dtype:
                raise ValueError(f"a tensor is of type {tensor.dtype}; the parameters are {self.gradient.dtype}")
        self._inputs, self._tape = (sequences, initials), native.module().Tape()
        results = self.compiled.forward(sequences, initials, self._parameters, self._masks, self._tape)
        count = len(self.compiled.program.outputs)
        return Results(results[:count], results[count:])

    def backward(self, output_gradients: Sequence[Tensor | None], wanted: Sequence[bool]) -> list[Tensor | None]:
        """Write the parameters' gradients; returns those of the sequences that are wanted, None for the others.

        Final values have no gradients.
        """
        if self._tape is None:
            raise ValueError("there was no forward pass; call forward before backward")
        sequences, initials = self._inputs
        found = [torch.zeros_like(sequence) if need else None for sequence, need in zip(sequences, wanted, strict=True)]
        self.compiled.native.backward(
            *_run_arguments(sequences, initials),
            self._parameters,
            self._masks,
            [NOTHING if gradient is None else view_of(gradient) for gradient in output_gradients],
            [NOTHING] * len(self.compiled.program.finals),
            [NOTHING] * len(initials),
            [NOTHING if gradient is None else view_of(gradient) for gradient in found],
            *flats([self.gradient]),
            self._tape,
        )
        return found
