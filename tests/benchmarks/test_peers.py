"""Benchmarks compare like with like: the peers compute what we compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import agents
from benchmarks.__main__ import GROUPS
from benchmarks.sizes import BATCH, make_batch, paper_sizes, size_of
from benchmarks.steps import BASELINES, count_flops, training_step
from gatel0rd import WorldModel
from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.models.encoders import GridEncoder
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.functional import l0_penalty

SLOW_GROUPS = ("compile", "jax", "agent")


def test_sizes_are_those_of_the_paper():
    assert [(size.name, size.steps) for size in paper_sizes()] == [("billiard", 50), ("rrc", 49), ("shepherd", 99)]
    assert BATCH == 128
    assert size_of("billiard").model.cell.net_layers == 3
    for cell in BASELINES:
        layers = [size.model.cell.num_layers for size in paper_sizes(cell)]
        assert layers == [3, 1, 1] and {size.model.cell.name for size in paper_sizes(cell)} == {cell}


def test_flops_are_counted_as_by_hand():
    """RRC: f_pre 6·32 + 32·16 + 16·8, g and r 16·8 each, p and o 16·8 each, f_post 8·4; f_init 6·16 + 16·8 once."""
    body = 3 * (4 * 32 + 32 * 16 + 16 * 8 + 4 * 16 * 8 + 8 * 4) + 2 * (2 * 32)
    prologue = 2 * 6 * 16 + 3 * 16 * 8
    assert count_flops(size_of("rrc")) == 2 * 128 * (49 * body + prologue)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("size", paper_sizes(), ids=lambda size: size.name)
def test_the_jax_peer_computes_our_loss_and_gradients(size):
    import jax
    import jax.numpy as jnp

    from benchmarks.jax_peer import loss, weights_of

    size = replace(size, steps=6)
    model = WorldModel(size.model)
    observations, actions = make_batch(size)
    feed = torch.rand(6, BATCH) < 0.5
    noise = model.sample_noise(6, BATCH)
    arrays = [jnp.asarray(tensor.numpy()) for tensor in (observations, actions, feed, noise)]
    value, gradient = jax.value_and_grad(loss)(weights_of(model), *arrays, size.model)
    rollout = model(observations[:-1], actions[:-1], feed, noise)
    ours = (rollout.predictions - observations[1:]).square().mean() + 0.001 * l0_penalty(rollout.gates)
    ours.backward()
    assert float(value) == pytest.approx(ours.item(), rel=1e-5)
    for name, module in (("pre", model.pre[0]), ("g", model.core.cells[0].gate_net[0]), ("init", model.init[0][0])):
        np.testing.assert_allclose(np.asarray(gradient[name][0][0]).T, module.weight.grad, rtol=1e-3, atol=1e-7)


SHAPE = (7, 8, 3)
STEPS, COUNT = 6, 5


def test_convolutions_of_torch_compute_what_our_encoder_computes(generator):
    encoder = GridEncoder((9, 11, 3))
    images = torch.rand(COUNT, 9, 11, 3, generator=generator)
    theirs = agents.make_convolutions(encoder)(images.permute(0, 3, 1, 2))
    (ours,) = encoder(images.flatten(1))
    # ours has channels last: [N, X', Y', 64], theirs [N, 64, X', Y']
    torch.testing.assert_close(theirs.view(COUNT, 64, 2, 3).permute(0, 2, 3, 1).flatten(1), ours)


def test_the_agent_that_is_called_step_by_step_computes_what_ours_does(generator):
    config = ActorCriticConfig(observation_shape=SHAPE, actions=4, cell=CellConfig(name="lstm", hidden_size=2))
    peer = agents.StepByStep(config)
    ours = ActorCritic(config)
    ours.load_state_dict({**ours.state_dict(), **{k: v for k, v in peer.state_dict().items() if "encoder" not in k}})
    for linear, convolution in zip(
        ours.encoder.convolutions, (part for part in peer.encoder if hasattr(part, "weight")), strict=True
    ):
        linear.weight.data = convolution.weight.data.permute(0, 2, 3, 1).flatten(1)
        linear.bias.data = convolution.bias.data
    images = torch.randint(0, 9, (STEPS, COUNT, *SHAPE), generator=generator)
    starts = torch.rand(STEPS, COUNT, generator=generator) < 0.3
    state = tuple(torch.rand(COUNT, 2, generator=generator) for _ in range(2))
    found, expected = peer(images, state, starts), ours(images, state, starts)
    torch.testing.assert_close(found.policy.log_probs, expected.policy.log_probs)
    for name in ("values", "outputs", "latents", "state"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


@pytest.mark.slow
def test_agents_and_their_peers_train(monkeypatch):
    """One rollout and its update of each; shares of our time add up to 1."""
    from benchmarks import sb3_peer

    config = replace(agents.CONFIG, environments=2, steps=8, chunk=4, batch_size=8, epochs=2)
    monkeypatch.setattr(agents, "CONFIG", config)
    monkeypatch.setattr(sb3_peer, "CONFIG", config)
    sb3_peer.make_recurrent_ppo("gymnasium")()
    for kind in (ActorCritic, agents.StepByStep):
        training = agents.Training("gymnasium", kind=kind)
        before = [parameter.detach().clone() for parameter in training.learner.agent.parameters()]
        training.run()
        moved = [
            not torch.equal(old, new) for old, new in zip(before, training.learner.agent.parameters(), strict=True)
        ]
        assert all(moved)
    shares = agents.measure_shares(training, rounds=2)
    assert set(shares) == {"environments", "acting", "update"} and min(shares.values()) > 0
    assert sum(shares.values()) == pytest.approx(1, abs=0.002)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own
@pytest.mark.parametrize("group", [group for group in GROUPS if group.name not in SLOW_GROUPS], ids=lambda g: g.name)
def test_both_sides_of_the_first_row_of_each_group_run(group):
    """Distinct names within a group, and candidates that can be made and called."""
    comparisons = list(group.comparisons())
    assert len({(comparison.name, comparison.peer) for comparison in comparisons}) == len(comparisons)
    assert all(comparison.name.startswith(f"{group.name}/") for comparison in comparisons)
    for comparison in comparisons if group.name in ("data", "planning") else comparisons[:1]:
        comparison.make_ours()()
        comparison.make_peer()()


def test_the_compiled_peer_compiles_the_step_of_the_torch_path(monkeypatch):
    """Without the compiler, which takes half a minute."""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda step: compiled.append(step) or step)
    training_step(replace(size_of("rrc"), steps=3), "torch", compiled=True)()
    assert [step.__name__ for step in compiled] == ["_step"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own
@pytest.mark.parametrize("group", [group for group in GROUPS if group.name in ("jax", "agent")], ids=lambda g: g.name)
def test_peers_of_other_libraries_run(group):
    comparison = list(group.comparisons())[1]
    comparison.make_ours()()
    comparison.make_peer()()
