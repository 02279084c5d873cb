"""What is measured: the training steps of the paper, as the worlds themselves define them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from gatel0rd.models.config import WorldModelConfig
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.world_model_run import WorldModelRun
from gatel0rd.training.config import TrainConfig

EXPERIMENTS = ("billiard/scheduled-sampling", "rrc/generalization", "shepherd/prediction")
BATCH = TrainConfig(epochs=1).batch_size


@dataclass(frozen=True)
class Size:
    """A training step of the paper: a world's name, the model, and over how many steps it predicts."""

    name: str
    model: WorldModelConfig
    steps: int


@cache
def paper_sizes(cell: str = "gatel0rd") -> tuple[Size, ...]:
    """The training steps of three worlds with one of the cells that the paper compares."""
    sizes = []
    for experiment in EXPERIMENTS:
        run = plan(find(experiment), profile="paper", seeds=[0], cells=[cell])[0]
        assert isinstance(run, WorldModelRun)
        # the first observation is given, so that one step less is predicted
        sizes.append(Size(run.scenario, run.model, run.train_data.steps - 1))
    return tuple(sizes)


def size_of(name: str) -> Size:
    """GateL0RD's training step in one world."""
    return next(size for size in paper_sizes() if size.name == name)


def make_batch(size: Size) -> tuple[Tensor, Tensor]:
    """Random observations and actions of a world's shape, [T + 1, B, ·] each."""
    generator = torch.Generator().manual_seed(0)
    shape = (size.steps + 1, BATCH)
    observations = torch.rand(*shape, size.model.observation_size, generator=generator) * 2 - 1
    actions = torch.rand(*shape, size.model.action_size, generator=generator) * 2 - 1
    return observations, actions
