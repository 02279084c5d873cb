"""Robot Remote Control: reach a computer in one room to move a robot in another (Suppl. B.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from gatel0rd.worlds.drawing import Array, Picture
from gatel0rd.worlds.environment import DrawnEnv, check_action, check_options
from gatel0rd.worlds.robot_remote_control.drawing import draw_rooms
from gatel0rd.worlds.robot_remote_control.dynamics import CONTROL_RADIUS, GOAL, GOAL_RADIUS, ROOM_SHIFT, transition


class RobotRemoteControl(DrawnEnv):
    """An agent in the left room, a robot in the right one, a computer that connects them.

    Observation: agent_x, agent_y, robot_x - 2, robot_y in [-1, 1]. Whether the robot is controlled is hidden, and is
    given in ``info["controlled"]`` only. Action: movement in [-1, 1]². Reward 1 and termination when the robot
    is near the goal; episodes are truncated by the registered time limit.

    Args:
        control_radius, goal_radius: how near is near; planning in the paper uses 0.15 for both.
        render_mode: ``rgb_array`` or ``human``.
        render_size: height of the picture in pixels; it is twice as wide.
    """

    def __init__(
        self,
        *,
        control_radius: float = CONTROL_RADIUS,
        goal_radius: float = GOAL_RADIUS,
        render_mode: str | None = None,
        render_size: int = 320,
    ) -> None:
        super().__init__(render_mode=render_mode, render_size=render_size)
        self.control_radius, self.goal_radius = control_radius, goal_radius
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self._agent = self._robot = np.zeros(2)
        self._controlled = np.array(False)
        self._trails: list[tuple[Array, Array]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start anew; ``options`` may set ``agent`` and ``robot`` positions (both in their rooms' coordinates)."""
        super().reset(seed=seed)
        options = check_options(options, ("agent", "robot"))
        self._agent, self._robot = (
            np.array(options.get(name, self.np_random.uniform(-1, 1, 2)), dtype=np.float64)
            for name in ("agent", "robot")
        )
        for name, position in (("agent", self._agent), ("robot", self._robot)):
            if position.shape != (2,) or not (np.abs(position) <= 1).all():
                raise ValueError(f"{name} is {position}; expected a position in [-1, 1]²")
        self._controlled = np.array(False)
        self._trails = [(self._agent, self._robot)]
        self._show()
        return self._observation(), self._info()

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._agent, self._robot, self._controlled = transition(
            self._agent, self._robot, self._controlled, check_action(action, 2), self.control_radius
        )
        self._trails.append((self._agent, self._robot))
        self._show()
        reached = bool(np.linalg.norm(self._robot + ROOM_SHIFT - GOAL) < self.goal_radius)
        return self._observation(), float(reached), reached, False, self._info()

    def _observation(self) -> Array:
        return np.concatenate([self._agent, self._robot])

    def _info(self) -> dict[str, Any]:
        return {"controlled": bool(self._controlled)}

    def _draw(self) -> Picture:
        return draw_rooms(
            self.render_size, self._trails, controlled=bool(self._controlled), control_radius=self.control_radius
        )
