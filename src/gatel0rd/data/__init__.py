"""Data sets: generation by recipe, splits, files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gatel0rd.config import DataRecipe
from gatel0rd.data.dataset import Dataset
from gatel0rd.files import FileError

__all__ = ["GENERATORS", "Dataset", "generate", "obtain"]


def _robot_remote_control(recipe: DataRecipe) -> Dataset:
    from gatel0rd.data import robot_remote_control

    return robot_remote_control.generate(recipe)


GENERATORS: dict[str, Callable[[DataRecipe], Dataset]] = {"rrc": _robot_remote_control}
"""Scenario name -> function from recipe to data set."""


def generate(recipe: DataRecipe) -> Dataset:
    """Make the data set that a recipe describes."""
    if recipe.scenario not in GENERATORS:
        raise ValueError(f"there is no scenario {recipe.scenario!r}; there are {', '.join(GENERATORS)}")
    if recipe.sequences < 1 or recipe.steps < 2:
        raise ValueError(
            f"{recipe.sequences} sequences of {recipe.steps} steps; expected at least 1 of at least 2 steps"
        )
    return GENERATORS[recipe.scenario](recipe)


def obtain(recipe: DataRecipe, directory: Path) -> Dataset:
    """The data set from its file in ``directory``, made and saved there first if it is missing."""
    path = directory / f"{recipe.name}.safetensors"
    if not path.exists():
        generate(recipe).save(directory)
    data = Dataset.load(path, scenario=recipe.scenario)
    if data.recipe != recipe:
        raise FileError(f"{path} was made by another recipe, {data.recipe.name}; delete it to have it made again")
    return data
