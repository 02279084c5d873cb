"""The Fetch robot drawn without a graphics driver: triangles from back to front."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatel0rd.worlds.drawing import OVERSAMPLING, Array, Picture, scale_down
from gatel0rd.worlds.fetch_pick_and_place.simulation import body, import_mujoco

ASPECT = 1.35
EYE, LOOK_AT, FOCUS = np.array([2.45, 1.85, 1.30]), np.array([1.24, 0.76, 0.56]), 2.0
"""Where the camera stands, where it looks, and its focal length in units of the picture's height."""
SUN = np.array([0.45, 0.35, 0.82])
BACKGROUND, TABLE, FLOOR = (244, 246, 248), (214, 205, 190), (226, 229, 233)
ROBOT, DARK, FINGER, OBJECT, GOAL = (120, 133, 152), (72, 79, 92), (47, 111, 167), (192, 57, 43), (225, 156, 36)
TRAILS = ((47, 111, 167), (192, 57, 43))
BOX_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
BOX_FACES = np.array(
    [
        (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
        (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
    ]
)  # fmt: skip
STANDS_BEHIND, FAR = ("base", "torso", "head", "estop", "laser", "bellows", "wheel"), 100.0
"""The robot's base stands behind the table, which is below the rest: large triangles cannot be put in order by the
depth of their middle."""
SOLVED, STEPS, DAMPING = 0.001, 60, 1e-4
"""Inverse kinematics: how near in metres is near enough, how many steps are tried, how careful they are."""


class Shape(NamedTuple):
    """A body part: the geometry it moves with, corners [V, 3] in its own frame, triangles [F, 3], colour, and layer."""

    geom: int
    corners: Array
    faces: NDArray[np.int64]
    color: tuple[int, int, int]
    layer: float


@cache
def shapes() -> tuple[Shape, ...]:
    """Everything that is drawn, from the simulator's own model."""
    mujoco = import_mujoco()
    model = body().model
    found = []
    for geom in range(model.ngeom):
        name = model.geom(geom).name
        kind = model.geom_type[geom]
        if model.body_mocapid[model.geom_bodyid[geom]] >= 0:  # the point that the gripper is pulled to
            continue
        if kind == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            corners = model.mesh_vert[first : first + count].astype(float)
            first, count = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
            faces = model.mesh_face[first : first + count].astype(np.int64)
        elif kind == mujoco.mjtGeom.mjGEOM_BOX:
            corners, faces = BOX_CORNERS * model.geom_size[geom], BOX_FACES
        else:
            continue
        if geom == body().object_geom:
            color = OBJECT
        elif "finger" in name:
            color = FINGER
        elif not name:
            color = TABLE
        else:
            color = DARK if name.endswith(("gripper_link", "wrist_flex_link", "elbow_flex_link")) else ROBOT
        layer = 1 if color == TABLE else 2 if any(part in name for part in STANDS_BEHIND) else 0
        found.append(Shape(geom, corners, faces, color, layer))
    return tuple(found)


def project(points: Array, height: float) -> tuple[Array, Array]:
    """Pixels [..., 2] and depths [...] of points [..., 3]."""
    forward = (LOOK_AT - EYE) / np.linalg.norm(LOOK_AT - EYE)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    seen = (points - EYE) @ np.stack([right, up, forward], axis=-1)
    depth = np.maximum(seen[..., 2], 0.05)
    plane = FOCUS * height * seen[..., :2] / depth[..., None]
    return plane * (1.0, -1.0) + np.array([ASPECT, 1.0]) * height / 2, depth


def draw_arm(data: Any, height: int, *, goal: Array | None = None, trails: Sequence[Array] = ()) -> Picture:
    """The robot in the state of ``data`` (MjData after mj_forward), with the goal and past paths [t, 3]."""
    from PIL import Image, ImageDraw

    size = height * OVERSAMPLING
    image = Image.new("RGB", (round(ASPECT * size), size), BACKGROUND)
    draw = ImageDraw.Draw(image)
    floor = np.array([(0.2, -0.6, 0.0), (2.2, -0.6, 0.0), (2.2, 2.0, 0.0), (0.2, 2.0, 0.0)])
    draw.polygon([tuple(pixel) for pixel in project(floor, size)[0]], fill=FLOOR)
    pixels, depths, colors = [], [], []
    for shape in shapes():
        turned = data.geom_xmat[shape.geom].reshape(3, 3)
        corners = shape.corners @ turned.T + data.geom_xpos[shape.geom]
        triangles = corners[shape.faces]  # [F, 3, 3]
        normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
        faces_us = ((EYE - triangles.mean(axis=1)) * normals).sum(axis=1) > 0
        flat, depth = project(triangles[faces_us], size)
        light = 0.55 + 0.45 * np.clip(normals[faces_us] @ SUN, -0.3, 1)
        pixels.append(flat)
        depths.append(depth.mean(axis=1) + FAR * shape.layer)
        colors.append(light[:, None] * shape.color)
    flat, depth, color = np.concatenate(pixels), np.concatenate(depths), np.concatenate(colors)
    for index in np.argsort(-depth):
        draw.polygon(flat[index].ravel().tolist(), fill=tuple(color[index].astype(int)))
    for trail, ink in zip(trails, TRAILS, strict=False):
        if len(trail) > 1:
            line = [tuple(pixel) for pixel in project(trail, size)[0]]
            draw.line(line, fill=ink, width=max(1, size // 200), joint="curve")
    if goal is not None:
        (x, y), far = project(goal, size)
        radius = 0.02 * FOCUS * size / far
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], outline=GOAL, width=max(2, size // 120))
    return scale_down(image)


class _Pose(NamedTuple):
    data: Any
    arm: NDArray[np.int64]


@cache
def _reusable() -> _Pose:
    """A simulation to pose, and the addresses of the arm's seven joints."""
    mujoco = import_mujoco()
    model = body().model
    data = mujoco.MjData(model)
    names = ("shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex", "forearm_roll", "wrist_flex", "wrist_roll")
    return _Pose(data, np.array([model.joint(f"robot0:{name}_joint").dofadr[0] for name in names]))


def pose(observation: Array) -> Any:
    """A state of the robot in which gripper, fingers and object are as observed; the arm bends as it can.

    Damped least squares on the seven joints of the arm, the gripper pointing downwards.
    """
    mujoco = import_mujoco()
    whole, model = body(), body().model
    data, joints = _reusable()
    state = mujoco.mjtState.mjSTATE_FULLPHYSICS
    mujoco.mj_setState(model, data, whole.start, state)
    mujoco.mj_forward(model, data)
    level = data.site_xmat[whole.gripper_site].reshape(3, 3).copy()
    data.qpos[whole.object_address : whole.object_address + 3] = observation[3:6]
    addresses = [model.jnt_qposadr[model.dof_jntid[joint]] for joint in joints]
    data.qpos[list(whole.finger_addresses)] = np.clip(observation[9:11], 0, 0.05)
    move, turn = np.zeros((2, 3, model.nv))
    for _ in range(STEPS):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        away = observation[:3] - data.site_xpos[whole.gripper_site]
        now = data.site_xmat[whole.gripper_site].reshape(3, 3)
        tilt = 0.5 * sum(np.cross(now[:, axis], level[:, axis]) for axis in range(3))
        if np.linalg.norm(away) < SOLVED and np.linalg.norm(tilt) < 0.01:
            break
        mujoco.mj_jacSite(model, data, move, turn, whole.gripper_site)
        jacobian = np.concatenate([move[:, joints], turn[:, joints]])
        error = np.concatenate([away, tilt])
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + DAMPING * np.eye(6), error)
        data.qpos[addresses] += np.clip(step, -0.2, 0.2)
    mujoco.mj_forward(model, data)
    return data


def draw_history(history: Array, height: int, *, trail_from: int = 0) -> Picture:
    """The arm as observations up to now tell it, in a pose that brings the gripper there.

    Args:
        history: observations [t, 11].
        trail_from: when the drawn trails begin.
    """
    trails = [history[trail_from:, :3], history[trail_from:, 3:6]]
    return draw_arm(pose(history[-1]), height, trails=trails)
