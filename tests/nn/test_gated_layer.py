"""Large layers, computed as project, recur, read out, equal the loop over time."""

from __future__ import annotations

import pytest
import torch

from gatel0rd import GateL0RD
from gatel0rd.nn import gated_layer
from gatel0rd.nn.cells import GateL0RDCore, Stack
from gatel0rd.nn.unroll import unroll

SHAPES = [(7, 5, 3, 2, 4), (1, 1, 5, 17, 33), (9, 31, 20, 40, 24), (3, 130, 33, 64, 65)]  # T, B, I, H, O
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}


@pytest.fixture(autouse=True)
def layers_of_any_size(monkeypatch):
    monkeypatch.setattr(gated_layer, "SMALLEST", 1)


def make_inputs(shape, dtype, masks):
    steps, batch, inputs, hidden, _ = shape
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(size, dtype=dtype, generator=generator)

    resets = torch.rand(steps, batch, generator=generator) < 0.3 if masks else None
    active = torch.rand(steps, batch, generator=generator) < 0.7 if masks else None
    x, first, noise = draw(steps, batch, inputs), draw(batch, hidden), 0.1 * draw(steps, batch, hidden)
    return x.requires_grad_(), first.requires_grad_(), noise.requires_grad_(), resets, active


def results(cell, given, engine):
    x, first, noise, resets, active = given
    run = unroll(cell, x, (first,), noise=noise, resets=resets, active=active, engine=engine)
    found = [run.outputs, run.latents, run.gates, *run.state]
    generator = torch.Generator().manual_seed(1)
    total = sum((tensor * torch.randn(tensor.shape, dtype=x.dtype, generator=generator)).sum() for tensor in found)
    return [*found, *torch.autograd.grad(total, [x, first, noise, *cell.parameters()])]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("gate", "output_gate", "bias"), [("retanh", True, True), ("sigmoid", False, False)])
@pytest.mark.parametrize("masks", [False, True])
def test_results_and_gradients_equal_the_loop(shape, dtype, gate, output_gate, bias, masks):
    _, _, inputs, hidden, outputs = shape
    torch.manual_seed(0)
    cell = GateL0RDCore(inputs, hidden, outputs, gate=gate, output_gate=output_gate, bias=bias, dtype=dtype)
    given = make_inputs(shape, dtype, masks)
    for ours, loop in zip(results(cell, given, "native"), results(cell, given, "torch"), strict=True):
        scale = 1 + loop.abs().max()
        torch.testing.assert_close(ours / scale, loop / scale, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.usefixtures("instruction_set")
def test_any_number_of_threads_and_any_batch_gives_the_same_bits():
    torch.manual_seed(0)
    cell = GateL0RDCore(20, 70, 33)
    given = make_inputs((6, 67, 20, 70, 33), torch.float32, masks=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results(cell, given, "native")
        for threads in (2, 3, 2, 2, 2):
            torch.set_num_threads(threads)
            assert all(torch.equal(a, b) for a, b in zip(alone, results(cell, given, "native"), strict=True))
    finally:
        torch.set_num_threads(before)
    x, first, noise, resets, active = given
    part = unroll(cell, x[:, 5:9], (first[5:9],), noise=noise[:, 5:9], resets=resets[:, 5:9], active=active[:, 5:9])
    assert torch.equal(part.outputs, alone[0][:, 5:9]) and torch.equal(part.latents, alone[1][:, 5:9])


def test_closed_gates_keep_the_state_to_the_bit():
    cell = GateL0RDCore(3, 64)
    with torch.no_grad():
        cell.gate_net[0].bias.fill_(-50.0)
    first = torch.randn(5, 64)
    run = unroll(cell, torch.randn(7, 5, 3), (first,), engine="native")
    assert (run.gates == 0).all() and torch.equal(run.latents, first.expand(7, 5, 64))


def test_stacked_layers_equal_the_loop_and_take_dropout():
    torch.manual_seed(0)
    x = torch.randn(6, 5, 3)
    stack = Stack([GateL0RDCore(3, 64, 32), GateL0RDCore(32, 70, 32)])
    ours, loop = (unroll(stack, x, engine=engine) for engine in ("native", "torch"))
    assert torch.equal(ours.state[1], ours.latents[-1, :, 64:])
    for a, b in zip((*ours[:3], *ours.state), (*loop[:3], *loop.state), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6)
    layer = GateL0RD(3, 64, num_layers=2, dropout=1.0, engine="native")
    silent = GateL0RD(3, 64, num_layers=2, dropout=1.0, engine="torch")
    silent.load_state_dict(layer.state_dict())
    torch.manual_seed(1)
    dropped = layer(x)[0]
    torch.manual_seed(1)
    torch.testing.assert_close(dropped, silent(x)[0], rtol=1e-4, atol=2e-6)  # all of the first layer is dropped


def test_second_derivatives_are_an_error_that_says_so():
    cell = GateL0RDCore(3, 64)
    x = torch.randn(4, 2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="engine='torch'"):
        torch.autograd.grad(unroll(cell, x, engine="native").outputs.sum(), x, create_graph=True)


def test_changed_in_place_between_forward_and_backward_is_an_error():
    cell = GateL0RDCore(3, 64)
    run = unroll(cell, torch.randn(4, 2, 3), engine="native")
    with torch.no_grad():
        cell.output_net.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run.outputs.sum().backward()
