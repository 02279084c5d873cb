"""Gate biases that make a GRU or an LSTM remember from the first update on (Tallec and Ollivier, ICLR 2018)."""

from __future__ import annotations

import torch

from gatel0rd.nn.cells import Cell, GRUCell, LSTMCell, Stack


@torch.no_grad()
def chrono_init(cell: Cell, longest: int, generator: torch.Generator | None = None) -> None:
    """Spread the time scales of a cell's units over 1 to ``longest`` steps.

    u ~ U(1, longest - 1);  GRU: b_update = log u;  LSTM: b_forget = log u, b_input = -log u

    Args:
        cell: GRU or LSTM cells, whose gates are those of ``nn.GRU`` and ``nn.LSTM``; others are an error.
        longest: for how many steps something has to be remembered.
    """
    if longest < 3:
        raise ValueError(f"longest is {longest}; expected at least 3 steps")
    for part in cell.cells if isinstance(cell, Stack) else [cell]:
        if not isinstance(part, (GRUCell, LSTMCell)) or part.bias_ih is None or part.bias_hh is None:
            raise ValueError(f"the cell is a {type(part).__name__}; expected GRU or LSTM cells with biases")
        hidden = part.hidden_size
        spread = torch.empty(hidden).uniform_(1, longest - 1, generator=generator).log().to(part.bias_ih)
        part.bias_ih[hidden : 2 * hidden] = spread  # in both, the gate that holds is the second
        part.bias_hh[hidden : 2 * hidden] = 0
        if isinstance(part, LSTMCell):
            part.bias_ih[:hidden] = -spread
            part.bias_hh[:hidden] = 0
