"""Robot Remote Control: reach a computer in one room to move a robot in another (Suppl. B.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gatel0rd.worlds.drawing import OVERSAMPLING, Array, DrawnEnv, Picture, check_options, finite_action, scaled_down
from gatel0rd.worlds.drawing import box as pixel_box

COMPUTER = np.array([0.5, 0.5])
GOAL = np.array([2.5, -0.5])
ROOM_SHIFT = np.array([2.0, 0.0])
"""The robot's room lies two units to the right of the agent's; observations shift it back."""
WALL = 0.95
STEP = 0.1
CONTROL_RADIUS = 0.1
GOAL_RADIUS = 0.1
OBSERVATION_NAMES = ("agent_x", "agent_y", "robot_x", "robot_y")
ACTION_NAMES = ("move_x", "move_y")


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
            self._agent, self._robot, self._controlled, finite_action(action, 2), self.control_radius
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


def picture(history: Array, height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
    """The rooms as observations up to now tell them: control is on once the agent was seen at the computer.

    Args:
        history: observations [t, 4].
        enlarged: factor on the radius.
        trail_from: when the drawn trails begin.
    """
    radius = enlarged * CONTROL_RADIUS
    seen = np.linalg.norm(history[:, :2] - COMPUTER, axis=-1) < radius
    trails = [(row[:2], row[2:]) for row in history[trail_from:]]
    return draw_rooms(height, trails, controlled=bool(seen.any()), control_radius=radius)


def draw_rooms(
    height: int, trails: Sequence[tuple[Array, Array]], *, controlled: bool, control_radius: float
) -> Picture:
    """Both rooms seen from above, agent and robot at the end of their trails (in their rooms' coordinates)."""
    from PIL import Image, ImageDraw

    size = height * OVERSAMPLING
    unit = size / 2.2  # pixels per world unit; rooms are 2 wide with a wall of 0.1 around
    image = Image.new("RGB", (2 * size, size), "#39404f")
    draw = ImageDraw.Draw(image)

    def place(position: Array, room: int) -> Array:
        return np.array([(position[0] + 1.1) * unit + room * size, (1.1 - position[1]) * unit])

    def box(center: Array, half: Sequence[float] | float) -> list[tuple[float, float]]:
        return pixel_box(center, np.asarray(half) * unit)

    def dot(center: Array, radius: float, fill: str) -> None:
        draw.ellipse(box(center, radius), fill=fill)

    middle = np.zeros(2)
    for room, floor in ((0, "#f3efe6"), (1, "#e8eef1")):
        draw.rectangle(box(place(middle, room), 1.0), fill=floor)
        for line in np.linspace(-0.75, 0.75, 7):
            shade = "#e9e3d6" if room == 0 else "#dbe4e8"
            width = max(1, size // 320)
            draw.line(
                [tuple(place(np.array([line, -1.0]), room)), tuple(place(np.array([line, 1.0]), room))],
                shade,
                width,
            )
            draw.line(
                [tuple(place(np.array([-1.0, line]), room)), tuple(place(np.array([1.0, line]), room))],
                shade,
                width,
            )

    goal = place(GOAL - ROOM_SHIFT, 1)
    draw.rounded_rectangle(box(goal, 0.13), radius=0.03 * unit, fill="#e19c24")
    draw.rounded_rectangle(box(goal, 0.09), radius=0.02 * unit, outline="#fbe9c6", width=max(1, size // 160))

    on = controlled
    computer = place(COMPUTER, 0)
    draw.ellipse(box(computer, control_radius), outline="#7b8fa6", width=max(1, size // 240))
    draw.rounded_rectangle(box(computer, [0.075, 0.055]), radius=0.01 * unit, fill="#2d3542")
    draw.rectangle(box(computer, [0.06, 0.04]), fill="#5fd38d" if on else "#8fa3b8")
    draw.rectangle(box(computer + np.array([0, 0.075 * unit]), [0.035, 0.012]), fill="#2d3542")

    for which, room, color in ((0, 0, "#d8a5b0"), (1, 1, "#a8bccb")):
        points = [tuple(place(positions[which], room)) for positions in trails]
        if len(points) > 1:
            draw.line(points, fill=color, width=max(1, size // 130), joint="curve")

    agent = place(trails[-1][0], 0)
    dot(agent, 0.065, "#9b363e")
    dot(agent - [0, 0.025 * unit], 0.028, "#f6d9cf")

    robot = place(trails[-1][1], 1)
    body = "#3f8f66" if on else "#636a86"
    draw.line([tuple(robot), tuple(robot - [0, 0.115 * unit])], fill=body, width=max(1, size // 110))
    dot(robot - [0, 0.115 * unit], 0.02, "#5fd38d" if on else "#c4cad6")
    draw.rounded_rectangle(box(robot, [0.075, 0.065]), radius=0.02 * unit, fill=body)
    for side in (-1, 1):
        dot(robot + np.array([side * 0.032, -0.012]) * unit, 0.017, "#ffffff")

    return scaled_down(image)
