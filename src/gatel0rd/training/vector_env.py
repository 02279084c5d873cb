"""Many environments side by side behind one interface: Gymnasium's own, or EnvPool's native ones.

Where an episode ends, the environment starts the next one in the same step: no step is lost, and what the last step led
to is still there to be judged.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

BackendName = Literal["auto", "gymnasium", "envpool"]
Observations = NDArray[Any]
Flags = NDArray[np.bool_]


class Steps(NamedTuple):
    """One step of N environments.

    Attributes:
        observations: the next ones, of a new episode where one ended, [N, ...].
        rewards: [N].
        terminated, truncated: whether the episode ended by itself, or by a time limit only, [N].
        led_to: what the step itself led to, also where an episode ended, [N, ...].
    """

    observations: Observations
    rewards: NDArray[np.float32]
    terminated: Flags
    truncated: Flags
    led_to: Observations


class Vector(ABC):
    """N environments, stepped together. Observations are arrays; of dictionaries the entry ``image`` is taken."""

    id: str
    count: int
    observation_shape: tuple[int, ...]
    action_space: spaces.Discrete | spaces.Box

    @abstractmethod
    def reset(self, seed: int) -> Observations:
        """Start all episodes anew; everything that follows depends on the seed and on the actions only."""

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> Steps:
        """Take an action in each, [N] or [N, A]."""

    def close(self) -> None:  # noqa: B027
        """Free what the environments hold."""

    def __enter__(self) -> Vector:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class GymnasiumVector(Vector):
    """Environments from ``gymnasium.make``, one after the other in this process."""

    def __init__(self, id: str, count: int, **options: Any) -> None:
        self.id, self.count = id, count
        import_packages(id)
        self.environments = [gymnasium.make(id, disable_env_checker=True, **options) for _ in range(count)]
        first = self.environments[0]
        self.observation_shape = observed_space(id, first.observation_space)
        self.action_space = checked_actions(id, first.action_space)

    def reset(self, seed: int) -> Observations:
        seeds = np.random.SeedSequence(seed).generate_state(self.count)
        found = [env.reset(seed=int(own))[0] for env, own in zip(self.environments, seeds, strict=True)]
        return np.stack([plain(observation) for observation in found])

    def step(self, actions: NDArray[Any]) -> Steps:
        led_to, following = [], []
        rewards = np.empty(self.count, dtype=np.float32)
        terminated, truncated = np.empty((2, self.count), dtype=bool)
        for index, (env, action) in enumerate(zip(self.environments, actions, strict=True)):
            seen, rewards[index], terminated[index], truncated[index], _ = env.step(action)
            led_to.append(plain(seen))
            over = terminated[index] or truncated[index]
            following.append(plain(env.reset()[0]) if over else led_to[-1])
        return Steps(np.stack(following), rewards, terminated, truncated & ~terminated, np.stack(led_to))

    def close(self) -> None:
        for env in self.environments:
            env.close()


class EnvPoolVector(Vector):
    """EnvPool's native environments. The same seed gives other levels than Gymnasium's."""

    def __init__(self, id: str, count: int, **options: Any) -> None:
        if id not in native_ids():
            raise ValueError(f"EnvPool has no environment {id!r}; use backend='gymnasium'")
        self.id, self.count, self.options = id, count, options
        self._make(0)
        self.observation_shape = observed_space(id, self.pool.observation_space)
        self.action_space = checked_actions(id, self.pool.action_space)

    def _make(self, seed: int) -> None:
        import envpool

        self.pool = envpool.make(
            self.id, env_type="gymnasium", num_envs=self.count, seed=seed, num_threads=1, **self.options
        )

    def reset(self, seed: int) -> Observations:
        # neighbouring seeds would share environments: EnvPool seeds the i-th with seed + i
        self._make(int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1))
        return plain(self.pool.reset()[0]).copy()

    def step(self, actions: NDArray[Any]) -> Steps:
        seen, rewards, terminated, truncated, _ = self.pool.step(np.asarray(actions))
        led_to = plain(seen)
        following = led_to
        over = np.flatnonzero(terminated | truncated)
        if len(over):
            following = led_to.copy()
            following[over] = plain(self.pool.reset(over.astype(np.int32))[0])
        if self.id.startswith("MiniGrid-"):  # who succeeds in the last step is reported as out of time only
            terminated = terminated | (truncated & (rewards > 0))
        return Steps(following, rewards.astype(np.float32), terminated, truncated & ~terminated, led_to)


def make_vector(id: str, count: int, *, backend: BackendName = "auto", **options: Any) -> Vector:
    """Environments side by side.

    Args:
        id: as for ``gymnasium.make``.
        backend: ``envpool`` (extra ``fast``) or ``gymnasium``; ``auto``: EnvPool for MiniGrid if it is installed.
        options: of the environment.
    """
    if backend not in ("auto", "gymnasium", "envpool"):
        raise ValueError(f"backend is {backend!r}; expected auto, gymnasium or envpool")
    if backend == "envpool" and importlib.util.find_spec("envpool") is None:
        raise ModuleNotFoundError("EnvPool is not installed; pip install 'gatel0rd[fast]'", name="envpool")
    if backend == "auto":
        backend = "envpool" if id.startswith("MiniGrid-") and not options and id in native_ids() else "gymnasium"
    return EnvPoolVector(id, count, **options) if backend == "envpool" else GymnasiumVector(id, count, **options)


@cache
def native_ids() -> frozenset[str]:
    """Environments that EnvPool has; none if it is not installed."""
    if importlib.util.find_spec("envpool") is None:
        return frozenset()
    import envpool

    return frozenset(envpool.list_all_envs())


def import_packages(id: str) -> None:
    """Import what registers an environment; a missing package or an unknown id is an error that says what to do."""
    if id.startswith("MiniGrid-"):
        try:
            import minigrid  # noqa: F401
        except ImportError as error:
            raise ModuleNotFoundError(
                f"{id} needs minigrid; pip install 'gatel0rd[rl]' ({error})", name=error.name
            ) from error
    if id not in gymnasium.registry:
        package = "gatel0rd.worlds" if id.startswith("gatel0rd/") else "the package that has it"
        raise ValueError(f"Gymnasium knows no environment {id!r}; check its name, or import {package}")


def plain(observation: Any) -> Observations:
    """The part of an observation that agents see."""
    return np.asarray(observation["image"] if isinstance(observation, Mapping) else observation)


def observed_space(id: str, space: Any) -> tuple[int, ...]:
    """The shape of what agents see: a vector or an image."""
    if isinstance(space, (Mapping, spaces.Dict)):
        if "image" not in space.keys():  # noqa: SIM118
            raise ValueError(f"observations of {id} have {', '.join(space)}; expected an array, or an entry image")
        space = space["image"]
    if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 3):
        raise ValueError(f"observations of {id} are {space}; expected a Box of one dimension, or an image of three")
    return tuple(space.shape)


def checked_actions(id: str, space: Any) -> spaces.Discrete | spaces.Box:
    """The action space, if agents can act in it."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return space
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return space
    raise ValueError(f"actions of {id} are {space}; expected Discrete from 0 on, or a Box of one dimension")
