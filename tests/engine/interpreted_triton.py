"""The GPU kernels in Triton's interpreter, on CPU tensors: arithmetic and gradients. test_triton.py runs this file in a
process of its own, as the interpreter has to be chosen before Triton is imported.
"""

from __future__ import annotations

import pytest
import torch
from torch.library import opcheck

from gatel0rd.engine.triton.recurrence import recur
from gatel0rd.nn import gated_layer, gated_layer_gpu
from gatel0rd.nn.cells import GateL0RDCore
from gatel0rd.nn.gated_layer import read_networks
from gatel0rd.nn.gated_layer_gpu import KernelCase, KernelWarning, is_trusted, recur_by_kernels, run_layer_by_kernels
from gatel0rd.nn.gated_layer_torch import recur_in_torch, run_layer_in_torch
from gatel0rd.nn.unroll import unroll

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10, torch.bfloat16: 0.03, torch.float16: 0.005}
SHAPES = [(7, 5, 3), (1, 1, 17), (2, 33, 16), (2, 3, 70)]  # T, B, H; 70 in tiles


def make(shape, dtype=torch.float64, masks=True):
    steps, batch, hidden = shape
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    given, first = draw(steps, batch, 2 * hidden), draw(batch, hidden)
    weight = (draw(2 * hidden, hidden).detach() / hidden**0.5).requires_grad_()
    resets, active = (torch.rand(steps, batch, generator=generator) < share for share in (0.3, 0.7))
    return given, weight, first, *((resets, active) if masks else (None, None))


def differentiate(run, inputs, gate):
    results = run(*inputs, gate)
    generator = torch.Generator().manual_seed(1)
    total = sum((one * torch.randn(one.shape, generator=generator).to(one.dtype)).sum() for one in results)
    return [*results, *torch.autograd.grad(total, inputs[:3])]


def assert_near(ours, theirs, tolerance):
    for a, b in zip(ours, theirs, strict=True):
        scale = 1 + b.abs().max()
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("gate", ["retanh", "sigmoid", "heaviside"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_and_gradients_equal_pytorchs(shape, gate, masks, dtype):
    inputs = make(shape, dtype, masks)
    ours, theirs = (differentiate(run, inputs, gate) for run in (recur_by_kernels, recur_in_torch))
    assert_near(ours, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(7, 5, 3), (2, 3, 70)], ids=str)
def test_small_types_keep_their_states_in_float32(shape, dtype):
    """The interpreter has no products of bfloat16, so its weights are float32 here."""
    inputs = make(shape, dtype)
    given, weight, first, resets, active = inputs
    weight = weight.float().detach().requires_grad_() if dtype == torch.bfloat16 else weight
    states, fresh, gates, _ = recur(given, first, weight, resets, active, None, 0.0, "retanh", "ieee")
    assert states.dtype == fresh.dtype == gates.dtype == torch.float32
    exact = recur_in_torch(*(tensor.double() for tensor in inputs[:3]), resets, active, "retanh")
    assert_near([states.double(), fresh.double(), gates.double()], exact, TOLERANCE[dtype])
    gradients = torch.autograd.grad(states.sum(), [given, first, weight])
    assert [gradient.dtype for gradient in gradients] == [dtype, dtype, weight.dtype]


@pytest.mark.parametrize(("hidden", "gate"), [(2, "retanh"), (2, "sigmoid"), (65, "retanh")])
def test_gradcheck(hidden, gate):
    """Of weighted sums of the results, and of a direction for each input where they are large: each costs a call."""
    given, weight, first, resets, active = make((3, 2, hidden))
    with torch.no_grad():
        given += 1  # away from the kink
    directions = [torch.randn_like(tensor) if hidden > 2 else None for tensor in (given, weight, first)]
    inputs = [
        tensor if direction is None else torch.zeros(1, dtype=torch.float64, requires_grad=True)
        for tensor, direction in zip((given, weight, first), directions, strict=True)
    ]

    def run(*moved):
        three = [
            one if direction is None else tensor.detach() + one * direction
            for one, tensor, direction in zip(moved, (given, weight, first), directions, strict=True)
        ]
        results = recur_by_kernels(*three, resets, active, gate)
        return tuple((one * torch.linspace(-1, 1, one.numel()).view_as(one)).sum() for one in results)

    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("hidden", [5, 70])
def test_closed_gates_keep_the_state_to_the_bit(hidden):
    given, weight, first, *_ = make((4, 5, hidden), torch.float32, masks=False)
    with torch.no_grad():
        given[..., :hidden] = -30
    states, _, gates = recur_by_kernels(given, weight, first, None, None, "retanh")
    assert (gates == 0).all() and torch.equal(states, first.expand_as(states))


@pytest.mark.parametrize("hidden", [5, 70])
def test_what_is_cleared_or_held_may_be_anything(hidden):
    given, weight, first, *_ = make((4, 5, hidden), torch.float32, masks=False)
    resets, active = torch.zeros(4, 5, dtype=torch.bool), torch.ones(4, 5, dtype=torch.bool)
    resets[0, 2], active[1, 3] = True, False
    with torch.no_grad():
        first[2], given[1, 3] = torch.nan, torch.nan
    states, fresh, gates = recur_by_kernels(given, weight, first, resets, active, "retanh")
    assert states.isfinite().all() and fresh[1, 3].isnan().all() and gates[1, 3].isnan().all()


@pytest.mark.parametrize("hidden", [6, 66])
def test_whole_layers_equal_both_other_paths(hidden, monkeypatch):
    """Noise, resets, lengths and readout: the kernels, PyTorch and the CPU engine."""
    monkeypatch.setattr(gated_layer, "SMALLEST", 1)
    cell = GateL0RDCore(3, hidden, 4, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    noise = cell.sample_noise(7, 5, x, generator)
    resets, active = (torch.rand(7, 5, generator=generator) < share for share in (0.3, 0.7))
    first = torch.zeros(5, hidden, dtype=torch.float64)
    networks, masks = read_networks(cell), {"noise": noise, "resets": resets, "active": active}
    found = []
    for run in (
        run_layer_by_kernels(networks, "retanh", x, first, **masks),
        run_layer_in_torch(networks, "retanh", x, first, **masks),
        unroll(cell, x, (first,), engine="native", **masks)[:3],
    ):
        gradients = torch.autograd.grad(sum(one.square().sum() for one in run), [x, *cell.parameters()])
        found.append([*run, *gradients])
    assert_near(found[0], found[1], 1e-10)
    assert_near(found[0], found[2], 1e-10)


def test_pytorch_accepts_the_operator():
    given, weight, first, resets, active = make((3, 4, 3))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    opcheck(recur, (given, first, weight, resets, active, None, 0.0, "retanh", "ieee"), test_utils=checks)


def test_a_kernel_is_compared_before_it_is_trusted(monkeypatch):
    case = KernelCase(torch.device("cpu"), 6, torch.float32, "retanh", True, True)
    gated_layer_gpu._trusted.clear()
    assert is_trusted(case)

    def wrong(*inputs, seed, noise_std, recompute, **masks):
        found = run_layer_in_torch(*inputs, **masks)
        return found._replace(states=found.states + 0.01)

    monkeypatch.setattr(gated_layer_gpu, "run_layer_by_kernels", wrong)
    gated_layer_gpu._trusted.clear()
    with pytest.warns(
        KernelWarning, match=r"differs from PyTorch by .*hidden size 6, torch\.float32, gate retanh, resets"
    ):
        assert not is_trusted(case)
    assert not is_trusted(case)  # and says so once

    def broken(*inputs, **options):
        raise RuntimeError("out of resource: shared memory")

    monkeypatch.setattr(gated_layer_gpu, "run_layer_by_kernels", broken)
    gated_layer_gpu._trusted.clear()
    with pytest.warns(KernelWarning, match=r"a kernel fails \(hidden size 6.*out of resource"):
        assert not is_trusted(case)
