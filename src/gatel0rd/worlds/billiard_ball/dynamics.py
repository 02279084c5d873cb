"""Billiard Ball: a pool table with balls, simulated by the Open Dynamics Engine (Suppl. B.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

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


class Motion(NamedTuple):
    """Balls at one moment: position and velocity [B, 2] in metres, cushion contact since the last moment, pocketed."""

    position: Array
    velocity: Array
    cushion: NDArray[np.bool_]
    pocketed: NDArray[np.bool_]


class BilliardTable:
    """A pool table with any number of balls that do not see each other, so that many shots run side by side.

    A ball's path is the same, bit by bit, whichever balls are on the table with it. Contacts have no friction; cushions
    give back 0.9 of the speed; between steps the velocity shrinks by a constant factor. A ball over a hole falls, and
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
