"""Outputs and states of the layer may be changed in place, as what nn.GRU returns."""

from __future__ import annotations

import pytest
import torch
from shapes import INPUT, B, H, T
from torch import nn
from torch.nn import functional as F

from gatel0rd import GateL0RD, GateL0RDCell

SIZES = [H, 64]
"""A layer that runs as a program, and one that runs as large products."""
HEADS = {"gated": {}, "no output gate": {"output_gate": False}, "headless": {"headless": True}}


class Changed(nn.Module):
    """A layer whose outputs and states are changed, in place or not."""

    def __init__(self, rnn, in_place):
        super().__init__()
        self.rnn, self.in_place = rnn, in_place

    def forward(self, x):
        outputs, h_n = self.rnn(x)
        if self.in_place:
            outputs *= 2
            outputs[0] = 0
            return F.relu(outputs, inplace=True), h_n.mul_(3)
        kept = torch.ones_like(outputs)
        kept[0] = 0
        return F.relu(2 * outputs * kept), 3 * h_n


def models(make):
    rnn = make()
    torch.manual_seed(0)
    rnn.reset_parameters()
    return [Changed(rnn, in_place).eval() for in_place in (True, False)]


def assert_same(ours, theirs, x):
    """Results and gradients of a module, and of another one with the same parameters."""
    found = []
    for module in (ours, theirs):
        results = module(x)
        found.append([*results, *torch.autograd.grad(sum(r.square().sum() for r in results), [*module.parameters()])])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("hidden", SIZES)
@pytest.mark.parametrize("layers", [1, 2])
def test_results_may_be_changed(engine, head, hidden, layers):
    changed, kept = models(lambda: GateL0RD(INPUT, hidden, num_layers=layers, engine=engine, **HEADS[head]))
    assert_same(changed, kept, torch.randn(T, B, INPUT))


@pytest.mark.parametrize("recorder", ["compile", "export"])
@pytest.mark.parametrize("head", ["gated", "no output gate"])
@pytest.mark.parametrize("hidden", SIZES)
def test_results_may_be_changed_in_a_graph(recorder, head, hidden):
    changed, kept = models(lambda: GateL0RD(INPUT, hidden, **HEADS[head]))
    x = torch.randn(T, B, INPUT)
    if recorder == "compile":
        graph = torch.compile(changed, fullgraph=True, backend="aot_eager")
    else:
        graph = torch.export.export(changed, (x,)).module()
    assert_same(graph, kept, x)


def test_dropout_in_place():
    rnn, x = GateL0RD(INPUT, 64, noise_std=0), torch.randn(T, B, INPUT)
    found = []
    for in_place in (False, True):
        torch.manual_seed(1)
        found.append(torch.autograd.grad(F.dropout(rnn(x)[0], 0.5, inplace=in_place).sum(), [*rnn.parameters()]))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("head", HEADS)
def test_results_of_a_cell_may_be_changed(head):
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.core = GateL0RDCell(INPUT, H, **HEADS[head])

        def forward(self, x):
            return self.core(x)

        def reset_parameters(self):
            self.core.cell.reset_parameters()

    changed, kept = models(Cell)
    assert_same(changed, kept, torch.randn(B, INPUT))
