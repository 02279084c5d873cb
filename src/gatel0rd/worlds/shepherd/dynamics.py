"""Shepherd: the state of any number of meadows, and how they change (Suppl. B.4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEVER = np.array([-0.85, 0.0])
LOWEST = np.array([-0.95, -0.95])
HIGHEST = np.array([2.95, -0.05])
"""Borders of the meadow for agent and cage."""
STEP = 0.1
LEVER_RADIUS = 0.2
CAGE_RADIUS = 0.1
START_X = 2.9
SHEEP_X = (1.5, 2.5)
SHEEP_Y = 0.95
SHEEP_STOP = -0.95
WALL_HEIGHT = (0.35, 0.65)
MEADOW_SHIFT, MEADOW_SCALE = np.array([1.0, -0.5]), 0.5
SHEEP_SHIFT = np.array([2.0, 0.0])
NEAR_MASK = 0.25
"""How near to a mask a predicted position still means a hidden sheep."""


class Rules(NamedTuple):
    """What the presets differ in: the observed position of a hidden sheep, and the range of velocities."""

    mask: tuple[float, float]
    slowest: float
    fastest: float


RULES = {
    "text": Rules(mask=(-1.0, -1.0), slowest=0.02, fastest=0.03),
    "reference": Rules(mask=(0.0, 0.0), slowest=0.025, fastest=0.025),
}
"""``text``: a velocity per sequence, a mask outside the sheep's range (±0.95). ``reference``: as the authors' code."""


def rules_of(preset: str) -> Rules:
    if preset not in RULES:
        raise ValueError(f"preset is {preset!r}; expected text or reference")
    return RULES[preset]


class ShepherdState(NamedTuple):
    """The whole state of any number of meadows; planners may copy it freely, since nothing changes it in place.

    Shape: agent, cage, sheep [..., 2] in world coordinates; velocity (per step, downwards), wall (its height),
    gate_open, carried, caught [...].
    """

    agent: Array
    cage: Array
    sheep: Array
    velocity: Array
    wall: Array
    gate_open: Flags
    carried: Flags
    caught: Flags

    @property
    def hidden(self) -> Flags:
        """Whether the sheep waits behind the wall, at y = 0. Shape: [...]."""
        hidden: Flags = ~self.gate_open & (self.sheep[..., 1] <= 0)
        return hidden


def start(agent: Array, sheep_x: Array, wall: Array, velocity: Array) -> ShepherdState:
    """Meadows at their beginning: the agent carries the cage, the gate is closed, the sheep is at the top.

    Shape: agent [..., 2], the others [...].
    """
    off = np.zeros(agent.shape[:-1], dtype=bool)
    sheep = np.stack([sheep_x, np.full_like(sheep_x, SHEEP_Y)], axis=-1)
    return ShepherdState(
        agent=agent, cage=agent, sheep=sheep, velocity=velocity, wall=wall, gate_open=off, carried=~off, caught=off
    )


def sample_sheep(generator: np.random.Generator, rules: Rules, shape: tuple[int, ...] = ()) -> tuple[Array, ...]:
    """Random sheep_x, wall and velocity, each of the given shape."""
    ranges = (SHEEP_X, WALL_HEIGHT, (rules.slowest, rules.fastest))
    return tuple(np.asarray(generator.uniform(low, high, shape)) for low, high in ranges)


def transition(
    state: ShepherdState, action: Array, lever_radius: float = LEVER_RADIUS, cage_radius: float = CAGE_RADIUS
) -> ShepherdState:
    """One step, for any number of meadows at once.

    1. The cage is carried if a₃ > 0 and it was carried or is near the agent, before the move.
    2. The agent moves by 0.1·(a₁, a₂) and stops at the borders; a carried cage moves as far as the agent did, and
       stops at the borders too.
    3. The gate opens, for good, when the agent is near the lever after its move.
    4. The sheep moves down by its velocity. Below the wall's height it is at the gate, y = 0, and waits there, hidden,
       while the gate is closed. When the gate opens it is visible in that very step and moves on in the next one.
       It stops at the lower border.
    5. The sheep is caught, for good, if it has passed the open gate and the cage is near it and not carried. From then
       on it stays where it is, even if the cage is taken away again.

    Shape: action [..., 3]; one state may be given with many actions, and becomes many states.
    """
    near = np.linalg.norm(state.agent - state.cage, axis=-1) < cage_radius
    carried = (action[..., 2] > 0) & (state.carried | near)
    agent = np.clip(state.agent + STEP * action[..., :2], LOWEST, HIGHEST)
    cage = np.where(carried[..., None], np.clip(state.cage + agent - state.agent, LOWEST, HIGHEST), state.cage)
    gate_open = state.gate_open | (np.linalg.norm(agent - LEVER, axis=-1) < lever_radius)

    before = state.sheep[..., 1]
    moved = before - state.velocity
    above = np.where(moved < state.wall, 0.0, moved)
    below = np.maximum(moved, SHEEP_STOP)
    stays = state.caught | state.hidden
    after = np.where(stays, before, np.where(before > 0, above, below))
    sheep = np.stack(np.broadcast_arrays(state.sheep[..., 0], after), axis=-1)

    in_cage = np.linalg.norm(sheep - cage, axis=-1) < cage_radius
    caught = state.caught | (gate_open & (after <= 0) & ~carried & in_cage)
    return state._replace(agent=agent, cage=cage, sheep=sheep, gate_open=gate_open, carried=carried, caught=caught)


def observe(state: ShepherdState, mask: ArrayLike) -> Array:
    """What is seen, with the mask in place of a hidden sheep. Shape: mask [2] -> [..., 7]."""
    agent, cage = ((position - MEADOW_SHIFT) * MEADOW_SCALE for position in (state.agent, state.cage))
    sheep = np.where(state.hidden[..., None], mask, state.sheep - SHEEP_SHIFT)
    shape = np.broadcast_shapes(*(part.shape[:-1] for part in (agent, cage, sheep)), state.wall.shape)
    parts = (agent, cage, sheep, state.wall[..., None])
    return np.concatenate([np.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1)
