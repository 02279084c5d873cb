"""Vector environments behind one interface: Gymnasium's environments, our compiled MiniGrid, or EnvPool's.

Where an episode ends, the environment starts the next one in the same step, as in Gymnasium's autoreset mode
``SAME_STEP``: no step is lost, and the episode's last observation is returned too.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

BackendName = Literal["auto", "gymnasium", "native", "envpool"]
BACKENDS: tuple[str, ...] = get_args(BackendName)
Observations = NDArray[Any]
Flags = NDArray[np.bool_]
EnvironmentSource = str | gymnasium.vector.VectorEnv | Callable[[int], gymnasium.vector.VectorEnv]
"""An id, a vector environment, or a function that makes one from the number of environments."""


class VectorStep(NamedTuple):
    """One step of N environments.

    Attributes:
        observations: the next ones, of a new episode where one ended, [N, ...].
        rewards: [N].
        terminations: whether the episode ended by itself, [N].
        truncations: whether it was only a time limit that ended the episode, [N].
        final_observations: the observations after the step, of the old episode where one ended, [N, ...].
        successes: whether ``is_success`` in the step's info was true, [N].
    """

    observations: Observations
    rewards: NDArray[np.float32]
    terminations: Flags
    truncations: Flags
    final_observations: Observations
    successes: Flags


class VectorEnv(ABC):
    """N environments that are stepped together.

    Observations are arrays; of observations that are dictionaries the entry ``image`` is taken.

    Attributes:
        reward_threshold: the return from which on the environment counts as solved, if its registration has one.
        reports_success: whether an ``is_success`` was seen in the info of a step.
    """

    id: str
    num_envs: int
    observation_shape: tuple[int, ...]
    action_space: spaces.Discrete | spaces.Box
    reward_threshold: float | None = None
    reports_success: bool = False

    @abstractmethod
    def reset(self, seed: int) -> Observations:
        """Start all episodes anew; everything that follows depends on the seed and on the actions only."""

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> VectorStep:
        """Take an action in each, [N] or [N, A]."""

    def close(self) -> None:  # noqa: B027
        """Free what the environments hold."""

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class GymnasiumVectorEnv(VectorEnv):
    """Environments from ``gymnasium.make``, one after the other in this process."""

    def __init__(self, id: str, num_envs: int, **options: Any) -> None:
        self.id, self.num_envs = id, num_envs
        import_packages(id)
        self.environments = [gymnasium.make(id, disable_env_checker=True, **options) for _ in range(num_envs)]
        first = self.environments[0]
        self.observation_shape = check_observation_space(id, first.observation_space)
        self.observation_type = observation_type(first.observation_space)
        self.action_space = check_action_space(id, first.action_space)
        self.reward_threshold = None if first.spec is None else first.spec.reward_threshold

    def reset(self, seed: int) -> Observations:
        seeds = environment_seeds(seed, self.num_envs)
        found = [
            copy_observation(env.reset(seed=int(own))[0], self.observation_type)
            for env, own in zip(self.environments, seeds, strict=True)
        ]
        return np.stack(found)

    def step(self, actions: NDArray[Any]) -> VectorStep:
        final_observations, following = [], []
        rewards = np.empty(self.num_envs, dtype=np.float32)
        terminations, truncations, successes = np.zeros((3, self.num_envs), dtype=bool)
        for index, (env, action) in enumerate(zip(self.environments, actions, strict=True)):
            seen, rewards[index], terminations[index], truncations[index], info = env.step(action)
            if "is_success" in info:
                self.reports_success, successes[index] = True, bool(info["is_success"])
            final_observations.append(copy_observation(seen, self.observation_type))
            if terminations[index] or truncations[index]:
                following.append(copy_observation(env.reset()[0], self.observation_type))
            else:
                following.append(final_observations[-1])
        return VectorStep(
            np.stack(following),
            rewards,
            terminations,
            truncations & ~terminations,
            np.stack(final_observations),
            successes,
        )

    def close(self) -> None:
        for env in self.environments:
            env.close()


class EnvPoolVectorEnv(VectorEnv):
    """EnvPool's native environments. The same seed gives other levels than Gymnasium's."""

    def __init__(self, id: str, num_envs: int, **options: Any) -> None:
        if id not in envpool_ids():
            raise ValueError(f"EnvPool has no environment {id!r}; use backend='gymnasium'")
        self.id, self.num_envs, self.options = id, num_envs, options
        self._make(0)
        self.observation_shape = check_observation_space(id, self.pool.observation_space)
        self.action_space = check_action_space(id, self.pool.action_space)

    def _make(self, seed: int) -> None:
        import envpool

        self.pool = envpool.make(
            self.id, env_type="gymnasium", num_envs=self.num_envs, seed=seed, num_threads=1, **self.options
        )

    def reset(self, seed: int) -> Observations:
        # neighbouring seeds would share environments: EnvPool seeds the i-th with seed + i
        self._make(int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1))
        return select_observation(self.pool.reset()[0]).copy()

    def step(self, actions: NDArray[Any]) -> VectorStep:
        seen, rewards, terminations, truncations, _ = self.pool.step(np.asarray(actions))
        final_observations = select_observation(seen)
        following = final_observations
        over = np.flatnonzero(terminations | truncations)
        if len(over):
            following = final_observations.copy()
            following[over] = select_observation(self.pool.reset(over.astype(np.int32))[0])
        if self.id.startswith("MiniGrid-"):  # success in the last step is reported as out of time only
            terminations = terminations | (truncations & (rewards > 0))
        return VectorStep(
            following,
            rewards.astype(np.float32),
            terminations,
            truncations & ~terminations,
            final_observations,
            np.zeros(self.num_envs, dtype=bool),
        )


def make_vector_env(
    source: EnvironmentSource, num_envs: int, *, backend: BackendName = "auto", **options: Any
) -> VectorEnv:
    """Make environments that are stepped together.

    Args:
        source: an id as for ``gymnasium.make``, also as ``module:id``, where the module registers the environment and
            is in the working directory or on Python's path; or a vector environment of Gymnasium, which remains yours
            to close; or a function that makes one from the number of environments.
        num_envs: how many.
        backend: ``gymnasium``; ``native``: MiniGrid's tasks of the paper in compiled code, equal to minigrid's for the
            same seed; ``envpool`` (extra ``fast``); ``auto``: for MiniGrid the first that can be had of ``native``,
            ``envpool`` and ``gymnasium``.
        options: of the environment.

    Example:
        >>> import gatel0rd.worlds  # registers our environments
        >>> from gatel0rd.training import make_vector_env
        >>> with make_vector_env("gatel0rd/Recall-v0", 4) as envs:
        ...     envs.reset(seed=0).shape[0]
        4
    """
    if num_envs < 1:
        raise ValueError(f"num_envs is {num_envs}; expected at least 1")
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; expected {', '.join(BACKENDS)}")
    if backend == "envpool" and importlib.util.find_spec("envpool") is None:
        raise ModuleNotFoundError("EnvPool is not installed; pip install 'gatel0rd[fast]'", name="envpool")
    if not isinstance(source, str):
        from gatel0rd.training.wrapped_vector_env import wrap_vector_env

        if options or backend in ("native", "envpool"):
            raise ValueError(
                "options and the backends native and envpool are for ids; a vector environment is taken as it is"
            )
        return wrap_vector_env(source, num_envs)
    from gatel0rd.training.native_minigrid import NativeMiniGrid, has_levels

    id = source
    if backend == "auto":
        backend = "gymnasium"
        if id.startswith("MiniGrid-") and not options:
            backend = "native" if has_levels(id) else "envpool" if id in envpool_ids() else "gymnasium"
    if backend == "native":
        if options:
            raise ValueError(f"options are for backend='gymnasium'; given are {', '.join(options)}")
        return NativeMiniGrid(id, num_envs)
    kind = EnvPoolVectorEnv if backend == "envpool" else GymnasiumVectorEnv
    return kind(id, num_envs, **options)


def environment_seeds(seed: int, num_envs: int) -> NDArray[Any]:
    """The seed of each environment: neighbouring seeds have none in common."""
    return np.random.SeedSequence(seed).generate_state(num_envs)


@cache
def envpool_ids() -> frozenset[str]:
    """Environments that EnvPool has; none if it is not installed."""
    if importlib.util.find_spec("envpool") is None:
        return frozenset()
    import envpool

    return frozenset(envpool.list_all_envs())


def import_packages(id: str) -> None:
    """Import what registers an environment; a missing package or an unknown id is an error that says what to do."""
    module, colon, name = id.rpartition(":")
    if colon:
        import_registering_module(module, id)
    if name.startswith("MiniGrid-"):
        try:
            import minigrid  # noqa: F401
        except ImportError as error:
            raise ModuleNotFoundError(
                f"{id} needs minigrid; pip install 'gatel0rd[rl]' ({error})", name=error.name
            ) from error
    if name not in gymnasium.registry:
        if colon:
            raise ValueError(f"the module {module} registers no environment {name!r}; check the name in its register()")
        package = "gatel0rd.worlds" if name.startswith("gatel0rd/") else "the package that has it"
        raise ValueError(
            f"Gymnasium knows no environment {id!r}; check its name, or import {package}, as in package:{id}"
        )


def is_known(id: str) -> bool:
    """Whether ``gymnasium.make`` can make an environment of this id."""
    return id.rpartition(":")[2] in gymnasium.registry


def import_registering_module(module: str, id: str) -> None:
    """Import the module of ``module:id`` from the working directory or from Python's path."""
    if not module or module.endswith(".py") or "/" in module:
        raise ValueError(
            f"the environment is {id!r}; expected MODULE:ID, with the module as `import` takes it: for a file "
            "envs/maze.py that is envs.maze:Maze-v0, in the directory that has envs"
        )
    if "" not in sys.path and os.getcwd() not in sys.path:  # a console script does not look there
        sys.path.append(os.getcwd())
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or (module != error.name and not module.startswith(f"{error.name}.")):
            raise  # something that the module itself imports
        raise ValueError(
            f"there is no module {module!r} for the environment {id!r}; call the command in the directory that has it, "
            "or put that directory into PYTHONPATH"
        ) from error


def select_observation(observation: Any) -> Observations:
    """The part of an observation that agents see."""
    return np.asarray(observation["image"] if isinstance(observation, Mapping) else observation)


def copy_observation(observation: Any, dtype: np.dtype[Any]) -> Observations:
    """What agents see as an array of its own, in the type of its space; numbers that this type lacks are an error.

    Environments may write the next observation into the array that they returned, and give their first one another type
    than those that follow.
    """
    seen = select_observation(observation)
    with np.errstate(invalid="ignore"):
        copied = np.array(seen, dtype=dtype)
    if dtype.kind not in "fc" and seen.dtype != dtype and not np.array_equal(copied, seen):
        raise ValueError(
            f"an observation has numbers of the type {seen.dtype} that its space, of the type {dtype}, does not hold; "
            "give the observation space the type of what is observed"
        )
    return copied


def observation_type(space: Any) -> np.dtype[Any]:
    """The type of what agents see, in a space that :func:`check_observation_space` accepts."""
    return np.dtype((space["image"] if isinstance(space, (Mapping, spaces.Dict)) else space).dtype)


def check_observation_space(id: str, space: Any) -> tuple[int, ...]:
    """The shape of what agents see, a vector or an image; other observations are an error."""
    if isinstance(space, (Mapping, spaces.Dict)):
        if "image" not in space.keys():  # noqa: SIM118
            raise ValueError(f"observations of {id} have {', '.join(space)}; expected an array, or an entry image")
        space = space["image"]
    if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 3):
        raise ValueError(f"observations of {id} are {space}; expected a Box of one dimension, or an image of three")
    return tuple(space.shape)


def check_action_space(id: str, space: Any) -> spaces.Discrete | spaces.Box:
    """The action space, if agents can act in it; others are an error."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return space
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return space
    raise ValueError(f"actions of {id} are {space}; expected Discrete from 0 on, or a Box of one dimension")
