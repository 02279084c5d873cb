"""Several cells on top of each other, again a cell."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatel0rd.cells.base import Cell, State, Step


class Stack(Cell):
    """Layer k+1 reads the output of layer k (after dropout, while training); states and gates are laid end to end."""

    def __init__(self, cells: Sequence[Cell], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(cells)
        self.dropout = dropout
        self.input_size = cells[0].input_size
        self.output_size = cells[-1].output_size
        self.hidden_size = sum(cell.hidden_size for cell in cells)
        self.latent_size = sum(cell.latent_size for cell in cells)
        self.noise_size = sum(cell.noise_size for cell in cells)
        self.noise_std = cells[0].noise_std
        self.state_lengths = [len(cell.initial_state(1, torch.empty(0))) for cell in cells]

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell in self.layers if isinstance(cell, Cell)]

    def split(self, state: State) -> list[State]:
        """The states of the layers, out of the joint one."""
        ends = [sum(self.state_lengths[: index + 1]) for index in range(len(self.layers))]
        return [state[end - length : end] for end, length in zip(ends, self.state_lengths, strict=True)]

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

    def state_from(self, latents: Tensor) -> State:
        parts = latents.split([cell.latent_size for cell in self.cells], dim=-1)
        states = (cell.state_from(part) for cell, part in zip(self.cells, parts, strict=True))
        return tuple(tensor for state in states for tensor in state)

    def latents(self, state: State) -> Tensor:
        parts = zip(self.cells, self.split(state), strict=True)
        return torch.cat([cell.latents(part) for cell, part in parts], dim=-1)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for cell in self.cells:
            cell.reset_parameters(generator)
