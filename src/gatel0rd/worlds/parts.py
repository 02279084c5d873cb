"""Data sets that take long: made in parts, on all cores, each kept as it is finished."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from gatel0rd.config import to_json
from gatel0rd.files import Arrays, FileError, load_arrays, save_arrays
from gatel0rd.training.dataset import Dataset, Progress, packages
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.base import World


def generate_in_parts(
    recipe: DataRecipe,
    progress: Progress,
    directory: Path | None = None,
    workers: int | None = None,
) -> Dataset:
    """Make a data set part by part; it depends neither on the number of workers nor on interruptions.

    Args:
        directory: where finished parts are kept until the data set is whole; in memory only if not given.
        workers: processes; one per core if not given.
    """
    world = registry.get(recipe.scenario)
    sizes = world.part_sizes(recipe)
    keep = None if directory is None else place_of_parts(recipe, directory)
    found = {number: part for number in range(len(sizes)) if (part := _kept(recipe, keep, number)) is not None}
    missing = [number for number in range(len(sizes)) if number not in found]
    made = sum(sizes[number] for number in found)
    if made:
        progress(made, recipe.sequences)
    for number, part in _make(recipe, world, missing, workers or os.cpu_count() or 1):
        found[number] = part
        if keep is not None:
            save_arrays(_file(keep, number), part, kind="part", metadata=_origin(recipe))
        made += sizes[number]
        progress(made, recipe.sequences)
    whole = {name: np.concatenate([found[number][name] for number in range(len(sizes))]) for name in found[0]}
    return Dataset(
        recipe=recipe,
        observations=whole.pop("observations"),
        actions=whole.pop("actions"),
        strata=whole.pop("strata"),
        labels={name.removeprefix("label."): values for name, values in whole.items()},
    )


def place_of_parts(recipe: DataRecipe, directory: Path) -> Path:
    """Where finished parts are kept."""
    return directory / "parts" / recipe.name


def forget_parts(recipe: DataRecipe, directory: Path) -> None:
    """Delete the parts of a data set that is whole and saved."""
    shutil.rmtree(place_of_parts(recipe, directory), ignore_errors=True)


def _origin(recipe: DataRecipe) -> dict[str, Any]:
    return {"recipe": to_json(recipe), "packages": packages()}


def _file(keep: Path, number: int) -> Path:
    return keep / f"{number:05d}.safetensors"


def _kept(recipe: DataRecipe, keep: Path | None, number: int) -> Arrays | None:
    """A part from an earlier attempt; a damaged one, or one by other versions of packages, is made again."""
    if keep is None or not _file(keep, number).exists():
        return None
    try:
        part, metadata = load_arrays(_file(keep, number), kind="part")
    except FileError:
        return None
    return part if metadata == _origin(recipe) else None


def _make(recipe: DataRecipe, world: World, numbers: list[int], workers: int) -> Iterator[tuple[int, Arrays]]:
    """Parts in the order in which they are finished."""
    if workers <= 1 or len(numbers) <= 1:
        for number in numbers:
            yield number, world.generate_part(recipe, number)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(numbers)), mp_context=context, initializer=die_with_parent) as pool:
        tasks: dict[Any, int] = {pool.submit(_work, recipe, number): number for number in numbers}
        try:
            for task in as_completed(tasks):
                yield tasks[task], task.result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a process that made data died; if memory ran out, start again: finished parts are kept. In a script, "
                'call this below `if __name__ == "__main__":`, as processes are started anew'
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def die_with_parent() -> None:
    """Ask the kernel to end this spawned process when its parent is gone, so that no orphan waits or holds a run."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    parent = parent_process()
    if parent is not None and os.getppid() != parent.pid:  # it is gone already
        os._exit(1)


def _work(recipe: DataRecipe, number: int) -> Arrays:
    """In another process, which knows worlds by their names."""
    return registry.get(recipe.scenario).generate_part(recipe, number)
