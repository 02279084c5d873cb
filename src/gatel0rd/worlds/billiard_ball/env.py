"""Billiard Ball: one ball on a pool table (Suppl. B.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from gatel0rd.worlds.billiard_ball.drawing import draw_table
from gatel0rd.worlds.billiard_ball.dynamics import HALF_SIZE, RADIUS, SPEEDS, BilliardTable, random_shots
from gatel0rd.worlds.drawing import Array, Picture
from gatel0rd.worlds.environment import DrawnEnv, check_action, check_options


class BilliardBall(DrawnEnv):
    """A ball that was shot on a pool table; there is nothing to do but to watch.

    Observation: ball_x, ball_y, scaled to [-1, 1]. The velocity is hidden, and is given in ``info`` with whether the
    ball touched a cushion since the last observation and whether it is in a pocket. Action: none (an array of length 0,
    or None). Reward 0. A pocketed ball rests where it fell; the episode lasts until its time limit.

    Args:
        render_mode: ``rgb_array`` or ``human``.
        render_size: height of the picture in pixels; it is about twice as wide.
    """

    def __init__(self, *, render_mode: str | None = None, render_size: int = 320) -> None:
        super().__init__(render_mode=render_mode, render_size=render_size)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (0,), np.float64)
        self._table = BilliardTable(1)
        self._table.shoot(np.zeros((1, 2)), np.zeros((1, 2)))
        self._trail: list[Array] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Shoot anew; ``options`` may set ``position`` (in [-1, 1]²) and ``velocity`` (in m/s)."""
        super().reset(seed=seed)
        options = check_options(options, ("position", "velocity"))
        position, velocity = random_shots(1, self.np_random)
        if "position" in options:
            position = np.asarray([options["position"]], dtype=np.float64)
            position = position * HALF_SIZE if position.shape == (1, 2) else position
        if "velocity" in options:
            velocity = np.asarray([options["velocity"]], dtype=np.float64)
        if position.shape != (1, 2) or not (np.abs(position) <= HALF_SIZE - RADIUS).all():
            reach = 1 - RADIUS / HALF_SIZE
            raise ValueError(
                f"position is {options['position']}; expected x within ±{reach[0]:g} and y within ±{reach[1]:g}"
            )
        if velocity.shape != (1, 2) or not (np.linalg.norm(velocity) <= 2 * SPEEDS[1]):
            raise ValueError(f"velocity is {options['velocity']}; expected two numbers, at most {2 * SPEEDS[1]} m/s")
        self._table.shoot(position, velocity)
        self._trail = [position[0]]
        self._show()
        return self._observation(), self._info()

    def step(self, action: Array | None) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        check_action(() if action is None else action, 0)
        self._trail.append(self._table.step().position[0])
        self._show()
        return self._observation(), 0.0, False, False, self._info()

    def _observation(self) -> Array:
        scaled: Array = self._table.motion.position[0] / HALF_SIZE
        return scaled

    def _info(self) -> dict[str, Any]:
        motion = self._table.motion
        return {
            "velocity": motion.velocity[0].copy(),
            "cushion": bool(motion.cushion[0]),
            "pocketed": bool(motion.pocketed[0]),
        }

    def _draw(self) -> Picture:
        return draw_table(self.render_size, self._trail, pocketed=bool(self._table.motion.pocketed[0]))
