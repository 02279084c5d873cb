"""Data sets of sequences, and the files that keep them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.config import from_json, to_json
from gatel0rd.files import Arrays, FileError, load_arrays, save_arrays
from gatel0rd.training.recipe import DataRecipe

Progress = Callable[[int, int], None]
"""Called now and then while sequences are made, with their number so far and in the end."""


def ignore_progress(done: int, total: int) -> None:
    """A callback that does nothing."""


def packages() -> dict[str, str]:
    """Versions of the packages whose arithmetic may have made the data."""
    names = {"numpy": "numpy", "panda3d": "panda3d", "mujoco": "mujoco", "gymnasium_robotics": "gymnasium-robotics"}
    return {name: importlib.metadata.version(name) for module, name in names.items() if module in sys.modules}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Sequences of equal length, with ground-truth labels.

    Shape: observations [N, T, O] and actions [N, T, A] float32; strata [N], the balanced groups of which every
    batch takes its share; each label [N, T], [N] or [N, ·].

    Example:
        >>> import numpy as np
        >>> from gatel0rd.training import DataRecipe, Dataset
        >>> recipe = DataRecipe(scenario="puck", policy="random", split="train", sequences=5, steps=7)
        >>> observations, actions = np.zeros((5, 7, 3), np.float32), np.zeros((5, 7, 2), np.float32)
        >>> data = Dataset(
        ...     recipe=recipe, observations=observations, actions=actions, strata=np.zeros(5, np.int64), labels={}
        ... )
        >>> data.observations.shape
        (5, 7, 3)
    """

    recipe: DataRecipe
    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    strata: NDArray[np.int64]
    labels: dict[str, NDArray[Any]]

    def __post_init__(self) -> None:
        count, steps = self.recipe.sequences, self.recipe.steps
        for name, array in (("observations", self.observations), ("actions", self.actions)):
            if array.ndim != 3 or array.shape[:2] != (count, steps):
                raise ValueError(f"{name} have shape {array.shape}; the recipe says {count} sequences of {steps} steps")
            if not np.isfinite(array).all():
                bad = int(np.argmax(~np.isfinite(array).all(axis=(1, 2))))
                raise ValueError(f"{name} of sequence {bad} are NaN or infinite; remove or repair it before training")

        if self.strata.shape != (count,):
            raise ValueError(f"strata have shape {self.strata.shape}; expected ({count},), one group per sequence")

    def save(self, directory: Path) -> Path:
        """Write ``directory/<recipe name>.safetensors`` with the recipe and a checksum inside."""
        path = directory / f"{self.recipe.name}.safetensors"
        arrays: Arrays = {"observations": self.observations, "actions": self.actions, "strata": self.strata}
        labels = {f"label.{name}": array for name, array in self.labels.items()}
        metadata = {"recipe": to_json(self.recipe), "packages": packages()}
        save_arrays(path, {**arrays, **labels}, kind="dataset", metadata=metadata)
        return path

    @staticmethod
    def load(path: Path, *, scenario: str | None = None) -> Dataset:
        """Read a data set; one that is damaged or of another scenario is a :class:`FileError`."""
        arrays, metadata = load_arrays(path, kind="dataset")
        try:
            recipe = from_json(DataRecipe, metadata.get("recipe"))
        except ValueError as error:
            raise FileError(f"{path} does not say how it was made ({error}); make it again") from error
        if scenario is not None and recipe.scenario != scenario:
            raise FileError(f"{path} holds data of scenario {recipe.scenario!r}; expected {scenario!r}")
        missing = {"observations", "actions", "strata"} - set(arrays)
        if missing:
            raise FileError(f"{path} has no {', '.join(sorted(missing))}; make it again")
        labels = {name.removeprefix("label."): arrays[name] for name in arrays if name.startswith("label.")}
        kinds = {"observations": "f", "actions": "f", "strata": "i"}
        if other := [
            f"{name} of {arrays[name].dtype}" for name, kind in kinds.items() if arrays[name].dtype.kind != kind
        ]:
            raise FileError(f"{path} has {', '.join(other)}; expected float32, and int64 for strata: make it again")
        try:
            return Dataset(
                recipe=recipe,
                observations=arrays["observations"],
                actions=arrays["actions"],
                strata=arrays["strata"],
                labels=labels,
            )
        except ValueError as error:
            raise FileError(f"{path} is damaged: {error}; make it again or restore it") from error
