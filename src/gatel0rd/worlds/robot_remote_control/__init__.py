"""Robot Remote Control: an agent that controls a robot next door once it was at a computer (Sec. 6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.worlds.base import EnvironmentSpec, Thing, World
from gatel0rd.worlds.steering import ARROWS, Steering

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gatel0rd.planning import ControlTask
    from gatel0rd.training.dataset import Dataset, Progress
    from gatel0rd.training.recipe import DataRecipe, Preset
    from gatel0rd.worlds.base import Events, Picture
    from gatel0rd.worlds.experiments import Experiment, Scenario


class RobotRemoteControlWorld(World):
    """Whether the robot is controlled is hidden."""

    name = "rrc"
    title = "Robot Remote Control"
    environment = EnvironmentSpec(
        id="gatel0rd/RobotRemoteControl-v0",
        entry_point="gatel0rd.worlds.robot_remote_control.env:RobotRemoteControl",
        time_limit=50,
    )
    observation_names = ("agent_x", "agent_y", "robot_x", "robot_y")
    action_names = ("move_x", "move_y")
    things = (Thing("agent", (0, 1)), Thing("robot", (2, 3)))
    boundaries = ("control",)
    exact_event = "control"
    memory_event = "control"
    steering = Steering(
        help="The arrow keys move the agent; reach the computer, then drive the robot to the goal.",
        waiting="The agent waits.",
        keys=ARROWS,
        messages={"controlled": ("the agent is at the computer: from now on the robot moves along", None)},
        ended="the robot reached its goal",
    )

    @property
    def scenario(self) -> Scenario:
        from gatel0rd.worlds.robot_remote_control.experiments import SCENARIO

        return SCENARIO

    def experiments(self) -> Sequence[Experiment]:
        from gatel0rd.worlds.robot_remote_control.experiments import EXPERIMENTS

        return EXPERIMENTS

    def generate(self, recipe: DataRecipe, progress: Progress) -> Dataset:
        from gatel0rd.worlds.robot_remote_control.data import generate

        return generate(recipe, progress)

    def events(self, data: Dataset) -> Events:
        from gatel0rd.worlds.robot_remote_control.events import label_events

        return label_events(data)

    def examples(self, data: Dataset) -> dict[str, int]:
        from gatel0rd.worlds.robot_remote_control.events import choose_examples

        return choose_examples(data)

    def make_task(self, preset: Preset = "text") -> ControlTask:
        from gatel0rd.worlds.robot_remote_control.task import RemoteControl

        return RemoteControl()

    def draw(self, history: NDArray[np.float64], height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
        from gatel0rd.worlds.robot_remote_control.drawing import draw_history

        return draw_history(history, height, enlarged=enlarged, trail_from=trail_from)
