"""World models with outputs that they are never shown, such as rewards; and the layer without memory."""

from __future__ import annotations

import pytest
import torch

from gatel0rd.engine import status
from gatel0rd.models import WorldModel, load_model, save_model
from gatel0rd.models.config import OutcomeModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.training import TrainConfig, make_stepper

T, B, O, A, H, R = 7, 5, 5, 2, 4, 2  # noqa: E741


def make(engine="torch", cell="gatel0rd", **words):
    config = OutcomeModelConfig(
        observation_size=O,
        action_size=A,
        cell=CellConfig(name=cell, hidden_size=H),
        feature_size=6,
        **{"outcomes": R, **words},
    )
    model = WorldModel(config, engine=engine)
    model.reset_parameters(torch.Generator().manual_seed(3))
    return model.eval()


def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(T, B, O, generator=generator), torch.randn(T, B, A, generator=generator)


@pytest.mark.parametrize("words", [{}, {"transitions": 0}, {"init_layers": 0}, {"init_steps": 3}])
def test_outcomes_are_never_shown(words):
    model, (observations, actions) = make(**words), inputs()
    other = observations.clone()
    other[..., -R:] += 10
    ours, theirs = model(observations, actions), model(other, actions)
    assert torch.equal(ours.predictions, theirs.predictions)
    other[..., 0] += 1
    assert not torch.allclose(model(other, actions).predictions, ours.predictions)


def test_outcomes_are_predicted_as_they_are_and_the_rest_as_changes():
    model, (observations, actions) = make(transitions=0), inputs()
    with torch.no_grad():
        model.post[-1].weight.zero_()
        model.post[-1].bias.copy_(torch.arange(float(O)))
    predictions = model(observations, actions).predictions
    scale = model.config.residual_scale
    expected = observations.clone()
    expected[..., -R:] = 0
    assert torch.allclose(predictions, expected + scale * torch.arange(float(O)))


@pytest.mark.skipif(status()["engine"] != "native", reason="compares the engine with PyTorch")
@pytest.mark.parametrize(
    ("cell", "words"),
    [("gatel0rd", {}), ("gru", {"init_layers": 0}), ("none", {"transitions": 0}), ("lstm", {"init_steps": 2})],
)
def test_the_engine_agrees_with_pytorch(cell, words):
    observations, actions = inputs()
    feed = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.5
    results = []
    for engine in ("torch", "native"):
        model = make(engine, cell, **words)
        rollout = model(observations, actions, feed)
        rollout.predictions.square().sum().backward()
        gradients = [torch.zeros(1) if weight.grad is None else weight.grad for weight in model.parameters()]
        results.append((rollout.predictions, gradients))  # nothing reads what f_init says where there is no memory
        ahead = model.prepare_predictions()(rollout.state, observations[-1], actions)
        assert torch.allclose(ahead, model.rollout(rollout.state, observations[-1], actions).predictions, atol=1e-6)
    (ours, our_gradients), (theirs, their_gradients) = results
    assert torch.allclose(ours, theirs, atol=1e-5)
    for one, other in zip(our_gradients, their_gradients, strict=True):
        assert torch.allclose(one.expand_as(other), other, atol=1e-4)


def test_the_compiled_step_learns_rewards_that_depend_on_the_memory():
    generator = torch.Generator().manual_seed(0)
    seen = 0.1 * torch.randn(9, 64, 1, generator=generator)
    rewards = torch.zeros_like(seen)
    rewards[2:] = seen[:-2]  # known before, but not from the last observation
    data = torch.cat([seen, rewards], dim=-1)
    errors = {}
    for cell in ("gru", "none"):
        config = OutcomeModelConfig(
            observation_size=2, action_size=0, cell=CellConfig(name=cell, hidden_size=8), transitions=0, outcomes=1
        )
        model = WorldModel(config)
        model.reset_parameters(torch.Generator().manual_seed(0))
        train = TrainConfig(epochs=1, learning_rate=0.01, clip_norm=1.0, teacher_forcing=True)
        stepper = make_stepper(model, train, data, torch.zeros(9, 64, 0), seed=0)
        for counter in range(400):
            stepper.step(torch.arange(64), probability=1.0, counter=counter, generator=generator)
        with torch.no_grad():
            found = model(data[:-1], torch.zeros(8, 64, 0)).predictions[1:, :, 1]
        errors[cell] = (found - data[2:, :, 1]).square().mean().item()
    assert errors["gru"] < 0.3 * errors["none"]


def test_a_layer_without_memory_forgets():
    model, (observations, actions) = make(cell="none", transitions=0), inputs()
    other = observations.clone()
    other[:-1] += 1
    assert torch.equal(model(observations, actions).predictions[-1], model(other, actions).predictions[-1])


def test_it_survives_the_disk(tmp_path):
    model, (observations, actions) = make(cell="gru"), inputs()
    save_model(tmp_path / "model.safetensors", model)
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.config == model.config
    assert torch.allclose(loaded(observations, actions).predictions, model(observations, actions).predictions)


def test_something_must_be_seen():
    with pytest.raises(ValueError, match="5 of 5 observations are outcomes"):
        make(outcomes=O)
