"""Where operations are recorded the engine steps aside: what is recorded depends on the input."""

from __future__ import annotations

import warnings

import pytest
import torch
from shapes import INPUT, B, H, T
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from gatel0rd import GateL0RD, GateL0RDCell
from gatel0rd.engine import EngineUnavailableError

SIZES = [H, 64]


class Model(torch.nn.Module):
    """A user's module with the layer inside."""

    def __init__(self, hidden, **options):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = GateL0RD(INPUT, hidden, **options), torch.nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


@pytest.fixture
def inputs():
    return torch.randn(2, T, B, INPUT, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("hidden", SIZES)
def test_jit_trace(hidden, inputs):
    model = Model(hidden).eval()
    with torch.no_grad():
        traced = torch.jit.trace(model, inputs[0])
    torch.testing.assert_close(traced(inputs[1]), model(inputs[1]))


@pytest.mark.parametrize("hidden", SIZES)
def test_make_fx(hidden, inputs):
    model = Model(hidden).eval()
    with torch.no_grad():
        traced = make_fx(model)(inputs[0])
    torch.testing.assert_close(traced(inputs[1]), model(inputs[1]))


def test_native_says_what_records(inputs):
    model = Model(H, engine="native").eval()
    with pytest.raises(EngineUnavailableError, match=r"being traced by torch\.jit"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, inputs[0])
    with pytest.raises(EngineUnavailableError, match="a TorchDispatchMode is active"):
        make_fx(model)(inputs[0])


@pytest.mark.parametrize("hidden", SIZES)
def test_modes_that_watch_see_the_operations(hidden, inputs):
    model = Model(hidden).eval()
    with FlopCounterMode(display=False) as counter:
        model(inputs[0])
    products = T * B * (2 * hidden * hidden + 2 * hidden * INPUT + 2 * hidden * (INPUT + hidden) + hidden)
    assert counter.get_total_flops() == 2 * products
    with torch.device("cpu"):  # a mode that only chooses where new tensors are
        model.rnn.engine = "native"
        model(inputs[0])


@pytest.mark.parametrize("hidden", SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_fake_cuda_tensors_need_no_data(hidden, masked):
    """No operation asks for numbers, so that nothing waits for a device and a CUDA graph can be captured.

    Gradients on the device meta: PyTorch without CUDA has none of fake CUDA tensors.
    """
    rnn = GateL0RD(INPUT, hidden, num_layers=2, mask_means="starts", device="meta").eval()
    cell = GateL0RDCell(INPUT, hidden, device="meta").eval()
    options = {"dtype": torch.bool, "device": "meta"}
    x, mask = torch.empty(T, B, INPUT, device="meta", requires_grad=True), torch.empty(T, B, **options)
    (gradient,) = torch.autograd.grad(rnn(x, None, mask if masked else None)[0].sum(), x)
    assert gradient.shape == x.shape
    with FakeTensorMode(allow_non_fake_inputs=False), torch.no_grad():
        for module in (*rnn.modules(), *cell.modules()):
            for name, parameter in module._parameters.items():
                module._parameters[name] = torch.empty(parameter.shape, device="cuda")
        x, mask = torch.empty(T, B, INPUT, device="cuda"), torch.empty(T, B, dtype=torch.bool, device="cuda")
        outputs, h_n, gates = rnn(x, None, mask if masked else None, return_gates=True)
        assert outputs.device.type == "cuda" and outputs.shape == (T, B, hidden) and h_n.shape == (2, B, hidden)
        assert gates.shape == (T, B, 2 * hidden)
        output, h_1 = cell(x.select(0, 0))
        assert output.shape == h_1.shape == (B, hidden)


@pytest.mark.parametrize("change", ["kept", "copied", "lost", "elsewhere"])
def test_saved_tensor_hooks_are_given_all_that_is_kept(change, inputs):
    """A backward pass reads what a hook returns, and runs the forward pass once more if that is no tape."""
    rnn, x = GateL0RD(INPUT, H, noise_std=0), inputs[0].requires_grad_()
    wanted, packed = [x, *rnn.parameters()], []

    def pack(tensor):
        packed.append(tensor.nbytes)
        return tensor

    def unpack(tensor):
        if change == "lost":
            return torch.zeros_like(tensor) if tensor.dtype == torch.uint8 else tensor
        if change == "elsewhere":
            return torch.cat([tensor.new_zeros(3), tensor.flatten()])[3:].view(tensor.shape)  # at an odd address
        return tensor.clone() if change == "copied" else tensor

    expected = torch.autograd.grad(rnn(x)[0].square().sum(), wanted)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        found = torch.autograd.grad(rnn(x)[0].square().sum(), wanted)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)
    assert max(packed) > 4 * x.nbytes  # more than the input and the weights: all values of all steps


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("hidden", SIZES)
def test_gradient_checkpointing(hidden, reentrant, inputs):
    model, x = Model(hidden), inputs[0].requires_grad_()
    found = []
    for run in (model, lambda x: checkpoint(model, x, use_reentrant=reentrant)):
        torch.manual_seed(1)
        run(x).square().sum().backward()
        found.append([x.grad, *(parameter.grad for parameter in model.parameters())])
        x.grad = None
        model.zero_grad()
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
