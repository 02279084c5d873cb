"""Options of the GPU kernels in Triton's interpreter: noise that they draw, activations that are computed once more,
and products of fewer bits. test_triton.py runs this file, as it does interpreted_triton.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine.interpreted_triton import SHAPES, TOLERANCE, assert_near, make
from torch.library import opcheck
from triton.runtime import interpreter

from gatel0rd import GateL0RD
from gatel0rd.engine import gpu
from gatel0rd.engine.layer import Affine, Networks
from gatel0rd.engine.triton.recurrence import draw_noise, project_and_recur, recompute, recur
from gatel0rd.nn import gated_layer_gpu
from gatel0rd.nn import unroll as unrolling
from gatel0rd.nn.gated_layer_gpu import Draw, KernelCase, compare_with_torch, run_layer_by_kernels, sample_seed
from gatel0rd.nn.gated_layer_torch import recur_in_torch, run_layer_in_torch

SEED = torch.tensor([2**40 + 17])
PLAIN = (None, 0.0, "retanh", "ieee")


@pytest.fixture
def matrix_units(monkeypatch):
    """Products as matrix units take them, of tf32 and bfloat16 with sums of float32: the interpreter has neither.

    What was multiplied is returned: type and precision of every operand.
    """
    plain, seen = interpreter.InterpreterBuilder.create_dot, []

    def widen(handle, precision):
        seen.append((str(handle.dtype.scalar), precision.name))
        if handle.data.dtype == np.uint16:  # bfloat16, as the interpreter keeps it
            bits = handle.data.astype(np.uint32) << 16
        elif precision.name == "TF32" and handle.data.dtype == np.float32:
            bits = (handle.data.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)  # 10 bits of 23
        else:
            return handle
        return interpreter.TensorHandle(bits.view(np.float32), interpreter.tl.float32)

    def create_dot(self, a, b, d, precision, most):
        return plain(self, widen(a, precision), widen(b, precision), d, precision, most)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)
    return seen


def make_layer(hidden, dtype=torch.float64, steps=7, batch=5, inputs=3, clear=False):
    """Networks without a readout, an input, a first state and masks; ``clear``: gates are clearly open or closed."""
    generator = torch.Generator().manual_seed(0)

    def draw(*size):
        return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    def affine():
        weight = draw(hidden, inputs + hidden).detach() / (inputs + hidden) ** 0.5
        return (Affine(weight.requires_grad_(), draw(hidden)),)

    resets, active = (torch.rand(steps, batch, generator=generator) < share for share in (0.3, 0.7))
    networks = Networks(affine(), affine(), None, None)
    if clear:
        with torch.no_grad():
            networks.gate[0].weight.mul_(0.2)
            networks.gate[0].bias.sign_().mul_(1.5)
    return networks, draw(steps, batch, inputs), draw(batch, hidden), {"resets": resets, "active": active}


def differentiate(results, networks, *others):
    """Results, and gradients of a weighted sum of them."""
    generator = torch.Generator().manual_seed(1)
    total = sum((one * torch.randn(one.shape, generator=generator).to(one.dtype)).sum() for one in results)
    return [*results, *torch.autograd.grad(total, [*networks.gate[0], *networks.recommendation[0], *others])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hidden", [6, 70])
def test_noise_that_is_drawn_equals_the_same_noise_given(hidden, dtype):
    given, weight, first, resets, active = make((4, 19, hidden), dtype)
    noise = draw_noise(SEED, 4, 19, hidden, 0.5)
    noisy = torch.cat([given[..., :hidden] + noise.to(dtype), given[..., hidden:]], dim=-1)
    found = []
    for options in ((given, first, weight, resets, active, SEED, 0.5), (noisy, first, weight, resets, active, None, 0)):
        results = recur(*options, "retanh", "ieee")
        found.append([*results, *torch.autograd.grad(results[0].square().sum() + results[2].sum(), [given, first])])
    assert all(torch.equal(drawn, same) for drawn, same in zip(*found, strict=True))
    without = recur(given, first, weight, resets, active, *PLAIN)
    assert not torch.allclose(found[0][0], without[0])


def test_noise_is_normal_and_independent():
    """Every entry a number of its own: across steps, sequences, units and seeds, within five standard errors."""
    steps, batch, hidden = 19, 32, 64
    noise = draw_noise(SEED, steps, batch, hidden, 0.3).double() / 0.3
    count = noise.numel()
    for power, moment, deviation in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs(noise.pow(power).mean() - moment) < 5 * deviation / count**0.5
    assert noise.unique().numel() > 0.99 * count
    for dim in range(3):
        for lag in (1, 2, 16):
            kept = noise.shape[dim] - lag
            product = noise.narrow(dim, 0, kept) * noise.narrow(dim, lag, kept)
            assert abs(product.mean()) < 5 / product.numel() ** 0.5, (dim, lag)
    for other in (SEED + 1, SEED + 2**32, SEED - 2**40):  # both words of the seed count
        assert abs((noise * draw_noise(other, steps, batch, hidden, 1.0)).mean()) < 5 / count**0.5


def test_noise_belongs_to_an_entry_and_a_seed():
    noise = draw_noise(SEED, 5, 20, 70, 1.0)
    assert torch.equal(noise, draw_noise(SEED, 5, 20, 70, 1.0))
    assert torch.equal(noise[:3], draw_noise(SEED, 3, 20, 70, 1.0))  # whatever comes later
    assert not any(torch.equal(noise[0], one) for one in noise[1:])
    assert not any(torch.equal(noise[:, 0], one) for one in noise[:, 1:].unbind(1))
    first, second, third = (
        sample_seed(torch.device("cpu"), torch.Generator().manual_seed(number)) for number in (1, 1, 2)
    )
    assert torch.equal(first, second) and not torch.equal(first, third) and first.dtype == torch.int64


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("gate", ["retanh", "sigmoid", "heaviside"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activations_computed_once_more_are_the_same_to_the_bit(shape, gate, draws):
    given, weight, first, resets, active = make(shape, torch.float32)
    how = (SEED if draws else None, 0.5, gate, "ieee")
    states, _, gates, recommended = recur(given, first, weight, resets, active, *how)
    again = recompute(given, first, weight, resets, states, *how)
    assert torch.equal(again[0], gates) and torch.equal(again[1], recommended)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", ["none", "given", "drawn"])
@pytest.mark.parametrize("hidden", [6, 66])
def test_recomputing_changes_no_result_and_no_gradient(hidden, noise, dtype):
    networks, x, first, masks = make_layer(hidden, dtype)
    drawn = draw_noise(SEED, 7, 5, hidden, 0.5).to(dtype).requires_grad_()
    options = {"none": {}, "given": {"noise": drawn}, "drawn": {"seed": SEED, "noise_std": 0.5}}[noise]
    others = [x, first, drawn] if noise == "given" else [x, first]
    keeps, recomputes = (
        differentiate(
            run_layer_by_kernels(networks, "retanh", x, first, recompute=again, **options, **masks), networks, *others
        )
        for again in (False, True)
    )
    assert all(torch.equal(a, b) for a, b in zip(keeps[:3], recomputes[:3], strict=True))
    assert_near(recomputes, keeps, TOLERANCE[dtype])
    plain = run_layer_in_torch(networks, "retanh", x, first, noise=None if noise == "none" else drawn, **masks)
    assert_near(recomputes, differentiate(plain, networks, *others), TOLERANCE[dtype])


@pytest.mark.parametrize("draws", [False, True])
def test_gradcheck_with_noise_drawn_and_activations_recomputed(draws):
    """The backward pass belongs to the very noise of the forward pass."""
    networks, x, first, masks = make_layer(2, steps=3, batch=2)
    how = {"seed": SEED, "noise_std": 0.5} if draws else {}

    def run(x, first, *parameters):
        moved = Networks((Affine(*parameters[:2]),), (Affine(*parameters[2:]),), None, None)
        found = run_layer_by_kernels(moved, "sigmoid", x, first, recompute=True, **how, **masks)
        return tuple((one * torch.linspace(-1, 1, one.numel()).view_as(one)).sum() for one in found)

    assert torch.autograd.gradcheck(run, (x, first, *networks.gate[0], *networks.recommendation[0]), fast_mode=True)


@pytest.mark.parametrize(("recomputes", "noise", "sizes"), [(False, None, 3), (True, None, 1), (True, "given", 2)])
def test_what_is_kept_for_the_backward_pass(recomputes, noise, sizes):
    """States, gates and recommendations, or states alone, and noise if it was given: in T·B·H numbers of float32."""
    networks, x, first, _ = make_layer(33, torch.float32)
    given = torch.randn(7, 5, 33) if noise else None
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run_layer_by_kernels(networks, "retanh", x, first, noise=given, recompute=recomputes)
    counts = [size / (7 * 5 * 33 * 4) for size in kept.values()]
    assert counts.count(1) == sizes and 2 not in counts


@pytest.mark.parametrize("noise", ["none", "given", "drawn"])
def test_autocast_recomputes_in_the_same_types(noise, matrix_units):
    networks, x, first, masks = make_layer(6, torch.float32)
    options = {"none": {}, "given": {"noise": torch.randn(7, 5, 6)}, "drawn": {"seed": SEED, "noise_std": 0.5}}[noise]
    found = []
    for again in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            run = run_layer_by_kernels(networks, "retanh", x, first, recompute=again, **options, **masks)
        assert run.states.dtype == run.gates.dtype == torch.float32
        found.append(differentiate(run, networks, x, first))
    assert all(torch.equal(a, b) for a, b in zip(*(one[:3] for one in found), strict=True))
    assert_near(found[1], found[0], 0.01)  # gradients are summed in bfloat16
    assert {kind for kind, _ in matrix_units} == ({"fp32"} if noise == "given" else {"bf16"})


STATED = {"tf32": 0.001, torch.float16: 0.002, torch.bfloat16: 0.015}
"""How far results and gradients are from those of float64 with the same inputs, relative to one and the largest."""


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", STATED, ids=str)
@pytest.mark.parametrize("hidden", [6, 70])
def test_products_of_fewer_bits_stay_within_what_is_stated(hidden, kind, again, matrix_units, monkeypatch):
    monkeypatch.setenv("GATEL0RD_PRECISION", "tf32" if kind == "tf32" else "ieee")
    networks, x, first, masks = make_layer(hidden, torch.float32 if kind == "tf32" else kind, clear=True)
    run = run_layer_by_kernels(networks, "retanh", x, first, recompute=again, **masks)
    ours = [tensor.double() for tensor in differentiate(run, networks, x, first)]
    wide = Networks(
        *(tuple(Affine(*(one.double() for one in layer)) for layer in net) for net in networks[:2]), None, None
    )
    exact = run_layer_in_torch(wide, "retanh", x.double(), first.double(), **masks)
    theirs = differentiate(exact, networks, x, first)
    assert_near(ours, [tensor.double() for tensor in theirs], STATED[kind])
    name = {"tf32": ("fp32", "TF32"), torch.float16: ("fp16", "IEEE"), torch.bfloat16: ("bf16", "IEEE")}[kind]
    assert set(matrix_units) == {name}  # every product, forward and backward
    assert max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True)) > 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_every_option_is_compared_with_pytorch(again, draws, dtype, matrix_units):
    case = KernelCase(torch.device("cpu"), 6, dtype, "retanh", True, True, draws, again)
    assert compare_with_torch(case) < gated_layer_gpu.TOLERANCE[dtype]
    assert ("noise" in str(case)) == draws and ("recompute" in str(case)) == again


@pytest.mark.parametrize("again", [False, True])
def test_layers_draw_their_noise_in_kernels(again, monkeypatch):
    """Stacked layers as they run on a GPU: each with a seed of its own, from PyTorch's generator."""
    monkeypatch.setattr(gpu, "reason_against", lambda *case: "")
    monkeypatch.setattr(unrolling, "unroll", None)
    seeds = []

    def sample(*how):
        seeds.append(sample_seed(*how))
        return seeds[-1]

    monkeypatch.setattr(gated_layer_gpu, "sample_seed", sample)
    rnn, x = GateL0RD(3, 6, num_layers=2, noise_std=0.5), torch.randn(7, 5, 3)
    start = rnn.stack.initial_state(5, x)

    def run(number):
        generator = torch.Generator().manual_seed(number)
        return unrolling._unroll_on_gpu(rnn.stack, x, start, Draw(generator), None, None, again)

    found, same, other = run(0), run(0), run(1)
    assert torch.equal(found.outputs, same.outputs) and not torch.allclose(found.outputs, other.outputs)
    assert len(seeds) == 6 and not torch.equal(seeds[0], seeds[1])
    noise = torch.cat([draw_noise(seed, 7, 5, 6, 0.5) for seed in seeds[:2]], dim=-1)
    expected = unrolling.unroll_steps(rnn.stack, x, start, noise, None, None)
    assert_near([found.outputs, found.latents, found.gates], expected[:3], 1e-5)
    rnn.stack.cells[1].noise_std = 0.0  # a layer without noise draws none
    assert run(0).gates.shape == (7, 5, 12) and len(seeds) == 7


def test_pytorch_accepts_the_operators():
    networks, x, first, masks = make_layer(3, steps=3, batch=4)
    weight = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    weight_x, bias = (torch.cat(pair) for pair in zip(networks.gate[0], networks.recommendation[0], strict=True))
    inputs = [x, weight_x.detach()[:, :3], bias.detach(), None, first, weight, *masks.values(), SEED, 0.5]
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    opcheck(project_and_recur, (*inputs, "retanh", "ieee"), test_utils=checks)
    given, weight, first, resets, active = make((3, 4, 3))
    opcheck(recur, (given, first, weight, resets, active, SEED, 0.5, "retanh", "ieee"), test_utils=checks)
    states = recur_in_torch(given, weight, first, resets, active, "retanh").states.detach()
    inputs = [tensor.detach() for tensor in (given, first, weight)]
    opcheck(recompute, (*inputs, resets, states, SEED, 0.5, "retanh", "ieee"), test_utils=checks[::2])


@pytest.mark.parametrize("again", [False, True])
def test_a_graph_has_the_kernels_and_draws_noise_at_every_call(again, monkeypatch):
    """torch.compile records the seed's drawing: other noise at every call, the same from the same seed of PyTorch."""
    monkeypatch.setattr(gpu, "reason_against", lambda *case: "")
    rnn, x = GateL0RD(3, 6, num_layers=2, noise_std=0.5), torch.randn(7, 5, 3, requires_grad=True)

    def run(x):
        start = rnn.stack.initial_state(5, x)
        return unrolling._unroll_on_gpu(rnn.stack, x, start, Draw(), None, None, again).outputs

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    found = []
    for one in (run, compiled):
        torch.manual_seed(3)
        outputs = one(x)
        found.append([outputs, *torch.autograd.grad(outputs.square().sum(), [x, *rnn.parameters()])])
    assert_near(found[1], found[0], 1e-5)
    assert not torch.allclose(compiled(x), found[1][0])
