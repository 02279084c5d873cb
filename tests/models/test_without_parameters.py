"""Modules whose weights are no parameters: replicas of nn.DataParallel, and quantized copies."""

from __future__ import annotations

import importlib

import pytest
import torch
from shapes import INPUT, B, H, T

from gatel0rd import GateL0RD, GateL0RDCell, WorldModel, WorldModelConfig
from gatel0rd.models import ActorCritic, ActorCriticConfig

ACTIONS = 2

pytestmark = [
    pytest.mark.filterwarnings("ignore::gatel0rd.engine.SlowPathWarning"),
    pytest.mark.filterwarnings("ignore:.*quanti"),
]


def layer(hidden):
    rnn = GateL0RD(INPUT, hidden, num_layers=2)
    return rnn, lambda module: module(torch.ones(T, B, INPUT))[0]


def cell():
    return GateL0RDCell(INPUT, H), lambda module: module(torch.ones(B, INPUT))[0]


def world_model():
    model = WorldModel(WorldModelConfig(observation_size=INPUT, action_size=ACTIONS))
    given = torch.ones(T, B, INPUT), torch.ones(T, B, ACTIONS)
    return model, lambda module: module(*given, None, module.sample_noise(T, B)).predictions


def agent():
    model = ActorCritic(ActorCriticConfig(observation_shape=(INPUT,), actions=ACTIONS))
    return model, lambda module: module(torch.ones(T, B, INPUT), module.initial_state(B)).values


MODULES = {
    "layer": lambda: layer(H),
    "large layer": lambda: layer(64),
    "cell": cell,
    "world": world_model,
    "agent": agent,
}


def replicate(module):
    """A replica, as nn.DataParallel makes them on GPUs."""
    made = importlib.import_module("torch.nn.parallel.replicate")
    with pytest.MonkeyPatch.context() as patch:
        copies = lambda tensors, devices, detach=False: [[t.clone() for t in tensors] for _ in devices]  # noqa: E731
        patch.setattr(made, "_broadcast_coalesced_reshape", copies)
        return made.replicate(module, [0, 1])[1]


def results(run, module):
    torch.manual_seed(1)
    return run(module)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_replicas_compute_the_same(name, autocast):
    torch.manual_seed(0)
    module, run = MODULES[name]()
    module.eval()
    with torch.autocast("cpu", enabled=autocast):
        ours, theirs = results(run, replicate(module)), results(run, module)
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=0, atol=0.02 if autocast else 1e-5)
    if not autocast:
        found = [torch.autograd.grad(r.sum(), [*module.parameters()], allow_unused=True) for r in (ours, theirs)]
        for a, b in zip(*found, strict=True):
            if a is None or b is None:  # the actor, which has no part in the values
                assert not any(gradient is not None and gradient.any() for gradient in (a, b))
            else:
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_replicas_keep_states_and_gates_in_the_type_of_their_weights():
    rnn = replicate(GateL0RD(INPUT, H))
    with torch.autocast("cpu"):
        output, h_n, gates = rnn(torch.ones(T, B, INPUT, dtype=torch.bfloat16), return_gates=True)
    assert output.dtype == torch.bfloat16 and h_n.dtype == gates.dtype == torch.float32


@pytest.mark.skipif(torch.backends.quantized.engine == "none", reason="PyTorch quantizes nothing on this machine")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_quantized_copies_compute_about_the_same(name, training):
    torch.manual_seed(0)
    module, run = MODULES[name]()
    quantized = torch.ao.quantization.quantize_dynamic(module.train(training))
    assert next(quantized.parameters(), None) is None
    assert results(run, quantized).shape == results(run, module).shape
    if not training:
        torch.testing.assert_close(results(run, quantized), results(run, module), rtol=0, atol=0.1)
