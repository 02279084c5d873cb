"""Shepherd: place a cage, open a gate, and let a sheep that was hidden walk into the cage (Suppl. B.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from gatel0rd.worlds.drawing import Array, Picture
from gatel0rd.worlds.environment import DrawnEnv, check_action, check_options
from gatel0rd.worlds.shepherd.drawing import draw_scene
from gatel0rd.worlds.shepherd.dynamics import (
    CAGE_RADIUS,
    HIGHEST,
    LEVER_RADIUS,
    LOWEST,
    START_X,
    ShepherdState,
    observe,
    rules_of,
    sample_sheep,
    start,
    transition,
)

ROUNDING = 1e-6
"""Starts taken from float32 data may lie this far outside their range."""


class Shepherd(DrawnEnv):
    """An agent with a portable cage in a meadow, a lever at its far end, a sheep behind a wall.

    Observation: ((x-1)/2, (y+0.5)/2) of agent and cage, (x-2, y) of the sheep, the wall's height. The sheep is masked
    while it waits behind the wall. Action: movement and grasp in [-1, 1]³. Reward 1 and termination when the sheep is
    caught; episodes are truncated by the registered time limit. ``info`` tells ``hidden``, ``gate_open``, ``carried``
    and ``caught``.

    Pictures show a hidden sheep as a ghost behind its gate: it is hidden only from the observation.

    Args:
        lever_radius, cage_radius: how near is near; planning in the paper uses 1.5 times these.
        preset: ``text``, a random velocity and mask (-1, -1), or ``reference``, velocity 0.025 and mask (0, 0).
        render_mode: ``rgb_array`` or ``human``.
        render_size: height of the picture in pixels; it is twice as wide.
    """

    def __init__(
        self,
        *,
        lever_radius: float = LEVER_RADIUS,
        cage_radius: float = CAGE_RADIUS,
        preset: str = "text",
        render_mode: str | None = None,
        render_size: int = 320,
    ) -> None:
        super().__init__(render_mode=render_mode, render_size=render_size)
        self.rules = rules_of(preset)
        self.lever_radius, self.cage_radius = lever_radius, cage_radius
        self.observation_space = spaces.Box(-1.0, 1.0, (7,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float64)
        self._state = start(np.array([START_X, -0.5]), *np.array([2.0, 0.5, self.rules.slowest]))
        self._trails: list[tuple[Array, Array]] = []

    @property
    def state(self) -> ShepherdState:
        """The state, for planners: ``transition`` continues from it without touching the environment."""
        return self._state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start anew at the right border, carrying the cage.

        ``options`` may set, in world coordinates, ``agent``, ``cage`` (which is carried if it is near the agent),
        ``sheep_x``, ``wall`` and ``velocity``.
        """
        super().reset(seed=seed)
        options = check_options(options, ("agent", "cage", "sheep_x", "wall", "velocity"))
        agent = np.array([START_X, self.np_random.uniform(LOWEST[1], HIGHEST[1])])
        sheep_x, wall, velocity = sample_sheep(self.np_random, self.rules)
        state = start(
            _within("agent", options.get("agent", agent), LOWEST, HIGHEST),
            _within("sheep_x", options.get("sheep_x", sheep_x), 1.05, 2.95),
            _within("wall", options.get("wall", wall), 0.05, 0.95),
            _within("velocity", options.get("velocity", velocity), 0.0, 0.1),
        )
        if "cage" in options:
            cage = _within("cage", options["cage"], LOWEST, HIGHEST)
            state = state._replace(cage=cage, carried=np.asarray(np.linalg.norm(state.agent - cage) < self.cage_radius))
        self._state = state
        self._trails = [(state.agent, state.sheep)]
        self._show()
        return self._observation(), self._info()

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._state = transition(self._state, check_action(action, 3), self.lever_radius, self.cage_radius)
        self._trails.append((self._state.agent, self._state.sheep))
        self._show()
        caught = bool(self._state.caught)
        return self._observation(), float(caught), caught, False, self._info()

    def _observation(self) -> Array:
        return observe(self._state, self.rules.mask)

    def _info(self) -> dict[str, Any]:
        return {name: bool(getattr(self._state, name)) for name in ("hidden", "gate_open", "carried", "caught")}

    def _draw(self) -> Picture:
        return draw_scene(
            self.render_size,
            self._state,
            self._trails,
            lever_radius=self.lever_radius,
            cage_radius=self.cage_radius,
        )


def _within(name: str, value: Any, low: ArrayLike, high: ArrayLike) -> Array:
    """The value as an array of the bounds' shape, if it lies between them."""
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    array = np.asarray(value, dtype=np.float64)
    if array.shape != low.shape or not ((array >= low - ROUNDING) & (array <= high + ROUNDING)).all():
        kind = "a position" if low.shape else "a number"
        ranges = " × ".join(f"[{a:g}, {b:g}]" for a, b in zip(np.atleast_1d(low), np.atleast_1d(high), strict=True))
        raise ValueError(f"{name} is {value}; expected {kind} in {ranges}")
    return np.asarray(np.clip(array, low, high))
