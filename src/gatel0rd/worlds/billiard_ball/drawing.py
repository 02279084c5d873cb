"""The pool table seen from above."""

from __future__ import annotations

import numpy as np

from gatel0rd.worlds.billiard_ball.dynamics import HALF_SIZE, POCKET, POCKETS, RADIUS
from gatel0rd.worlds.drawing import OVERSAMPLING, Array, Picture, box, scale_down


def draw_history(history: Array, height: int, *, trail_from: int = 0) -> Picture:
    """The table as observations up to now tell it.

    Args:
        history: observations [t, 2].
        trail_from: when the drawn trail begins.
    """
    resting = len(history) > 2 and bool(np.abs(np.diff(history[-3:], axis=0)).max() < 1e-3)
    in_pocket = bool((np.linalg.norm(history[-1] * HALF_SIZE - POCKETS, axis=-1) < POCKET).any())
    return draw_table(height, list(history[trail_from:] * HALF_SIZE), pocketed=resting and in_pocket)


def draw_table(height: int, trail: list[Array], *, pocketed: bool) -> Picture:
    """The table seen from above, with the ball at the end of its trail (positions in metres)."""
    from PIL import Image, ImageDraw

    frame = 0.09
    unit = height * OVERSAMPLING / (2 * (HALF_SIZE[1] + frame))  # pixels per metre
    middle = (HALF_SIZE + frame) * unit
    image = Image.new("RGB", (round(2 * middle[0]), round(2 * middle[1])), "#ffffff")
    draw = ImageDraw.Draw(image)

    def place(position: Array) -> Array:
        pixel: Array = middle + position * np.array([1.0, -1.0]) * unit
        return pixel

    outer = HALF_SIZE + frame
    draw.rounded_rectangle(box(middle, outer * unit), radius=0.07 * unit, fill="#5b3a24")
    draw.rounded_rectangle(box(middle, (outer - 0.015) * unit), radius=0.06 * unit, fill="#7a5032")
    draw.rectangle(box(middle, (HALF_SIZE + 0.03) * unit), fill="#1f5c46")
    draw.rectangle(box(middle, HALF_SIZE * unit), fill="#2f7d5f")
    for line in (-0.5, 0.5):
        ends = [tuple(place(np.array([line, side]))) for side in (-HALF_SIZE[1], HALF_SIZE[1])]
        draw.line(ends, fill="#34866a", width=round(0.006 * unit))
    for x in (-0.75, -0.5, -0.25, 0.25, 0.5, 0.75):
        for side in (-1, 1):
            spot = place(np.array([x * HALF_SIZE[0], side * (HALF_SIZE[1] + 0.06)]))
            draw.ellipse(box(spot, 0.007 * unit), fill="#e8d9b8")
    for pocket in POCKETS:
        draw.ellipse(box(place(pocket), POCKET * 0.62 * unit), fill="#101514")
    if len(trail) > 1:
        draw.line([tuple(place(point)) for point in trail], fill="#9fd0b5", width=round(0.008 * unit), joint="curve")
    ball = place(trail[-1]) if trail else middle
    draw.ellipse(box(ball + 0.008 * unit, RADIUS * unit), fill="#1d4c3b" if not pocketed else "#101514")
    draw.ellipse(box(ball, RADIUS * unit), fill="#f7f4ea" if not pocketed else "#6f6d66")
    draw.ellipse(box(ball - 0.01 * unit, 0.3 * RADIUS * unit), fill="#ffffff" if not pocketed else "#8a887f")
    return scale_down(image)
