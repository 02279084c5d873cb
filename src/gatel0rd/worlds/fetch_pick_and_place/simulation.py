"""The Fetch robot on MuJoCo, without Gymnasium around it: one arm stepped fast, or many side by side."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SUBSTEPS = 20
REACH = 0.05
"""How far from the gripper an action of 1 puts the point that it is pulled to, in metres."""
OBJECT_RANGE, GOAL_RANGE, NEAREST, HIGHEST_GOAL = 0.15, 0.15, 0.1, 0.45
SUCCESS_DISTANCE = 0.05
OBJECT_JOINT, OBJECT_SITE, GRIPPER_SITE, GRIPPER_BODY = "object0:joint", "object0", "robot0:grip", "robot0:gripper_link"
FINGERS = ("robot0:r_gripper_finger", "robot0:l_gripper_finger")
MUJOCO_VERSIONS = ((3, 3), (3, 12))
MISSING = "Fetch Pick&Place needs MuJoCo and gymnasium-robotics; pip install 'gatel0rd[fetch]'"


def import_mujoco() -> Any:
    """The ``mujoco`` module, once it is known to be of a version that Fetch works with."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # a notice about other environments, at every import
            import gymnasium_robotics  # noqa: F401
        import mujoco
        import mujoco.rollout
    except ImportError as error:
        raise ModuleNotFoundError(f"{MISSING} ({error})", name=error.name) from error
    version = importlib.metadata.version("mujoco")
    low, high = MUJOCO_VERSIONS
    if not low <= tuple(map(int, version.split(".")[:2])) < high:
        wanted = f">={low[0]}.{low[1]},<{high[0]}.{high[1]}"
        raise ModuleNotFoundError(
            f"mujoco {version} is installed, Fetch Pick&Place needs {wanted}; pip install 'mujoco{wanted}'",
            name="mujoco",
        )
    return mujoco


class Body(NamedTuple):
    """Where the parts of interest are in the model, and the state in which episodes begin."""

    model: Any
    start: Array
    gripper: Array
    object_height: float
    gripper_body: int
    gripper_site: int
    object_site: int
    object_address: int
    finger_addresses: tuple[int, ...]
    finger_geoms: tuple[int, ...]
    object_geom: int
    actuated: tuple[int, ...]

    def see(self, states: Array, sensed: Array) -> Array:
        """What is seen: sensors are a substep old, as observations are, but not those of the fingers."""
        seen = sensed.copy()
        seen[:, 6:8] = states[:, [1 + address for address in self.finger_addresses]]  # the time comes first
        return seen


@cache
def body() -> Body:
    """The robot of ``FetchPickAndPlace-v4`` with sensors for what is observed, so that rollouts return it."""
    mujoco = import_mujoco()
    import gymnasium
    import gymnasium_robotics

    path = Path(gymnasium_robotics.__file__).parent / "envs" / "assets" / "fetch" / "pick_and_place.xml"
    spec = mujoco.MjSpec.from_file(str(path))
    kinds, things = mujoco.mjtSensor, mujoco.mjtObj
    for kind, thing, name in (
        (kinds.mjSENS_FRAMEPOS, things.mjOBJ_SITE, GRIPPER_SITE),
        (kinds.mjSENS_FRAMEPOS, things.mjOBJ_SITE, OBJECT_SITE),
        *((kinds.mjSENS_JOINTPOS, things.mjOBJ_JOINT, f"{finger}_joint") for finger in FINGERS),
        (kinds.mjSENS_FRAMELINVEL, things.mjOBJ_SITE, GRIPPER_SITE),
        (kinds.mjSENS_FRAMELINVEL, things.mjOBJ_SITE, OBJECT_SITE),
        (kinds.mjSENS_FRAMEPOS, things.mjOBJ_XBODY, GRIPPER_BODY),
        (kinds.mjSENS_FRAMEQUAT, things.mjOBJ_XBODY, GRIPPER_BODY),
    ):
        sensor = spec.add_sensor()
        sensor.type, sensor.objtype, sensor.objname = kind, thing, name
    model = spec.compile()
    original = gymnasium.make("FetchPickAndPlace-v4").unwrapped
    model.eq_data[:] = original.model.eq_data  # type: ignore[attr-defined]
    data = mujoco.MjData(model)
    data.time = original.initial_time  # type: ignore[attr-defined]
    data.qpos[:] = original.initial_qpos  # type: ignore[attr-defined]
    data.qvel[:] = original.initial_qvel  # type: ignore[attr-defined]
    start = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(model, data, start, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    finger_joints = [model.joint(f"{finger}_joint") for finger in FINGERS]
    return Body(
        model=model,
        start=start,
        gripper=original.initial_gripper_xpos.copy(),  # type: ignore[attr-defined]
        object_height=float(original.height_offset),  # type: ignore[attr-defined]
        gripper_body=model.body(GRIPPER_BODY).id,
        gripper_site=model.site(GRIPPER_SITE).id,
        object_site=model.site(OBJECT_SITE).id,
        object_address=int(model.joint(OBJECT_JOINT).qposadr[0]),
        finger_addresses=tuple(int(joint.qposadr[0]) for joint in finger_joints),
        finger_geoms=tuple(model.geom(f"{finger}_link").id for finger in FINGERS),
        object_geom=model.geom(OBJECT_SITE).id,
        actuated=tuple(int(address) for address in model.jnt_qposadr[model.actuator_trnid[:, 0]]),
    )


def sample_object(generator: np.random.Generator) -> Array:
    """Where the object stands, [2]: in a square around the gripper, but not below it."""
    middle = body().gripper[:2]
    while True:
        place: Array = middle + generator.uniform(-OBJECT_RANGE, OBJECT_RANGE, 2)
        if np.linalg.norm(place - middle) >= NEAREST:
            return place


def sample_goal(generator: np.random.Generator) -> Array:
    """Where the object is to be brought, [3]: on the table, or half of the time in the air."""
    goal = body().gripper + generator.uniform(-GOAL_RANGE, GOAL_RANGE, 3)
    goal[2] = body().object_height
    if generator.uniform() < 0.5:
        goal[2] += generator.uniform(0, HIGHEST_GOAL)
    return goal


class Arm:
    """One robot, stepped exactly as ``FetchPickAndPlace-v4`` steps it."""

    def __init__(self) -> None:
        self.mujoco = import_mujoco()
        self.body = body()
        self.data = self.mujoco.MjData(self.body.model)

    def reset(self, place: Array) -> None:
        """Begin anew with the object at ``place`` [2]."""
        state = self.body.start.copy()
        first = 1 + self.body.object_address  # the state begins with the time
        state[first : first + 2] = place
        self.put(state)

    def put(self, state: Array) -> None:
        """Go to a state [S] of :class:`Arms`."""
        self.mujoco.mj_resetData(self.body.model, self.data)
        self.mujoco.mj_setState(self.body.model, self.data, state, self.mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self.mujoco.mj_forward(self.body.model, self.data)

    def take(self) -> tuple[Array, Array]:
        """The state [S] and what is seen [21], as :class:`Arms` have them."""
        state = np.empty(len(self.body.start))
        self.mujoco.mj_getState(self.body.model, self.data, state, self.mujoco.mjtState.mjSTATE_FULLPHYSICS)
        return state, self.body.see(state[None], self.data.sensordata[None])[0]

    def step(self, action: Array) -> None:
        """Pull the gripper by an action [4] in [-1, 1], and open (1) or close (-1) its fingers."""
        body, data = self.body, self.data
        data.mocap_pos[0] = data.xpos[body.gripper_body] + REACH * action[:3]
        data.mocap_quat[0] = data.xquat[body.gripper_body] + (1.0, 0.0, 1.0, 0.0)
        for actuator, address in enumerate(body.actuated):
            data.ctrl[actuator] = data.qpos[address] + action[3]
        self.mujoco.mj_step(body.model, data, nstep=SUBSTEPS)

    def observe(self) -> Array:
        """Gripper (3), object (3), the object relative to the gripper (3), fingers (2)."""
        data, body = self.data, self.body
        gripper, thing = data.site_xpos[body.gripper_site], data.site_xpos[body.object_site]
        fingers = [data.qpos[address] for address in body.finger_addresses]
        return np.concatenate([gripper, thing, thing - gripper, fingers])

    def touching(self) -> tuple[bool, bool]:
        """Whether the right and the left finger touch the object."""
        pairs = {tuple(sorted(pair)) for pair in self.data.contact.geom.tolist()}
        thing = self.body.object_geom
        right, left = (tuple(sorted((finger, thing))) in pairs for finger in self.body.finger_geoms)
        return right, left


class Arms:
    """Many robots side by side, for planning: all step together, on several threads.

    A step begins without the solver's warm start, so that paths differ by up to millimetres from :class:`Arm`'s.

    Shape: states [B, S]; seen [B, 21]: gripper (3), object (3), fingers (2), velocities of gripper and object (3, 3),
    and where the gripper's body is (3, 4).
    """

    def __init__(self, threads: int = 1) -> None:
        self.mujoco = import_mujoco()
        self.body = body()
        self.threads = threads
        self.workspaces = [self.mujoco.MjData(self.body.model) for _ in range(threads)]
        self.rollout = self.mujoco.rollout.Rollout(nthread=threads if threads > 1 else 0)
        states = self.mujoco.mjtState
        self.control = int(states.mjSTATE_CTRL | states.mjSTATE_MOCAP_POS | states.mjSTATE_MOCAP_QUAT)

    def begin(self, places: Array) -> tuple[Array, Array]:
        """States and what is seen when objects stand at ``places`` [B, 2]."""
        arm, taken = Arm(), []
        for place in places:
            arm.reset(place)
            taken.append(arm.take())
        states, seen = zip(*taken, strict=True)
        return np.stack(states), np.stack(seen)

    def step(self, states: Array, seen: Array, actions: Array) -> tuple[Array, Array]:
        """Step every robot. Shape: [B, S], [B, 21], [B, 4] -> states [B, S], seen [B, 21]."""
        fingers = states[:, [1 + address for address in self.body.actuated]]  # the state begins with the time
        controls = np.concatenate(
            [fingers + actions[:, 3:], seen[:, 14:17] + REACH * actions[:, :3], seen[:, 17:] + (1.0, 0.0, 1.0, 0.0)],
            axis=1,
        )
        after, sensed = self.rollout.rollout(
            self.body.model,
            self.workspaces,
            states,
            np.repeat(controls[:, None], SUBSTEPS, axis=1),
            control_spec=self.control,
            skip_checks=False,
        )
        return after[:, -1], self.body.see(after[:, -1], sensed[:, -1])


def to_observation(seen: Array) -> Array:
    """The paper's observation of what :class:`Arms` see. Shape: [..., 21] -> [..., 11]."""
    gripper, thing = seen[..., :3], seen[..., 3:6]
    return np.concatenate([gripper, thing, thing - gripper, seen[..., 6:8]], axis=-1)
