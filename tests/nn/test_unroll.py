"""The loop over time in PyTorch; tests/engine compares the compiled engine with it."""

from __future__ import annotations

import pytest
import torch
from shapes import INPUT, B, T

from gatel0rd.nn.cells import build_cell
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.unroll import scan, unroll_steps

NAMES = ["gatel0rd", "elman", "gru", "lstm", "clockwork"]


def unroll(cell, x, state=None, *, noise=None, resets=None, active=None):
    start = cell.initial_state(x.shape[1], x) if state is None else state
    return unroll_steps(cell, x, start, noise, resets, active)


def make(name, generator):
    cell = build_cell(CellConfig(name=name, hidden_size=4, num_layers=2), INPUT, 6, dtype=torch.float64)
    cell.reset_parameters(generator)
    x = torch.randn(T, B, INPUT, dtype=torch.float64, generator=generator)
    return cell, x, cell.sample_noise(T, B, x, generator)


@pytest.mark.parametrize("name", NAMES)
def test_unroll_equals_stepping(name, generator):
    cell, x, noise = make(name, generator)
    result = unroll(cell, x, noise=noise)
    state = cell.initial_state(B, x)
    for t in range(T):
        output, state, gates = cell(x[t], state, None if noise is None else noise[t])
        assert torch.equal(result.outputs[t], output)
        assert torch.equal(result.latents[t], cell.latents(state))
        assert (gates is None) == (result.gates is None)
        assert gates is None or torch.equal(result.gates[t], gates)
    assert all(torch.equal(a, b) for a, b in zip(result.state, state, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_reset_equals_split(name, generator):
    """Two episodes in one trace equal two traces, outputs and gradients."""
    cell, x, noise = make(name, generator)
    cut = 3
    resets = torch.zeros(T, B, dtype=torch.bool)
    resets[cut, [0, 2, 4]] = True
    start = cell.state_from(torch.randn(B, cell.latent_size, dtype=torch.float64, generator=generator))
    joined = unroll(cell, x, start, noise=noise, resets=resets)
    first, second = (slice(None, cut), slice(cut, None))
    part = unroll(cell, x[first], start, noise=None if noise is None else noise[first])
    again = unroll(cell, x[second], noise=None if noise is None else noise[second])
    resumed = unroll(cell, x[second], part.state, noise=None if noise is None else noise[second])
    assert torch.equal(joined.outputs[first], part.outputs)
    assert torch.equal(joined.outputs[second][:, [0, 2, 4]], again.outputs[:, [0, 2, 4]])
    assert torch.equal(joined.outputs[second][:, [1, 3]], resumed.outputs[:, [1, 3]])

    weight = next(cell.parameters())
    (ours,) = torch.autograd.grad(joined.outputs[second][:, [0]].sum(), weight, retain_graph=True)
    (expected,) = torch.autograd.grad(again.outputs[:, [0]].sum(), weight)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-14)


def test_an_inactive_sequence_keeps_its_state(generator):
    cell, x, _ = make("lstm", generator)
    lengths = torch.tensor([7, 1, 4, 2, 6])
    active = torch.arange(T).unsqueeze(1) < lengths
    result = unroll(cell, x, active=active)
    for index, length in enumerate(lengths):
        alone = unroll(cell, x[:length, [index]])
        for ours, theirs in zip(result.state, alone.state, strict=True):
            torch.testing.assert_close(ours[[index]], theirs, rtol=1e-13, atol=1e-15)


def test_sequences_of_unequal_length_or_none_are_errors():
    with pytest.raises(ValueError, match=r"inputs have \[2, 3\] time steps; expected the same number"):
        scan(lambda carry, a, b: (carry, ()), 0, (torch.zeros(2), torch.zeros(3)))
    with pytest.raises(ValueError, match="0 time steps; expected at least 1"):
        scan(lambda carry, a: (carry, ()), 0, (torch.zeros(0, 1),))
