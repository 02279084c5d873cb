"""Gate biases that remember from the first update on."""

from __future__ import annotations

import pytest
import torch

from gatel0rd.nn.cells import build_cell
from gatel0rd.nn.chrono import chrono_init
from gatel0rd.nn.config import CellConfig

LONGEST, H = 40, 9


def make(name, layers=1):
    cell = build_cell(CellConfig(name=name, hidden_size=H, num_layers=layers), 3, 5)
    chrono_init(cell, LONGEST, torch.Generator().manual_seed(1))
    return cell.cells


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_the_holding_gate_spreads_over_all_time_scales(name):
    for cell in make(name, layers=2):
        holding = (cell.bias_ih + cell.bias_hh)[H : 2 * H].detach()
        scales = 1 + holding.exp()  # 1 / (1 - sigmoid(b)), steps for which a unit remembers
        assert (scales >= 2).all() and (scales <= LONGEST).all() and scales.max() > 2 * scales.min()
        if name == "lstm":
            assert torch.equal((cell.bias_ih + cell.bias_hh)[:H], -holding)


@pytest.mark.parametrize("name", ["gatel0rd", "elman", "clockwork"])
def test_other_cells_have_no_such_gate(name):
    with pytest.raises(ValueError, match="expected GRU or LSTM cells with biases"):
        make(name)


def test_too_few_steps_are_an_error():
    with pytest.raises(ValueError, match="longest is 2; expected at least 3 steps"):
        chrono_init(build_cell(CellConfig(name="gru", hidden_size=2), 3, 5), 2)
