"""A price on open gates that finds its own λ."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import gatel0rd
from gatel0rd import GateL0RD, GateRate, l0_penalty
from gatel0rd.nn.gate_rate import HIGHEST, LOWEST, SparsityWeight

T, B, H = 7, 5, 3


def gates_with(share):
    """Gates of which this share is open."""
    gates = torch.zeros(T * B * H)
    gates[: round(share * len(gates))] = 0.5
    return gates.reshape(T, B, H)


def test_it_is_the_penalty_times_a_weight_that_follows_the_share():
    sparsity = GateRate(0.2, weight=0.01, speed=0.1)
    gates = gates_with(0.4)
    loss = sparsity(gates)
    expected = 0.01 * math.exp(0.1 * math.log(0.4 / 0.2 + 1e-3))
    assert float(sparsity.weight) == pytest.approx(expected, rel=1e-6)
    assert float(loss) == pytest.approx(expected * 0.4, rel=1e-6)
    sparsity(gates_with(0.0))  # the logarithm of nothing is limited
    assert float(sparsity.weight) == pytest.approx(expected * math.exp(-0.2), rel=1e-6)


def test_its_gradient_is_that_of_the_penalty():
    sparsity = GateRate(0.2, weight=0.01)
    ours, plain = (gates_with(0.4).requires_grad_() for _ in range(2))
    sparsity(ours).backward()
    (float(sparsity.weight) * l0_penalty(plain)).backward()
    assert torch.allclose(ours.grad, plain.grad) and plain.grad.any()


def test_it_stays_as_it_is_in_eval_mode_and_within_its_limits():
    sparsity = GateRate(0.2, weight=0.01).eval()
    assert float(sparsity(gates_with(0.4))) == pytest.approx(0.004) and float(sparsity.weight) == pytest.approx(0.01)
    for weight, ratio in ((HIGHEST, 9.0), (LOWEST, 0.0)):
        held = SparsityWeight(weight, speed=1.0, dtype=torch.float64)
        held.adjust(ratio)
        assert float(held.weight) == weight
    assert float(GateRate(0.1, weight=50.0, highest=100.0).weight) == 50


@pytest.mark.parametrize("gates", [torch.full((T, B, H), math.nan), torch.zeros(T, 0, H)], ids=["no number", "empty"])
def test_a_batch_that_says_nothing_leaves_it_as_it_is(gates):
    sparsity = GateRate(0.2, weight=0.01)
    sparsity(gates_with(0.4))
    before = sparsity.weight.clone()
    assert math.isnan(sparsity(gates)) and torch.equal(sparsity.weight, before)
    sparsity.adjust(math.inf)
    assert torch.equal(sparsity.weight, before)
    sparsity(gates_with(0.4))
    assert sparsity.weight > before


def test_it_reaches_small_targets_with_gates_of_16_bits():
    sparsity = GateRate(1e-5, weight=0.01)
    sparsity(torch.ones(T, B, H, dtype=torch.float16))  # 1 / 1e-5 has no room in them
    assert sparsity.weight > 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_it_moves_whatever_the_module_is_cast_to(dtype):
    model = nn.Sequential(GateRate(0.2, weight=0.01))
    cast, plain = copy.deepcopy(model).to(dtype)[0], model[0]
    made = GateRate(0.2, weight=0.01, dtype=dtype)
    assert cast.weight.dtype == torch.float32 and made.weight.dtype == torch.promote_types(dtype, torch.float32)
    for sparsity in (cast, made):
        assert sparsity(gates_with(0.22).to(dtype)).dtype == dtype
    plain(gates_with(0.22))
    assert float(plain.weight) != pytest.approx(0.01, rel=1e-5)
    assert float(cast.weight) == pytest.approx(float(plain.weight), rel=1e-4)
    assert float(made.weight) == pytest.approx(float(plain.weight), rel=1e-4)


def test_it_is_made_without_memory_and_gets_some_later():
    sparsity = GateRate(0.2, device="meta").bfloat16().to_empty(device="cpu")
    sparsity.load_state_dict(GateRate(0.2, weight=0.25).state_dict())
    assert sparsity.weight.dtype == torch.float32 and sparsity.weight == 0.25


def test_two_losses_before_one_backward():
    sparsity = GateRate(0.2, weight=0.01)
    gates = gates_with(0.4).requires_grad_()
    (sparsity(gates) + sparsity(gates)).backward()
    assert torch.isfinite(gates.grad).all()


def test_training_resumes_from_its_state():
    first, again = GateRate(0.2), GateRate(0.2)
    for share in (0.9, 0.5, 0.3):
        first(gates_with(share))
    assert list(first.state_dict()) == ["weight"]
    again.load_state_dict(first.state_dict())
    assert torch.equal(first(gates_with(0.4)), again(gates_with(0.4))) and torch.equal(first.weight, again.weight)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": 5.0}, "target is 5.0; expected a share of open gates, above 0 and below 1"),
        ({"target": 0.1, "weight": 0.0}, "weight is 0.0; expected 1e-08 to 10"),
        ({"target": 0.1, "speed": 0.0}, "speed is 0.0; expected a number above 0, at most 1"),
    ],
)
def test_what_makes_no_sense_is_an_error(arguments, words):
    with pytest.raises(ValueError, match=words):
        GateRate(**arguments)


def test_it_is_exported():
    assert gatel0rd.GateRate is GateRate and gatel0rd.nn.GateRate is GateRate
    assert "0.05, speed=0.01" in repr(GateRate(0.05))


@pytest.mark.slow
def test_it_is_compiled_without_a_break():
    plain, compiled = GateRate(0.2), GateRate(0.2)
    call = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for share in (0.4, 0.1, 0.6):
        gates = gates_with(share).requires_grad_()
        loss = call(gates)
        loss.backward()
        assert torch.allclose(loss, plain(gates_with(share))) and gates.grad.any()
    assert torch.allclose(plain.weight, compiled.weight)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bias", "weight", "target", "speed"), [(0.5, 0.001, 0.2, 0.05), (-0.4, 0.01, 0.5, 0.1)], ids=["above", "below"]
)
def test_it_reaches_the_target(bias, weight, target, speed):
    """Show what is seen now, read from the latent state: the more gates are open the better, and the price decides."""
    torch.manual_seed(0)
    rnn, head = GateL0RD(4, 8, headless=True), nn.Linear(8, 4)
    sparsity = GateRate(target, weight=weight, speed=speed)
    with torch.no_grad():
        rnn.stack.cells[0].gate_net[-1].bias.fill_(bias)
    optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.02)
    rates = []
    for _ in range(400):
        x = torch.randn(30, 16, 4)
        latents, _, gates = rnn(x, return_gates=True)
        loss = (head(latents) - x).square().mean() + sparsity(gates)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.append(float((gates > 0).float().mean()))
    assert rates[0] > 2 * target if bias > 0 else rates[0] < target / 2
    assert sum(rates[-100:]) / 100 == pytest.approx(target, rel=1 / 3)
