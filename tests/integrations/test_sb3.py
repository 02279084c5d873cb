"""Our cells in sb3-contrib's RecurrentPPO."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("sb3_contrib")

from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy

from gatel0rd.integrations.sb3 import MemoryPolicy, join_loss
from gatel0rd.nn.functional import l0_penalty

pytestmark = pytest.mark.filterwarnings("default")


def policy(kind=MemoryPolicy, **options):
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    torch.manual_seed(0)
    return kind(env.observation_space, env.action_space, lambda _: 0.001, lstm_hidden_size=6, **options)


@pytest.mark.parametrize("layers", [1, 2])
def test_our_lstm_is_theirs(layers):
    ours = policy(cell="lstm", n_lstm_layers=layers)
    theirs = policy(RecurrentActorCriticPolicy, n_lstm_layers=layers)
    weights = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if ".stack.layers." in name:
                memory, _, rest = name.partition(".stack.layers.")
                layer, _, kind = rest.partition(".")
                parameter.copy_(
                    weights[f"{memory}.{kind.replace('_ih', '_ih_l' + layer).replace('_hh', '_hh_l' + layer)}"]
                )
            else:
                parameter.copy_(weights[name])
    generator = torch.Generator().manual_seed(1)
    observations = torch.randn(3 * 7, 4, generator=generator)
    starts = (torch.rand(3 * 7, generator=generator) < 0.3).float()
    states = tuple(torch.randn(layers, 3, 6, generator=generator) for _ in range(2))
    for made in (ours, theirs):
        made.pair = made._process_sequence(observations, states, starts, made.lstm_actor)
    torch.testing.assert_close(ours.pair[0], theirs.pair[0], rtol=1e-5, atol=1e-6)
    for mine, other in zip(ours.pair[1], theirs.pair[1], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", ["gatel0rd", "gru", "elman", "lstm"])
def test_recurrent_ppo_learns_with_any_cell(cell):
    model = RecurrentPPO(
        MemoryPolicy,
        "CartPole-v1",
        n_steps=64,
        batch_size=32,
        n_epochs=2,
        seed=0,
        device="cpu",
        policy_kwargs={"cell": cell, "lstm_hidden_size": 8, "sparsity_weight": 0.1, "gate_noise": 0.1},
    )
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(128)
    changed = [not torch.equal(old, new) for old, new in zip(before, model.policy.parameters(), strict=True)]
    assert all(changed)
    state = None
    observation = model.env.reset()
    for _ in range(3):
        action, state = model.predict(observation, state=state, episode_start=np.ones(1), deterministic=True)
        observation, _, _, _ = model.env.step(action)
    assert state[0].shape == (1, 1, 8)


def test_a_joined_loss_is_minimised_with_the_others():
    outputs, gates = torch.randn(5, requires_grad=True), torch.rand(4, requires_grad=True)
    join_loss(outputs, 0.3 * l0_penalty(gates)).square().sum().backward()
    torch.testing.assert_close(outputs.grad, 2 * outputs.detach())
    torch.testing.assert_close(gates.grad, torch.full((4,), 0.3 / 4))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="cell is 'clockwork'; expected gatel0rd, gru, elman or lstm"):
        policy(cell="clockwork")
    with pytest.raises(ValueError, match="lstm_kwargs are"):
        policy(lstm_kwargs={"bias": False})
