"""Robot Remote Control as a control problem (Suppl. B.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask, Flags, distances
from gatel0rd.worlds.robot_remote_control import dynamics as rooms


class RemoteControl(ControlTask):
    """Move the robot to the goal, which takes the agent to the computer first. Radii are 1.5 times the data's."""

    name = "rrc"
    horizon, limit, idle = 50, 50, (0.0, 0.0)
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
        total: Array = distances(observations[..., 2:4], self.goal).sum(axis=-1)
        return total
