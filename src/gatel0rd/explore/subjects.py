"""What is explored: models, each with the recordings in its own columns."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gatel0rd.config import from_json
from gatel0rd.recordings.reading import RecordingError, Recordings, from_arrays
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.data import GENERATORS, generate

if TYPE_CHECKING:
    from gatel0rd.models.fitted import FittedModel

MADE = 64
"""How many sequences are made of a scenario if no data is given."""


@dataclass(frozen=True)
class Subject:
    """A model under a name, with the recordings in its columns and order."""

    name: str
    model: FittedModel
    recordings: Recordings

    @property
    def scenario(self) -> str | None:
        return scenario_of(self.model)


def scenario_of(model: FittedModel) -> str | None:
    """The scenario of the paper that a model was trained on, if it was one."""
    scenario = model.info.get("run", {}).get("scenario")
    return scenario if scenario in GENERATORS else None


def prepare(models: Sequence[tuple[str, FittedModel]], recordings: Recordings | None) -> list[Subject]:
    """Models with data: the one given, or some that their scenario makes."""
    if not models:
        raise ValueError("there is no model to explore; expected at least one")
    named = [(name, with_names(model)) for name, model in models]
    if recordings is None:
        recordings = made_by_scenario([model for _, model in named])
    subjects = []
    for (name, given), (_, renamed) in zip(models, named, strict=True):
        known = {*recordings.observation_names, *recordings.action_names}
        model = renamed if known.issuperset((*renamed.observation_names, *renamed.action_names)) else given
        subjects.append(
            Subject(name, model, recordings.aligned(model.observation_names, model.action_names, f"model {name}"))
        )
    return subjects


def with_names(model: FittedModel) -> FittedModel:
    """A model of a scenario with its columns' names instead of numbers; others as they are."""
    scenario = scenario_of(model)
    if scenario is None:
        return model
    world = importlib.import_module(f"gatel0rd.worlds.{GENERATORS[scenario]}.env")
    observed, acted = world.OBSERVATION_NAMES, getattr(world, "ACTION_NAMES", ())
    if (len(observed), len(acted)) != (len(model.observation_names), len(model.action_names)):
        return model
    return replace(model, observation_names=tuple(observed), action_names=tuple(acted))


def made_by_scenario(models: Sequence[FittedModel]) -> Recordings:
    """Sequences of the scenario that all models share, from the recipe that the first was evaluated on."""
    scenarios = {scenario_of(model) for model in models}
    if scenarios == {None}:
        raise RecordingError("the models are of your own data; name it too, as in `gatel0rd explore MODEL data.csv`")
    if len(scenarios) > 1:
        found = ", ".join(sorted(scenario or "own data" for scenario in scenarios))
        raise RecordingError(f"the models are of different worlds ({found}); explore those of one at a time")
    recipe = from_json(DataRecipe, models[0].info["run"]["evaluation_data"][0])
    data = generate(replace(recipe, sequences=MADE))
    return from_arrays(
        data.observations,
        data.actions,
        observation_names=models[0].observation_names,
        action_names=models[0].action_names,
        names=[f"{recipe.split} {index + 1}" for index in range(MADE)],
    )
