"""Robot Remote Control: two rooms, and how agent and robot move in them (Suppl. B.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COMPUTER = np.array([0.5, 0.5])
GOAL = np.array([2.5, -0.5])
ROOM_SHIFT = np.array([2.0, 0.0])
"""The robot's room lies two units to the right of the agent's; observations shift it back."""
WALL = 0.95
STEP = 0.1
CONTROL_RADIUS = 0.1
GOAL_RADIUS = 0.1


def transition(
    agent: Array, robot: Array, controlled: NDArray[np.bool_], action: Array, control_radius: float = CONTROL_RADIUS
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """One step of the world, for any number of worlds at once.

    The agent moves by 0.1·action and stops at the walls; so does the robot if control was on before this step.
    Control switches on, for good, when the agent is near the computer after its move.

    Shape: agent, robot, action [..., 2] (robot in its own room's coordinates), controlled [...].
    """
    agent = np.clip(agent + STEP * action, -WALL, WALL)
    robot = np.where(controlled[..., None], np.clip(robot + STEP * action, -WALL, WALL), robot)
    near = np.linalg.norm(agent - COMPUTER, axis=-1) < control_radius
    return agent, robot, controlled | near
