"""Billiard Ball: a ball on a pool table, whose velocity is hidden (Sec. 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.worlds.base import EnvironmentSpec, Thing, World
from gatel0rd.worlds.steering import Shot, Steering

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gatel0rd.training.dataset import Dataset, Progress
    from gatel0rd.training.recipe import DataRecipe
    from gatel0rd.worlds.base import Events, Picture
    from gatel0rd.worlds.experiments import Experiment, Scenario


class BilliardBallWorld(World):
    """Nobody acts here: there is data, but no task."""

    name = "billiard"
    title = "Billiard Ball"
    environment = EnvironmentSpec(
        id="gatel0rd/BilliardBall-v0",
        entry_point="gatel0rd.worlds.billiard_ball.env:BilliardBall",
        time_limit=150,
    )
    observation_names = ("ball_x", "ball_y")
    things = (Thing("ball", (0, 1)),)
    boundaries = ("cushion contact", "drop")
    memory_event = "cushion contact"
    steering = Steering(
        help="Click to place the ball; drag to shoot it in that direction.",
        waiting="The ball waits.",
        may_run=True,
        shot=Shot(
            place="position",
            velocity="velocity",
            half_picture=(1.09, 1.18),
            reach=(0.96, 0.93),
            speed=(2.0, 1.0),
            fastest=2.0,
            stopped="pocketed",
        ),
        messages={
            "cushion": ("the ball hit a cushion", None),
            "pocketed": ("the ball fell into a pocket", None),
        },
    )

    @property
    def scenario(self) -> Scenario:
        from gatel0rd.worlds.billiard_ball.experiments import SCENARIO

        return SCENARIO

    def experiments(self) -> Sequence[Experiment]:
        from gatel0rd.worlds.billiard_ball.experiments import EXPERIMENTS

        return EXPERIMENTS

    def generate(self, recipe: DataRecipe, progress: Progress) -> Dataset:
        from gatel0rd.worlds.billiard_ball.data import generate

        return generate(recipe, progress)

    def events(self, data: Dataset) -> Events:
        from gatel0rd.worlds.billiard_ball.events import label_events

        return label_events(data)

    def examples(self, data: Dataset) -> dict[str, int]:
        from gatel0rd.worlds.billiard_ball.events import choose_examples

        return choose_examples(data)

    def is_over(self, data: Dataset) -> NDArray[np.bool_]:
        """A ball that rests in a pocket: nothing can happen to it."""
        rests: NDArray[np.bool_] = data.labels["pocketed"]
        return rests

    def draw(self, history: NDArray[np.float64], height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
        from gatel0rd.worlds.billiard_ball.drawing import draw_history

        return draw_history(history, height, trail_from=trail_from)
