"""Shepherd: place a cage, open a gate, and let a sheep that was hidden walk into the cage (Suppl. B.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from gatel0rd.worlds.drawing import OVERSAMPLING, Array, DrawnEnv, Picture, check_options, finite_action, scaled_down

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
OBSERVATION_NAMES = ("agent_x", "agent_y", "cage_x", "cage_y", "sheep_x", "sheep_y", "wall")
ACTION_NAMES = ("move_x", "move_y", "grasp")
MEADOW_SHIFT, MEADOW_SCALE = np.array([1.0, -0.5]), 0.5
SHEEP_SHIFT = np.array([2.0, 0.0])
NEAR_MASK = 0.25
"""How near to a mask a predicted position still means a hidden sheep."""
OUT_OF_SIGHT = np.array([9.0, 9.0])
ROUNDING = 1e-6
"""Starts taken from float32 data may lie this far outside their range."""


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


class World(NamedTuple):
    """The whole state of any number of worlds; planners may copy it freely, since nothing changes it in place.

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


def start(agent: Array, sheep_x: Array, wall: Array, velocity: Array) -> World:
    """Worlds at their beginning: the agent carries the cage, the gate is closed, the sheep is at the top.

    Shape: agent [..., 2], the others [...].
    """
    off = np.zeros(agent.shape[:-1], dtype=bool)
    sheep = np.stack([sheep_x, np.full_like(sheep_x, SHEEP_Y)], axis=-1)
    return World(
        agent=agent, cage=agent, sheep=sheep, velocity=velocity, wall=wall, gate_open=off, carried=~off, caught=off
    )


def sample_sheep(generator: np.random.Generator, rules: Rules, shape: tuple[int, ...] = ()) -> tuple[Array, ...]:
    """Random sheep_x, wall and velocity, each of the given shape."""
    ranges = (SHEEP_X, WALL_HEIGHT, (rules.slowest, rules.fastest))
    return tuple(np.asarray(generator.uniform(low, high, shape)) for low, high in ranges)


def transition(
    world: World, action: Array, lever_radius: float = LEVER_RADIUS, cage_radius: float = CAGE_RADIUS
) -> World:
    """One step of the world, for any number of worlds at once.

    1. The cage is carried if a₃ > 0 and it was carried or is near the agent, before the move.
    2. The agent moves by 0.1·(a₁, a₂) and stops at the borders; a carried cage moves as far as the agent did, and
       stops at the borders too.
    3. The gate opens, for good, when the agent is near the lever after its move.
    4. The sheep moves down by its velocity. Below the wall's height it is at the gate, y = 0, and waits there, hidden,
       while the gate is closed. When the gate opens it is visible in that very step and moves on in the next one.
       It stops at the lower border.
    5. The sheep is caught, for good, if it has passed the open gate and the cage is near it and not carried. From then
       on it stays where it is, even if the cage is taken away again.

    Shape: action [..., 3]; one world may be given with many actions, and becomes many worlds.
    """
    near = np.linalg.norm(world.agent - world.cage, axis=-1) < cage_radius
    carried = (action[..., 2] > 0) & (world.carried | near)
    agent = np.clip(world.agent + STEP * action[..., :2], LOWEST, HIGHEST)
    cage = np.where(carried[..., None], np.clip(world.cage + agent - world.agent, LOWEST, HIGHEST), world.cage)
    gate_open = world.gate_open | (np.linalg.norm(agent - LEVER, axis=-1) < lever_radius)

    before = world.sheep[..., 1]
    moved = before - world.velocity
    above = np.where(moved < world.wall, 0.0, moved)
    below = np.maximum(moved, SHEEP_STOP)
    stays = world.caught | world.hidden
    after = np.where(stays, before, np.where(before > 0, above, below))
    sheep = np.stack(np.broadcast_arrays(world.sheep[..., 0], after), axis=-1)

    in_cage = np.linalg.norm(sheep - cage, axis=-1) < cage_radius
    caught = world.caught | (gate_open & (after <= 0) & ~carried & in_cage)
    return world._replace(agent=agent, cage=cage, sheep=sheep, gate_open=gate_open, carried=carried, caught=caught)


def observe(world: World, mask: ArrayLike) -> Array:
    """What is seen of the worlds, with the mask in place of a hidden sheep. Shape: mask [2] -> [..., 7]."""
    agent, cage = ((position - MEADOW_SHIFT) * MEADOW_SCALE for position in (world.agent, world.cage))
    sheep = np.where(world.hidden[..., None], mask, world.sheep - SHEEP_SHIFT)
    shape = np.broadcast_shapes(*(part.shape[:-1] for part in (agent, cage, sheep)), world.wall.shape)
    parts = (agent, cage, sheep, world.wall[..., None])
    return np.concatenate([np.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1)


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
        self._world = start(np.array([START_X, -0.5]), *np.array([2.0, 0.5, self.rules.slowest]))
        self._trails: list[tuple[Array, Array]] = []

    @property
    def world(self) -> World:
        """The state, for planners: ``transition`` continues from it without touching the environment."""
        return self._world

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start anew at the right border, carrying the cage.

        ``options`` may set, in world coordinates, ``agent``, ``cage`` (which is carried if it is near the agent),
        ``sheep_x``, ``wall`` and ``velocity``.
        """
        super().reset(seed=seed)
        options = check_options(options, ("agent", "cage", "sheep_x", "wall", "velocity"))
        agent = np.array([START_X, self.np_random.uniform(LOWEST[1], HIGHEST[1])])
        sheep_x, wall, velocity = sample_sheep(self.np_random, self.rules)
        world = start(
            _within("agent", options.get("agent", agent), LOWEST, HIGHEST),
            _within("sheep_x", options.get("sheep_x", sheep_x), 1.05, 2.95),
            _within("wall", options.get("wall", wall), 0.05, 0.95),
            _within("velocity", options.get("velocity", velocity), 0.0, 0.1),
        )
        if "cage" in options:
            cage = _within("cage", options["cage"], LOWEST, HIGHEST)
            world = world._replace(cage=cage, carried=np.asarray(np.linalg.norm(world.agent - cage) < self.cage_radius))
        self._world = world
        self._trails = [(world.agent, world.sheep)]
        self._show()
        return self._observation(), self._info()

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._world = transition(self._world, finite_action(action, 3), self.lever_radius, self.cage_radius)
        self._trails.append((self._world.agent, self._world.sheep))
        self._show()
        caught = bool(self._world.caught)
        return self._observation(), float(caught), caught, False, self._info()

    def _observation(self) -> Array:
        return observe(self._world, self.rules.mask)

    def _info(self) -> dict[str, Any]:
        return {name: bool(getattr(self._world, name)) for name in ("hidden", "gate_open", "carried", "caught")}

    def _draw(self) -> Picture:
        return draw_scene(
            self.render_size,
            self._world,
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


def picture(history: Array, height: int, *, enlarged: float = 1.0, trail_from: int = 0) -> Picture:
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
    world = World(
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
    return draw_scene(height, world, trails, lever_radius=lever_radius, cage_radius=cage_radius)


def draw_scene(
    height: int,
    world: World,
    trails: Sequence[tuple[Array, Array]] = (),
    *,
    lever_radius: float = LEVER_RADIUS,
    cage_radius: float = CAGE_RADIUS,
) -> Picture:
    """One world, twice as wide as high, with the trails of agent and sheep; a hidden sheep is a ghost at the gate."""
    from PIL import Image, ImageDraw

    size = height * OVERSAMPLING
    unit = size / 2.2  # pixels per world unit; the scene is 4 wide and 2 high, with margins of 0.2 and 0.1
    image = Image.new("RGB", (2 * size, size), "#39404f")
    draw = ImageDraw.Draw(image)
    fine, medium = max(1, size // 320), max(1, size // 160)

    def place(x: float, y: float) -> tuple[float, float]:
        return (x + 1.2) * unit, (1.1 - y) * unit

    def box(left: float, bottom: float, right: float, top: float) -> list[tuple[float, float]]:
        return [place(left, top), place(right, bottom)]

    def around(x: float, y: float, half: float) -> list[tuple[float, float]]:
        return box(x - half, y - half, x + half, y + half)

    def bar(points: list[tuple[float, float]], fill: str, width: float) -> None:
        draw.line([place(*point) for point in points], fill, max(1, round(width * unit)), joint="curve")

    wall = float(world.wall)
    agent_x, agent_y = world.agent.tolist()
    cage_x, cage_y = world.cage.tolist()
    sheep_x, sheep_y = world.sheep.tolist()
    is_open, hidden = bool(world.gate_open), bool(world.hidden)

    def sheep(pen: Any) -> None:
        for side in (-1, 1):
            leg = [place(sheep_x + side * 0.038, sheep_y - 0.03), place(sheep_x + side * 0.038, sheep_y - 0.1)]
            pen.line(leg, "#3a3536", max(1, round(0.02 * unit)))
        puffs = [(0.055 * np.cos(turn), 0.036 * np.sin(turn)) for turn in np.linspace(0, 2 * np.pi, 9)[:-1]]
        for grow, fill in ((0.008, "#b9b2a8"), (0.0, "#fffdf8")):  # an outline, then the wool
            for dx, dy in puffs:
                pen.ellipse(around(sheep_x + dx, sheep_y + dy, 0.036 + grow), fill=fill)
            pen.ellipse(around(sheep_x, sheep_y, 0.05 + grow), fill=fill)
        for side in (-1, 1):
            ear_x, ear_y = sheep_x + side * 0.036, sheep_y + 0.004
            pen.ellipse(box(ear_x - 0.016, ear_y - 0.009, ear_x + 0.016, ear_y + 0.009), fill="#4a4344")
        pen.ellipse(box(sheep_x - 0.028, sheep_y - 0.042, sheep_x + 0.028, sheep_y + 0.026), fill="#3a3536")
        for side in (-1, 1):
            pen.ellipse(around(sheep_x + side * 0.012, sheep_y, 0.0065), fill="#ffffff")
        pen.ellipse(box(sheep_x - 0.026, sheep_y + 0.018, sheep_x + 0.026, sheep_y + 0.046), fill="#fffdf8")

    # meadow, run, and the forest beside it
    draw.rectangle(box(-1, 0, 1, 1), fill="#4c6b58")
    rows, columns = np.meshgrid(np.linspace(0.88, 0.12, 7), np.linspace(-0.9, 0.9, 14), indexing="ij")
    jitter = np.random.default_rng(5).uniform((-0.04, -0.025, 0.055), (0.04, 0.025, 0.09), (rows.size, 3))
    for x, y, radius in (np.stack([columns.ravel(), rows.ravel(), np.zeros(rows.size)], axis=-1) + jitter).tolist():
        draw.ellipse(around(x, y - 0.015, radius), fill="#3f5b4b")
        draw.ellipse(around(x, y, radius), fill="#557a63")
        draw.ellipse(around(x - radius * 0.25, y + radius * 0.3, radius * 0.5), fill="#628a70")
    draw.rectangle(box(-1, -1, 3, 0), fill="#dbe7c4")
    draw.rectangle(box(1, 0, 3, 1), fill="#e9ecd2")
    tufts = np.random.default_rng(7).uniform((-0.95, -0.95), (2.95, 0.95), (170, 2))
    for x, y in tufts.tolist():
        if y < -0.05 or x > 1.05:
            shade = "#c3d5a6" if y < 0 else "#d6dcb6"
            for lean in (-0.018, 0.0, 0.018):
                draw.line([place(x, y), place(x + lean, y + 0.03)], shade, fine)

    # the fence around it all
    for corners in ([(-1, 0), (-1, -1), (3, -1), (3, 0)], [(-1, 0), (1, 0)], [(1, 0), (1, 1), (3, 1), (3, 0)]):
        bar([(float(x), float(y)) for x, y in corners], "#7a5f47", 0.022)
    for x in np.linspace(-1, 3, 17).tolist():
        draw.ellipse(around(x, -1, 0.026), fill="#5b4636")
        if x <= 1:
            draw.ellipse(around(x, 0, 0.026), fill="#5b4636")
        if x >= 1:
            draw.ellipse(around(x, 1, 0.026), fill="#5b4636")
    for y in np.linspace(-1, 1, 9).tolist():
        for x in (-1.0, 3.0) if y <= 0 else (1.0, 3.0):
            draw.ellipse(around(x, y, 0.026), fill="#5b4636")

    for which, color in ((1, "#c9bfa6"), (0, "#d8a5b0")):
        points = [place(*pair[which].tolist()) for pair in trails]
        if len(points) > 1:
            draw.line(points, color, max(1, size // 130), joint="curve")
    if sheep_y > 0:
        sheep(draw)

    # the wall, as high as it occludes, with the gate at its foot
    draw.rectangle(box(1, 0, 3, wall), fill="#8d8a86")
    row, low = 0, 0.0
    while low < wall:
        high = min(low + 0.07, wall)
        for left in np.arange(1 - 0.1 * (row % 2), 3, 0.2).tolist():
            shade = ("#a6a29b", "#b0aca4", "#9d9993")[(row * 7 + round(left * 5) * 3 + row // 2) % 3]
            stone = box(max(left, 1) + 0.006, low + 0.006, min(left + 0.2, 3) - 0.006, max(high, low + 0.012) - 0.006)
            if high - low > 0.02:
                draw.rounded_rectangle(stone, radius=0.012 * unit, fill=shade)
        row, low = row + 1, low + 0.07
    draw.rectangle(box(1, wall - 0.03, 3, wall), fill="#6f6c69")
    gate_left, gate_right, gate_top = 1.3, 2.7, 0.24
    draw.rectangle(box(gate_left - 0.04, 0, gate_right + 0.04, gate_top + 0.04), fill="#5b4636")
    draw.rectangle(box(gate_left, 0, gate_right, gate_top), fill="#2b2a2c")
    if is_open:
        draw.polygon(
            [place(*point) for point in ((1.36, 0.0), (2.64, 0.0), (2.56, 0.09), (1.44, 0.09))], fill="#55583f"
        )
        for side, post in ((1, gate_left), (-1, gate_right)):  # the leaves, swung towards us
            leaf = [(post, 0.24), (post, 0.0), (post - side * 0.16, -0.07), (post - side * 0.16, 0.2)]
            draw.polygon([place(*point) for point in leaf], fill="#a77b4f", outline="#5b4636")
            for share in (0.33, 0.67):
                x, shift = post - side * 0.16 * share, 0.07 * share
                bar([(x, 0.24 - 0.04 * share), (x, -shift)], "#8a6440", 0.008)
            bar([(post, 0.18), (post - side * 0.16, 0.14)], "#5b4636", 0.018)
            bar([(post, 0.05), (post - side * 0.16, -0.015)], "#5b4636", 0.018)
    else:
        for left in np.linspace(gate_left, gate_right, 15)[:-1].tolist():
            draw.rectangle(box(left + 0.006, 0, left + 0.094, gate_top - 0.008), fill="#a77b4f")
            bar([(left + 0.05, 0.03), (left + 0.05, 0.2)], "#9a6f46", 0.006)
        for y in (0.055, 0.18):
            bar([(gate_left, y), (gate_right, y)], "#6d4f36", 0.026)
        bar([(2.0, 0.0), (2.0, gate_top)], "#2b2a2c", 0.014)

    # the lever
    lever_x, lever_y = LEVER.tolist()
    color = "#3f9f68" if is_open else "#c98a1b"
    draw.ellipse(around(lever_x, lever_y, lever_radius), outline="#8fae74", width=medium)
    draw.rounded_rectangle(
        box(lever_x - 0.07, lever_y - 0.045, lever_x + 0.07, lever_y + 0.02), radius=0.02 * unit, fill="#2d3542"
    )
    tip = lever_x + (0.075 if is_open else -0.075)
    bar([(lever_x, lever_y), (tip, lever_y + 0.1)], "#c4cad6", 0.024)
    draw.ellipse(around(tip, lever_y + 0.105, 0.033), fill=color)
    draw.ellipse(around(lever_x, lever_y - 0.013, 0.018), fill="#5fd38d" if is_open else "#636a86")

    # the cage's floor, the sheep below the gate, then the agent and the bars
    draw.ellipse(around(cage_x, cage_y, cage_radius), outline="#a9b892", width=fine)
    draw.rounded_rectangle(around(cage_x, cage_y, 0.1), radius=0.02 * unit, fill="#c9a876")
    if hidden:
        layer = Image.new("RGBA", image.size)
        sheep(ImageDraw.Draw(layer))
        layer.putalpha(layer.getchannel("A").point(lambda alpha: alpha * 3 // 5))
        image.paste(layer, mask=layer)
        for turn in range(0, 360, 30):
            draw.arc(around(sheep_x, sheep_y, 0.125), turn, turn + 17, fill="#fffdf8", width=medium)
    elif sheep_y <= 0:
        sheep(draw)
    bars, frame = ("#3f9f68", "#2f7a50") if world.caught else ("#565f70", "#39404f")
    for x in np.linspace(cage_x - 0.09, cage_x + 0.09, 5).tolist():
        bar([(x, cage_y - 0.09), (x, cage_y + 0.09)], bars, 0.011)
    for y in (cage_y - 0.09, cage_y + 0.09):
        bar([(cage_x - 0.1, y), (cage_x + 0.1, y)], frame, 0.02)
    draw.ellipse(around(agent_x, agent_y, 0.065), fill="#9b363e")
    draw.ellipse(around(agent_x, agent_y + 0.025, 0.028), fill="#f6d9cf")

    return scaled_down(image)
