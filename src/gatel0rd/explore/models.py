"""The models that are explored, each with the recordings in its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gatel0rd.config import from_json
from gatel0rd.recordings import RecordingError, Recordings, from_arrays
from gatel0rd.recordings.segmentation import read_choice
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import obtain_examples

if TYPE_CHECKING:
    from gatel0rd.models.fitted import FittedModel
    from gatel0rd.recordings.detector import ChangeDetector
    from gatel0rd.recordings.method import MethodChoice


@dataclass(frozen=True)
class ExploredModel:
    """A model under a name, with the recordings in its columns and order.

    Attributes:
        known_changes: by sequence, what the method ``changes`` found there.
    """

    name: str
    model: FittedModel
    recordings: Recordings
    known_changes: dict[int, dict[str, Any] | None] = field(default_factory=dict)

    @cached_property
    def choice(self) -> MethodChoice | None:
        """How the fit segments; None for models from elsewhere."""
        return read_choice(self.model)

    @property
    def method(self) -> str | None:
        return None if self.choice is None else self.choice.method

    @property
    def detector(self) -> ChangeDetector | None:
        return None if self.choice is None else self.choice.detector

    @cached_property
    def points(self) -> list[FittedModel]:
        """The models of the fit's curve."""
        return [self.model.take_variant(place) for place in range(len(self.model.variants))]

    def take_point(self, point: int | None) -> FittedModel:
        """The model at a point of the fit's curve; the chosen one if none is given."""
        return self.model if point is None else self.points[point]

    @property
    def scenario(self) -> str | None:
        return scenario_of(self.model)


def scenario_of(model: FittedModel) -> str | None:
    """The world that a model was trained on, if it can make data; None if it was trained on other data."""
    scenario = model.info.get("run", {}).get("scenario")
    world = registry.find(scenario)
    return world.name if world is not None and world.has_data else None


def prepare_models(models: Sequence[tuple[str, FittedModel]], recordings: Recordings | None) -> list[ExploredModel]:
    """Models with the recordings that are given, or some that their world generates.

    Models may have different columns; recordings need those of all.
    """
    if not models:
        raise ValueError("no model was given; expected at least one")
    named = [(name, name_columns(model)) for name, model in models]
    if recordings is None:
        recordings = generate_recordings([model for _, model in named])
    explored = []
    for (name, given), (_, renamed) in zip(models, named, strict=True):
        known = {*recordings.observation_names, *recordings.action_names}
        model = renamed if known.issuperset((*renamed.observation_names, *renamed.action_names)) else given
        own = recordings.select_columns(model.observation_names, model.action_names, f"model {name}")
        explored.append(ExploredModel(name, model, own))
    return explored


def name_columns(model: FittedModel) -> FittedModel:
    """A model of a scenario with the names of its columns instead of numbers; other models as they are."""
    scenario = scenario_of(model)
    if scenario is None:
        return model
    world = registry.get(scenario)
    observed, acted = world.observation_names, world.action_names
    if (len(observed), len(acted)) != (len(model.observation_names), len(model.action_names)):
        return model
    return replace(model, observation_names=observed, action_names=acted)


def generate_recordings(models: Sequence[FittedModel]) -> Recordings:
    """Sequences of the scenario that all models share, by the recipe that the first was evaluated on."""
    scenarios = {scenario_of(model) for model in models}
    if scenarios == {None}:
        raise RecordingError(
            "the models were trained on your own data; name it too, as in `gatel0rd explore MODEL data.csv`"
        )
    if len(scenarios) > 1:
        found = ", ".join(sorted(scenario or "own data" for scenario in scenarios))
        raise RecordingError(
            f"the models were trained on different worlds ({found}); explore one world at a time, or name data for all"
        )
    recipe = from_json(DataRecipe, models[0].info["run"]["evaluation_data"][0])
    data = obtain_examples(recipe)
    return from_arrays(
        data.observations,
        data.actions,
        observation_names=models[0].observation_names,
        action_names=models[0].action_names,
        names=[f"{recipe.split} {index + 1}" for index in range(len(data.observations))],
    )
