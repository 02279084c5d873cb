"""Shepherd: a sheep that is hidden behind a wall, a gate and a cage (Sec. 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gatel0rd.worlds.base import EnvironmentSpec, Thing, World
from gatel0rd.worlds.steering import ARROWS, Steering, Toggle

if TYPE_CHECKING:
    import gymnasium
    import numpy as np
    from numpy.typing import NDArray

    from gatel0rd.models import WorldModel
    from gatel0rd.planning import ControlTask
    from gatel0rd.training.dataset import Dataset, Progress
    from gatel0rd.training.recipe import DataRecipe, Preset
    from gatel0rd.worlds.base import Events, Picture
    from gatel0rd.worlds.experiments import Experiment, Scenario


class ShepherdWorld(World):
    """Where the sheep is hidden, and whether the gate is open, has to be remembered. Presets differ in their rules."""

    name = "shepherd"
    title = "Shepherd"
    environment = EnvironmentSpec(
        id="gatel0rd/Shepherd-v0", entry_point="gatel0rd.worlds.shepherd.env:Shepherd", time_limit=60
    )
    observation_names = ("agent_x", "agent_y", "cage_x", "cage_y", "sheep_x", "sheep_y", "wall")
    action_names = ("move_x", "move_y", "grasp")
    things = (Thing("agent", (0, 1)), Thing("cage", (2, 3)), Thing("sheep", (4, 5)))
    boundaries = ("sheep hidden", "gate opened", "cage grasped", "cage dropped", "sheep caught")
    memory_event = "sheep hidden"
    steering = Steering(
        help="The arrow keys move the agent, space takes or puts down the cage, and a full stop waits one step.",
        waiting="The agent waits.",
        keys={key: (*move, 0.0) for key, move in ARROWS.items()},
        toggles={" ": Toggle(index=2, status="carried", on="holding the cage", off="hands free")},
        wait_key=".",
        may_run=True,
        messages={
            "hidden": ("the sheep is hidden behind the wall", "the sheep came out"),
            "gate_open": ("the agent is at the lever: the gate is open", None),
            "carried": ("the agent took the cage", "the agent put the cage down"),
            "caught": ("the sheep is caught", None),
        },
    )

    @property
    def scenario(self) -> Scenario:
        from gatel0rd.worlds.shepherd.experiments import SCENARIO

        return SCENARIO

    def experiments(self) -> Sequence[Experiment]:
        from gatel0rd.worlds.shepherd.experiments import EXPERIMENTS

        return EXPERIMENTS

    def make_environment(
        self, *, preset: Preset = "text", render_mode: str | None = None, render_size: int = 320
    ) -> gymnasium.Env[Any, Any]:
        from gatel0rd.worlds.shepherd.env import Shepherd

        return Shepherd(preset=preset, render_mode=render_mode, render_size=render_size)

    def generate(self, recipe: DataRecipe, progress: Progress) -> Dataset:
        from gatel0rd.worlds.shepherd.data import generate

        return generate(recipe, progress)

    def events(self, data: Dataset) -> Events:
        from gatel0rd.worlds.shepherd.events import label_events

        return label_events(data)

    def examples(self, data: Dataset) -> dict[str, int]:
        from gatel0rd.worlds.shepherd.events import choose_examples

        return choose_examples(data)

    def measure_in_training(self, model: WorldModel, data: Dataset) -> dict[str, float]:
        from gatel0rd.worlds.shepherd.events import measure_reappearance

        return measure_reappearance(model, data)

    def make_task(self, preset: Preset = "text") -> ControlTask:
        from gatel0rd.worlds.shepherd.task import Herding

        return Herding(preset)

    def draw(self, history: NDArray[np.float64], height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
        from gatel0rd.worlds.shepherd.drawing import draw_history

        return draw_history(history, height, enlarged=enlarged, trail_from=trail_from)
