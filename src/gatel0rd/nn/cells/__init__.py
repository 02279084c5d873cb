"""One step of each recurrent cell, behind one contract (:class:`Cell`)."""

from __future__ import annotations

import torch

from gatel0rd.nn.cells.base import Cell, State, Step
from gatel0rd.nn.cells.clockwork import ClockworkCell, ClockworkState
from gatel0rd.nn.cells.elman import ElmanCell
from gatel0rd.nn.cells.feed_forward import FeedForwardCell
from gatel0rd.nn.cells.gatel0rd import GateL0RDCore
from gatel0rd.nn.cells.gru import GRUCell
from gatel0rd.nn.cells.lstm import LSTMCell, LSTMState
from gatel0rd.nn.cells.stack import Stack
from gatel0rd.nn.config import CellConfig

__all__ = [
    "Cell",
    "ClockworkCell",
    "ClockworkState",
    "ElmanCell",
    "FeedForwardCell",
    "GRUCell",
    "GateL0RDCore",
    "LSTMCell",
    "LSTMState",
    "Stack",
    "State",
    "Step",
    "build_cell",
]


def build_cell(
    config: CellConfig,
    input_size: int,
    output_size: int,
    *,
    memory_only: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Stack:
    """The stack of cells that a configuration names.

    GateL0RD's output has ``output_size`` features; the output of the others is their latent state. The last
    ``memory_only`` features of the input are for GateL0RD's memory alone; the others' output sees only their memory.
    """

    def layer(size: int) -> Cell:
        match config.name:
            case "gatel0rd":
                return GateL0RDCore(
                    size,
                    config.hidden_size,
                    output_size,
                    net_layers=config.net_layers,
                    gate=config.gate,
                    noise_std=config.noise_std,
                    output_gate=config.output_gate,
                    memory_only=memory_only if size == input_size and not cells else 0,
                    device=device,
                    dtype=dtype,
                )
            case "elman":
                return ElmanCell(size, config.hidden_size, device=device, dtype=dtype)
            case "gru":
                return GRUCell(size, config.hidden_size, device=device, dtype=dtype)
            case "lstm":
                return LSTMCell(size, config.hidden_size, device=device, dtype=dtype)
            case "clockwork":
                return ClockworkCell(size, config.hidden_size, device=device, dtype=dtype)
            case "none":
                return FeedForwardCell(size, config.hidden_size, device=device, dtype=dtype)
        raise ValueError(f"cell is {config.name!r}; expected gatel0rd, elman, gru, lstm, clockwork or none")

    cells: list[Cell] = []
    for _ in range(config.num_layers):
        cells.append(layer(cells[-1].output_size if cells else input_size))
    return Stack(cells)
