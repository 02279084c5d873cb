"""Data sets: generation by recipe, splits, files."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gatel0rd.files import FileError, exclusive
from gatel0rd.models.zoo import EXAMPLES
from gatel0rd.training.dataset import Dataset, Progress, ignore_progress
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.parts import forget_parts, generate_in_parts

__all__ = ["Dataset", "Progress", "generate", "obtain"]

EXAMPLE_SEQUENCES = 64
"""How many sequences are enough to look at."""


def generate(recipe: DataRecipe, progress: Progress = ignore_progress, directory: Path | None = None) -> Dataset:
    """Make the data set that a recipe describes.

    Those that take long are made on all cores, and their parts are kept in ``directory``, so that nothing is lost when
    this is interrupted; :func:`obtain` deletes them when the whole is saved.

    Example:
        >>> from gatel0rd.training import DataRecipe
        >>> from gatel0rd.worlds.data import generate
        >>> data = generate(DataRecipe(scenario="rrc", policy="time", split="test", sequences=16, steps=10))
        >>> data.observations.shape
        (16, 10, 4)
    """
    world = registry.get(recipe.scenario)
    if recipe.sequences < 1 or recipe.steps < 2:
        raise ValueError(
            f"{recipe.sequences} sequences of {recipe.steps} steps; expected at least 1 of at least 2 steps"
        )
    version = world.scenario.version
    if recipe.version != version:
        raise ValueError(
            f"the recipe {recipe.name} is of version {recipe.version}, this generator of version {version}; "
            "use the gatel0rd that made it, or plan the run again"
        )
    if world.made_in_parts:
        return generate_in_parts(recipe, progress, directory)
    return world.generate(recipe, progress)


def obtain(recipe: DataRecipe, directory: Path, progress: Progress = ignore_progress) -> Dataset:
    """The data set from its file in ``directory``, made and saved there first if it is missing.

    Example:
        >>> from pathlib import Path
        >>> from gatel0rd.training import DataRecipe
        >>> from gatel0rd.worlds.data import obtain
        >>> recipe = DataRecipe(scenario="rrc", policy="time", split="test", sequences=16, steps=10)
        >>> first, again = obtain(recipe, Path("data")), obtain(recipe, Path("data"))  # made, then read
        >>> bool((first.observations == again.observations).all())
        True
    """
    path = directory / f"{recipe.name}.safetensors"
    if not path.exists():
        lock = f".{recipe.name}.lock"
        with exclusive(directory, math.inf, name=lock):  # of several processes that want it, one makes it
            if not path.exists():
                generate(recipe, progress, directory).save(directory)
        with suppress(PermissionError):  # Windows deletes no file that another process has open
            (directory / lock).unlink(missing_ok=True)
    data = Dataset.load(path, scenario=recipe.scenario)
    if data.recipe != recipe:
        raise FileError(f"{path} was made by another recipe, {data.recipe.name}; delete it to have it made again")
    forget_parts(recipe, directory)  # also those of a process that was killed after it had saved the whole
    return data


def shorten_recipe(recipe: DataRecipe) -> DataRecipe:
    """The recipe for as many sequences as are enough to look at."""
    return replace(recipe, sequences=EXAMPLE_SEQUENCES)


def obtain_examples(recipe: DataRecipe) -> Dataset:
    """A few sequences by a recipe, to look at: those that come with this package, or else generated ones.

    The package has those that take long to generate or need a simulator; they are what the generator would give.
    """
    short = shorten_recipe(recipe)
    path = EXAMPLES / f"{short.name}.safetensors"
    return Dataset.load(path, scenario=recipe.scenario) if path.exists() else generate(short)
