"""Fetch Pick&Place: a robot arm on MuJoCo, seen without velocities (Sec. 6.5). Two worlds share this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.worlds.base import EnvironmentSpec, Thing, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gatel0rd.files import Arrays
    from gatel0rd.planning import ControlTask
    from gatel0rd.training.dataset import Dataset
    from gatel0rd.training.recipe import DataRecipe, Preset
    from gatel0rd.worlds.base import Events, Picture
    from gatel0rd.worlds.experiments import Experiment, Scenario


class FetchWorld(World):
    """Reach, grasp and lift, in training always grasped at step 5."""

    name = "fetch"
    title = "Fetch Pick&Place"
    environment = EnvironmentSpec(
        id="gatel0rd/FetchPickAndPlace-v0",
        entry_point="gatel0rd.worlds.fetch_pick_and_place.env:FetchPickAndPlace",
        time_limit=50,
    )
    observation_names = (
        *("gripper_x", "gripper_y", "gripper_z"),
        *("object_x", "object_y", "object_z"),
        *("relative_x", "relative_y", "relative_z"),
        *("right_finger", "left_finger"),
    )
    action_names = ("pull_x", "pull_y", "pull_z", "fingers")
    things = (Thing("gripper", (0, 1, 2)), Thing("object", (3, 4, 5)))
    boundaries: tuple[str, ...] = ("grasp",)
    memory_event = "grasp"

    @property
    def scenario(self) -> Scenario:
        from gatel0rd.worlds.fetch_pick_and_place.experiments import SCENARIO

        return SCENARIO

    def experiments(self) -> Sequence[Experiment]:
        from gatel0rd.worlds.fetch_pick_and_place.experiments import EXPERIMENTS

        return tuple(experiment for experiment in EXPERIMENTS if experiment.scenario.name == self.name)

    def part_sizes(self, recipe: DataRecipe) -> list[int]:
        from gatel0rd.worlds.fetch_pick_and_place.data import part_sizes

        return part_sizes(recipe)

    def generate_part(self, recipe: DataRecipe, number: int) -> Arrays:
        from gatel0rd.worlds.fetch_pick_and_place.data import generate_part

        return generate_part(recipe, number)

    def describe_data(self, data: Dataset) -> str | None:
        from gatel0rd.worlds.fetch_pick_and_place.data import describe_rejected

        return describe_rejected(data)

    def events(self, data: Dataset) -> Events:
        from gatel0rd.worlds.fetch_pick_and_place.events import label_events

        return label_events(data)

    def examples(self, data: Dataset) -> dict[str, int]:
        from gatel0rd.worlds.fetch_pick_and_place.events import choose_examples

        return choose_examples(data)

    def make_task(self, preset: Preset = "text") -> ControlTask:
        from gatel0rd.worlds.fetch_pick_and_place.task import Placing

        return Placing()

    def draw(self, history: NDArray[np.float64], height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
        from gatel0rd.worlds.fetch_pick_and_place.drawing import draw_history

        return draw_history(history, height, trail_from=trail_from)


class FetchDiverseWorld(FetchWorld):
    """All ways of moving the object: grasp, push, slide, flick."""

    name = "fetch-diverse"
    title = "Fetch Pick&Place, diverse"
    boundaries = ()

    @property
    def scenario(self) -> Scenario:
        from gatel0rd.worlds.fetch_pick_and_place.experiments import DIVERSE

        return DIVERSE
