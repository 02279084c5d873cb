"""What is planned for: worlds that run many episodes side by side, and what their futures cost (Suppl. B.3, B.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatel0rd.config import Preset
from gatel0rd.envs import robot_remote_control as rooms
from gatel0rd.envs import shepherd
from gatel0rd.planning.icem import ICEMConfig
from gatel0rd.planning.noise import Array

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A control problem.

    Attributes:
        horizon: steps that the paper plans ahead.
        limit: steps until an episode has failed.
        idle: an action that changes nothing, for the first steps in which a model has not seen enough.
    """

    name: str
    horizon: int
    limit: int
    idle: tuple[float, ...]

    @property
    def action_size(self) -> int:
        return len(self.idle)


class World(ABC):
    """Episodes of a task side by side, and their true future for any actions."""

    task: Task
    enlarged: float = 1.0
    """Factor on the radii of the environment that it was made from."""

    @property
    def search(self) -> ICEMConfig:
        """How iCEM searches in it, unless it is told otherwise."""
        return ICEMConfig(horizon=self.task.horizon)

    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest actions, [A] each."""
        return -np.ones(self.task.action_size), np.ones(self.task.action_size)

    @abstractmethod
    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        """Begin an episode with each generator, on which alone its start depends; returns observations [E, O]."""

    @abstractmethod
    def step(self, actions: Array) -> tuple[Array, Flags]:
        """One step of every episode: observations [E, O], and whether its goal is reached now [E]."""

    def ended(self) -> bool:
        """Whether the episodes cannot go on, reached or not."""
        return False

    @abstractmethod
    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these episodes only."""

    @abstractmethod
    def simulate(self, sequences: Array) -> Array:
        """What action sequences would lead to. Shape: [E, N, T, A] -> observations [E, N, T, O]."""

    @abstractmethod
    def cost(self, observations: Array, actions: Array) -> Array:
        """The cost of (predicted) futures, summed over the horizon. Shape: [..., T, O], [..., T, A] -> [...]."""


class RemoteControl(World):
    """Move the robot to the goal, which takes the agent to the computer first. Radii are 1.5 times the data's."""

    task = Task(name="rrc", horizon=50, limit=50, idle=(0.0, 0.0))
    enlarged = 1.5
    radius = enlarged * rooms.CONTROL_RADIUS
    goal = rooms.GOAL - rooms.ROOM_SHIFT

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        self.agent, self.robot = np.stack([generator.uniform(-1, 1, (2, 2)) for generator in generators], axis=1)
        self.controlled = np.zeros(len(generators), dtype=bool)
        return np.concatenate([self.agent, self.robot], axis=-1)

    def step(self, actions: Array) -> tuple[Array, Flags]:
        self.agent, self.robot, self.controlled = rooms.transition(
            self.agent, self.robot, self.controlled, np.clip(actions, -1, 1), self.radius
        )
        reached: Flags = np.linalg.norm(self.robot - self.goal, axis=-1) < self.radius
        return np.concatenate([self.agent, self.robot], axis=-1), reached

    def keep(self, rows: NDArray[np.int64]) -> None:
        self.agent, self.robot, self.controlled = self.agent[rows], self.robot[rows], self.controlled[rows]

    def simulate(self, sequences: Array) -> Array:
        episodes, count, steps, _ = sequences.shape
        agent, robot = (np.repeat(part[:, None], count, axis=1) for part in (self.agent, self.robot))
        controlled = np.repeat(self.controlled[:, None], count, axis=1)
        observations = np.empty((episodes, count, steps, 4))
        for t in range(steps):
            agent, robot, controlled = rooms.transition(agent, robot, controlled, sequences[:, :, t], self.radius)
            observations[:, :, t, :2], observations[:, :, t, 2:] = agent, robot
        return observations

    def cost(self, observations: Array, actions: Array) -> Array:
        """Distance of the robot to the goal."""
        total: Array = lengths(observations[..., 2:4] - self.goal).sum(axis=-1)
        return total


class Herding(World):
    """Place the cage, open the gate, have the sheep caught. Radii are 1.5 times the data's (1.2 in ``reference``)."""

    task = Task(name="shepherd", horizon=100, limit=60, idle=(0.0, 0.0, 1.0))
    far = 2.0
    """The cost of a sheep that is out of reach."""

    def __init__(self, preset: Preset = "text") -> None:
        self.rules = shepherd.rules_of(preset)
        self.enlarged = 1.5 if preset == "text" else 1.2
        self.lever_radius, self.cage_radius = (
            self.enlarged * radius for radius in (shepherd.LEVER_RADIUS, shepherd.CAGE_RADIUS)
        )

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        lowest, highest = shepherd.LOWEST[1], shepherd.HIGHEST[1]
        agent = np.array([(shepherd.START_X, generator.uniform(lowest, highest)) for generator in generators])
        sheep = zip(*(shepherd.sample_sheep(generator, self.rules) for generator in generators), strict=True)
        self.world = shepherd.start(agent, *map(np.stack, sheep))
        return shepherd.observe(self.world, self.rules.mask)

    def step(self, actions: Array) -> tuple[Array, Flags]:
        self.world = self._next(self.world, np.clip(actions, -1, 1))
        return shepherd.observe(self.world, self.rules.mask), self.world.caught

    def keep(self, rows: NDArray[np.int64]) -> None:
        self.world = shepherd.World._make(part[rows] for part in self.world)

    def simulate(self, sequences: Array) -> Array:
        episodes, count, steps, _ = sequences.shape
        world = shepherd.World._make(np.repeat(part[:, None], count, axis=1) for part in self.world)
        observations = np.empty((episodes, count, steps, len(shepherd.OBSERVATION_NAMES)))
        for t in range(steps):
            world = self._next(world, sequences[:, :, t])
            observations[:, :, t] = shepherd.observe(world, self.rules.mask)
        return observations

    def cost(self, observations: Array, actions: Array) -> Array:
        """Distance of sheep and cage, at most 2; 2 while the sheep is hidden or above the gate (y > -0.1)."""
        cage = observations[..., 2:4] / shepherd.MEADOW_SCALE + shepherd.MEADOW_SHIFT
        sheep = observations[..., 4:6] + shepherd.SHEEP_SHIFT
        distance = np.minimum(lengths(sheep - cage), self.far)
        out_of_reach = sheep[..., 1] > -0.1
        if self.rules.mask[1] < -0.1:  # a mask that looks like a sheep below the gate
            out_of_reach |= lengths(observations[..., 4:6] - self.rules.mask) < shepherd.NEAR_MASK
        total: Array = np.where(out_of_reach, self.far, distance).sum(axis=-1)
        return total

    def _next(self, world: shepherd.World, actions: Array) -> shepherd.World:
        return shepherd.transition(world, actions, self.lever_radius, self.cage_radius)


def lengths(vectors: Array) -> Array:
    """Lengths of vectors in the plane, [..., 2] -> [...]: several times as fast as ``np.linalg.norm``."""
    x, y = vectors[..., 0], vectors[..., 1]
    result: Array = np.sqrt(x * x + y * y)
    return result
