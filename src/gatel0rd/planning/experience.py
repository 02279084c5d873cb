"""What was seen while acting: episodes on the disk, and spaces as vectors for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gatel0rd.files import FileError, load_arrays, save_arrays
from gatel0rd.planning.categorical import CategoricalICEM
from gatel0rd.planning.environment import action_bounds
from gatel0rd.planning.icem import ICEM, ICEMConfig
from gatel0rd.planning.noise import Array, colored_noise

EpisodeKind = Literal["random", "planned", "test"]


class HideColumns(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Leaves out some numbers of a vector of observations, so that a memory has to make up for them.

    Args:
        columns: numbers of the columns to hide; negative ones count from the end.

    Example:
        >>> import gymnasium
        >>> from gatel0rd.planning import HideColumns
        >>> env = HideColumns(gymnasium.make("Pendulum-v1"), [2])  # without the velocity
        >>> env.observation_space.shape
        (2,)
    """

    def __init__(self, env: gymnasium.Env[Any, Any], columns: Sequence[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ValueError(
                f"the observation space is {space}; only columns of a vector, a Box of shape (O,), can be hidden"
            )
        size = space.shape[0]
        wrong = [column for column in columns if not -size <= column < size]
        if wrong:
            raise ValueError(f"columns to hide are {list(columns)}; there are {size}, numbered from 0 to {size - 1}")
        hidden = {column % size for column in columns}
        if len(hidden) == size:
            raise ValueError(f"all {size} columns are hidden; leave at least one to see")
        self.shown = [column for column in range(size) if column not in hidden]
        self.observation_space = spaces.Box(
            space.low[self.shown], space.high[self.shown], dtype=cast(Any, space.dtype.type)
        )

    def observation(self, observation: Any) -> Any:
        return observation[self.shown]


class ActionCoding:
    """Actions of an environment as vectors: real numbers between bounds, or one-hot choices.

    Attributes:
        size: numbers of a vector.
        discrete: whether they stand for choices.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.discrete = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self.size = int(space.n)
            self.low, self.high = np.zeros(self.size), np.ones(self.size)
        else:
            self.low, self.high = action_bounds(space)
            self.size = len(self.low)

    def make_planner(self, config: ICEMConfig, generator: np.random.Generator) -> ICEM:
        """iCEM over these actions; choices are drawn for each step on its own, as what balances alternates."""
        if self.discrete:
            return CategoricalICEM(self.size, replace(config, noise_exponent=0.0), generator=generator)
        return ICEM(self.low, self.high, config, generator=generator)

    def decode(self, vector: Array) -> Any:
        """What the environment's ``step`` takes."""
        if isinstance(self.space, spaces.Discrete):
            return int(self.space.start) + int(vector.argmax())
        return vector.astype(self.space.dtype)

    def draw(self, steps: int, exponent: float, rng: np.random.Generator) -> Array:
        """Random actions that change slowly, over the whole range. Shape: [T, A]."""
        noise = colored_noise(exponent, (self.size, steps), rng).T
        if self.discrete:
            drawn: Array = np.eye(self.size)[noise.argmax(axis=1)]
            return drawn
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return np.clip(middle + half * noise, self.low, self.high)

    def disturb(self, vector: Array, strength: float, rng: np.random.Generator) -> Array:
        """An action with noise of a share of half the range; a choice is replaced with that probability."""
        if self.discrete:
            choice = int(rng.integers(self.size)) if rng.random() < strength else int(vector.argmax())
            changed: Array = np.eye(self.size)[choice]
            return changed
        noise = strength * (self.high - self.low) / 2 * rng.standard_normal(self.size)
        return np.clip(vector + noise, self.low, self.high)

    def transform(self, vectors: Array) -> NDArray[np.float32]:
        """From the environment's units to a model's: -1 to 1."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        half = np.where(half > 0, half, 1.0)  # what cannot be chosen is always 0
        scaled: NDArray[np.float32] = ((vectors - middle) / half).astype(np.float32)
        return scaled


@dataclass(frozen=True, kw_only=True)
class RecordedEpisode:
    """One episode.

    Attributes:
        observations: [T + 1, O].
        actions: [T, A], as :class:`ActionCoding` has them.
        rewards: [T].
        terminated: whether the environment ended it, and not the time limit.
        last_closeness: how close the model thought an end was when the time was over, from 0 to 1; it stands for what
            would have come.
        kind: how its actions were chosen.
        seconds: time that it took.
        findings: what was diagnosed, and ``is_success`` of the last step's info if it was there, as plain data.
    """

    observations: Array
    actions: Array
    rewards: Array
    terminated: bool
    kind: EpisodeKind
    seconds: float = 0.0
    last_closeness: float = 0.0
    findings: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.actions)

    def save(self, path: Path) -> None:
        arrays = {"observations": self.observations, "actions": self.actions, "rewards": self.rewards}
        metadata = {
            "terminated": self.terminated,
            "kind": self.kind,
            "seconds": self.seconds,
            "last_closeness": self.last_closeness,
            "findings": self.findings,
        }
        save_arrays(path, arrays, kind="episode", metadata=metadata)

    @staticmethod
    def load(path: Path) -> RecordedEpisode:
        arrays, metadata = load_arrays(path, kind="episode")
        parts: dict[str, Any] = {**arrays, **metadata}
        return RecordedEpisode(**parts)


def load_episodes(directory: Path) -> list[RecordedEpisode]:
    """All episodes of a directory, in order; one that is missing before others is an error."""
    episodes: list[RecordedEpisode] = []
    while (path := episode_path(directory, len(episodes))).exists():
        episodes.append(RecordedEpisode.load(path))
    if later := [other for other in path.parent.glob("[0-9]*.safetensors") if int(other.stem) > len(episodes)]:
        raise FileError(f"{path} is missing, but {min(later).name} is there; restore it, or use another directory")
    return episodes


def episode_path(directory: Path, number: int) -> Path:
    """The file of an episode."""
    return directory / "episodes" / f"{number:05d}.safetensors"
