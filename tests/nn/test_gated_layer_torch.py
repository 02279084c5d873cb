"""Project, recur, read out in PyTorch equals the cell called at every step."""

from __future__ import annotations

import pytest
import torch
from shapes import INPUT, OUTPUT, B, H, T

from gatel0rd import GateL0RD
from gatel0rd.nn import unroll as unroll_module
from gatel0rd.nn.cells import GateL0RDCore, Stack
from gatel0rd.nn.unroll import unroll, unroll_steps

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def make_inputs(cell, dtype, masks, steps=T, batch=B):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(steps, batch, cell.input_size, dtype=dtype, generator=generator).requires_grad_()
    start = [torch.randn(batch, size, dtype=dtype, generator=generator).requires_grad_() for size in cell.state_sizes]
    noise = cell.sample_noise(steps, batch, x, generator).requires_grad_()
    resets = torch.rand(steps, batch, generator=generator) < 0.3 if masks else None
    active = torch.rand(steps, batch, generator=generator) < 0.7 if masks else None
    return x, tuple(start), noise, resets, active


def differentiate(run, wanted):
    tensors = [run.outputs, run.latents, run.gates, *run.state]
    generator = torch.Generator().manual_seed(1)
    total = sum(
        (tensor * torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)).sum() for tensor in tensors
    )
    return [*tensors, *torch.autograd.grad(total, wanted)]


def assert_equal_to_stepping(cell, dtype, masks, **sizes):
    x, start, noise, resets, active = make_inputs(cell, dtype, masks, **sizes)
    wanted = [x, *start, noise, *cell.parameters()]
    ours = unroll(cell, x, start, noise=noise, resets=resets, active=active, engine="torch")
    theirs = unroll_steps(cell, x, start, noise, resets, active)
    for a, b in zip(differentiate(ours, wanted), differentiate(theirs, wanted), strict=True):
        scale = 1 + b.abs().max()
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=TOLERANCE[dtype])


@pytest.fixture
def no_stepping(monkeypatch):
    """The path under test, or an error."""
    monkeypatch.setattr(unroll_module, "unroll_steps", None)


@pytest.mark.usefixtures("no_stepping")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("gate", ["retanh", "sigmoid", "heaviside"])
@pytest.mark.parametrize(
    ("net_layers", "output_gate", "bias"), [(1, True, True), (1, False, False), (2, True, True), (3, False, True)]
)
def test_results_and_gradients_equal_the_steps(dtype, masks, gate, net_layers, output_gate, bias):
    torch.manual_seed(0)
    options = {"gate": gate, "net_layers": net_layers, "output_gate": output_gate, "bias": bias, "dtype": dtype}
    assert_equal_to_stepping(GateL0RDCore(INPUT, H, OUTPUT, **options), dtype, masks)


@pytest.mark.usefixtures("no_stepping")
@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (1, 6), (9, 1), (3, 0)])
def test_odd_shapes_and_stacks(steps, batch):
    torch.manual_seed(0)
    stack = Stack([GateL0RDCore(INPUT, H, OUTPUT), GateL0RDCore(OUTPUT, 6, 1)])
    assert_equal_to_stepping(stack, torch.float32, True, steps=steps, batch=batch) if batch else unroll(
        stack, torch.zeros(steps, 0, INPUT), engine="torch"
    )


@pytest.mark.usefixtures("no_stepping")
def test_closed_gates_keep_the_state_to_the_bit():
    cell = GateL0RDCore(INPUT, H)
    with torch.no_grad():
        cell.gate_net[0].bias.fill_(-50.0)
    first = torch.randn(B, H)
    run = unroll(cell, torch.randn(T, B, INPUT), (first,), engine="torch")
    assert (run.gates == 0).all() and torch.equal(run.latents, first.expand(T, B, H))


@pytest.mark.usefixtures("no_stepping")
def test_what_is_cleared_or_held_may_be_anything():
    cell, x = GateL0RDCore(INPUT, H), torch.randn(T, B, INPUT)
    resets, active = torch.zeros(T, B, dtype=torch.bool), torch.ones(T, B, dtype=torch.bool)
    resets[3, 1], active[2, 1] = True, False
    x[2, 1] = torch.nan
    run = unroll(cell, x, resets=resets, active=active, engine="torch")
    assert run.latents.isfinite().all() and run.outputs[2, 1].isnan().all()


@pytest.mark.usefixtures("no_stepping")
def test_second_derivatives():
    cell = GateL0RDCore(INPUT, H, dtype=torch.float64)
    with torch.no_grad():
        cell.gate_net[0].bias += 2  # away from the kink
    x = torch.randn(3, 2, INPUT, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: unroll(cell, x, engine="torch").outputs, (x,))


@pytest.mark.usefixtures("no_stepping")
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # PyTorch's own, in forward mode
def test_transforms_of_torch_func():
    rnn = GateL0RD(INPUT, H, dtype=torch.float64).eval()
    parameters = dict(rnn.named_parameters())
    x, v = torch.randn(2, 4, T, B, INPUT, dtype=torch.float64)

    def run(parameters, x):
        return torch.func.functional_call(rnn, parameters, (x,))[0]

    mapped = torch.func.vmap(run, (None, 0))(parameters, x)
    torch.testing.assert_close(mapped[3], rnn(x[3])[0])
    gradients = torch.func.vmap(torch.func.grad(lambda p, x: run(p, x).sum()), (None, 0))(parameters, x)
    rnn(x[2])[0].sum().backward()
    for name, parameter in rnn.named_parameters():
        torch.testing.assert_close(gradients[name][2], parameter.grad)
    _, tangent = torch.func.jvp(lambda x: run(parameters, x), (x[0],), (v[0],))
    epsilon = 1e-7
    torch.testing.assert_close(tangent, (rnn(x[0] + epsilon * v[0])[0] - rnn(x[0])[0]) / epsilon, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gate", ["retanh", "heaviside"])
@pytest.mark.parametrize("hidden", [H, 64])
@pytest.mark.parametrize(
    ("scalar_gate", "headless", "net_layers"), [(True, False, 1), (False, True, 1), (True, True, 2)]
)
def test_scalar_gates_and_cells_without_output(scalar_gate, headless, net_layers, hidden, gate, dtype):
    """On every path; a scalar gate moves all dimensions or none."""
    torch.manual_seed(0)
    options = {"scalar_gate": scalar_gate, "headless": headless, "net_layers": net_layers, "gate": gate}
    cell = GateL0RDCore(INPUT, hidden, dtype=dtype, **options)
    assert_equal_to_stepping(cell, dtype, True)
    x, start, noise, resets, active = make_inputs(cell, dtype, True)
    wanted = [x, *start, noise, *cell.parameters()]
    native = unroll(cell, x, start, noise=noise, resets=resets, active=active, engine="native")
    assert native.gates.shape[-1] == (1 if scalar_gate else hidden)
    assert active.any() and headless == torch.equal(native.outputs[active], native.latents[active])
    theirs = unroll_steps(cell, x, start, noise, resets, active)
    for a, b in zip(differentiate(native, wanted), differentiate(theirs, wanted), strict=True):
        scale = 1 + b.abs().max()
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=TOLERANCE[dtype])


def test_layers_take_scalar_gates_and_no_output():
    rnn = GateL0RD(INPUT, H, num_layers=3, scalar_gate=True, headless=True)
    outputs, h_n, gates = rnn(torch.randn(T, B, INPUT), return_gates=True)
    assert outputs.shape == (T, B, H) and gates.shape == (T, B, 3)
    assert torch.equal(outputs[-1], h_n[-1])
    with pytest.raises(ValueError, match="output_size is 4; without networks for it, the output is the state, 2"):
        GateL0RDCore(INPUT, H, OUTPUT, headless=True)
