"""Model-predictive control: plan, take the first action, look, plan again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.foresight import Foresight
from gatel0rd.planning.icem import ICEM, ICEMConfig
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Episodes:
    """What happened: observations [T+1, E, O], actions [T, E, A], steps until the goal was reached [E], -1 if never.

    ``steps`` [E] says how long each episode took. After its end nothing happens: the last observation stays, and
    actions are the task's idle one.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.planning import Episodes
        >>> observations, actions = np.zeros((11, 2, 4)), np.zeros((10, 2, 2))
        >>> Episodes(observations, actions, reached=np.array([8, -1]), steps=np.array([8, 10])).success_rate
        0.5
    """

    observations: Array
    actions: Array
    reached: Rows
    steps: Rows

    @property
    def success_rate(self) -> float:
        return float((self.reached >= 0).mean())


def control(
    task: ControlTask,
    foresight: Foresight,
    *,
    episodes: int,
    generator: np.random.Generator,
    config: ICEMConfig | None = None,
    only: Rows | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
    watch: Callable[[ICEM, Rows], None] = lambda planner, rows: None,
) -> Episodes:
    """Run episodes of a task in parallel with iCEM until all have reached their goal or the time is over.

    An episode's start and its planner's random numbers depend on the generator and the episode's number only: its
    trajectory is the same whichever other episodes run with it, and however many.

    Args:
        foresight: the model, learned or true.
        config: the task's own search if not given.
        only: numbers of the episodes to run, as in ``np.array([3])``; all if not given.
        on_step: told the number of each step that is over, and how many there are at most.
        watch: shown the planner after each plan, before its action is taken, and the numbers of its episodes.

    Example:
        >>> import numpy as np
        >>> import gatel0rd.worlds
        >>> from gatel0rd.planning import ICEMConfig, TrueForesight, control
        >>> task = gatel0rd.worlds.get("rrc").make_task()
        >>> search = ICEMConfig(horizon=10, samples=16, elites=4)
        >>> rng = np.random.default_rng(0)
        >>> episodes = control(task, TrueForesight(task), episodes=2, generator=rng, config=search)
        >>> episodes.observations.shape[1:]
        (2, 4)
    """
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; expected at least 1")
    rows = np.arange(episodes) if only is None else only
    everyone = generator.spawn(episodes)
    generators = [everyone[row] for row in rows]
    planner = ICEM(*task.bounds(), config or task.search, generator=generators)
    seen = task.reset(generators)
    under_way = np.arange(len(rows))  # columns of the arrays below
    foresight.begin(seen)
    observations, taken = [seen], []
    reached, steps = np.full((2, len(rows)), -1)
    for t in range(task.limit):
        if foresight.ready():
            chosen = planner.plan(lambda sequences: task.cost(foresight.predict(sequences), sequences))
            watch(planner, rows[under_way])
        else:
            chosen = np.tile(task.idle, (len(under_way), 1))
        seen, now = task.step(chosen)
        foresight.advance(chosen, seen)
        actions = np.tile(task.idle, (len(rows), 1))
        actions[under_way] = chosen
        taken.append(actions)
        observations.append(observations[-1].copy())
        observations[-1][under_way] = seen
        steps[under_way] = t + 1
        reached[under_way[now]] = t + 1
        on_step(t + 1, task.limit)
        if now.all() or task.ended():
            break
        if now.any():
            rest = np.flatnonzero(~now)
            under_way = under_way[rest]
            for part in (task, foresight, planner):
                part.keep(rest)
    return Episodes(np.stack(observations), np.stack(taken), reached, steps)
