"""Scripted experts that move the object of Fetch Pick&Place in several ways (Suppl. B.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.fetch_pick_and_place.simulation import Arm, body, sample_goal, sample_object

Array = NDArray[np.float64]
Rows = dict[str, NDArray[Any]]

PART = 64
"""Sequences that are made at once, by one process, from a random generator of their own."""
KINDS = ("grasp", "push", "slide", "flick", "planned")
SHARES = (0.4, 0.25, 0.2, 0.15, 0.0)
PLANNED, PLANNED_PART, PLANNED_EVERY = 8, 10, 100
"""Of every hundred parts of mixed episodes the tenth begins with this many that are planned by iCEM on the simulator,
which takes minutes."""
EPISODE = 50
GRASP_TIMES = {"train": (5, 5), "validation": (5, 5), "test": (5, 5), "generalization": (6, 10)}
"""Split -> earliest and latest step of the window at which the object is grasped."""
FLOOR = 0.3
"""An object that is lower than this has fallen off the table."""
ALIGNED, CLOSE, RESTS, MOVES = 0.0005, 0.15, 0.0005, 0.001
"""In metres: how well the gripper must be centred in x and y and how near in z when it grasps, how far an object that
rests may be off, and how far one that moves goes in a step."""
LOST = 0.03
"""An object that is further from the gripper than this is no longer held."""
REASONS = ("no grasp", "not centred", "moved before the grasp", "moved outside the gripper", "not lifted")
"""Why a window is left out."""
MOST_TRIES = 200
"""This many episodes in a row without a window that fits are held to mean that none ever will."""


@dataclass(frozen=True, kw_only=True)
class Expert:
    """How one episode is played.

    Attributes:
        kind: one of :data:`KINDS`.
        gain: pull per metre of distance to the target.
        speed: largest pull in a direction, at most 1.
        noise: standard deviation of what is added to pulls, away from the object when it is to be grasped.
        hover: height above the object at which it is approached.
        depth: height of the gripper above the object's middle when it grasps or hits.
        trigger: distance in x and y at which the fingers begin to close, while the gripper moves on to the middle.
        distance: how far from the object a hit begins.
        follow: steps that a slide or a flick continues after the object was touched.
        lift: upward pull of a flick.
        goal: where the object is to be brought, [3].
    """

    kind: str
    gain: float
    speed: float
    noise: float
    hover: float
    depth: float
    trigger: float
    distance: float
    follow: int
    lift: float
    goal: Array


def sample_expert(kind: str, generator: np.random.Generator, *, lifts: bool = False) -> Expert:
    """An expert with random gains, speeds, noise and goal; one that lifts has a goal in the air."""
    goal = sample_goal(generator)
    while lifts and goal[2] < body().object_height + 2 * LOST:
        goal = sample_goal(generator)
    return Expert(
        kind=kind,
        gain=generator.uniform(14, 22),
        speed=generator.uniform(0.8 if kind in ("slide", "flick") else 0.35, 1.0),
        noise=generator.uniform(0, 0.2),
        hover=generator.uniform(0.05, 0.12),
        depth=generator.uniform(-0.012, -0.004) if kind == "flick" else generator.uniform(-0.005, 0.012),
        trigger=generator.uniform(0.001, 0.004),
        distance=generator.uniform(0.07, 0.12),
        follow=int(generator.integers(1, 3)),
        lift=generator.uniform(0.6, 1.5) if kind == "flick" else 0.0,
        goal=goal,
    )


def lift(point: Array, height: float) -> Array:
    """A point that is higher by ``height``. Shape: [3] -> [3]."""
    return np.array([point[0], point[1], point[2] + height])


class Play:
    """An episode under way: what the expert does next, from what is observed and touched."""

    def __init__(self, expert: Expert, generator: np.random.Generator) -> None:
        self.expert, self.generator = expert, generator
        self.phase, self.wait = 0, 0
        self.direction: Array | None = None

    def act(self, observation: Array, touching: tuple[bool, bool]) -> Array:
        """The next action, [4]."""
        gripper, thing = observation[:3], observation[3:6]
        act = self._grasp if self.expert.kind == "grasp" else self._hit
        target, fingers, quiet = act(gripper, thing, touching)
        pull = self.expert.gain * (target - gripper)
        if not quiet:
            pull = pull + self.generator.normal(0, self.expert.noise, 3)
        return np.append(pull / max(1.0, np.abs(pull).max() / self.expert.speed), fingers)

    def _grasp(self, gripper: Array, thing: Array, touching: tuple[bool, bool]) -> tuple[Array, float, bool]:
        expert = self.expert
        offset = np.linalg.norm(gripper[:2] - thing[:2])
        if self.phase == 0 and offset < 0.04:
            self.phase = 1
        hold = lift(thing, expert.depth)
        if self.phase == 1 and offset < expert.trigger and abs(gripper[2] - hold[2]) < 0.02:
            self.phase = 2
        if self.phase == 2 and all(touching):
            self.wait += 1
            self.phase = 3 if self.wait > 1 else 2
        if self.phase == 0:
            return lift(thing, expert.hover), 1.0, bool(offset < 0.08)
        if self.phase < 3:
            return hold, 1.0 if self.phase == 1 else -1.0, True
        return expert.goal, -1.0, False

    def _hit(self, gripper: Array, thing: Array, touching: tuple[bool, bool]) -> tuple[Array, float, bool]:
        """Come from behind the object as seen from the goal, and push it, slide it or flick it there."""
        expert = self.expert
        if self.direction is None:
            way = expert.goal[:2] - thing[:2]
            self.direction = np.append(way / max(float(np.linalg.norm(way)), 1e-6), 0.0)
        behind = lift(thing - expert.distance * self.direction, expert.depth)
        above = lift(behind, expert.hover)
        if self.phase == 0 and np.linalg.norm(gripper - above) < 0.02:
            self.phase = 1
        if self.phase == 1 and np.linalg.norm(gripper - behind) < 0.015:
            self.phase = 2
        if self.phase == 2 and any(touching):
            self.wait += 1
            if expert.kind != "push" and self.wait > expert.follow:
                self.phase = 3
        if self.phase < 2:
            return (above, behind)[self.phase], -1.0, False
        if self.phase == 2:
            if expert.kind == "push":
                ahead = thing + 0.04 * self.direction
                done = np.dot(expert.goal[:2] - thing[:2], self.direction[:2]) < 0.01
                return (gripper if done else np.append(ahead[:2], behind[2])), -1.0, False
            far = lift(gripper + self.direction, expert.lift * any(touching))
            return far, -1.0, False
        return lift(above, 0.05), -1.0, False


class Episode(NamedTuple):
    """Shape: observations [T, 11], actions [T, 4], touching [T, 2]."""

    observations: Array
    actions: Array
    touching: NDArray[np.bool_]

    def cut(self, first: int, steps: int) -> Episode:
        """A window of ``steps`` steps."""
        here = slice(first, first + steps)
        return Episode(self.observations[here], self.actions[here], self.touching[here])


def play(
    arm: Arm,
    expert: Expert,
    generator: np.random.Generator,
    *,
    steps: int = EPISODE,
    after_grasp: int | None = None,
) -> Episode:
    """One episode, with ``after_grasp`` observations from the grasp on; all if not given."""
    arm.reset(sample_object(generator))
    course = Play(expert, generator)
    observations, actions = np.empty((steps, 11)), np.empty((steps, 4))
    touching = np.empty((steps, 2), dtype=bool)
    for t in range(steps):
        observations[t], touching[t] = arm.observe(), arm.touching()
        actions[t] = course.act(observations[t], tuple(touching[t]))
        if after_grasp is not None:
            grasp = first_true(is_grasped(observations[: t + 1], touching[: t + 1]))
            if grasp >= 0 and t + 1 == grasp + after_grasp:
                return Episode(observations, actions, touching).cut(0, t + 1)
        arm.step(actions[t].astype(np.float32))
    return Episode(observations, actions, touching)


def is_grasped(observations: NDArray[np.floating], touching: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether both fingers touch the object, and it is between them. Shape: [..., 11], [..., 2] -> [...]."""
    between = np.linalg.norm(observations[..., 6:9], axis=-1) < LOST
    held: NDArray[np.bool_] = touching.all(axis=-1) & between
    return held


def first_true(flags: NDArray[np.bool_]) -> int:
    """The index of the first True, -1 without one."""
    return int(flags.argmax()) if flags.any() else -1


def reject_rates(labels: dict[str, NDArray[Any]]) -> dict[str, float]:
    """Shares of the tried episodes that were left out, by reason."""
    tried = int(labels["tried"].sum())
    counts = zip(REASONS, labels["rejected"].sum(axis=0), strict=True)
    return {reason: int(count) / tried for reason, count in counts if count}


def describe_rejected(data: Dataset) -> str | None:
    """How many of the tried episodes fit, and why the others do not; None if all fit."""
    if not data.labels["rejected"].any():
        return None
    reasons = ", ".join(f"{name} {rate:.1%}" for name, rate in reject_rates(data.labels).items())
    return f"{data.recipe.sequences / data.labels['tried'].sum():.1%} of the episodes fit; {reasons}"


def why_rejected(window: Episode, grasp: int) -> str | None:
    """The paper's filters: why a window with a grasp at observation ``grasp`` is left out, None if it is not."""
    relative, thing = window.observations[:, 6:9], window.observations[:, 3:6]
    if np.abs(relative[grasp, :2]).max() >= ALIGNED or abs(relative[grasp, 2]) >= CLOSE:
        return "not centred"
    if np.abs(thing[:grasp] - thing[0]).max() > RESTS:
        return "moved before the grasp"
    held = np.linalg.norm(relative[grasp:], axis=1) < LOST
    steps = np.linalg.norm(np.diff(thing[grasp:], axis=0), axis=1)
    if (steps > MOVES)[~held[1:]].any():
        return "moved outside the gripper"
    return "not lifted" if thing[-1, 2] - thing[0, 2] < LOST else None


def part_sizes(recipe: DataRecipe) -> list[int]:
    """How many sequences each part has."""
    full, rest = divmod(recipe.sequences, PART)
    return [PART] * full + ([rest] if rest else [])


def generate_part(recipe: DataRecipe, number: int) -> Rows:
    """Sequences and labels of one part; the same recipe and number give the same bytes.

    ``grasps``: windows of reach-grasp-lift sequences, cut so that the object is grasped at the times of
    :data:`GRASP_TIMES`, by the paper's filters. ``mixed``: episodes of all kinds from their start, and few of a planner
    that brings the object to one goal after the other.

    Labels: ``right`` and ``left``, whether that finger touches the object; ``grasped``, both do; ``moves``, the object
    is on its way to the next observation; ``grasp`` [N], the first time it is grasped, -1 without one; ``kind`` [N],
    see :data:`KINDS`; ``fell``, the object is below the table; ``tried`` [N], how many episodes it took, and
    ``rejected`` [N, R], how many of them were left out for each of :data:`REASONS`.
    """
    policies = {"grasps": _windows, "mixed": _episodes}
    if recipe.policy not in policies:
        raise ValueError(f"policy is {recipe.policy!r}; Fetch Pick&Place has {' and '.join(policies)}")
    words = f"{recipe.policy} {recipe.split} {recipe.preset}".encode()
    generator = np.random.default_rng([recipe.seed, number, *words])
    count = part_sizes(recipe)[number]
    rows: list[Row] = []
    if recipe.policy == "mixed" and number % PLANNED_EVERY == PLANNED_PART:
        rows = _planned(recipe, min(PLANNED, count), generator)
    rows += policies[recipe.policy](recipe, count - len(rows), generator)
    windows, kinds, rejected = zip(*rows, strict=True)
    observations = np.stack([window.observations for window in windows]).astype(np.float32)
    touching = np.stack([window.touching for window in windows])
    held = is_grasped(observations, touching)
    steps = np.linalg.norm(np.diff(observations[:, :, 3:6], axis=1), axis=-1)
    return {
        "observations": observations,
        "actions": np.stack([window.actions for window in windows]).astype(np.float32),
        "strata": np.zeros(len(rows), dtype=np.int64),
        "label.right": touching[..., 0],
        "label.left": touching[..., 1],
        "label.grasped": held,
        "label.moves": np.pad(steps > MOVES, ((0, 0), (0, 1)), mode="edge"),
        "label.fell": observations[..., 5] < FLOOR,
        "label.grasp": np.array([first_true(row) for row in held]),
        "label.kind": np.array([KINDS.index(kind) for kind in kinds]),
        "label.tried": np.array([1 + sum(counts) for counts in rejected]),
        "label.rejected": np.array(rejected),
    }


Row = tuple[Episode, str, list[int]]
NONE_REJECTED = [0] * len(REASONS)


def _episodes(recipe: DataRecipe, count: int, generator: np.random.Generator) -> list[Row]:
    arm = Arm()
    kinds = generator.choice(KINDS, count, p=SHARES)
    return [
        (play(arm, sample_expert(kind, generator), generator, steps=recipe.steps), kind, NONE_REJECTED)
        for kind in kinds
    ]


def _planned(recipe: DataRecipe, count: int, generator: np.random.Generator) -> list[Row]:
    from gatel0rd.worlds.fetch_pick_and_place.task import plan_sequences

    sequences = plan_sequences(count, recipe.steps, generator)
    return [(Episode(*sequence), "planned", NONE_REJECTED) for sequence in sequences]


def _windows(recipe: DataRecipe, count: int, generator: np.random.Generator) -> list[Row]:
    if recipe.split not in GRASP_TIMES:
        raise ValueError(f"split is {recipe.split!r}; expected {', '.join(GRASP_TIMES)}")
    earliest, latest = GRASP_TIMES[recipe.split]
    if recipe.steps <= latest:
        raise ValueError(f"steps is {recipe.steps}; the object is grasped at {latest}, expected more steps")
    arm = Arm()
    rows: list[Row] = []
    rejected = NONE_REJECTED.copy()
    while len(rows) < count:
        at = int(generator.integers(earliest, latest + 1))
        expert = sample_expert("grasp", generator, lifts=True)
        found = play(arm, expert, generator, steps=EPISODE + recipe.steps, after_grasp=recipe.steps - at)
        first = first_true(is_grasped(found.observations, found.touching)) - at
        whole = first >= 0 and len(found.actions) >= first + recipe.steps
        window = found.cut(first, recipe.steps)
        reason = why_rejected(window, at) if whole else "no grasp"
        if reason is None:
            rows.append((window, "grasp", rejected))
            rejected = NONE_REJECTED.copy()
        else:
            rejected[REASONS.index(reason)] += 1
        if sum(rejected) > MOST_TRIES:
            raise ValueError(f"none of {MOST_TRIES} episodes has a grasp that fits windows of {recipe.steps} steps")
    return rows
