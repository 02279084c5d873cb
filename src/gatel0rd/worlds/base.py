"""What a world is: everything that the rest of the library asks it for.

A world is one folder and one registration. Its class says what it has, and imports simulators, PyTorch and Pillow only
inside the methods that need them, so that all worlds can be listed at once. What a world does not override, it does not
offer: a world with data can be trained on, one with a task can be planned in, one with steering can be driven live.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import gymnasium
    import numpy as np
    from numpy.typing import NDArray

    from gatel0rd.files import Arrays
    from gatel0rd.models import WorldModel
    from gatel0rd.planning import ControlTask
    from gatel0rd.training.dataset import Dataset, Progress
    from gatel0rd.training.recipe import DataRecipe, Preset
    from gatel0rd.worlds.experiments import Question, Scenario
    from gatel0rd.worlds.steering import Steering

    Events = dict[str, NDArray[np.bool_]]
    Picture = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """An environment as Gymnasium registers it.

    Attributes:
        id: for ``gymnasium.make``.
        entry_point: ``module:Class``, which is imported when it is needed, or the class itself.
        time_limit: steps after which an episode is truncated.
        options: arguments with which the class is called.

    Example:
        >>> from gatel0rd.worlds import EnvironmentSpec
        >>> spec = EnvironmentSpec(id="mine/Line-v0", entry_point="my_worlds:Line", time_limit=50)
        >>> spec.time_limit
        50
    """

    id: str
    entry_point: str | Callable[..., gymnasium.Env[Any, Any]]
    time_limit: int
    options: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Callable[..., gymnasium.Env[Any, Any]]:
        """The environment's class."""
        if not isinstance(self.entry_point, str):
            return self.entry_point
        module, _, name = self.entry_point.partition(":")
        loaded: Callable[..., gymnasium.Env[Any, Any]] = getattr(importlib.import_module(module), name)
        return loaded


class Thing(NamedTuple):
    """Something that moves in a world, and the columns among the observations that say where it is.

    Example:
        >>> from gatel0rd.worlds import get
        >>> [thing.name for thing in get("rrc").things]
        ['agent', 'robot']
    """

    name: str
    columns: tuple[int, ...]


class World:
    """What a world offers. Subclass it, override what the world has, and register an instance.

    Attributes:
        name: what commands, files and records call it: lower-case letters, digits and hyphens.
        title: what reports call it.
        environment: the Gymnasium environment; None: there is none of ours.
        observation_names, action_names: the columns of its data.
        things: what moves in it, for figures.
        boundaries: names of the labelled events that segmentation should find.
        exact_event: an event at whose very input a gate should open: hits and false alarms are counted there. None:
            open gates are matched with all events, within a tolerance.
        memory_event: an event that a latent state has to hold on to: how many of its dimensions change is counted in
            sequences with it and in sequences without it. None: that is not counted.
        steering: how a person drives it in the explorer; None: not at all.

    Example:
        >>> from gatel0rd.worlds import World, names, register, unregister
        >>> class Line(World):
        ...     name, title = "line", "A line"
        ...     observation_names, action_names = ("x",), ("push",)
        >>> line = register(Line())
        >>> "line" in names(), line.has_data
        (True, False)
        >>> unregister("line")
    """

    name: str
    title: str
    environment: EnvironmentSpec | None = None
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    things: tuple[Thing, ...] = ()
    boundaries: tuple[str, ...] = ()
    exact_event: str | None = None
    memory_event: str | None = None
    steering: Steering | None = None

    # ---- sizes and questions

    @property
    def scenario(self) -> Scenario:
        """Sizes of model and data, evaluation sets and schedule; for worlds with data."""
        raise self._lacks("data", "scenario")

    def experiments(self) -> Sequence[Question]:
        """The questions that are asked in it."""
        return ()

    # ---- environment

    def make_environment(
        self, *, preset: Preset = "text", render_mode: str | None = None, render_size: int = 320
    ) -> gymnasium.Env[Any, Any]:
        """The environment by a preset's rules; override it if the presets differ, or to translate the arguments."""
        if self.environment is None:
            raise self._lacks("environment", "environment")
        return self.environment.load()(render_mode=render_mode, render_size=render_size)

    # ---- data

    @property
    def has_data(self) -> bool:
        """Whether data can be made."""
        return self.made_in_parts or type(self).generate is not World.generate

    @property
    def made_in_parts(self) -> bool:
        """Whether data is made in parts, on all cores."""
        return type(self).generate_part is not World.generate_part

    def generate(self, recipe: DataRecipe, progress: Progress) -> Dataset:
        """The whole data set of a recipe; the same recipe gives the same bytes."""
        raise self._lacks("data", "generate")

    def part_sizes(self, recipe: DataRecipe) -> list[int]:
        """Where data takes long: how many sequences each part has."""
        raise self._lacks("data in parts", "part_sizes")

    def generate_part(self, recipe: DataRecipe, number: int) -> Arrays:
        """One part: ``observations``, ``actions``, ``strata``, and a ``label.NAME`` for each label.

        It may depend on the recipe and its number only. Parts are made in processes that find the world by its name.
        """
        raise self._lacks("data in parts", "generate_part")

    def describe_data(self, data: Dataset) -> str | None:
        """Something to say about a data set that was just made; None: nothing."""
        return None

    # ---- labels

    def events(self, data: Dataset) -> Events:
        """Labelled events, name -> whether one happens at that observation, [N, T]."""
        return {}

    def examples(self, data: Dataset) -> dict[str, int]:
        """Sequences worth looking at, name -> their index; they are kept in records and shown in films and figures."""
        return {}

    def is_over(self, data: Dataset) -> NDArray[np.bool_]:
        """Where nothing can happen any more, [N, T]; gates are not counted there."""
        import numpy as np

        return np.zeros(data.observations.shape[:2], dtype=bool)

    def measure_in_training(self, model: WorldModel, data: Dataset) -> dict[str, float]:
        """What is measured in addition to the error, at every evaluation during training."""
        return {}

    # ---- control and drawing

    @property
    def has_task(self) -> bool:
        """Whether there is something to plan."""
        return type(self).make_task is not World.make_task

    def make_task(self, preset: Preset = "text") -> ControlTask:
        """What is planned, by a preset's rules."""
        raise self._lacks("control task", "make_task")

    def draw(self, history: NDArray[np.float64], height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
        """The scene as observations up to now tell it.

        Args:
            history: observations [t, O], real or predicted.
            height: of the picture in pixels.
            enlarged: factor on the radii, where the scene has any; the control task's.
            trail_from: when the drawn trails begin.
        """
        raise self._lacks("drawing", "draw")

    def _lacks(self, what: str, method: str) -> ValueError:
        return ValueError(
            f"{self.title} has no {what}; its class {type(self).__name__} would have to define {method!r}"
        )
