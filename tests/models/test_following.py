"""World models whose memory sees what just happened."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch

from gatel0rd.engine import status
from gatel0rd.models import WorldModel, load_model, save_model
from gatel0rd.models.config import FollowingModelConfig, WorldModelConfig
from gatel0rd.nn.config import CellConfig

T, B, O, A, H = 7, 5, 3, 2, 4  # noqa: E741


def make(engine="torch", cell="gatel0rd", **words):
    config = FollowingModelConfig(
        observation_size=O, action_size=A, cell=CellConfig(name=cell, hidden_size=H), feature_size=6, **words
    )
    model = WorldModel(config, engine=engine)
    model.reset_parameters(torch.Generator().manual_seed(3))
    return model.eval()


def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(T, B, O, generator=generator), torch.randn(T, B, A, generator=generator)


def test_steps_are_the_rollout():
    model, (observations, actions) = make(init_steps=2), inputs()
    state = model.initial(observations, actions)
    assert [part.shape[1] for part in state] == list(model.state_sizes) == [H, O, O, A]
    rollout = model(observations, actions)
    for time in range(T):
        prediction, state, gates = model.step(state, observations[time], actions[time])
        assert torch.allclose(prediction, rollout.predictions[time], atol=1e-6)
        assert torch.allclose(gates, rollout.gates[time], atol=1e-6)
        assert torch.allclose(model.latents(state), rollout.latents[time], atol=1e-6)
    assert all(torch.allclose(ours, theirs) for ours, theirs in zip(state, rollout.state, strict=True))


def test_the_output_sees_the_last_transition_only_through_the_memory():
    model, (observations, actions) = make(), inputs()
    with torch.no_grad():
        core = model.core.cells[0]
        core.gate_net[0].bias.fill_(-100.0)  # closed: nothing can be remembered
    state = model.initial(observations, actions)
    other = (*state[:1], *(part + 1 for part in state[1:]))
    ours, theirs = (model.step(own, observations[1], actions[1]) for own in (state, other))
    assert torch.equal(ours.observation, theirs.observation)
    with torch.no_grad():
        core.gate_net[0].bias.fill_(1.0)
    ours, theirs = (model.step(own, observations[1], actions[1]) for own in (state, other))
    assert not torch.allclose(ours.observation, theirs.observation)


def test_errors_are_zero_where_the_model_was_fed_its_prediction():
    model, (observations, actions) = make(), inputs()
    rollout = model.free_run(observations, actions, 2)
    _, before, expected, acted = rollout.state
    assert torch.equal(before, rollout.predictions[-2])  # what was fed last
    assert torch.equal(acted, actions[-1]) and torch.equal(expected, rollout.predictions[-1])


@pytest.mark.skipif(status()["engine"] != "native", reason="compares the engine with PyTorch")
@pytest.mark.parametrize(("cell", "transitions"), [("gatel0rd", 1), ("gru", 1), ("gatel0rd", 3)])
def test_the_engine_agrees_with_pytorch(cell, transitions):
    observations, actions = inputs()
    models = [make(engine, cell, init_steps=2, transitions=transitions) for engine in ("torch", "native")]
    feed = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.5
    results = []
    for model in models:
        rollout = model(observations, actions, feed)
        rollout.predictions.square().sum().backward()
        results.append((rollout, {name: weight.grad for name, weight in model.named_parameters()}))
    (ours, our_gradients), (theirs, their_gradients) = results
    assert torch.allclose(ours.predictions, theirs.predictions, atol=1e-5)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours.state, theirs.state, strict=True))
    for name, gradient in our_gradients.items():
        assert torch.allclose(gradient, their_gradients[name], rtol=1e-3, atol=1e-4), name
    ahead = [model.rollout(ours.state, observations[-1], actions).predictions for model in models]
    assert torch.allclose(*ahead, atol=1e-5)


def test_files_know_it(tmp_path):
    model, (observations, actions) = make(), inputs()
    save_model(tmp_path / "m.safetensors", model)
    again = load_model(tmp_path / "m.safetensors")
    assert isinstance(again.config, FollowingModelConfig)
    assert np.allclose(
        again(observations, actions).predictions.detach(), model(observations, actions).predictions.detach()
    )
    assert "transitions" not in asdict(
        WorldModelConfig(observation_size=1, action_size=0)
    )  # the paper's runs keep their names


def test_the_memory_sees_several_transitions():
    model, (observations, actions) = make(transitions=3), inputs()
    assert model.state_sizes == (H, O, O, A, 2 * O + A, 2 * O + A)
    rollout = model(observations, actions)
    scale = model.config.residual_scale
    *_, newest, oldest = rollout.state
    for place, happened in ((T - 1, newest), (T - 2, oldest)):
        change = (observations[place] - observations[place - 1]) / scale
        error = (observations[place] - rollout.predictions[place - 1]) / scale
        expected = torch.cat([change, error, actions[place - 1]], dim=-1)
        assert torch.allclose(happened, expected, atol=1e-5)
    ours, theirs = (
        model.step((*rollout.state[:-1], past), observations[0], actions[0]).gates for past in (oldest, oldest + 1)
    )
    assert not torch.allclose(ours, theirs)
    assert torch.equal(model.initial(observations, actions)[-1], torch.zeros(B, 2 * O + A))


def test_no_transitions_are_an_error():
    with pytest.raises(ValueError, match="transitions is 0; expected at least 1"):
        make(transitions=0)
