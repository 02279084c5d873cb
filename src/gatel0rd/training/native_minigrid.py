"""MiniGrid's environments in compiled code: the same levels, observations and rewards as the package minigrid.

It covers the families of the paper's tasks (DoorKey, RedBlueDoors, SimpleCrossing and LavaCrossing, KeyCorridor,
Memory), in every size. A seed gives what Gymnasium's environments give for it, to the last bit.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from gatel0rd.engine.native import REINSTALL
from gatel0rd.training.vector_env import (
    Observations,
    VectorEnv,
    VectorStep,
    check_action_space,
    check_observation_space,
    environment_seeds,
    import_packages,
)

DEFAULTS: dict[str, dict[str, Any]] = {
    "DoorKeyEnv": {"size": 8},
    "RedBlueDoorEnv": {"size": 8},
    "CrossingEnv": {"size": 9, "num_crossings": 1, "obstacle_type": "lava"},
    "KeyCorridorEnv": {"room_size": 6, "num_rows": 3},
    "MemoryEnv": {"size": 8, "random_length": False},
}
"""The families of levels by the classes of minigrid, and the options of each that we know."""


class NativeMiniGrid(VectorEnv):
    """Environments of MiniGrid that are stepped in compiled code, N at once."""

    def __init__(self, id: str, num_envs: int) -> None:
        import_packages(id)
        self.id, self.num_envs, self.worlds = id, num_envs, make_worlds(id)
        with gymnasium.make(id, disable_env_checker=True) as example:
            self.observation_shape = check_observation_space(id, example.observation_space)
            self.action_space = check_action_space(id, example.action_space)
        self._begun = False

    def reset(self, seed: int) -> Observations:
        states = [np.random.PCG64(int(own)).state["state"] for own in environment_seeds(seed, self.num_envs)]
        words = [
            (entry[name] >> shift) & (2**64 - 1) for entry in states for name in ("state", "inc") for shift in (64, 0)
        ]
        images = self._images()
        self.worlds.reset(np.array(words, dtype=np.uint64).reshape(-1, 4), images)
        self._begun = True
        return images

    def step(self, actions: NDArray[Any]) -> VectorStep:
        if not self._begun:
            raise ValueError(f"{self.id} was not reset; call reset(seed) first")
        images, last = self._images(), self._images()
        rewards = np.empty(self.num_envs, dtype=np.float32)
        terminations, truncations = np.empty((2, self.num_envs), dtype=bool)
        self.worlds.step(
            np.ascontiguousarray(actions, dtype=np.int64), images, last, rewards, terminations, truncations
        )
        return VectorStep(images, rewards, terminations, truncations, last, np.zeros(self.num_envs, dtype=bool))

    def _images(self) -> NDArray[np.uint8]:
        return np.empty((self.num_envs, *self.observation_shape), dtype=np.uint8)


@cache
def load_module() -> Any:
    """The compiled module, or None if it was not built."""
    try:
        return importlib.import_module("gatel0rd.training._minigrid")
    except ImportError:
        return None


def has_levels(id: str) -> bool:
    """Whether the levels of an id can be made in compiled code."""
    if load_module() is None or importlib.util.find_spec("minigrid") is None:
        return False
    import_packages(id)
    return read_options(id) is not None


def make_worlds(id: str) -> Any:
    """The compiled environments of an id; an error that says what to do if there are none."""
    module, options = load_module(), read_options(id)
    if module is None:
        raise ModuleNotFoundError(
            "compiled environments were not built when the package was installed; use backend='gymnasium', or install "
            f"a C++ compiler, then `{REINSTALL}`",
            name="gatel0rd.training._minigrid",
        )
    if options is None:
        raise ValueError(f"there are no compiled environments {id!r}; use backend='gymnasium'")
    return module.Worlds(**options | {"family": module.FAMILIES.index(options["family"])})


def read_options(id: str) -> dict[str, Any] | None:
    """What the levels of an id are made from, by Gymnasium's registry; None if they are of no family that we know."""
    spec = gymnasium.registry.get(id)
    if spec is None or not isinstance(spec.entry_point, str) or spec.max_episode_steps is not None:
        return None
    package, _, family = spec.entry_point.partition(":")
    if package != "minigrid.envs" or family not in DEFAULTS or spec.kwargs.keys() - DEFAULTS[family].keys():
        return None
    options = DEFAULTS[family] | spec.kwargs
    obstacle = options.get("obstacle_type", "lava")
    obstacle = (obstacle if isinstance(obstacle, str) else obstacle.__name__).lower()  # a class in earlier versions
    if obstacle not in ("lava", "wall"):
        return None
    return {
        "family": family,
        "size": options.get("size", options.get("room_size")),
        "count": options.get("num_crossings", options.get("num_rows", 0)),
        "walls": obstacle == "wall",
        "random_length": options.get("random_length", False),
    }
