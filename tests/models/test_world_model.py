from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from shapes import B, T
from torch.func import functional_call, stack_module_state, vmap

from gatel0rd import CellConfig, WorldModel, WorldModelConfig, load_model, save_model
from gatel0rd.files import FileError

OBSERVATION, ACTION = 3, 2
CELLS = ["gatel0rd", "elman", "gru", "lstm", "clockwork"]


def make(name="gatel0rd", *, dtype=torch.float64, layers=1, seed=0, **options) -> WorldModel:
    cell = CellConfig(name=name, hidden_size=4, num_layers=layers)
    config = WorldModelConfig(
        observation_size=OBSERVATION, action_size=ACTION, cell=cell, **{"feature_size": 5, **options}
    )
    model = WorldModel(config, dtype=dtype)
    model.reset_parameters(torch.Generator().manual_seed(seed))
    return model.eval()


def sequences(dtype=torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return (
        torch.randn(T, B, OBSERVATION, dtype=dtype, generator=generator),
        torch.randn(T, B, ACTION, dtype=dtype, generator=generator),
    )


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("init_steps", [1, 2])
@pytest.mark.parametrize("name", CELLS)
def test_forward_equals_the_single_step_interface(name, init_steps):
    """Whatever is fed in, predictions are o_t + 0.1·y_t of a step-by-step run."""
    model = make(name, init_steps=init_steps, layers=2)
    observations, actions = sequences()
    feed = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.5
    result = model(observations, actions, feed)
    state = model.initial(observations, actions)
    predicted = None
    for t in range(T):
        real = feed[t] if t >= init_steps else torch.ones(B, dtype=torch.bool)
        fed = observations[t] if t == 0 else torch.where(real[:, None], observations[t], predicted)
        predicted, state, gates = model.step(state, fed, actions[t])
        torch.testing.assert_close(result.predictions[t], predicted, rtol=1e-12, atol=1e-14)
        if gates is not None:
            torch.testing.assert_close(result.gates[t], gates, rtol=1e-12, atol=1e-14)
    for ours, theirs in zip(result.state, state, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_one_step_by_hand():
    model = make()
    observations, actions = sequences()
    x = torch.cat([actions[0], observations[0]], dim=-1)
    features = x
    for layer in range(3):
        features = torch.tanh(features @ model.pre[2 * layer].weight.T + model.pre[2 * layer].bias)
    h_0 = torch.tanh(torch.tanh(x @ model.init[0][0].weight.T + model.init[0][0].bias) @ model.init[0][2].weight.T
                     + model.init[0][2].bias)  # fmt: skip
    output = model.core.cells[0](features, (h_0,)).output
    expected = observations[0] + 0.1 * (output @ model.post[0].weight.T + model.post[0].bias)
    torch.testing.assert_close(model(observations, actions).predictions[0], expected, rtol=1e-13, atol=1e-15)


def test_layer_widths_of_the_paper():
    """RRC: f_pre 32 -> 16 -> 8, f_init 16 -> 8 (16 -> 16 for the h and c of an LSTM), linear f_post."""
    for name, latent in (("gatel0rd", 8), ("lstm", 16)):
        config = WorldModelConfig(observation_size=4, action_size=2, cell=CellConfig(name=name, num_layers=2))
        model = WorldModel(config)
        widths = {
            part: [layer.out_features for layer in getattr(model, part) if isinstance(layer, torch.nn.Linear)]
            for part in ("pre", "post")
        }
        assert widths == {"pre": [32, 16, 8], "post": [4]}
        assert [[layer.out_features for layer in net if hasattr(layer, "out_features")] for net in model.init] == [
            [16, latent],
            [16, latent],
        ]
        assert model.init[0][0].in_features == 6


@pytest.mark.usefixtures("instruction_set")
def test_free_run_equals_rollout_from_its_first_state():
    model = make()
    observations, actions = sequences()
    free = model.free_run(observations, actions)
    rolled = model.rollout(model.initial(observations, actions), observations[0], actions)
    torch.testing.assert_close(free.predictions, rolled.predictions, rtol=1e-13, atol=1e-15)
    changed = observations.clone()
    changed[1:] += 1
    assert torch.equal(model.free_run(changed, actions).predictions, free.predictions)
    assert not torch.equal(model(changed, actions).predictions, model(observations, actions).predictions)
    later = model.free_run(observations, actions, real_steps=4)
    forced = model(observations, actions)
    assert torch.equal(later.predictions[:4], forced.predictions[:4])
    assert not torch.equal(later.predictions[4:], forced.predictions[4:])


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("name", CELLS)
def test_prepared_predictions_are_those_of_a_rollout(name, engine):
    model = make(name).train()
    model.engine = engine
    observations, actions = sequences()
    state = model.initial(observations, actions)
    predictions = model.prepare_predictions()(state, observations[0], actions)
    torch.testing.assert_close(
        predictions, model.rollout(state, observations[0], actions).predictions, rtol=0, atol=1e-12
    )
    assert predictions.transpose(0, 1).is_contiguous() and not predictions.requires_grad and model.training
    with pytest.raises(ValueError, match=r"actions have shape \(1, 5, 1\); expected \(T, B, 2\)"):
        model.prepare_predictions()(state, observations[0], actions[..., :1])


def test_rollout_goes_on_from_a_state_in_the_middle():
    model = make("lstm")
    observations, actions = sequences()
    head = model(observations[:3], actions[:3])
    tail = model.rollout(head.state, observations[3], actions[3:])
    feed = torch.zeros(T, B, dtype=torch.bool)
    feed[:4] = True
    torch.testing.assert_close(
        tail.predictions, model(observations, actions, feed).predictions[3:], rtol=1e-13, atol=1e-15
    )


def test_gradients_flow_through_fed_back_predictions():
    model = make()
    observations, actions = sequences()
    observations.requires_grad_()
    error = model.free_run(observations, actions).predictions[-1].sum()
    (gradient,) = torch.autograd.grad(error, observations)
    assert gradient[0].abs().min() > 0
    assert gradient[1:].abs().max() == 0


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", CELLS)
def test_gradients_of_the_closed_loop_are_right(name):
    model = make(name)
    observations, actions = sequences()
    weights = tuple(model.post[0].parameters())

    def loss(weight, bias):
        parameters = {"post.0.weight": weight, "post.0.bias": bias}
        return functional_call(model, parameters, (observations, actions, torch.zeros(T, B, dtype=torch.bool)))[0]

    if name == "gatel0rd":  # away from the kink
        with torch.no_grad():
            model.core.cells[0].gate_net[0].bias += 2
    assert torch.autograd.gradcheck(loss, weights)


def test_without_f_init_the_state_starts_at_zero():
    model = make("lstm", init_layers=0)
    observations, actions = sequences()
    assert len(model.init) == 0
    assert all(tensor.abs().max() == 0 for tensor in model.initial(observations, actions))


@pytest.mark.parametrize("name", CELLS)
def test_seeds_vmapped_equal_seeds_alone(name):
    models = [make(name, seed=seed) for seed in range(3)]
    observations, actions = sequences()
    feed = torch.rand(T, B, generator=torch.Generator().manual_seed(1)) < 0.5
    noise = models[0].sample_noise(T, B, torch.Generator().manual_seed(2))
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0])

    def loss(parameters, buffers):
        rollout = functional_call(base, (parameters, buffers), (observations, actions, feed, noise))
        return (rollout.predictions[:-1] - observations[1:]).square().mean()

    losses = vmap(loss)(parameters, buffers)
    gradients = vmap(torch.func.grad(loss))(parameters, buffers)
    for index, model in enumerate(models):
        rollout = model(observations, actions, feed, noise)
        alone = (rollout.predictions[:-1] - observations[1:]).square().mean()
        torch.testing.assert_close(losses[index], alone, rtol=1e-12, atol=0)
        alone.backward()
        for key, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[key][index], parameter.grad, rtol=1e-9, atol=1e-14)


def test_same_seed_same_weights_and_the_global_generator_stays_alone():
    model = make()
    before = torch.get_rng_state()
    model.reset_parameters(torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)
    first = copy.deepcopy(model.state_dict())
    model.reset_parameters(torch.Generator().manual_seed(3))
    assert all(torch.equal(first[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", CELLS)
def test_model_files_keep_everything(name, tmp_path):
    model = make(name, dtype=torch.float32, layers=2, init_steps=2)
    save_model(tmp_path / "model.safetensors", model)
    loaded = load_model(tmp_path / "model.safetensors")
    observations, actions = sequences(torch.float32)
    assert loaded.config == model.config
    assert not loaded.training
    assert torch.equal(loaded(observations, actions).predictions, model(observations, actions).predictions)


def test_a_model_file_of_another_model_is_an_error(tmp_path):
    from gatel0rd.files import load_arrays, save_arrays
    from gatel0rd.models.io import load_weights

    path = tmp_path / "model.safetensors"
    save_model(path, make("gru"))
    arrays, _ = load_arrays(path, kind="model")
    with pytest.raises(FileError, match=r"belongs to another model: core\.layers\.0\.gate_net\.0\.weight is missing"):
        load_weights(make("gatel0rd"), arrays, path)
    save_arrays(path, {"x": np.zeros(2)}, kind="dataset", metadata={})
    with pytest.raises(FileError, match="is gatel0rd dataset; expected a gatel0rd model"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o, a: (o[..., :2], a), r"observations have shape \(7, 5, 2\); expected \(T, B, 3\)"),
        (lambda o, a: (o, a[0]), r"actions have shape \(5, 2\); expected \(T, B, 2\)"),
        (lambda o, a: (o.float(), a), "observations are torch.float32; the model's weights are torch.float64"),
        (lambda o, a: (o[1:], a), r"observations have \(T, B\) = \(6, 5\) and actions \(7, 5\)"),
    ],
)
def test_wrong_inputs_are_errors(change, message):
    with pytest.raises(ValueError, match=message):
        make()(*change(*sequences()))


def test_wrong_inputs_to_single_steps_are_errors():
    model, (observations, actions) = make(), sequences()
    state = model.initial(observations, actions)
    with pytest.raises(ValueError, match=r"observations have shape \(1, 5, 2\); expected \(T, B, 3\)"):
        model.step(state, observations[0, :, :2], actions[0])
    with pytest.raises(ValueError, match=r"actions have shape \(1, 5, 1\); expected \(T, B, 2\)"):
        model.rollout(state, observations[0], actions[..., :1])
    with pytest.raises(ValueError, match=r"actions have shape \(7, 5, 1\)"):
        model.initial(observations, actions[..., :1])
    with pytest.raises(ValueError, match=r"feed is torch.float32 of shape \(7, 5\); expected boolean, \(7, 5\)"):
        model(observations, actions, torch.ones(T, B))
