"""Model-predictive control: plan, take the first action, look, plan again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.foresight import Foresight
from gatel0rd.planning.icem import ICEM, ICEMConfig
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import World


@dataclass(frozen=True)
class Episodes:
    """What happened: observations [T+1, E, O], actions [T, E, A], steps until the goal was reached [E], -1 if never."""

    observations: Array
    actions: Array
    reached: NDArray[np.int64]

    @property
    def success_rate(self) -> float:
        return float((self.reached >= 0).mean())


def control(
    world: World,
    foresight: Foresight,
    *,
    episodes: int,
    generator: np.random.Generator,
    config: ICEMConfig | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
    watch: Callable[[ICEM], None] = lambda planner: None,
) -> Episodes:
    """Run episodes of a world side by side with iCEM until all have reached their goal or the time is over.

    Args:
        foresight: the model, learned or true.
        config: iCEM with the task's horizon if not given.
        on_step: told the number of each step that is over, and how many there are at most.
        watch: shown the planner after each plan, before its action is taken.
    """
    task = world.task
    planner = ICEM(
        *world.bounds(),
        config or ICEMConfig(horizon=task.horizon),
        episodes=episodes,
        generator=generator,
    )
    observations = [world.reset(episodes, generator)]
    foresight.begin(observations[0])
    taken: list[Array] = []
    reached = np.full(episodes, -1)
    for t in range(task.limit):
        if foresight.ready():
            actions = planner.plan(lambda sequences: world.cost(foresight.predict(sequences), sequences))
            watch(planner)
        else:
            actions = np.tile(task.idle, (episodes, 1))
        seen, now = world.step(actions)
        foresight.advance(actions, seen)
        observations.append(seen)
        taken.append(actions)
        reached = np.where((reached < 0) & now, t + 1, reached)
        on_step(t + 1, task.limit)
        if (reached >= 0).all() or world.ended():
            break
    return Episodes(np.stack(observations), np.stack(taken), reached)
