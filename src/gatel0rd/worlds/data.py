"""Data sets: generation by recipe, splits, files."""

from __future__ import annotations

import importlib
import math
from contextlib import suppress
from pathlib import Path

from gatel0rd.files import FileError, exclusive
from gatel0rd.training.dataset import Dataset, Progress, ignore_progress
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.parts import forget_parts, generate_in_parts, is_made_in_parts

__all__ = ["GENERATORS", "Dataset", "Progress", "generate", "obtain", "version_of"]

GENERATORS = {
    "rrc": "robot_remote_control",
    "billiard": "billiard_ball",
    "shepherd": "shepherd",
    "fetch": "fetch_pick_and_place",
    "fetch-diverse": "fetch_pick_and_place",
}
"""Scenario name -> module of this package that makes its data, by ``generate`` or in parts; imported when needed."""


VERSIONS: dict[str, int] = {}
"""Scenario name -> version of its generator, where it is not the first."""


def version_of(scenario: str) -> int:
    """The version of a scenario's generator."""
    return VERSIONS.get(scenario, 1)


def generate(recipe: DataRecipe, progress: Progress = ignore_progress, directory: Path | None = None) -> Dataset:
    """Make the data set that a recipe describes.

    Those that take long are made on all cores, and their parts are kept in ``directory``, so that nothing is lost when
    this is interrupted; :func:`obtain` deletes them when the whole is saved.
    """
    if recipe.scenario not in GENERATORS:
        raise ValueError(f"there is no scenario {recipe.scenario!r}; there are {', '.join(GENERATORS)}")
    if recipe.sequences < 1 or recipe.steps < 2:
        raise ValueError(
            f"{recipe.sequences} sequences of {recipe.steps} steps; expected at least 1 of at least 2 steps"
        )
    version = version_of(recipe.scenario)
    if recipe.version != version:
        raise ValueError(
            f"the recipe {recipe.name} is of version {recipe.version}, this generator of version {version}; "
            "use the gatel0rd that made it, or plan the run again"
        )
    module = importlib.import_module(f"gatel0rd.worlds.{GENERATORS[recipe.scenario]}.data")
    if is_made_in_parts(module):
        return generate_in_parts(recipe, module, progress, directory)
    made: Dataset = module.generate(recipe, progress)
    return made


def obtain(recipe: DataRecipe, directory: Path, progress: Progress = ignore_progress) -> Dataset:
    """The data set from its file in ``directory``, made and saved there first if it is missing."""
    path = directory / f"{recipe.name}.safetensors"
    if not path.exists():
        lock = f".{recipe.name}.lock"
        with exclusive(directory, math.inf, name=lock):  # of several processes that want it, one makes it
            if not path.exists():
                generate(recipe, progress, directory).save(directory)
                forget_parts(recipe, directory)
        with suppress(PermissionError):  # Windows deletes no file that another process has open
            (directory / lock).unlink(missing_ok=True)
    data = Dataset.load(path, scenario=recipe.scenario)
    if data.recipe != recipe:
        raise FileError(f"{path} was made by another recipe, {data.recipe.name}; delete it to have it made again")
    return data
