"""How long do generators of data take, compared with one environment after the other?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measure import Comparison, Group, Work

COUNT, STEPS = 64, 50


def shots(*, together: bool) -> Work:
    """64 balls, side by side on tables of their own or one after the other."""
    from gatel0rd.worlds.billiard_ball import dynamics

    table = dynamics.BilliardTable(COUNT if together else 1)
    position, velocity = dynamics.random_shots(COUNT, np.random.default_rng(0))

    def run() -> None:
        for first in range(0, COUNT, COUNT if together else 1):
            balls = slice(first, COUNT if together else first + 1)
            table.shoot(position[balls], velocity[balls])
            for _ in range(STEPS):
                table.step()

    return run


def meadows(*, together: bool) -> Work:
    """64 meadows, as arrays or as environments one after the other."""
    from gatel0rd.worlds.shepherd import dynamics
    from gatel0rd.worlds.shepherd.env import Shepherd

    meadow, rng = Shepherd(), np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (STEPS, COUNT, 3))
    agents = rng.uniform(dynamics.LOWEST, dynamics.HIGHEST, (COUNT, 2))
    sheep = dynamics.sample_sheep(rng, meadow.rules, (COUNT,))

    def as_arrays() -> None:
        state = dynamics.start(agents, *sheep)
        for action in actions:
            dynamics.observe(state, meadow.rules.mask)
            state = dynamics.transition(state, action)

    def one_by_one() -> None:
        for index in range(COUNT):
            meadow.reset(options={"agent": agents[index]})
            for action in actions[:, index]:
                meadow.step(action)

    return as_arrays if together else one_by_one


def compare_data() -> Iterator[Comparison]:
    """64 trajectories of 50 steps."""
    for name, make, peer in (
        ("billiard", shots, "one ball at a time"),
        ("shepherd", meadows, "environments stepped"),
    ):
        ours, theirs = partial(make, together=True), partial(make, together=False)
        yield Comparison(f"data/{name}-{COUNT}x{STEPS}", ours, peer, theirs)


GROUPS = (Group("data", compare_data, (1,)),)
