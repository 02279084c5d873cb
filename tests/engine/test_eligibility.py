"""The engine never computes another function than the module that the user sees."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import INPUT, B, H, T
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from gatel0rd import GateL0RD, WorldModel
from gatel0rd.engine import EngineUnavailableError, SlowPathWarning, find_layout
from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.models.config import ActorCriticConfig, WorldModelConfig
from gatel0rd.nn import functional
from gatel0rd.nn.cells import ClockworkCell, GateL0RDCore
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.unroll import unroll, unroll_steps

SIZES = [H, 64]
"""A layer that runs as a program, and one that runs as large products."""


def make_layer(hidden=H, **options):
    torch.manual_seed(0)
    rnn = GateL0RD(INPUT, hidden, **options).eval()
    rnn(torch.zeros(T, B, INPUT))  # everything that is kept between calls is there
    return rnn


def make_input():
    return torch.randn(T, B, INPUT, generator=torch.Generator().manual_seed(1))


def results(outputs, wanted):
    weights = torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view_as(outputs)
    return [outputs, *torch.autograd.grad((outputs * weights).sum(), wanted, allow_unused=True)]


def step_through(rnn, x):
    """The stack called at every step, whatever was done to it."""
    return unroll_steps(rnn.stack, x, rnn.stack.initial_state(x.shape[1], x), None, None, None).outputs


def assert_same_function(rnn, x=None):
    x = make_input().to(next(rnn.parameters()).dtype) if x is None else x
    wanted = [x.requires_grad_(), *rnn.parameters()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowPathWarning)
        ours = results(rnn(x)[0], wanted)
    for a, b in zip(ours, results(step_through(rnn, x), wanted), strict=True):
        if a is None or b is None:
            assert (a is None or not a.any()) and (b is None or not b.any())
        else:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    return ours


class LowRankLinear(nn.Linear):
    """An adapter in the style of LoRA."""

    def __init__(self, layer):
        super().__init__(layer.in_features, layer.out_features)
        self.load_state_dict(layer.state_dict())
        self.down, self.up = nn.Linear(layer.in_features, 1), nn.Linear(1, layer.out_features)

    def forward(self, x):
        return super().forward(x) + self.up(self.down(x))


class Wrapper(nn.Module):
    """Looks like a linear layer, and is none."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    weight, bias = (property(lambda self, name=name: getattr(self.layer, name)) for name in ("weight", "bias"))

    def forward(self, x):
        return 2 * self.layer(x)


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


def replace_forward(module):
    before = module.forward
    module.forward = lambda *args, **kwargs: doubled(before(*args, **kwargs))


def doubled(value):
    return value._replace(output=2 * value.output) if isinstance(value, tuple) else 2 * value


def unregister_weight(layer):
    weight = layer.weight.detach().clone().requires_grad_()
    del layer.weight
    layer.weight = weight


MUTATIONS = {
    "append a LayerNorm": lambda cell: cell.gate_net.append(nn.LayerNorm(cell.hidden_size)),
    "append a layer": lambda cell: cell.gate_net.extend([nn.Tanh(), nn.Linear(cell.hidden_size, cell.hidden_size)]),
    "drop the last tanh": lambda cell: cell.recommendation_net.pop(1),
    "replace the activation": lambda cell: cell.recommendation_net.__setitem__(1, nn.ReLU()),
    "replace by an adapter": lambda cell: cell.gate_net.__setitem__(0, LowRankLinear(cell.gate_net[0])),
    "wrap the output": lambda cell: setattr(cell, "output_net", Wrapper(cell.output_net)),
    "replace the output": lambda cell: setattr(
        cell, "output_net", nn.Linear(INPUT + cell.hidden_size, cell.output_size)
    ),
    "remove the output gate": lambda cell: setattr(cell, "output_gate_net", None),
    "remove a bias": lambda cell: setattr(cell.output_net, "bias", None),
    "patch a layer": lambda cell: replace_forward(cell.output_net),
    "patch a network": lambda cell: replace_forward(cell.gate_net),
    "patch the cell": replace_forward,
    "unregister a weight": lambda cell: unregister_weight(cell.output_net),
    "hook a layer": lambda cell: cell.gate_net[0].register_forward_hook(lambda module, given, output: output + 1),
    "hook before a layer": lambda cell: cell.output_net.register_forward_pre_hook(
        lambda module, given: (2 * given[0],)
    ),
    "hook the cell": lambda cell: cell.register_forward_hook(lambda module, given, output: doubled(output)),
    "hook the gradient": lambda cell: cell.output_net.register_full_backward_hook(lambda module, a, b: (2 * a[0],)),
    "hook the gradient before": lambda cell: cell.output_net.register_full_backward_pre_hook(
        lambda module, g: (2 * g[0],)
    ),
    "weight norm": lambda cell: parametrizations.weight_norm(cell.gate_net[0]),
    "parametrize": lambda cell: parametrize.register_parametrization(cell.output_net, "weight", Half()),
    "prune": lambda cell: prune.l1_unstructured(cell.gate_net[0], "weight", 0.5),
    "change the gate": lambda cell: setattr(cell, "gate", "sigmoid"),
    "freeze": lambda cell: cell.output_net.requires_grad_(False) and None,
    "cast": lambda cell: cell.double(),
    "change in place": lambda cell: cell.gate_net[0].weight.data.mul_(-1),
    "transpose the memory": lambda cell: setattr(
        cell.output_net.weight, "data", cell.output_net.weight.t().contiguous().t()
    ),
}


@pytest.mark.parametrize("hidden", SIZES)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_changed_module_is_what_runs(name, hidden):
    rnn = make_layer(hidden)
    before = rnn(make_input())[0]
    MUTATIONS[name](rnn.stack.layers[0])
    if name == "freeze":
        x = make_input()
        assert torch.equal(rnn(x)[0], before) and rnn.stack.layers[0].output_net.weight.grad is None
        return
    after = assert_same_function(rnn)[0]
    unchanged = ("cast", "weight norm", "transpose the memory", "unregister a weight", "hook the gradient")
    assert torch.allclose(after.float(), before, atol=1e-5) == name.startswith(unchanged)


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(set(MUTATIONS) - {"freeze", "drop the last tanh"})), min_size=1, max_size=3),
    hidden=st.sampled_from(SIZES),
    layers=st.integers(1, 2),
)
def test_any_changes_one_after_the_other(names, hidden, layers):
    rnn = make_layer(hidden, num_layers=layers)
    for name in dict.fromkeys(names):
        try:  # some changes do not go together, and that is an error without us
            MUTATIONS[name](rnn.stack.layers[0])
            rnn = rnn.double() if "cast" in names else rnn
            step_through(rnn, make_input().to(next(rnn.parameters()).dtype))
        except (AttributeError, RuntimeError, KeyError, TypeError, ValueError):
            return
        assert_same_function(rnn)


@pytest.mark.parametrize("hidden", SIZES)
def test_networks_that_are_shared_and_no_longer(hidden):
    torch.manual_seed(0)
    rnn = GateL0RD(INPUT, hidden, INPUT, num_layers=2).eval()
    below, above = rnn.stack.layers
    own, weight = above.gate_net, above.output_net.weight
    apart = step_through(rnn, make_input())
    for _ in range(2):
        above.gate_net = below.gate_net
        assert not torch.allclose(assert_same_function(rnn)[0], apart)
        above.gate_net = own
        torch.testing.assert_close(assert_same_function(rnn)[0], apart)
        above.output_net.weight = below.output_net.weight
        assert not torch.allclose(assert_same_function(rnn)[0], apart)
        above.output_net.weight = weight
        torch.testing.assert_close(assert_same_function(rnn)[0], apart)


@pytest.mark.parametrize("hidden", SIZES)
def test_an_output_of_another_size(hidden):
    rnn = make_layer(hidden)
    cell = rnn.stack.layers[0]
    for size in (INPUT, hidden, hidden + 2):
        cell.output_net = nn.Linear(INPUT + hidden, size)
        cell.output_gate_net = nn.Linear(INPUT + hidden, size)
        assert assert_same_function(rnn)[0].shape == (T, B, size)


@pytest.mark.parametrize("hidden", SIZES)
def test_networks_that_get_their_size_from_the_first_input(hidden):
    rnn = make_layer(hidden)
    rnn.stack.layers[0].output_net = nn.LazyLinear(hidden + 1)
    rnn.stack.layers[0].output_gate_net = nn.LazyLinear(hidden + 1)
    for _ in range(2):
        assert rnn(make_input())[0].shape == (T, B, hidden + 1)


def test_known_layouts_run_in_the_engine():
    """The other side: what is as it was made does not fall back."""
    for hidden in SIZES:
        rnn = make_layer(hidden, num_layers=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rnn(make_input())
        assert find_layout("native", [make_input()], rnn.stack, called=False) is not None


def test_the_warning_names_the_reason_once_and_native_is_an_error():
    rnn = make_layer()
    rnn.stack.layers[0].gate_net.append(nn.LayerNorm(H))
    with pytest.warns(SlowPathWarning, match="LayerNorm is not a module that the engine knows"):
        rnn(make_input())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rnn(make_input())
    rnn.engine = "native"
    with pytest.raises(EngineUnavailableError, match="LayerNorm is not a module that the engine knows"):
        rnn(make_input())
    rnn = make_layer(engine="native")
    rnn.stack.layers[0].recommendation_net.append(nn.Linear(H, H)).append(nn.Linear(H, H))
    with pytest.raises(EngineUnavailableError, match=r"made of Linear, Tanh, Linear, Linear, not of nn\.Linear and nn"):
        rnn(make_input())


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_fire_at_every_step(kind, everywhere):
    rnn, calls = make_layer(engine="auto"), []
    if everywhere:
        suffix = {"full_backward_pre": "full_backward_pre_hook"}.get(kind, f"{kind}_hook")
        register = getattr(nn.modules.module, f"register_module_{suffix}")
    else:
        register = getattr(rnn.stack, f"register_{kind}_hook")
    handle = register(lambda module, *rest: calls.append(module) if module is rnn.stack else None)
    try:
        with pytest.warns(SlowPathWarning, match="hooks"):
            rnn(make_input().requires_grad_())[0].sum().backward()
    finally:
        handle.remove()
    assert len(calls) == T


@pytest.mark.parametrize("hidden", SIZES)
def test_classes_that_were_patched_are_noticed(hidden, monkeypatch):
    rnn, x = make_layer(hidden), make_input()
    before, linear, core = rnn(x)[0], nn.Linear.forward, GateL0RDCore.forward
    with monkeypatch.context() as patch:
        patch.setattr(nn.Linear, "forward", lambda self, x: 2 * linear(self, x))
        assert not torch.allclose(assert_same_function(rnn)[0], before)
    with monkeypatch.context() as patch:
        patch.setattr(GateL0RDCore, "forward", lambda *args: doubled(core(*args)))
        torch.testing.assert_close(assert_same_function(rnn)[0], 2 * before)
    with monkeypatch.context() as patch:
        patch.setitem(functional.GATES, "retanh", lambda s: torch.sigmoid(2 * s))
        assert not torch.allclose(assert_same_function(rnn)[0], before)
    assert torch.equal(rnn(x)[0], before)


@pytest.mark.parametrize("hidden", SIZES)
def test_pending_negations_are_resolved(hidden):
    rnn = make_layer(hidden)
    spectrum = torch.fft.fft(make_input(), dim=0).conj()
    x = spectrum.imag
    assert x.is_neg()
    hx = torch.view_as_complex(torch.randn(1, B, hidden, 2)).conj().imag
    assert hx.is_neg()
    torch.testing.assert_close(rnn(x, hx)[0], rnn(x.resolve_neg().clone(), hx.resolve_neg().clone())[0])
    leaf = make_input().requires_grad_()
    outputs = rnn(leaf)[0]
    gradient = torch.view_as_complex(torch.randn(*outputs.shape, 2)).conj().imag
    (ours,) = torch.autograd.grad(outputs, leaf, gradient, retain_graph=True)
    (theirs,) = torch.autograd.grad(outputs, leaf, gradient.resolve_neg().clone())
    torch.testing.assert_close(ours, theirs)
    weight = rnn.stack.layers[0].output_net.weight
    weight.data = torch.view_as_complex(torch.randn(*weight.shape, 2)).conj().imag
    assert weight.is_neg()
    assert_same_function(rnn)


@pytest.mark.parametrize("hidden", SIZES)
def test_saved_tensor_hooks_may_return_other_memory(hidden):
    rnn, x = make_layer(hidden), make_input().requires_grad_()
    expected = results(rnn(x)[0], [x, *rnn.parameters()])

    def scatter(tensor):
        wide = torch.stack([tensor, torch.full_like(tensor, 7)], dim=-1)
        return wide[..., 0]

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.clone(), scatter):
        found = results(rnn(x)[0], [x, *rnn.parameters()])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor.half()):
        outputs = rnn(x)[0]
    with pytest.raises(RuntimeError, match=r"a saved-tensor hook returned a tensor of type torch\.float16"):
        outputs.sum().backward()


@pytest.mark.parametrize("hidden", SIZES)
def test_batched_gradients(hidden):
    rnn, x = make_layer(hidden), make_input().requires_grad_()
    outputs, h_n = rnn(x)
    weights = torch.randn(3, *outputs.shape)
    wanted = [x, *rnn.parameters()]
    batched = torch.autograd.grad(
        [outputs, h_n], wanted, [weights, torch.ones(3, *h_n.shape)], is_grads_batched=True, retain_graph=True
    )
    alone = torch.autograd.grad([outputs, h_n], wanted, [weights[1], torch.ones(h_n.shape)])
    for a, b in zip(batched, alone, strict=True):
        torch.testing.assert_close(a[1], b)


@pytest.mark.parametrize("hidden", SIZES)
def test_weights_elsewhere_or_of_other_types(hidden):
    rnn, x = make_layer(hidden), make_input()
    assert copy.deepcopy(rnn).to("meta")(x.to("meta"))[0].is_meta
    torch.testing.assert_close(copy.deepcopy(rnn).double()(x.double())[0].float(), rnn(x)[0])
    torch.testing.assert_close(copy.deepcopy(rnn).bfloat16()(x.bfloat16())[0].float(), rnn(x)[0], rtol=0.1, atol=0.05)
    part = copy.deepcopy(rnn)
    del part.stack.layers[0].output_net.weight
    part.stack.layers[0].output_net.weight = torch.zeros(hidden, INPUT + hidden, device="meta")
    with pytest.warns(SlowPathWarning, match=r"output_net\.weight is not a parameter"):
        assert part(x)[0].shape == (T, B, hidden)  # PyTorch's own answer; it was a segmentation fault
    with pytest.raises(EngineUnavailableError, match="a tensor is sparse or nested"):
        unroll(rnn.stack, x.to_sparse(), rnn.stack.initial_state(B, x), engine="native")


@pytest.mark.parametrize("gate", ["retanh", "sigmoid", "heaviside"])
@pytest.mark.parametrize("hidden", SIZES)
@pytest.mark.usefixtures("instruction_set")
def test_what_is_no_number_is_none_anywhere(gate, hidden):
    rnn, x = make_layer(hidden, gate=gate), make_input()
    x[2, 1, 0] = torch.nan
    ours, theirs = (
        rnn(x, return_gates=True),
        unroll_steps(rnn.stack, x, rnn.stack.initial_state(B, x), None, None, None),
    )
    assert torch.equal(ours[0].isnan(), theirs.outputs.isnan()) and torch.equal(ours[2].isnan(), theirs.gates.isnan())
    assert ours[2][2, 1].isnan().all() and not ours[2][:, 0].isnan().any()


def test_subclasses_that_override_what_a_program_describes():
    class Mirrored(GateL0RDCore):
        def latents(self, state):
            return -state[0]

    class Restarted(GateL0RDCore):
        def initial_state(self, batch_size, like):
            return (like.new_ones(batch_size, self.hidden_size),)

    x, resets = make_input(), torch.rand(T, B) < 0.5
    for kind in (Mirrored, Restarted):
        cell = kind(INPUT, H)
        with pytest.warns(SlowPathWarning, match=f"{kind.__name__} overrides"):
            ours = unroll(cell, x, resets=resets)
        theirs = unroll_steps(cell, x, cell.initial_state(B, x), None, resets, None)
        torch.testing.assert_close(ours.latents, theirs.latents)


def test_a_clock_that_was_changed_is_a_new_program():
    cell, x = ClockworkCell(INPUT, 6), make_input()
    unroll(cell, x)
    cell.periods.fill_(2)
    start = cell.initial_state(B, x)
    torch.testing.assert_close(
        unroll(cell, x, engine="native").outputs, unroll_steps(cell, x, start, None, None, None).outputs
    )


def test_models_that_were_changed():
    config = WorldModelConfig(observation_size=3, action_size=2)
    torch.manual_seed(0)
    model = WorldModel(config)
    observations, actions = torch.randn(T, B, 3), torch.randn(T, B, 2)
    before = model(observations, actions).predictions

    class Started(WorldModel):
        def initial(self, observations, actions):
            return tuple(state + 1 for state in super().initial(observations, actions))

    started = Started(config)
    started.load_state_dict(model.state_dict())
    model.post.append(nn.Tanh())
    for changed in (model, started):
        with pytest.warns(SlowPathWarning) if changed is started else warnings.catch_warnings():
            ours = changed(observations, actions).predictions
        plain = copy.deepcopy(changed)
        plain.engine = "torch"
        torch.testing.assert_close(ours, plain(observations, actions).predictions)
        assert not torch.allclose(ours, before)

    agent = ActorCritic(ActorCriticConfig(observation_shape=(3,), actions=2, cell=CellConfig(hidden_size=4)))
    state = agent.initial_state(B)
    agent(observations, state)
    agent.heads.actor.append(nn.ReLU())
    plain = copy.deepcopy(agent)
    plain.engine = "torch"
    with pytest.warns(SlowPathWarning, match="ReLU is not a module that the engine knows"):
        ours = agent(observations, state).policy.log_probs
    torch.testing.assert_close(ours, plain(observations, state).policy.log_probs)


def test_an_agent_is_not_given_numbers_of_another_type():
    agent = ActorCritic(ActorCriticConfig(observation_shape=(3,), actions=2, cell=CellConfig(hidden_size=4)))
    state = tuple(part.double() for part in agent.initial_state(B))
    with pytest.raises(ValueError, match=r"a tensor is torch\.float64 on cpu; expected torch\.float32 on cpu"):
        agent.act(torch.zeros(B, 3), state)
