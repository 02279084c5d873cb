"""The compiled engine equals ``unroll``: values and gradients, for every cell and shape."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import INPUT, OUTPUT, B, H, T

from gatel0rd import GateL0RD, WorldModel, engine
from gatel0rd.engine import EngineUnavailableError, SlowPathWarning, native
from gatel0rd.engine.builder import ProgramBuilder
from gatel0rd.engine.random import draw_feed, draw_noise
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn import cells
from gatel0rd.nn.cells import build_cell
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.unroll import unroll

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

VARIANTS = [
    *(CellConfig(name=name, hidden_size=8) for name in ("gatel0rd", "elman", "gru", "lstm", "clockwork")),
    *(CellConfig(name=name, hidden_size=5, num_layers=3) for name in ("gatel0rd", "elman", "gru", "lstm", "clockwork")),
    *(
        CellConfig(hidden_size=5, gate=gate, net_layers=layers, output_gate=output_gate)
        for gate in ("retanh", "sigmoid", "heaviside")
        for layers in (1, 2, 3)
        for output_gate in (True, False)
    ),
]


def describe(config: CellConfig) -> str:
    return f"{config.name}-{config.num_layers}-{config.gate}-{config.net_layers}-{config.output_gate}"


def assert_near(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Relative to the largest entry: gradients that cancel have no relative precision of their own."""
    scale = theirs.detach().abs().max().clamp(min=1e-30)
    error = ((ours - theirs).detach().abs().max() / scale).item()
    assert error <= TOLERANCE[theirs.dtype], error


def weighted_sum(*tensors: torch.Tensor | None) -> torch.Tensor:
    """A number that depends on every entry in its own way."""
    total = torch.zeros((), dtype=torch.float64)
    for tensor in tensors:
        if tensor is not None and tensor.numel():
            weights = torch.linspace(-1, 1, tensor.numel(), dtype=tensor.dtype).view_as(tensor)
            total = total + (tensor * weights).sum() + 0.1 * tensor.square().sum()
    return total


def compare(config, *, steps=T, batch=B, size=INPUT, dtype=torch.float64, resets=False, active=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    cell = build_cell(config, size, OUTPUT, dtype=dtype)
    cell.reset_parameters(generator)
    x = torch.randn(steps, batch, size, dtype=dtype, generator=generator).requires_grad_()
    latents = torch.randn(batch, cell.latent_size, dtype=dtype, generator=generator).requires_grad_()
    noise = cell.sample_noise(steps, batch, x, generator)
    masks = {
        name: torch.rand(steps, batch, generator=generator) < share
        for name, share, use in (("resets", 0.2, resets), ("active", 0.8, active))
        if use
    }
    found = []
    for choice in ("torch", "native"):
        result = unroll(cell, x, cell.state_from(latents), noise=noise, engine=choice, **masks)
        tensors = [result.outputs, result.latents, *([] if result.gates is None else [result.gates]), *result.state]
        wanted = [x, latents, *cell.parameters()]
        gradients = torch.autograd.grad(weighted_sum(*tensors), wanted, allow_unused=True)
        found.append([*tensors, *gradients])
    for theirs, ours in zip(*found, strict=True):
        if theirs is None or ours is None:
            assert theirs is None or theirs.abs().max() == 0
            assert ours is None or ours.abs().max() == 0
        else:
            assert_near(ours, theirs)


def test_the_compiled_engine_is_there():
    assert engine.is_available(), engine.status()


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("config", VARIANTS, ids=describe)
def test_every_cell_equals_unroll(config, dtype):
    compare(config, dtype=dtype, batch=21)
    compare(config, dtype=dtype, resets=True, active=True, seed=1)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (1, 40), (9, 1), (3, 16), (3, 17), (2, 300)])
@pytest.mark.parametrize("name", ["gatel0rd", "lstm", "clockwork"])
def test_odd_shapes(name, steps, batch):
    compare(CellConfig(name=name, hidden_size=7), steps=steps, batch=batch, size=1)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["gatel0rd", "elman", "gru", "lstm", "clockwork"]),
    hidden=st.integers(3, 40),
    size=st.integers(1, 30),
    steps=st.integers(1, 12),
    batch=st.integers(1, 50),
    layers=st.integers(1, 3),
    resets=st.booleans(),
    active=st.booleans(),
    instruction_set=st.sampled_from(engine.instruction_sets()),
)
def test_any_shape_equals_unroll(name, hidden, size, steps, batch, layers, resets, active, instruction_set):
    """In float64: a gradient that cancels to almost nothing has no relative precision in float32, in any engine."""
    config = CellConfig(name=name, hidden_size=hidden, num_layers=layers)
    with engine.use_instruction_set(instruction_set):
        compare(config, steps=steps, batch=batch, size=size, resets=resets, active=active)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", ["gatel0rd", "elman", "gru", "lstm", "clockwork"])
def test_gradcheck_through_the_engine(name, generator):
    cell = build_cell(CellConfig(name=name, hidden_size=3, num_layers=2), INPUT, OUTPUT, dtype=torch.float64)
    cell.reset_parameters(generator)
    if name == "gatel0rd":  # away from the kink
        with torch.no_grad():
            for part in cell.cells:
                part.gate_net[0].bias += 2
    x = torch.randn(3, B, INPUT, dtype=torch.float64, generator=generator).requires_grad_()
    latents = torch.randn(B, cell.latent_size, dtype=torch.float64, generator=generator).requires_grad_()

    def run(x, latents):
        return unroll(cell, x, cell.state_from(latents), engine="native").outputs

    assert torch.autograd.gradcheck(run, (x, latents))


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("init_steps", [1, 2])
@pytest.mark.parametrize("name", ["gatel0rd", "elman", "gru", "lstm", "clockwork"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_world_models_equal_pytorchs(name, init_steps, dtype, generator):
    """Closed loop with sampling mask, noise and f_init: predictions, latents, gates and all gradients."""
    cell = CellConfig(name=name, hidden_size=4, num_layers=2)
    config = WorldModelConfig(observation_size=3, action_size=2, cell=cell, feature_size=5, init_steps=init_steps)
    models = [WorldModel(config, engine=choice, dtype=dtype) for choice in ("native", "torch")]
    for model in models:
        model.reset_parameters(torch.Generator().manual_seed(0))
    observations = torch.randn(T, 19, 3, dtype=dtype, generator=generator).requires_grad_()
    actions = torch.randn(T, 19, 2, dtype=dtype, generator=generator).requires_grad_()
    feed = torch.rand(T, 19, generator=generator) < 0.5
    noise = models[0].sample_noise(T, 19, generator)
    found = []
    for model in models:
        rollout = model(observations, actions, feed, noise)
        total = weighted_sum(rollout.predictions, rollout.latents, rollout.gates, *rollout.state[:1])
        gradients = torch.autograd.grad(total, [observations, actions, *model.parameters()])
        found.append([rollout.predictions, rollout.latents, *rollout.state, *gradients])
        free = model.rollout(rollout.state, observations[-1], actions[:4])
        found[-1].append(free.predictions)
    for ours, theirs in zip(*found, strict=True):
        assert_near(ours, theirs)


@pytest.mark.usefixtures("instruction_set")
def test_a_world_without_actions_or_f_init_runs(generator):
    config = WorldModelConfig(observation_size=2, action_size=0, init_layers=0)
    models = [WorldModel(config, engine=choice, dtype=torch.float64) for choice in ("native", "torch")]
    for model in models:
        model.reset_parameters(torch.Generator().manual_seed(0))
    observations = torch.randn(T, B, 2, dtype=torch.float64, generator=generator)
    actions = observations.new_zeros(T, B, 0)
    ours, theirs = (model.free_run(observations, actions).predictions for model in models)
    assert_near(ours, theirs)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", ["gatel0rd", "gru"])
def test_any_number_of_threads_gives_the_same_bits(name, generator):
    cell = build_cell(CellConfig(name=name, hidden_size=8), INPUT, OUTPUT)
    cell.reset_parameters(generator)
    x = torch.randn(T, 333, INPUT, generator=generator).requires_grad_()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            outputs = unroll(cell, x, engine="native").outputs
            results.append([outputs, *torch.autograd.grad(weighted_sum(outputs), [x, *cell.parameters()])])
        finally:
            torch.set_num_threads(1)
    for others in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], others, strict=True))


@pytest.mark.usefixtures("instruction_set")
def test_training_steps_give_the_same_bits_for_any_number_of_threads():
    from gatel0rd.training import make_stepper, time_first
    from gatel0rd.training.config import TrainConfig
    from gatel0rd.training.recipe import DataRecipe
    from gatel0rd.worlds.data import generate

    config = WorldModelConfig(observation_size=4, action_size=2)
    data = generate(DataRecipe(scenario="rrc", policy="time", split="train", sequences=200, steps=12))
    weights = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            model = WorldModel(config)
            model.reset_parameters(torch.Generator().manual_seed(0))
            stepper = make_stepper(model, TrainConfig(epochs=1), *time_first(data, config), seed=0, engine="native")
            for counter in range(3):
                stepper.step(torch.arange(131), probability=0.5, counter=counter, generator=torch.Generator())
            weights.append(torch.cat([parameter.flatten() for parameter in model.parameters()]))
        finally:
            torch.set_num_threads(1)
    assert torch.equal(*weights)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", ["gatel0rd", "gru", "lstm", "clockwork"])
def test_a_sequence_has_the_same_bits_alone_and_in_any_batch(name, generator):
    cell = build_cell(CellConfig(name=name, hidden_size=8), INPUT, OUTPUT)
    x = torch.randn(T, 40, INPUT, generator=generator)
    whole = unroll(cell, x, engine="native").outputs
    for index in (0, 7, 15, 16, 39):
        assert torch.equal(unroll(cell, x[:, [index]], engine="native").outputs[:, 0], whole[:, index])


def test_instruction_sets_agree(generator):
    cell = build_cell(CellConfig(hidden_size=9), INPUT, OUTPUT, dtype=torch.float64)
    x = torch.randn(T, B, INPUT, dtype=torch.float64, generator=generator)
    results = []
    for name in engine.instruction_sets():
        with engine.use_instruction_set(name):
            assert engine.status()["instruction_set"] == name
            results.append(unroll(cell, x, engine="native").outputs)
    assert len(results) >= 1
    for other in results[1:]:
        assert_near(other, results[0])


@pytest.mark.usefixtures("instruction_set")
def test_non_contiguous_inputs_views_and_expanded_gradients(generator):
    rnn = GateL0RD(INPUT, H, dtype=torch.float64, engine="native").eval()
    wide = torch.randn(B, 2 * T, 2 * INPUT, dtype=torch.float64, generator=generator)
    view = wide.transpose(0, 1)[::2, :, ::2]
    assert not view.is_contiguous()
    assert torch.equal(rnn(view)[0], rnn(view.contiguous())[0])
    x = view.detach().clone().requires_grad_()
    (ours,) = torch.autograd.grad(rnn(x)[0].sum(), x)  # an expanded gradient, stride 0
    (theirs,) = torch.autograd.grad((rnn(x)[0] * torch.ones(T, B, H, dtype=torch.float64)).sum(), x)
    torch.testing.assert_close(ours, theirs)
    swapped = GateL0RD(INPUT, H, dtype=torch.float64, engine="native", batch_first=True).eval()
    swapped.load_state_dict(rnn.state_dict())
    assert torch.equal(swapped(view.transpose(0, 1))[0].transpose(0, 1), rnn(view)[0])


def test_only_what_requires_gradients_gets_them(generator):
    rnn = GateL0RD(INPUT, H, engine="native")
    rnn.stack.layers[0].output_net.requires_grad_(False)
    x = torch.randn(T, B, INPUT, generator=generator)
    rnn(x)[0].sum().backward()
    assert rnn.stack.layers[0].output_net.weight.grad is None
    assert rnn.stack.layers[0].gate_net[0].weight.grad is not None
    rnn.requires_grad_(False)
    assert not rnn(x)[0].requires_grad
    x.requires_grad_()
    rnn(x)[0].sum().backward()
    assert x.grad.abs().sum() > 0


@pytest.mark.usefixtures("instruction_set")
def test_final_states_alone_have_gradients(generator):
    rnn = GateL0RD(INPUT, H, engine="native", dtype=torch.float64).eval()
    plain = GateL0RD(INPUT, H, engine="torch", dtype=torch.float64).eval()
    plain.load_state_dict(rnn.state_dict())
    x = torch.randn(T, B, INPUT, dtype=torch.float64, generator=generator)
    h0 = torch.randn(1, B, H, dtype=torch.float64, generator=generator).requires_grad_()
    ours, theirs = (torch.autograd.grad(layer(x, h0)[1].square().sum(), h0)[0] for layer in (rnn, plain))
    assert_near(ours, theirs)


def test_backward_twice_with_retained_graph(generator):
    rnn = GateL0RD(INPUT, H, engine="native").eval()
    x = torch.randn(T, B, INPUT, generator=generator).requires_grad_()
    output = rnn(x)[0].sum()
    (first,) = torch.autograd.grad(output, x, retain_graph=True)
    (second,) = torch.autograd.grad(output, x)
    assert torch.equal(first, second)


def test_second_derivatives_are_a_clear_error(generator):
    rnn = GateL0RD(INPUT, H, engine="native")
    x = torch.randn(T, B, INPUT, generator=generator).requires_grad_()
    with pytest.raises(RuntimeError, match="no second derivatives; use engine='torch'"):
        torch.autograd.grad(rnn(x)[0].sum(), x, create_graph=True)
    plain = GateL0RD(INPUT, H, engine="torch")
    (gradient,) = torch.autograd.grad(plain(x)[0].sum(), x, create_graph=True)
    gradient.sum().backward()


def test_weights_changed_in_place_before_backward_are_noticed(generator):
    rnn = GateL0RD(INPUT, H, engine="native")
    output = rnn(torch.randn(T, B, INPUT, generator=generator))[0].sum()
    with torch.no_grad():
        rnn.stack.layers[0].output_net.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.backward()


@pytest.mark.usefixtures("instruction_set")
def test_closed_gates_hold_bits_in_the_engine(generator):
    rnn = GateL0RD(INPUT, 16, engine="native").eval()
    h = torch.randn(1, B, 16, generator=generator)
    _, after, gates = rnn(torch.randn(1, B, INPUT, generator=generator), h, return_gates=True)
    closed = gates == 0
    assert closed.any() and not closed.all()
    assert torch.equal(after[closed], h[closed])


def test_an_empty_batch_is_fine():
    rnn = GateL0RD(INPUT, H, engine="native")
    output, h_n = rnn(torch.zeros(T, 0, INPUT))
    assert output.shape == (T, 0, H) and h_n.shape == (1, 0, H)
    output.sum().backward()
    assert rnn.stack.layers[0].output_net.weight.grad.abs().sum() == 0


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.zeros(T, B, INPUT, dtype=torch.bfloat16), "of type torch.bfloat16"),
        (torch.zeros(T, B, INPUT, device="meta"), "on the device meta"),
    ],
)
def test_what_the_engine_cannot_take_is_an_error_or_falls_back(tensor, reason):
    cell = build_cell(CellConfig(hidden_size=4), INPUT, OUTPUT, device=tensor.device, dtype=tensor.dtype)
    with pytest.raises(EngineUnavailableError, match=f"engine='native' cannot be used: a tensor is {reason}"):
        unroll(cell, tensor, engine="native")
    assert unroll(cell, tensor).outputs.shape == (T, B, OUTPUT)


def test_transforms_of_torch_func_fall_back(generator):
    rnn, x = GateL0RD(INPUT, H).eval(), torch.randn(4, T, B, INPUT, generator=generator)
    mapped = torch.func.vmap(lambda x: rnn(x)[0])(x)
    torch.testing.assert_close(mapped[2], rnn(x[2])[0])
    strict = GateL0RD(INPUT, H, engine="native").eval()
    with pytest.raises(EngineUnavailableError, match=r"inside torch\.func"):
        torch.func.vmap(lambda x: strict(x)[0])(x)
    with pytest.raises(ValueError, match="engine is 'gpu'; expected auto, native, torch"):
        GateL0RD(INPUT, H, engine="gpu")


def test_without_a_compiled_engine_everything_works_with_one_warning(monkeypatch, generator):
    monkeypatch.setattr(native, "_load", lambda: (None, "no compiler was found"))
    native.warn_once.cache_clear()
    rnn, x = GateL0RD(INPUT, H), torch.randn(T, B, INPUT, generator=generator)
    with pytest.warns(RuntimeWarning, match="without its compiled engine.*no compiler was found.*--no-cache-dir"):
        assert rnn(x)[0].shape == (T, B, H)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rnn(x)
        GateL0RD(INPUT, H, engine="torch")(x)
    assert engine.status()["engine"] == "torch" and "no compiler was found" in engine.status()["why"]
    with pytest.raises(
        EngineUnavailableError, match=r"install a C\+\+ compiler, then `pip install --no-cache-dir --force-reinstall"
    ):
        GateL0RD(INPUT, H, engine="native")(x)
    native.warn_once.cache_clear()


def test_copies_and_pickles_of_a_used_layer_work(generator):
    rnn, x = GateL0RD(INPUT, H).eval(), torch.randn(T, B, INPUT, generator=generator)
    expected = rnn(x)[0]
    for other in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert torch.equal(other(x)[0], expected)
        other.stack.layers[0].output_net.weight.data.mul_(2)
        assert not torch.equal(other(x)[0], expected)
    assert torch.equal(rnn(x)[0], expected)


def test_replaced_weights_are_used_and_other_sizes_noticed(generator):
    rnn, x = GateL0RD(INPUT, H).eval(), torch.randn(T, B, INPUT, generator=generator)
    before = rnn(x)[0]
    cell = rnn.stack.layers[0]
    cell.output_net = torch.nn.Linear(INPUT + H, H)
    assert not torch.equal(rnn(x)[0], before)
    cell.output_net = torch.nn.Linear(INPUT + H, H + 1)
    with pytest.raises(ValueError, match="size 2 does not go with one of size 3; do the sizes"):
        rnn(x)


@pytest.mark.usefixtures("instruction_set")
def test_what_is_masked_out_may_be_anything(generator):
    """NaN in padding, before a reset, or where a prediction is fed, is never looked at."""
    nan = float("nan")
    cell = build_cell(CellConfig(hidden_size=4), INPUT, OUTPUT, dtype=torch.float64)
    x = torch.randn(T, B, INPUT, dtype=torch.float64, generator=generator)
    x[4:, 2] = nan
    active = torch.ones(T, B, dtype=torch.bool)
    active[4:, 2] = False
    result = unroll(cell, x, active=active, engine="native")
    assert result.state[0].isfinite().all()
    assert torch.equal(result.state[0][2], result.latents[3, 2])
    resets = torch.zeros(2, B, dtype=torch.bool)
    resets[0] = True
    broken = (torch.full((B, 4), nan, dtype=torch.float64),)
    assert unroll(cell, x[:2], broken, resets=resets, engine="native").outputs.isfinite().all()
    model = WorldModel(WorldModelConfig(observation_size=3, action_size=2), engine="native", dtype=torch.float64)
    observations = torch.randn(T, B, 3, dtype=torch.float64, generator=generator)
    actions = torch.randn(T, B, 2, dtype=torch.float64, generator=generator)
    expected = model.free_run(observations, actions).predictions
    observations[1:] = nan
    assert torch.equal(model.free_run(observations, actions).predictions, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda cell, x: unroll(cell, x[..., :2]),
            r"a sequence has shape \(7, 5, 2\); expected \(7, 5, 3\)",
        ),
        (
            lambda cell, x: unroll(cell, x, noise=x[:3, :, :1]),
            r"a sequence has shape \(3, 5, 1\); expected \(7, 5, 4\)",
        ),
        (
            lambda cell, x: unroll(cell, x, (x[0, :1, :1].repeat(1, 4),)),
            r"an initial state has shape \(1, 4\)",
        ),
        (lambda cell, x: unroll(cell, x, resets=torch.ones(T, 1)), r"a sequence has shape \(7, 1, 1\)"),
    ],
)
def test_wrong_shapes_never_reach_the_compiled_code(call, message):
    with pytest.raises(ValueError, match=message):
        call(build_cell(CellConfig(hidden_size=4), INPUT, OUTPUT), torch.zeros(T, B, INPUT))


def test_too_few_steps_for_f_init_are_an_error():
    model = WorldModel(WorldModelConfig(observation_size=3, action_size=2, init_steps=2), engine="native")
    with pytest.raises(ValueError, match="the sequences have 1 time steps; the first 2 are needed"):
        model(torch.zeros(1, B, 3), torch.zeros(1, B, 2))
    with pytest.raises(ValueError, match="init_steps is 0"):
        WorldModel(WorldModelConfig(observation_size=3, action_size=2, init_steps=0))


def test_no_memory_is_kept_where_no_gradient_is_wanted(monkeypatch):
    made = []
    real = native.module().Tape
    monkeypatch.setattr(native.module(), "Tape", lambda: made.append(1) or real(), raising=False)
    rnn, x = GateL0RD(INPUT, H, engine="native"), torch.zeros(T, B, INPUT)
    with torch.no_grad():
        rnn(x)
    assert made == []
    rnn(x)
    assert made == [1]


def test_what_a_program_would_not_see_falls_back(generator):
    x = torch.randn(T, B, INPUT, generator=generator)
    rnn = GateL0RD(INPUT, H).eval()
    plain = rnn(x)[0]
    handle = rnn.stack.layers[0].output_net.register_forward_hook(lambda module, given, output: output + 1)
    with pytest.warns(SlowPathWarning, match="Linear has hooks"):
        assert not torch.equal(rnn(x)[0], plain)
    handle.remove()
    assert torch.equal(rnn(x)[0], plain)

    class Louder(cells.GateL0RDCore):
        def forward(self, x_t, state, noise_t=None):
            step = super().forward(x_t, state, noise_t)
            return step._replace(output=2 * step.output)

    louder = Louder(INPUT, H).eval()
    louder.load_state_dict(rnn.stack.layers[0].state_dict())
    with pytest.warns(SlowPathWarning, match="Louder overrides forward but not program"):
        torch.testing.assert_close(unroll(louder, x).outputs, 2 * plain)
    with pytest.raises(EngineUnavailableError, match="Louder overrides forward but not program"):
        unroll(louder, x, engine="native")


def test_a_gate_changed_later_is_a_new_program(generator):
    x = torch.randn(T, B, INPUT, generator=generator)
    rnn, plain = (GateL0RD(INPUT, H, engine=choice).eval() for choice in ("native", "torch"))
    plain.load_state_dict(rnn.state_dict())
    for gate in ("retanh", "sigmoid", "heaviside", "retanh"):
        for layer in (rnn, plain):
            layer.stack.layers[0].gate = gate
        torch.testing.assert_close(rnn(x)[0], plain(x)[0], rtol=1e-5, atol=1e-7)


def test_cells_without_a_program_are_named_as_reasons(generator):
    class Silent(cells.GateL0RDCore):
        def forward(self, x_t, state, noise_t=None):
            return super().forward(x_t, state, noise_t)

        def program(self, build, x, state, noise):
            return None

    x = torch.randn(T, B, INPUT, generator=generator)
    with pytest.raises(EngineUnavailableError, match="a cell has no program"):
        unroll(Silent(INPUT, H), x, engine="native")
    assert unroll(Silent(INPUT, H), x).outputs.shape == (T, B, H)


@pytest.mark.parametrize("name", ["gatel0rd", "lstm"])
def test_dropout_between_layers_is_drawn_outside_of_the_engine(name, generator):
    """With probability 0 and 1 dropout is no matter of luck; between them, both engines draw the same."""
    stack = cells.Stack(build_cell(CellConfig(name=name, hidden_size=H, num_layers=3), INPUT, OUTPUT).cells)
    x = torch.randn(T, B, INPUT, generator=generator)
    noise = stack.sample_noise(T, B, x, generator)
    plain = unroll(stack, x, noise=noise, engine="native")
    for dropout in (1.0, 0.5):
        stack.dropout = dropout
        found = []
        for choice in ("native", "torch"):
            torch.manual_seed(1)
            found.append(unroll(stack, x, noise=noise, engine=choice))
        if dropout == 1 or name == "gatel0rd":  # an LSTM draws at every step in PyTorch
            for ours, theirs in zip((*found[0][:2], *found[0].state), (*found[1][:2], *found[1].state), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-6)
        assert not torch.allclose(found[0].outputs, plain.outputs)
        torch.testing.assert_close(found[0].latents[..., :H], plain.latents[..., :H])
    torch.testing.assert_close(unroll(stack.eval(), x, noise=noise, engine="native").outputs, plain.outputs)


@pytest.mark.usefixtures("instruction_set")
def test_a_clock_that_is_out_of_range_is_taken_modulo(generator):
    cell = cells.ClockworkCell(INPUT, 8, dtype=torch.float64)
    x = torch.randn(T, B, INPUT, dtype=torch.float64, generator=generator)
    state = (torch.zeros(B, 8, dtype=torch.float64), torch.full((B, 1), 9.0, dtype=torch.float64))
    assert_near(unroll(cell, x, state, engine="native").outputs, unroll(cell, x, state, engine="torch").outputs)


def test_builders_notice_values_that_do_not_fit():
    build = ProgramBuilder(torch.nn.Identity())
    two, three = build.value(2), build.value(3)
    for wrong in (
        lambda: build.add(two, three),
        lambda: build.multiply(three, two),
        lambda: build.blend(two, three, three),
        lambda: build.select(build.value(1), two, three),
        lambda: build.axpy(two, three, 0.1),
        lambda: build.clear(three, two),
    ):
        with pytest.raises(ValueError, match="size 2"):
            wrong()
    with pytest.raises(ValueError, match="the generator has room for 16380"):
        build.normal(20000, 1.0)


def test_two_sources_of_noise_in_one_program_are_two_streams():
    build = ProgramBuilder(torch.nn.Identity())
    build.normal(3, 1.0)
    build.normal(3, 1.0)
    assert [instruction.slot for instruction in build.program.body.instructions] == [0, 1]


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-7), (torch.float64, 1e-15)])
@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_activations_are_as_good_as_the_math_library(name, dtype, tolerance):
    x = torch.cat([torch.linspace(-80, 80, 20001), torch.logspace(-30, 1.9, 4001), -torch.logspace(-30, 1.9, 4001)]).to(
        dtype
    )
    out = torch.empty_like(x)
    wide = dtype == torch.float64
    native.module().activate(wide, native.activation_numbers()[name], x.data_ptr(), out.data_ptr(), x.numel())
    exact = getattr(torch, name)(x.double())
    relative = ((out.double() - exact).abs() / exact.abs().clamp(min=1e-37)).max().item()
    assert relative < (tolerance if name == "tanh" else 4 * tolerance)
    assert out.abs().max() <= 1


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_not_a_number_stays_not_a_number(dtype):
    cell = build_cell(CellConfig(hidden_size=4), INPUT, OUTPUT, dtype=dtype)
    x = torch.zeros(T, B, INPUT, dtype=dtype)
    x[2, 1, 0] = float("nan")
    outputs = unroll(cell, x, engine="native").outputs
    assert outputs[2:, 1].isnan().all()
    assert outputs[:, [0, 2, 3, 4]].isfinite().all() and outputs[:2].isfinite().all()


@pytest.mark.usefixtures("instruction_set")
def test_normal_numbers_are_normal():
    z = draw_noise((50, 160, 7), 1.0, seed=3, counter=11, dtype=torch.float32).double().flatten()
    n = z.numel()
    assert abs(z.mean().item()) < 4 / math.sqrt(n)
    assert abs(z.square().mean().item() - 1) < 4 * math.sqrt(2 / n)
    assert abs((z**4).mean().item() - 3) < 4 * math.sqrt(96 / n)
    uniform = (0.5 * (1 + torch.erf(z / math.sqrt(2)))).sort().values
    distance = (uniform - (torch.arange(n) + 0.5) / n).abs().max().item()
    assert distance < 1.95 / math.sqrt(n)  # Kolmogorov-Smirnov, one in a thousand
    blocks = z.view(50, 160, 7)
    for a, b in ((blocks[1:], blocks[:-1]), (blocks[:, 1:], blocks[:, :-1]), (blocks[..., 1:], blocks[..., :-1])):
        assert abs((a * b).mean().item()) < 4.5 / math.sqrt(a.numel())


@pytest.mark.usefixtures("instruction_set")
def test_random_numbers_depend_on_their_place_alone():
    whole = draw_noise((6, 40, 9), 0.1, seed=1, counter=2, dtype=torch.float32)
    assert torch.equal(draw_noise((3, 21, 9), 0.1, seed=1, counter=2, dtype=torch.float32), whole[:3, :21])
    torch.testing.assert_close(
        draw_noise((6, 40, 9), 0.1, seed=1, counter=2, dtype=torch.float64).float(), whole, rtol=1e-6, atol=1e-8
    )
    for change in ({"seed": 2}, {"counter": 3}):
        other = draw_noise((6, 40, 9), 0.1, dtype=torch.float32, **{"seed": 1, "counter": 2, **change})
        assert not (other == whole).any()


@pytest.mark.usefixtures("instruction_set")
def test_sampling_masks_have_their_probability():
    for probability in (0.0, 0.02, 0.5, 1.0):
        feed = draw_feed((50, 1000), probability, seed=5, counter=1)
        deviation = math.sqrt(probability * (1 - probability) / feed.numel())
        assert abs(feed.double().mean().item() - probability) <= 4.5 * deviation


def test_a_long_sequence_fits_into_a_gigabyte():
    model = WorldModel(
        WorldModelConfig(observation_size=4, action_size=2, feature_size=16, init_steps=2, init_layers=3)
    )
    observations, actions = torch.zeros(1000, 128, 4), torch.zeros(1000, 128, 2)
    model(observations, actions).predictions.sum().backward()
    (compiled,) = model._programs.values()
    assert compiled.native.tape_bytes(False, 1000, 128) < 0.5e9


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["gatel0rd", "lstm"])
def test_small_batches_have_kernels_of_their_own_and_the_same_bits(name, dtype):
    cell = build_cell(CellConfig(name=name, hidden_size=5), 3, 4, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 19, 3, dtype=dtype, generator=generator)
    resets = torch.rand(7, 19, generator=generator) < 0.2

    def results(count):
        given = x[:, :count].clone().requires_grad_()
        outputs, latents, _, state = unroll(cell, given, resets=resets[:, :count], engine="native")
        weights = torch.linspace(-1, 1, outputs.shape[-1], dtype=dtype)
        (gradient,) = torch.autograd.grad((outputs.square() * weights).sum() + latents.sum(), given)
        return [outputs, latents, gradient, *(part[None] for part in state)]

    whole = results(19)
    for count in (1, 3, 4, 5, 8, 9, 16):
        for few, many in zip(results(count), whole, strict=True):
            assert torch.equal(few, many[:, :count])
