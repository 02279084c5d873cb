"""How long does it take to imagine futures and to plan with them, compared with PyTorch?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from benchmarks.measure import Comparison, Group, Work
from benchmarks.sizes import size_of
from gatel0rd.engine import EngineName
from gatel0rd.models import WorldModel


def futures(engine: EngineName) -> Work:
    """256 futures of 50 steps from one state, without gradients."""
    model = WorldModel(size_of("rrc").model, engine=engine).eval()
    observation, actions = torch.zeros(256, 4), torch.rand(50, 256, 2)
    state = model.initial(observation.unsqueeze(0), actions[:1])

    @torch.no_grad()
    def run() -> None:
        model.rollout(state, observation, actions)

    return run


def control_step(engine: EngineName) -> Work:
    """One plan of iCEM in Robot Remote Control: 623 futures of 50 steps, their costs, the next action."""
    from gatel0rd.planning import ICEM, ICEMConfig, LearnedForesight
    from gatel0rd.worlds.robot_remote_control.task import RemoteControl

    world, rng = RemoteControl(), np.random.default_rng(0)
    foresight = LearnedForesight(WorldModel(size_of("rrc").model, engine=engine))
    planner = ICEM(-np.ones(2), np.ones(2), ICEMConfig(horizon=50), generator=rng)
    foresight.begin(world.reset([rng]))
    foresight.advance(np.zeros((1, 2)), world.step(np.zeros((1, 2)))[0])
    return lambda: planner.plan(lambda sequences: world.cost(foresight.predict(sequences), sequences))


def compare_planning() -> Iterator[Comparison]:
    for name, make in (("256x50", futures), ("rrc-step", control_step)):
        yield Comparison(f"planning/{name}", partial(make, "native"), "torch path", partial(make, "torch"))


GROUPS = (Group("planning", compare_planning),)
