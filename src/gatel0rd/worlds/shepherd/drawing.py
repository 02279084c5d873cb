"""Shepherd seen from above: the meadow, the wall with its gate, the lever, the cage, the agent and the sheep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gatel0rd.worlds.drawing import Array, Canvas, Picture, scale_down
from gatel0rd.worlds.shepherd.dynamics import (
    CAGE_RADIUS,
    LEVER,
    LEVER_RADIUS,
    MEADOW_SCALE,
    MEADOW_SHIFT,
    NEAR_MASK,
    RULES,
    SHEEP_SHIFT,
    ShepherdState,
)

Point = tuple[float, float]
OUT_OF_SIGHT = np.array([9.0, 9.0])
GATE_LEFT, GATE_RIGHT, GATE_TOP = 1.3, 2.7, 0.24
WOOD, DARK_WOOD, IRON = "#a77b4f", "#5b4636", "#2b2a2c"
GREEN = "#3f9f68"
"""Of everything that is done: the lever is pulled, the sheep is caught."""


def draw_history(history: Array, height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
    """The scene as observations up to now tell it: the gate is open once the agent was seen at the lever.

    While the observed sheep is near one of the masks it is hidden, and not drawn.

    Args:
        history: observations [t, 7].
        enlarged: factor on the radii.
        trail_from: when the drawn trails begin.
    """
    lever_radius, cage_radius = enlarged * LEVER_RADIUS, enlarged * CAGE_RADIUS
    agent, cage = (history[:, columns] / MEADOW_SCALE + MEADOW_SHIFT for columns in (slice(0, 2), slice(2, 4)))
    opened = np.logical_or.accumulate(np.linalg.norm(agent - LEVER, axis=-1) < lever_radius)
    distances = [np.linalg.norm(history[:, 4:6] - rules.mask, axis=-1) for rules in RULES.values()]
    # a mask that lies where sheep can be is no sheep while the gate is closed; one that lies outside never is
    outside = np.linalg.norm(history[:, 4:6] - RULES["text"].mask, axis=-1) < NEAR_MASK
    hidden = outside | (~opened & (np.minimum.reduce(distances) < NEAR_MASK))
    sheep = history[:, 4:6] + SHEEP_SHIFT
    last_seen = np.maximum.accumulate(np.where(hidden, 0, np.arange(len(history))))
    sheep = sheep[last_seen]
    still = len(sheep) > 1 and bool(np.abs(sheep[-1] - sheep[-2]).max() < 0.005)
    state = ShepherdState(
        agent=agent[-1],
        cage=cage[-1],
        sheep=OUT_OF_SIGHT if hidden[-1] else sheep[-1],
        velocity=np.array(0.0),
        wall=np.clip(history[-1, 6], 0.05, 0.95),
        gate_open=opened[-1],
        carried=np.array(False),
        caught=opened[-1] & still & (np.linalg.norm(sheep[-1] - cage[-1]) < cage_radius),
    )
    trails = list(zip(agent[trail_from:], sheep[trail_from:], strict=True))
    return draw_scene(height, state, trails, lever_radius=lever_radius, cage_radius=cage_radius)


class Scene(Canvas):
    """A picture in world coordinates: 4 wide and 2 high, with margins of 0.2 and 0.1."""

    def place(self, x: float, y: float) -> Point:
        """Pixel of a position."""
        return (x + 1.2) * self.unit, (1.1 - y) * self.unit

    def box(self, left: float, bottom: float, right: float, top: float) -> list[Point]:
        """Corners of a box, as PIL wants them."""
        return [self.place(left, top), self.place(right, bottom)]

    def around(self, x: float, y: float, half: float) -> list[Point]:
        """Corners of a square around a position."""
        return self.box(x - half, y - half, x + half, y + half)

    def polygon(self, points: Sequence[Point], fill: str, outline: str | None = None) -> None:
        self.draw.polygon([self.place(*point) for point in points], fill=fill, outline=outline)

    def bar(self, points: Sequence[Point], fill: str, width: float) -> None:
        """A line of the given width in world units."""
        self.draw.line([self.place(*point) for point in points], fill, max(1, round(width * self.unit)), joint="curve")


def draw_scene(
    height: int,
    state: ShepherdState,
    trails: Sequence[tuple[Array, Array]] = (),
    *,
    lever_radius: float = LEVER_RADIUS,
    cage_radius: float = CAGE_RADIUS,
) -> Picture:
    """One meadow, twice as wide as high, with the trails of agent and sheep; a hidden sheep is a ghost at the gate."""
    canvas = Scene(height)
    sheep_x, sheep_y = state.sheep.tolist()
    draw_forest(canvas)
    draw_grass(canvas)
    draw_fence(canvas)
    draw_trails(canvas, trails)
    if sheep_y > 0:  # behind the wall, which may cover it
        draw_sheep(canvas, canvas.draw, sheep_x, sheep_y)
    draw_wall(canvas, float(state.wall))
    (draw_open_gate if state.gate_open else draw_closed_gate)(canvas)
    draw_lever(canvas, lever_radius, pulled=bool(state.gate_open))
    draw_cage_floor(canvas, state.cage, cage_radius)
    if state.hidden:
        draw_ghost(canvas, sheep_x, sheep_y)
    elif sheep_y <= 0:
        draw_sheep(canvas, canvas.draw, sheep_x, sheep_y)
    draw_cage_bars(canvas, state.cage, caught=bool(state.caught))
    draw_agent(canvas, state.agent)
    return scale_down(canvas.image)


def draw_forest(canvas: Scene) -> None:
    """Trees to the left of the run."""
    draw = canvas.draw
    draw.rectangle(canvas.box(-1, 0, 1, 1), fill="#4c6b58")
    rows, columns = np.meshgrid(np.linspace(0.88, 0.12, 7), np.linspace(-0.9, 0.9, 14), indexing="ij")
    jitter = np.random.default_rng(5).uniform((-0.04, -0.025, 0.055), (0.04, 0.025, 0.09), (rows.size, 3))
    for x, y, radius in (np.stack([columns.ravel(), rows.ravel(), np.zeros(rows.size)], axis=-1) + jitter).tolist():
        draw.ellipse(canvas.around(x, y - 0.015, radius), fill="#3f5b4b")
        draw.ellipse(canvas.around(x, y, radius), fill="#557a63")
        draw.ellipse(canvas.around(x - radius * 0.25, y + radius * 0.3, radius * 0.5), fill="#628a70")


def draw_grass(canvas: Scene) -> None:
    """The meadow below, and the run in which the sheep comes down."""
    canvas.draw.rectangle(canvas.box(-1, -1, 3, 0), fill="#dbe7c4")
    canvas.draw.rectangle(canvas.box(1, 0, 3, 1), fill="#e9ecd2")
    tufts = np.random.default_rng(7).uniform((-0.95, -0.95), (2.95, 0.95), (170, 2))
    for x, y in tufts.tolist():
        if y < -0.05 or x > 1.05:
            shade = "#c3d5a6" if y < 0 else "#d6dcb6"
            for lean in (-0.018, 0.0, 0.018):
                canvas.draw.line([canvas.place(x, y), canvas.place(x + lean, y + 0.03)], shade, canvas.width(320))


def draw_fence(canvas: Scene) -> None:
    """The fence around it all."""
    for corners in ([(-1, 0), (-1, -1), (3, -1), (3, 0)], [(-1, 0), (1, 0)], [(1, 0), (1, 1), (3, 1), (3, 0)]):
        canvas.bar([(float(x), float(y)) for x, y in corners], "#7a5f47", 0.022)

    def post(x: float, y: float) -> None:
        canvas.draw.ellipse(canvas.around(x, y, 0.026), fill=DARK_WOOD)

    for x in np.linspace(-1, 3, 17).tolist():
        post(x, -1)
        if x <= 1:
            post(x, 0)
        if x >= 1:
            post(x, 1)
    for y in np.linspace(-1, 1, 9).tolist():
        for x in (-1.0, 3.0) if y <= 0 else (1.0, 3.0):
            post(x, y)


def draw_trails(canvas: Scene, trails: Sequence[tuple[Array, Array]]) -> None:
    """Where agent and sheep have been."""
    for which, color in ((1, "#c9bfa6"), (0, "#d8a5b0")):
        points = [canvas.place(*pair[which].tolist()) for pair in trails]
        if len(points) > 1:
            canvas.draw.line(points, color, canvas.width(130), joint="curve")


def draw_sheep(canvas: Scene, draw: Any, sheep_x: float, sheep_y: float) -> None:
    """The sheep, with a pen that may be another layer's."""
    for side in (-1, 1):
        x = sheep_x + side * 0.038
        draw.line(
            [canvas.place(x, sheep_y - 0.03), canvas.place(x, sheep_y - 0.1)],
            "#3a3536",
            max(1, round(0.02 * canvas.unit)),
        )
    puffs = [(0.055 * np.cos(turn), 0.036 * np.sin(turn)) for turn in np.linspace(0, 2 * np.pi, 9)[:-1]]
    for grow, fill in ((0.008, "#b9b2a8"), (0.0, "#fffdf8")):  # an outline, then the wool
        for dx, dy in puffs:
            draw.ellipse(canvas.around(sheep_x + dx, sheep_y + dy, 0.036 + grow), fill=fill)
        draw.ellipse(canvas.around(sheep_x, sheep_y, 0.05 + grow), fill=fill)
    for side in (-1, 1):
        ear_x, ear_y = sheep_x + side * 0.036, sheep_y + 0.004
        draw.ellipse(canvas.box(ear_x - 0.016, ear_y - 0.009, ear_x + 0.016, ear_y + 0.009), fill="#4a4344")
    draw.ellipse(canvas.box(sheep_x - 0.028, sheep_y - 0.042, sheep_x + 0.028, sheep_y + 0.026), fill="#3a3536")
    for side in (-1, 1):
        draw.ellipse(canvas.around(sheep_x + side * 0.012, sheep_y, 0.0065), fill="#ffffff")
    draw.ellipse(canvas.box(sheep_x - 0.026, sheep_y + 0.018, sheep_x + 0.026, sheep_y + 0.046), fill="#fffdf8")


def draw_wall(canvas: Scene, wall: float) -> None:
    """The wall, as high as it occludes, with a dark opening at its foot."""
    draw = canvas.draw
    draw.rectangle(canvas.box(1, 0, 3, wall), fill="#8d8a86")
    row, low = 0, 0.0
    while low < wall:
        high = min(low + 0.07, wall)
        for left in np.arange(1 - 0.1 * (row % 2), 3, 0.2).tolist():
            shade = ("#a6a29b", "#b0aca4", "#9d9993")[(row * 7 + round(left * 5) * 3 + row // 2) % 3]
            stone = canvas.box(
                max(left, 1) + 0.006, low + 0.006, min(left + 0.2, 3) - 0.006, max(high, low + 0.012) - 0.006
            )
            if high - low > 0.02:
                draw.rounded_rectangle(stone, radius=0.012 * canvas.unit, fill=shade)
        row, low = row + 1, low + 0.07
    draw.rectangle(canvas.box(1, wall - 0.03, 3, wall), fill="#6f6c69")
    draw.rectangle(canvas.box(GATE_LEFT - 0.04, 0, GATE_RIGHT + 0.04, GATE_TOP + 0.04), fill=DARK_WOOD)
    draw.rectangle(canvas.box(GATE_LEFT, 0, GATE_RIGHT, GATE_TOP), fill=IRON)


def draw_open_gate(canvas: Scene) -> None:
    """The gate's leaves, swung towards us."""
    canvas.polygon(((1.36, 0.0), (2.64, 0.0), (2.56, 0.09), (1.44, 0.09)), fill="#55583f")
    for side, post in ((1, GATE_LEFT), (-1, GATE_RIGHT)):
        end = post - side * 0.16
        canvas.polygon([(post, 0.24), (post, 0.0), (end, -0.07), (end, 0.2)], fill=WOOD, outline=DARK_WOOD)
        for share in (0.33, 0.67):
            x, shift = post - side * 0.16 * share, 0.07 * share
            canvas.bar([(x, 0.24 - 0.04 * share), (x, -shift)], "#8a6440", 0.008)
        canvas.bar([(post, 0.18), (end, 0.14)], DARK_WOOD, 0.018)
        canvas.bar([(post, 0.05), (end, -0.015)], DARK_WOOD, 0.018)


def draw_closed_gate(canvas: Scene) -> None:
    """The gate's boards."""
    for left in np.linspace(GATE_LEFT, GATE_RIGHT, 15)[:-1].tolist():
        canvas.draw.rectangle(canvas.box(left + 0.006, 0, left + 0.094, GATE_TOP - 0.008), fill=WOOD)
        canvas.bar([(left + 0.05, 0.03), (left + 0.05, 0.2)], "#9a6f46", 0.006)
    for y in (0.055, 0.18):
        canvas.bar([(GATE_LEFT, y), (GATE_RIGHT, y)], "#6d4f36", 0.026)
    canvas.bar([(2.0, 0.0), (2.0, GATE_TOP)], IRON, 0.014)


def draw_lever(canvas: Scene, radius: float, *, pulled: bool) -> None:
    """The lever, and how near the agent has to come."""
    draw = canvas.draw
    x, y = LEVER.tolist()
    draw.ellipse(canvas.around(x, y, radius), outline="#8fae74", width=canvas.width(160))
    draw.rounded_rectangle(
        canvas.box(x - 0.07, y - 0.045, x + 0.07, y + 0.02), radius=0.02 * canvas.unit, fill="#2d3542"
    )
    tip = x + (0.075 if pulled else -0.075)
    canvas.bar([(x, y), (tip, y + 0.1)], "#c4cad6", 0.024)
    draw.ellipse(canvas.around(tip, y + 0.105, 0.033), fill=GREEN if pulled else "#c98a1b")
    draw.ellipse(canvas.around(x, y - 0.013, 0.018), fill="#5fd38d" if pulled else "#636a86")


def draw_cage_floor(canvas: Scene, cage: Array, radius: float) -> None:
    """What lies below whoever is in the cage."""
    x, y = cage.tolist()
    canvas.draw.ellipse(canvas.around(x, y, radius), outline="#a9b892", width=canvas.width(320))
    canvas.draw.rounded_rectangle(canvas.around(x, y, 0.1), radius=0.02 * canvas.unit, fill="#c9a876")


def draw_cage_bars(canvas: Scene, cage: Array, *, caught: bool) -> None:
    """What stands in front of whoever is in the cage."""
    cage_x, cage_y = cage.tolist()
    bars, frame = (GREEN, "#2f7a50") if caught else ("#565f70", "#39404f")
    for x in np.linspace(cage_x - 0.09, cage_x + 0.09, 5).tolist():
        canvas.bar([(x, cage_y - 0.09), (x, cage_y + 0.09)], bars, 0.011)
    for y in (cage_y - 0.09, cage_y + 0.09):
        canvas.bar([(cage_x - 0.1, y), (cage_x + 0.1, y)], frame, 0.02)


def draw_ghost(canvas: Scene, sheep_x: float, sheep_y: float) -> None:
    """A hidden sheep: it shines through the gate."""
    from PIL import Image, ImageDraw

    layer = Image.new("RGBA", canvas.image.size)
    draw_sheep(canvas, ImageDraw.Draw(layer), sheep_x, sheep_y)
    layer.putalpha(layer.getchannel("A").point(lambda alpha: alpha * 3 // 5))
    canvas.image.paste(layer, mask=layer)
    for turn in range(0, 360, 30):
        ring = canvas.around(sheep_x, sheep_y, 0.125)
        canvas.draw.arc(ring, turn, turn + 17, fill="#fffdf8", width=canvas.width(160))


def draw_agent(canvas: Scene, agent: Array) -> None:
    """The agent's body and head."""
    x, y = agent.tolist()
    canvas.draw.ellipse(canvas.around(x, y, 0.065), fill="#9b363e")
    canvas.draw.ellipse(canvas.around(x, y + 0.025, 0.028), fill="#f6d9cf")
