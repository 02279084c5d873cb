"""CartPole as a swing-up, without velocities: the pole hangs at first, and the cart has to be pushed to and fro.

Importing this module makes it known to Gymnasium: ``gatel0rd control benchmarks.swing_up:CartPoleSwingUp-v0``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

GRAVITY, CART, POLE, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5
"""In kilograms, metres and seconds, as Gymnasium's CartPole."""
FORCE, TRACK = 10.0, 2.4
SUBSTEPS, TAU = 5, 0.01
LIMIT = 100


class CartPoleSwingUp(gymnasium.Env[NDArray[np.float64], NDArray[np.float64]]):
    """A pole on a cart that a force moves; the cart stops at both ends of its track.

    Observation: position of the cart as a share of half the track, cosine and sine of the pole's angle, which is 0
    upright. Action: the force, from -1 to 1 (10 N), for 0.05 s. Reward: (1 + cos) / 2, less 0.1 times the squared
    position, so that 100 steps give at most 100.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
        self.x = self.x_dot = self.theta = self.theta_dot = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.x_dot, self.theta, self.theta_dot = self.np_random.normal(0, 0.05, 4)
        self.theta += np.pi
        return self._observe(), {}

    def step(self, action: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        force = FORCE * float(np.clip(action[0], -1, 1))
        for _ in range(SUBSTEPS):
            sine, cosine = np.sin(self.theta), np.cos(self.theta)
            temp = (force + POLE * HALF_LENGTH * self.theta_dot**2 * sine) / (CART + POLE)
            theta_acc = (GRAVITY * sine - cosine * temp) / (HALF_LENGTH * (4 / 3 - POLE * cosine**2 / (CART + POLE)))
            self.x_dot += TAU * (temp - POLE * HALF_LENGTH * theta_acc * cosine / (CART + POLE))
            self.theta_dot += TAU * theta_acc
            self.x += TAU * self.x_dot
            self.theta += TAU * self.theta_dot
            if abs(self.x) > TRACK:
                self.x, self.x_dot = float(np.clip(self.x, -TRACK, TRACK)), 0.0
        seen = self._observe()
        return seen, float((1 + seen[1]) / 2 - 0.1 * seen[0] ** 2), False, False, {}

    def render(self) -> Any:
        from PIL import Image, ImageDraw

        picture = Image.new("RGB", (600, 240), "white")
        draw = ImageDraw.Draw(picture)
        x, y, scale = 300 + 110 * self.x, 130, 90
        draw.line([(300 - 110 * TRACK - 30, y + 14), (300 + 110 * TRACK + 30, y + 14)], fill="#444444", width=2)
        draw.rectangle([x - 30, y - 12, x + 30, y + 12], fill="#3b6ea5")
        draw.line([(x, y), (x + scale * np.sin(self.theta), y - scale * np.cos(self.theta))], fill="#c8553d", width=8)
        return np.asarray(picture)

    def _observe(self) -> NDArray[np.float64]:
        return np.array([self.x / TRACK, np.cos(self.theta), np.sin(self.theta)])


if "CartPoleSwingUp-v0" not in gymnasium.registry:
    gymnasium.register("CartPoleSwingUp-v0", entry_point="benchmarks.swing_up:CartPoleSwingUp", max_episode_steps=LIMIT)
