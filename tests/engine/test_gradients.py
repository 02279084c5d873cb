"""Gradients without autograd: those of autograd, written to one buffer."""

from __future__ import annotations

import pytest
import torch
from shapes import INPUT, B, H, T

from gatel0rd.engine import Compiled
from gatel0rd.engine.gradients import GradientRun
from gatel0rd.nn.cells.gru import GRUCell
from gatel0rd.nn.unroll import cell_program, unroll


def make(dtype=torch.float64):
    torch.manual_seed(0)
    cell = GRUCell(INPUT, H, dtype=dtype)
    compiled = Compiled(cell_program(cell, False, False, False))
    gradient = torch.full((compiled.native.parameter_total,), 9.0, dtype=dtype)
    return cell, gradient, GradientRun(compiled, cell, gradient)


@pytest.mark.usefixtures("instruction_set")
def test_gradients_are_autograds():
    cell, gradient, run = make()
    x, h = torch.randn(T, B, INPUT, dtype=torch.float64, requires_grad=True), torch.randn(B, H, dtype=torch.float64)
    weights = torch.randn(T, B, H, dtype=torch.float64)
    expected = unroll(cell, x, (h,), engine="torch")
    theirs = torch.autograd.grad((expected.outputs * weights).sum(), [x, *cell.parameters()])
    with torch.no_grad():
        outputs, finals = run.forward([x], [h])
        (d_x,) = run.backward([weights, None], [True])
    torch.testing.assert_close(outputs[0], expected.outputs)
    torch.testing.assert_close(finals[0], expected.state[0])
    torch.testing.assert_close(d_x, theirs[0])
    names = [name for name, _ in cell.named_parameters()]
    order = [names.index(name) for name in run.compiled.program.parameters]
    torch.testing.assert_close(gradient, torch.cat([theirs[1 + k].flatten() for k in order]))


def test_what_does_not_fit_is_an_error():
    cell, gradient, run = make()
    with pytest.raises(ValueError, match=r"the gradient has \d+ elements; the parameters have \d+"):
        GradientRun(run.compiled, cell, gradient[1:])
    with pytest.raises(ValueError, match=r"of type torch.float32; the parameters are torch.float64"):
        run.forward([torch.zeros(T, B, INPUT)], [torch.zeros(B, H)])
    with pytest.raises(ValueError, match=r"expected \(7, 5, 3\)"):
        run.forward([torch.zeros(T, B, H, dtype=torch.float64)], [torch.zeros(B, H, dtype=torch.float64)])
    with pytest.raises(ValueError, match="no forward pass"):
        make()[2].backward([None, None], [False])
