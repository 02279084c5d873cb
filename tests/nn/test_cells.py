from __future__ import annotations

import numpy as np
import numpy_twins
import pytest
import torch
from shapes import INPUT, OUTPUT, B, H, T
from torch import nn

from gatel0rd.nn import cells
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.unroll import unroll

DOUBLE = torch.float64

BASELINES = {
    "elman": cells.ElmanCell,
    "gru": cells.GRUCell,
    "lstm": cells.LSTMCell,
    "clockwork": cells.ClockworkCell,
}
GATEL0RD_VARIANTS = {
    "default": {},
    "sigmoid": {"gate": "sigmoid"},
    "heaviside": {"gate": "heaviside"},
    "no output gate": {"output_gate": False},
    "two layers": {"net_layers": 2},
    "three layers": {"net_layers": 3},
}


def random_inputs(size=INPUT, *, steps=T, batch=B):
    return torch.randn(steps, batch, size, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))


def weights_of(cell):
    return {name: tensor.detach().numpy() for name, tensor in cell.named_parameters()}


def assert_equals_twin(cell, twin, x, latents):
    noise = cell.sample_noise(len(x), x.shape[1], x, torch.Generator().manual_seed(2))
    result = unroll(cell, x, cell.state_from(latents), noise=noise, engine="torch")
    state = tuple(tensor.numpy() for tensor in cell.state_from(latents))
    for t in range(len(x)):
        noise_t = 0.0 if noise is None else noise[t].numpy()
        output, state, gates = twin(weights_of(cell), x[t].numpy(), state, noise_t)
        np.testing.assert_allclose(result.outputs[t].detach().numpy(), output, rtol=1e-12, atol=1e-14)
        if gates is not None:
            np.testing.assert_allclose(result.gates[t].detach().numpy(), gates, rtol=1e-12, atol=1e-14)
    for ours, theirs in zip(result.state[:1], state[:1], strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("options", GATEL0RD_VARIANTS.values(), ids=GATEL0RD_VARIANTS)
def test_gatel0rd_equals_its_numpy_twin(options, generator):
    cell = cells.GateL0RDCore(INPUT, H, OUTPUT, dtype=DOUBLE, **options)
    cell.reset_parameters(generator)
    gate = options.get("gate", "retanh")

    def twin(weights, x, state, noise):
        return numpy_twins.gatel0rd(weights, x, state, noise, gate)

    assert_equals_twin(cell, twin, random_inputs(), torch.randn(B, H, dtype=DOUBLE, generator=generator))


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_equal_their_numpy_twins(name, generator):
    hidden = 8 if name == "clockwork" else H
    cell = BASELINES[name](INPUT, hidden, dtype=DOUBLE)
    cell.reset_parameters(generator)
    latents = torch.randn(B, cell.latent_size, dtype=DOUBLE, generator=generator)
    assert_equals_twin(cell, getattr(numpy_twins, name), random_inputs(steps=19), latents)


@pytest.mark.parametrize(
    ("ours", "torchs"), [(cells.ElmanCell, nn.RNN), (cells.GRUCell, nn.GRU), (cells.LSTMCell, nn.LSTM)]
)
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_stacked_baselines_equal_torch_with_copied_weights(ours, torchs, num_layers, generator):
    twin = torchs(INPUT, H, num_layers, dtype=DOUBLE)
    stack = cells.Stack([ours(INPUT if k == 0 else H, H, dtype=DOUBLE) for k in range(num_layers)])
    for k, cell in enumerate(stack.cells):
        cell.load_state_dict({name: getattr(twin, f"{name}_l{k}") for name in cell.state_dict()})
    x = random_inputs().requires_grad_()
    result = unroll(stack, x, engine="torch")
    expected, final = twin(x)
    torch.testing.assert_close(result.outputs, expected, rtol=1e-12, atol=1e-14)
    final = final[0] if isinstance(final, tuple) else final
    states = [state[0] for state in stack.split(result.state)]
    torch.testing.assert_close(torch.stack(states), final, rtol=1e-12, atol=1e-14)
    (ours_grad,) = torch.autograd.grad(result.outputs.square().sum(), x)
    (torchs_grad,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(ours_grad, torchs_grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("ours", "torchs"), [(cells.ElmanCell, nn.RNNCell), (cells.GRUCell, nn.GRUCell)])
def test_cell_weights_fit_torch_state_dicts_both_ways(ours, torchs):
    cell, twin = ours(INPUT, H), torchs(INPUT, H)
    cell.load_state_dict(twin.state_dict())
    twin.load_state_dict(cell.state_dict())
    x, h = torch.randn(B, INPUT), torch.randn(B, H)
    torch.testing.assert_close(cell(x, (h,)).output, twin(x, h))


@pytest.mark.parametrize("options", GATEL0RD_VARIANTS.values(), ids=GATEL0RD_VARIANTS)
def test_gatel0rd_gradients_are_right_away_from_the_kink(options, generator):
    if options.get("gate") == "heaviside":
        options = {**options, "noise_std": 0.0}
    cell = cells.GateL0RDCore(INPUT, H, OUTPUT, dtype=DOUBLE, **options)
    cell.reset_parameters(generator)
    with torch.no_grad():  # shift every gate clearly open, so that finite differences do not step over 0
        cell.gate_net[-1].bias += 2.0
    x = random_inputs(steps=3).requires_grad_()
    h = torch.randn(B, H, dtype=DOUBLE, generator=generator).requires_grad_()
    if options.get("gate") == "heaviside":  # open gates copy r, whose gradient is ordinary
        run = lambda x: unroll(cell, x, (h.detach(),), engine="torch").outputs  # noqa: E731
        with pytest.raises(RuntimeError):  # straight-through: analytic and numeric gradients must differ
            torch.autograd.gradcheck(run, (x,))
        return
    assert torch.autograd.gradcheck(lambda x, h: unroll(cell, x, (h,), engine="torch").outputs, (x, h))


@pytest.mark.parametrize("name", ["elman", "gru", "lstm", "clockwork"])
def test_baseline_gradients_are_right(name, generator):
    cell = cells.build_cell(CellConfig(name=name, hidden_size=3, num_layers=2), INPUT, OUTPUT, dtype=DOUBLE)
    cell.reset_parameters(generator)
    x = random_inputs(steps=3).requires_grad_()
    latents = torch.randn(B, cell.latent_size, dtype=DOUBLE, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, latents: unroll(cell, x, cell.state_from(latents), engine="torch").outputs, (x, latents)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_closed_gate_leaves_its_latent_bit_identical(dtype, generator):
    cell = cells.GateL0RDCore(INPUT, 16, OUTPUT, dtype=dtype)
    cell.reset_parameters(generator)
    x = torch.randn(B, INPUT, dtype=dtype, generator=generator)
    h = torch.randn(B, 16, dtype=dtype, generator=generator)
    _, (h_next,), gates = cell(x, (h,))
    closed = gates == 0
    assert closed.any() and (~closed).any()
    assert torch.equal(h_next[closed], h[closed])
    assert not torch.isclose(h_next[~closed], h[~closed], rtol=0, atol=0).any()


def test_clockwork_modules_tick_at_their_periods(generator):
    cell = cells.ClockworkCell(INPUT, 8)
    cell.reset_parameters(generator)
    latents = unroll(cell, torch.randn(17, B, INPUT, generator=generator), engine="torch").latents
    changed = (latents[1:] != latents[:-1]).any(dim=1)  # [T-1, H]
    for unit, period in enumerate([1, 1, 1, 4, 4, 4, 8, 8]):
        times = [t + 1 for t in range(16) if changed[t, unit]]
        assert times == list(range(period, 17, period))


def test_clockwork_faster_modules_never_reach_slower_ones(generator):
    cell = cells.ClockworkCell(INPUT, 8)
    h = torch.zeros(1, 8, requires_grad=True)
    output = cell(torch.randn(1, INPUT), cell.state_from(h)).output
    slow, fast = [6, 7], [0, 1, 2, 3, 4, 5]
    (gradient,) = torch.autograd.grad(output[0, slow].sum(), h)
    assert gradient[0, fast].abs().max() == 0
    assert gradient[0, slow].abs().min() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": "relu"}, "gate is 'relu'; expected one of retanh, sigmoid, heaviside"),
        ({"net_layers": 4}, "net_layers is 4; expected 1, 2 or 3"),
        ({"noise_std": -0.1}, "noise_std is -0.1"),
    ],
)
def test_impossible_options_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        cells.GateL0RDCore(INPUT, H, **options)


def test_internal_layers_have_halving_widths():
    cell = cells.GateL0RDCore(INPUT, H, net_layers=3)
    widths = [layer.out_features for layer in cell.gate_net if isinstance(layer, nn.Linear)]
    assert widths == [4 * H, 2 * H, H]
    assert isinstance(cell.gate_net[-1], nn.Linear)
    assert isinstance(cell.recommendation_net[-1], nn.Tanh)
