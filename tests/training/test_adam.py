"""Adam's state moves between the compiled optimizer and PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gatel0rd.engine.optimizer import FlatAdam
from gatel0rd.training.adam import read_adam, restore_adam

RATE, BETAS, EPSILON = 0.01, (0.8, 0.95), 1e-6


def module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def loss(net: nn.Module, step: int) -> torch.Tensor:
    inputs = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    return (net(inputs) - inputs[:, :2]).square().mean()


class Trained:
    """A module with one of the two optimizers, which take the same steps."""

    def __init__(self, kind: str) -> None:
        self.net = module()
        self.parameters = dict(self.net.named_parameters())
        if kind == "flat":
            self.optimizer = FlatAdam(list(self.net.parameters()), gradients=True)
        else:
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE, betas=BETAS, eps=EPSILON)

    def train(self, steps: range) -> None:
        for step in steps:
            loss(self.net, step).backward()
            if isinstance(self.optimizer, FlatAdam):
                self.optimizer.update(rate=RATE, betas=BETAS, epsilon=EPSILON, clip=1e9)
            else:
                self.optimizer.step()
                self.optimizer.zero_grad()


@pytest.mark.parametrize("second", ["flat", "torch"])
@pytest.mark.parametrize("first", ["flat", "torch"])
def test_training_continues_with_the_same_or_the_other_optimizer(first, second):
    whole, begun, resumed = Trained(first), Trained(first), Trained(second)
    whole.train(range(9))
    begun.train(range(4))
    resumed.net.load_state_dict(begun.net.state_dict())
    state = read_adam(begun.optimizer, begun.parameters)
    assert state.steps == 4 and list(state.exp_avg) == list(state.exp_avg_sq) == list(begun.parameters)
    assert {name: tuple(tensor.shape) for name, tensor in state.exp_avg.items()} == {
        name: tuple(parameter.shape) for name, parameter in begun.parameters.items()
    }
    restore_adam(resumed.optimizer, resumed.parameters, state)
    resumed.train(range(4, 9))
    tolerance = {"rtol": 0.0, "atol": 0.0} if first == second else {"rtol": 1e-9, "atol": 1e-12}
    for ours, theirs in zip(resumed.net.parameters(), whole.net.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)
    assert read_adam(resumed.optimizer, resumed.parameters).steps == 9


def test_the_state_of_an_optimizer_that_took_no_step():
    for kind in ("flat", "torch"):
        for other in ("flat", "torch"):
            fresh, target = Trained(kind), Trained(other)
            target.train(range(3))
            state = read_adam(fresh.optimizer, fresh.parameters)
            assert state.steps == 0 and not any(tensor.any() for tensor in state.exp_avg.values())
            if other == "flat":
                restore_adam(target.optimizer, target.parameters, state)
                assert target.optimizer.updates == 0 and not target.optimizer.mean.any()


def test_frozen_parameters_have_no_state():
    trained = Trained("torch")
    trained.net[0].weight.requires_grad_(False)
    trained.train(range(2))
    state = read_adam(trained.optimizer, trained.parameters)
    assert list(state.exp_avg) == ["0.bias", "2.weight", "2.bias"]
    again = Trained("torch")
    restore_adam(again.optimizer, again.parameters, state)
    assert torch.equal(again.optimizer.state[again.net[2].weight]["exp_avg"], state.exp_avg["2.weight"])
    assert not again.optimizer.state[again.net[0].weight]
