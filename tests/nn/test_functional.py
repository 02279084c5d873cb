from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gatel0rd.nn import functional as F


def test_retanh_is_zero_up_to_zero_and_tanh_above():
    s = torch.tensor([-3.0, -1e-8, 0.0, 0.5, 2.0], dtype=torch.float64)
    gates = F.retanh(s)
    assert gates[:3].tolist() == [0.0, 0.0, 0.0]  # closed gates are exactly closed
    # two libraries' tanh need not agree to the last bit
    torch.testing.assert_close(gates[3:], torch.tensor([math.tanh(0.5), math.tanh(2.0)], dtype=torch.float64))


def test_heaviside_values_are_exact_and_its_gradient_is_straight_through():
    s = torch.tensor([-2.0, 0.0, 1e-30, 3.0], requires_grad=True)
    step = F.heaviside(s)
    assert step.tolist() == [0.0, 0.0, 1.0, 1.0]
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    (step * weights).sum().backward()
    assert torch.equal(s.grad, weights)


def test_l0_gradient_through_retanh_by_hand():
    """d mean(Θ(Λ(s))) / ds = (1 - tanh²(s)) / n for open gates, exactly 0 for closed ones."""
    s = torch.tensor([-0.7, 0.0, 0.3, 1.9], dtype=torch.float64, requires_grad=True)
    F.l0_penalty(F.retanh(s)).backward()
    expected = [0.0, 0.0, (1 - math.tanh(0.3) ** 2) / 4, (1 - math.tanh(1.9) ** 2) / 4]
    torch.testing.assert_close(s.grad, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    assert s.grad[:2].tolist() == [0.0, 0.0]


def test_penalties_on_known_gates():
    gates = torch.tensor([[[0.0, 0.5], [0.0, 1.0]], [[0.25, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    assert F.l0_penalty(gates).item() == 3 / 8
    assert F.l1_penalty(gates).item() == 1.75 / 8
    assert F.l2_penalty(gates).item() == (0.25 + 1 + 0.0625) / 8
    assert F.squared_mean_penalty(gates).item() == pytest.approx((1.75 / 8) ** 2, rel=1e-15)


def test_gate_statistics_on_known_gates():
    gates = torch.zeros(7, 5, 3)
    gates[2, 1, 0] = gates[2, 1, 2] = gates[4, 1, 0] = gates[6, 3, 1] = 0.1
    assert F.open_rate(gates).item() == 4 / 105
    assert F.open_times(gates).item() == 3 / 35
    assert F.dims_used(gates).item() == 3 / 15


@pytest.mark.parametrize("device", ["mps", "cuda"])
def test_gate_statistics_take_no_more_bits_than_a_device_has(device):
    """Apple's GPUs have no float64."""
    with FakeTensorMode():
        gates = torch.empty(7, 5, 3, device=device)
        for statistic in (F.open_rate, F.open_times, F.dims_used):
            assert statistic(gates).dtype == (torch.float32 if device == "mps" else torch.float64)


def test_sampling_probability_falls_to_its_minimum():
    assert F.sampling_probability(0, decay=0.998, minimum=0.02) == 1.0
    assert F.sampling_probability(100, decay=0.998, minimum=0.02) == pytest.approx(0.998**100)
    assert F.sampling_probability(5000, decay=0.998, minimum=0.02) == 0.02


def test_any_open_penalty_counts_steps_beyond_a_free_budget():
    s = torch.full((2, 2, 3), -1.0, dtype=torch.float64)
    s[0, 0, :2] = torch.tensor([0.5, 1.0])
    s[1, 1, 2] = 2.0
    s.requires_grad_()
    gates = F.retanh(s)
    assert F.any_open_penalty(gates).item() == 0.5  # two gates that open together cost as much as one
    F.any_open_penalty(gates, free=0.25).backward()
    expected = torch.zeros_like(s)
    expected[0, 0, 1] = (1 - torch.tensor(1.0, dtype=torch.float64).tanh() ** 2) / 4
    expected[1, 1, 2] = (1 - torch.tensor(2.0, dtype=torch.float64).tanh() ** 2) / 4
    torch.testing.assert_close(s.grad, expected)
    assert F.any_open_penalty(gates, free=0.5).item() == 0
