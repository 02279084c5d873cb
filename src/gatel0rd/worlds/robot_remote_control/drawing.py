"""Both rooms of Robot Remote Control seen from above."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gatel0rd.worlds.drawing import Array, Canvas, Picture, box, scale_down
from gatel0rd.worlds.robot_remote_control.dynamics import COMPUTER, CONTROL_RADIUS, GOAL, ROOM_SHIFT

Trails = Sequence[tuple[Array, Array]]
FLOORS, TILES = ("#f3efe6", "#e8eef1"), ("#e9e3d6", "#dbe4e8")
LIT = "#5fd38d"
"""Of screen and aerial while the robot is controlled."""


def draw_history(history: Array, height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
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


class Rooms(Canvas):
    """A picture of both rooms, which are 2 wide with a wall of 0.1 around."""

    def place(self, position: Array, room: int) -> Array:
        """Pixel of a position in a room."""
        return np.array([(position[0] + 1.1) * self.unit + room * self.size, (1.1 - position[1]) * self.unit])

    def box(self, center: Array, half: Sequence[float] | float) -> list[tuple[float, float]]:
        """Corners of a box around a pixel."""
        return box(center, np.asarray(half) * self.unit)

    def dot(self, center: Array, radius: float, fill: str) -> None:
        self.draw.ellipse(self.box(center, radius), fill=fill)


def draw_rooms(height: int, trails: Trails, *, controlled: bool, control_radius: float) -> Picture:
    """Both rooms seen from above, agent and robot at the end of their trails (in their rooms' coordinates)."""
    canvas = Rooms(height)
    draw_floors(canvas)
    draw_goal(canvas)
    draw_computer(canvas, control_radius, on=controlled)
    draw_trails(canvas, trails)
    agent, robot = trails[-1]
    draw_agent(canvas, agent)
    draw_robot(canvas, robot, on=controlled)
    return scale_down(canvas.image)


def draw_floors(canvas: Rooms) -> None:
    """Tiled floors."""
    for room in (0, 1):
        canvas.draw.rectangle(canvas.box(canvas.place(np.zeros(2), room), 1.0), fill=FLOORS[room])
        for line in np.linspace(-0.75, 0.75, 7):
            for ends in ([(line, -1.0), (line, 1.0)], [(-1.0, line), (1.0, line)]):
                pixels = [tuple(canvas.place(np.array(end), room)) for end in ends]
                canvas.draw.line(pixels, TILES[room], canvas.width(320))


def draw_goal(canvas: Rooms) -> None:
    """Where the robot should go."""
    goal = canvas.place(GOAL - ROOM_SHIFT, 1)
    canvas.draw.rounded_rectangle(canvas.box(goal, 0.13), radius=0.03 * canvas.unit, fill="#e19c24")
    canvas.draw.rounded_rectangle(
        canvas.box(goal, 0.09), radius=0.02 * canvas.unit, outline="#fbe9c6", width=canvas.width(160)
    )


def draw_computer(canvas: Rooms, control_radius: float, *, on: bool) -> None:
    """The computer, and how near the agent has to come."""
    draw, computer = canvas.draw, canvas.place(COMPUTER, 0)
    draw.ellipse(canvas.box(computer, control_radius), outline="#7b8fa6", width=canvas.width(240))
    draw.rounded_rectangle(canvas.box(computer, [0.075, 0.055]), radius=0.01 * canvas.unit, fill="#2d3542")
    draw.rectangle(canvas.box(computer, [0.06, 0.04]), fill=LIT if on else "#8fa3b8")
    draw.rectangle(canvas.box(computer + np.array([0, 0.075 * canvas.unit]), [0.035, 0.012]), fill="#2d3542")


def draw_trails(canvas: Rooms, trails: Trails) -> None:
    """Where agent and robot have been."""
    for room, color in ((0, "#d8a5b0"), (1, "#a8bccb")):
        points = [tuple(canvas.place(positions[room], room)) for positions in trails]
        if len(points) > 1:
            canvas.draw.line(points, fill=color, width=canvas.width(130), joint="curve")


def draw_agent(canvas: Rooms, position: Array) -> None:
    """The agent's body and head."""
    agent = canvas.place(position, 0)
    canvas.dot(agent, 0.065, "#9b363e")
    canvas.dot(agent - [0, 0.025 * canvas.unit], 0.028, "#f6d9cf")


def draw_robot(canvas: Rooms, position: Array, *, on: bool) -> None:
    """The robot with its aerial."""
    robot, body = canvas.place(position, 1), "#3f8f66" if on else "#636a86"
    tip = robot - [0, 0.115 * canvas.unit]
    canvas.draw.line([tuple(robot), tuple(tip)], fill=body, width=canvas.width(110))
    canvas.dot(tip, 0.02, LIT if on else "#c4cad6")
    canvas.draw.rounded_rectangle(canvas.box(robot, [0.075, 0.065]), radius=0.02 * canvas.unit, fill=body)
    for side in (-1, 1):
        canvas.dot(robot + np.array([side * 0.032, -0.012]) * canvas.unit, 0.017, "#ffffff")
