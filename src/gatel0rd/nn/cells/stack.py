"""Several cells on top of each other, again a cell."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells.base import Cell, ProgramStep, State, Step, Values

T = TypeVar("T")


class Stack(Cell):
    """Layer k+1 reads the output of layer k (after dropout, while training); states and gates are laid end to end."""

    def __init__(self, cells: Sequence[Cell], *, dropout: float = 0.0) -> None:
        super().__init__()
        if not cells:
            raise ValueError("the stack has no cells; expected at least one (num_layers)")
        self.layers = nn.ModuleList(cells)
        self.dropout = dropout
        self.input_size = cells[0].input_size
        self.output_size = cells[-1].output_size
        self.hidden_size = sum(cell.hidden_size for cell in cells)
        self.latent_size = sum(cell.latent_size for cell in cells)
        self.noise_size = sum(cell.noise_size for cell in cells)
        self.noise_std = cells[0].noise_std
        self.state_sizes = tuple(size for cell in cells for size in cell.state_sizes)

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell in self.layers if isinstance(cell, Cell)]

    def split(self, state: tuple[T, ...]) -> list[tuple[T, ...]]:
        """The states of the layers, out of the joint one."""
        lengths = [len(cell.state_sizes) for cell in self.cells]
        ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
        return [state[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def forward(self, x_t: Tensor, state: State, noise_t: Tensor | None = None) -> Step:
        cells = self.cells
        noises = [None] * len(cells) if noise_t is None else noise_t.split([c.noise_size for c in cells], dim=-1)
        next_state: State = ()
        gates: list[Tensor] = []
        for index, (cell, cell_state, noise) in enumerate(zip(cells, self.split(state), noises, strict=True)):
            if index > 0 and self.dropout > 0:
                x_t = F.dropout(x_t, self.dropout, self.training)
            step = cell(x_t, cell_state, noise)
            x_t, next_state = step.output, next_state + tuple(step.state)
            if step.gates is not None:
                gates.append(step.gates)
        return Step(x_t, next_state, torch.cat(gates, dim=-1) if gates else None)

    def program_key(self) -> Hashable:
        return (self.dropout > 0 and self.training, *(cell.program_key() for cell in self.cells))

    def program(self, build: Builder, x: Value, state: Values, noise: Value | None) -> ProgramStep | None:
        cells = self.cells
        if self.dropout > 0 and self.training:
            return None
        noises = [None] * len(cells) if noise is None else build.split(noise, [cell.noise_size for cell in cells])
        next_state: Values = ()
        gates: list[Value] = []
        for cell, cell_state, cell_noise in zip(cells, self.split(state), noises, strict=True):
            step = cell.program(build, x, cell_state, cell_noise)
            if step is None:
                return None
            x, next_state = step.output, next_state + step.state
            if step.gates is not None:
                gates.append(step.gates)
        return ProgramStep(x, next_state, build.concatenate(gates) if gates else None)

    def state_program(self, build: Builder, latents: Value) -> Values:
        parts = build.split(latents, [cell.latent_size for cell in self.cells])
        states = (cell.state_program(build, part) for cell, part in zip(self.cells, parts, strict=True))
        return tuple(value for state in states for value in state)

    def latents_program(self, build: Builder, state: Values) -> Value:
        parts = zip(self.cells, self.split(state), strict=True)
        return build.concatenate([cell.latents_program(build, part) for cell, part in parts])

    def state_from(self, latents: Tensor) -> State:
        parts = latents.split([cell.latent_size for cell in self.cells], dim=-1)
        states = (cell.state_from(part) for cell, part in zip(self.cells, parts, strict=True))
        return tuple(tensor for state in states for tensor in state)

    def latents(self, state: State) -> Tensor:
        parts = zip(self.cells, self.split(state), strict=True)
        return torch.cat([cell.latents(part) for cell, part in parts], dim=-1)

    def state_at(self, output: Tensor, latents: Tensor) -> State | None:
        if len(self.layers) == 1:
            return self.cells[0].state_at(output, latents)
        if any(len(cell.state_sizes) > 1 for cell in self.cells):
            return None
        parts: State = latents.split([cell.hidden_size for cell in self.cells], dim=-1)
        return parts

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for cell in self.cells:
            cell.reset_parameters(generator)
