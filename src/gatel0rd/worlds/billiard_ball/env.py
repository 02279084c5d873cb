"""Billiard Ball: one ball on a pool table, simulated by the Open Dynamics Engine (Suppl. B.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gatel0rd.worlds.drawing import (
    OVERSAMPLING,
    Array,
    DrawnEnv,
    Picture,
    box,
    check_options,
    finite_action,
    scaled_down,
)

HALF_SIZE = np.array([1.0, 0.5])
"""Half length and half width of the table between its cushions, in metres; observations are divided by it."""
RADIUS = 0.03
POCKET = 0.085
"""Side of the square holes: four in the corners, two in the middle of the long sides."""
POCKETS = np.array([[x, y] for x in (-1, 0, 1) for y in (-1, 1)]) * (HALF_SIZE - POCKET / 2)
SECONDS = 1 / 30
"""Time between two observations."""
SUBSTEPS = 4
DAMPING = 0.999
"""What is left of the velocity after one step: low friction, so that velocities are nearly piecewise constant."""
RESTITUTION = 0.9
SPEEDS = (0.4, 2.0)
"""Slowest and fastest shot in m/s."""
OBSERVATION_NAMES = ("ball_x", "ball_y")


class Motion(NamedTuple):
    """Balls at one moment: position and velocity [B, 2] in metres, cushion contact since the last moment, pocketed."""

    position: Array
    velocity: Array
    cushion: NDArray[np.bool_]
    pocketed: NDArray[np.bool_]


class Table:
    """A pool table with any number of balls that do not see each other, so that many shots run side by side.

    A ball's path is the same, bit by bit, whichever balls are beside it. Contacts have no friction; cushions give
    back 0.9 of the speed; between steps the velocity shrinks by a constant factor. A ball over a hole falls, and
    once it is below the table it rests there for good.

    Args:
        balls: how many.
    """

    def __init__(self, balls: int) -> None:
        try:
            from panda3d import ode
            from panda3d.core import BitMask32
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "Billiard Ball needs the Open Dynamics Engine; pip install 'gatel0rd[billiard]'", name="panda3d"
            ) from error

        ball_kind, floor_kind, cushion_kind = range(3)
        ball_bits, table_bits = BitMask32(1), BitMask32(2)
        self._world = ode.OdeWorld()
        self._world.setGravity(0, 0, -9.81)
        self._world.setCfm(1e-5)  # with 0 the solver complains about nearly dependent contacts
        self._world.initSurfaceTable(3)
        for kind, bounce in ((floor_kind, 0.0), (cushion_kind, RESTITUTION)):
            # friction, bounce, least speed that bounces, soft ERP and CFM, slip, damping
            self._world.setSurfaceEntry(ball_kind, kind, 0.0, bounce, 0.0, 0.9, 1e-5, 0.0, 0.0)
        self._space = ode.OdeSimpleSpace()
        self._space.setAutoCollideWorld(self._world)
        self._contacts = ode.OdeJointGroup()
        self._space.setAutoCollideJointGroup(self._contacts)
        self._parts: list[Any] = []  # ODE keeps no references of its own

        def add(geometry: Any, kind: int, own: Any, others: Any) -> None:
            geometry.setCategoryBits(own)
            geometry.setCollideBits(others)
            self._space.setSurfaceType(geometry, kind)
            self._parts.append(geometry)

        def block(x: tuple[float, float], y: tuple[float, float], z: tuple[float, float], kind: int) -> None:
            sides = [high - low for low, high in (x, y, z)]
            geometry = ode.OdeBoxGeom(self._space, *sides)
            geometry.setPosition(*(sum(ends) / 2 for ends in (x, y, z)))
            add(geometry, kind, table_bits, ball_bits)

        length, width = HALF_SIZE.tolist()
        depth = (-0.2, 0.0)
        block((-length, length), (POCKET - width, width - POCKET), depth, floor_kind)
        for side in ((-width, POCKET - width), (width - POCKET, width)):
            block((POCKET - length, -POCKET / 2), side, depth, floor_kind)
            block((POCKET / 2, length - POCKET), side, depth, floor_kind)
        outer, height = 0.2, (-0.3, 0.2)
        for sign in (-1, 1):
            ends = sorted((sign * length, sign * (length + outer)))
            block((ends[0], ends[1]), (-width - outer, width + outer), height, cushion_kind)
            ends = sorted((sign * width, sign * (width + outer)))
            block((-length - outer, length + outer), (ends[0], ends[1]), height, cushion_kind)

        self._bodies = []
        for _ in range(balls):
            body, mass = ode.OdeBody(self._world), ode.OdeMass()
            mass.setSphereTotal(0.17, RADIUS)
            body.setMass(mass)
            sphere = ode.OdeSphereGeom(self._space, RADIUS)
            sphere.setBody(body)
            add(sphere, ball_kind, ball_bits, table_bits)
            self._bodies.append(body)

    def shoot(self, position: Array, velocity: Array) -> Motion:
        """Place every ball and let it go. Shape: position, velocity [B, 2], in metres and m/s."""
        for body, (x, y), (vx, vy) in zip(self._bodies, position.tolist(), velocity.tolist(), strict=True):
            body.enable()
            body.setPosition(x, y, RADIUS)
            body.setLinearVel(vx, vy, 0)
            body.setAngularVel(0, 0, 0)
        never = np.zeros(len(self._bodies), dtype=bool)
        self.motion = Motion(position.copy(), velocity.copy(), never, never)
        return self.motion

    def step(self) -> Motion:
        """Let 1/30 s pass."""
        for _ in range(SUBSTEPS):
            self._space.autoCollide()
            self._world.step(SECONDS / SUBSTEPS)
            self._contacts.empty()
        before = self.motion
        position, velocity = before.position.copy(), np.zeros_like(before.velocity)
        cushion, pocketed = np.zeros_like(before.cushion), before.pocketed.copy()
        for index in np.flatnonzero(~before.pocketed).tolist():
            body = self._bodies[index]
            x, y, z = body.getPosition()
            vx, vy, vz = body.getLinearVel()
            position[index] = x, y
            if z < -RADIUS:
                pocketed[index] = True
                body.disable()
                body.setLinearVel(0, 0, 0)
                body.setPosition(0, 0, 10 + index)  # out of the way of everything
                continue
            velocity[index] = DAMPING * vx, DAMPING * vy
            body.setLinearVel(*velocity[index], vz)
            # a component turned around, and the cushion is no farther than the ball has rolled since
            turned = velocity[index] * before.velocity[index] < 0
            gap = HALF_SIZE - RADIUS - np.abs(position[index])
            cushion[index] = z > RADIUS / 2 and (turned & (gap < np.abs(velocity[index]) * SECONDS + 0.005)).any()
        self.motion = Motion(position, velocity, cushion, pocketed)
        return self.motion


def random_shots(count: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Positions and velocities [count, 2]: anywhere away from the holes, in any direction, at any speed."""
    reach = HALF_SIZE - POCKET - RADIUS
    position = generator.uniform(-reach, reach, (count, 2))
    angle, speed = generator.uniform(0, 2 * np.pi, count), generator.uniform(*SPEEDS, count)
    return position, speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


class BilliardBall(DrawnEnv):
    """A ball that was shot on a pool table; there is nothing to do but to watch.

    Observation: ball_x, ball_y, scaled to [-1, 1]. The velocity is hidden, and is given in ``info`` with whether the
    ball touched a cushion since the last observation and whether it is in a pocket. Action: none (an array of length 0,
    or None). Reward 0. A pocketed ball rests where it fell; the episode goes on until its time limit.

    Args:
        render_mode: ``rgb_array`` or ``human``.
        render_size: height of the picture in pixels; it is about twice as wide.
    """

    def __init__(self, *, render_mode: str | None = None, render_size: int = 320) -> None:
        super().__init__(render_mode=render_mode, render_size=render_size)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (0,), np.float64)
        self._table = Table(1)
        self._table.shoot(np.zeros((1, 2)), np.zeros((1, 2)))
        self._trail: list[Array] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Shoot anew; ``options`` may set ``position`` (in [-1, 1]²) and ``velocity`` (in m/s)."""
        super().reset(seed=seed)
        options = check_options(options, ("position", "velocity"))
        position, velocity = random_shots(1, self.np_random)
        if "position" in options:
            position = np.asarray([options["position"]], dtype=np.float64)
            position = position * HALF_SIZE if position.shape == (1, 2) else position
        if "velocity" in options:
            velocity = np.asarray([options["velocity"]], dtype=np.float64)
        if position.shape != (1, 2) or not (np.abs(position) <= HALF_SIZE - RADIUS).all():
            reach = 1 - RADIUS / HALF_SIZE
            raise ValueError(
                f"position is {options['position']}; expected x within ±{reach[0]:g} and y within ±{reach[1]:g}"
            )
        if velocity.shape != (1, 2) or not (np.linalg.norm(velocity) <= 2 * SPEEDS[1]):
            raise ValueError(f"velocity is {options['velocity']}; expected two numbers, at most {2 * SPEEDS[1]} m/s")
        self._table.shoot(position, velocity)
        self._trail = [position[0]]
        self._show()
        return self._observation(), self._info()

    def step(self, action: Array | None) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        finite_action(() if action is None else action, 0)
        self._trail.append(self._table.step().position[0])
        self._show()
        return self._observation(), 0.0, False, False, self._info()

    def _observation(self) -> Array:
        scaled: Array = self._table.motion.position[0] / HALF_SIZE
        return scaled

    def _info(self) -> dict[str, Any]:
        motion = self._table.motion
        return {
            "velocity": motion.velocity[0].copy(),
            "cushion": bool(motion.cushion[0]),
            "pocketed": bool(motion.pocketed[0]),
        }

    def _draw(self) -> Picture:
        return draw_table(self.render_size, self._trail, pocketed=bool(self._table.motion.pocketed[0]))


def picture(history: Array, height: int) -> Picture:
    """The table as observations up to now tell it. Shape: history [t, 2]."""
    resting = len(history) > 2 and bool(np.abs(np.diff(history[-3:], axis=0)).max() < 1e-3)
    in_pocket = bool((np.linalg.norm(history[-1] * HALF_SIZE - POCKETS, axis=-1) < POCKET).any())
    return draw_table(height, list(history * HALF_SIZE), pocketed=resting and in_pocket)


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
    return scaled_down(image)
