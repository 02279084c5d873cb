"""Fetch Pick&Place of gymnasium-robotics, made partially observable: no velocities, no rotations (Suppl. B.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from gatel0rd.worlds.drawing import Array, Picture
from gatel0rd.worlds.environment import DrawnEnv, check_action, check_options
from gatel0rd.worlds.fetch_pick_and_place import FetchWorld
from gatel0rd.worlds.fetch_pick_and_place.drawing import draw_arm
from gatel0rd.worlds.fetch_pick_and_place.simulation import SUCCESS_DISTANCE, Arm, body, sample_goal, sample_object


class FetchPickAndPlace(DrawnEnv):
    """A robot arm that brings an object to a goal, seen without velocities.

    It steps exactly as ``FetchPickAndPlace-v4``, of whose observation it shows the first 11 of 25 numbers.

    Observation: gripper (3), object (3), the object relative to the gripper (3), right and left finger; in metres.
    Action: pull of the gripper (3) and of its fingers (positive: open), each in [-1, 1]. Reward: 0 while the object is
    within 5 cm of the goal, else -1. ``info``: ``goal``, ``is_success``, ``touching`` (right and left finger). An
    episode lasts until its time limit.

    Args:
        render_mode: ``rgb_array`` or ``human``. Pictures are drawn by ourselves, so that no graphics driver is needed.
        render_size: height of the picture in pixels.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": 25}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None, render_size: int = 320) -> None:
        super().__init__(render_mode=render_mode, render_size=render_size)
        self._arm = Arm()
        size = len(FetchWorld.observation_names)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float64)
        self._goal = body().gripper.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin anew; ``options`` may set ``object`` (x and y) and ``goal`` (x, y and z), in metres."""
        super().reset(seed=seed)
        options = check_options(options, ("object", "goal"))
        place, goal = sample_object(self.np_random), sample_goal(self.np_random)
        self._goal = _point(options.get("goal", goal), 3, "goal")
        self._arm.reset(_point(options.get("object", place), 2, "object"))
        self._show()
        return self._arm.observe(), self._info()

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._arm.step(check_action(action, 4))
        info = self._info()
        self._show()
        return self._arm.observe(), 0.0 if info["is_success"] else -1.0, False, False, info

    def _info(self) -> dict[str, Any]:
        observation = self._arm.observe()
        near = bool(np.linalg.norm(observation[3:6] - self._goal) < SUCCESS_DISTANCE)
        return {"goal": self._goal.copy(), "is_success": near, "touching": self._arm.touching()}

    def _draw(self) -> Picture:
        return draw_arm(self._arm.data, self.render_size, goal=self._goal)


def _point(value: Any, size: int, name: str) -> Array:
    point = np.asarray(value, dtype=np.float64)
    if point.shape != (size,) or not np.isfinite(point).all():
        raise ValueError(f"{name} is {value}; expected {size} finite numbers, in metres")
    return point
