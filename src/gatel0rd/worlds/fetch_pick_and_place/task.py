"""Fetch Pick&Place as a control problem, many arms side by side, and the policy's view of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.icem import ICEM, ICEMConfig
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask, Flags
from gatel0rd.worlds.fetch_pick_and_place.simulation import (
    SUCCESS_DISTANCE,
    Arm,
    Arms,
    sample_goal,
    sample_object,
    to_observation,
)

Policy = Callable[[Array], Array]
"""What to do: features [..., F] -> actions [..., 4]."""
FEATURES = 17
VECTORS, FINGERS = (0, 3, 11, 14), [6, 7]
"""Where in the features the vectors begin, and the two fingers' places."""
SLOW = 0.1
HELD = 5
SMALL_BUDGET = ICEMConfig(horizon=10, samples=8, elites=4, iterations=2, noise_exponent=2.0)
"""A control step costs about 200 steps of the simulator, a fifth of a second on one core."""


def plan_sequences(
    count: int, steps: int, generator: np.random.Generator, search: ICEMConfig | None = None
) -> list[tuple[Array, Array, NDArray[np.bool_]]]:
    """Arms that are planned to bring their object to one goal after the other.

    Each sequence: observations [T, 11], actions [T, 4], and which finger touches the object [T, 2].
    """
    generators = generator.spawn(count)
    task = Placing(threads=1)
    task.reset(generators)
    arms = [Arm() for _ in range(count)]
    for arm, state in zip(arms, task.states, strict=True):
        arm.put(state)
    planner = ICEM(*task.bounds(), search or SMALL_BUDGET, generator=generators)
    observations, actions = np.empty((count, steps, 11)), np.empty((count, steps, 4))
    touching = np.empty((count, steps, 2), dtype=bool)
    for t in range(steps):
        for row, arm in enumerate(arms):
            observations[row, t], touching[row, t] = arm.observe(), arm.touching()
        chosen = planner.plan(lambda sequences: task.cost(task.simulate(sequences), sequences))
        actions[:, t] = chosen.astype(np.float32)
        for row, arm in enumerate(arms):
            arm.step(actions[row, t].astype(np.float32))
        task.states, task.seen = (np.stack(parts) for parts in zip(*(arm.take() for arm in arms), strict=True))
        slow = np.linalg.norm(task.seen[:, 11:14], axis=-1) < SLOW
        for place in np.flatnonzero(task.near() & slow):
            task.goals[place] = sample_goal(generators[place])
    return list(zip(observations, actions, touching, strict=True))


class Placing(ControlTask):
    """Bring the object to the goal, with the simulator itself on all cores as the model.

    The cost is the distance of object and goal, plus half the distance of gripper and object, summed over the horizon;
    the goal is reached when the object has been within 5 cm of it for five steps in a row: flicking it past is
    not placing it.
    """

    name = "fetch"
    horizon, limit, idle = 10, 50, (0.0, 0.0, 0.0, 0.0)
    closeness = 0.5
    """Weight of the distance of gripper and object."""

    @property
    def search(self) -> ICEMConfig:
        return SMALL_BUDGET

    def __init__(self, threads: int | None = None) -> None:
        self.arms = Arms(threads or os.cpu_count() or 1)
        self.simulated = 0
        """Steps of single arms so far, real and imagined."""

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        places = np.stack([sample_object(generator) for generator in generators])
        self.goals = np.stack([sample_goal(generator) for generator in generators])
        self.states, self.seen = self.arms.begin(places)
        self.held = np.zeros(len(places), dtype=np.int64)
        return to_observation(self.seen)

    def step(self, actions: Array) -> tuple[Array, Flags]:
        self.states, self.seen = self._step(self.states, self.seen, np.clip(actions, -1, 1))
        self.held = np.where(self.near(), self.held + 1, 0)
        return to_observation(self.seen), self.held >= HELD

    def near(self) -> Flags:
        """Which objects are at their goal now, [E]."""
        at_goal: Flags = np.linalg.norm(self.seen[:, 3:6] - self.goals, axis=-1) < SUCCESS_DISTANCE
        return at_goal

    def keep(self, rows: NDArray[np.int64]) -> None:
        self.states, self.seen, self.goals = self.states[rows], self.seen[rows], self.goals[rows]
        self.held = self.held[rows]

    def simulate(self, sequences: Array) -> Array:
        return to_observation(self.look_ahead(sequences))

    def look_ahead(self, sequences: Array) -> Array:
        """Everything that would be seen. Shape: [E, N, T, A] -> [E, N, T, 21]."""
        count = sequences.shape[1]
        actions = np.clip(sequences, -1, 1)
        return self._imagine(count, sequences.shape[2], lambda t, seen: actions[:, :, t])

    def follow(self, policy: Policy, noise: Array) -> Array:
        """The actions that a policy would take, with noise added to them. Shape: noise [E, N, T, A] -> [E, N, T, A]."""
        taken = np.empty_like(noise)

        def act(t: int, seen: Array) -> Array:
            taken[:, :, t] = np.clip(policy(self.features(seen)) + noise[:, :, t], -1, 1)
            return taken[:, :, t]

        self._imagine(noise.shape[1], noise.shape[2], act)
        return taken

    def cost(self, observations: Array, actions: Array) -> Array:
        gripper, thing = observations[..., :3], observations[..., 3:6]
        to_goal = np.linalg.norm(thing - self.goals[:, None, None], axis=-1)
        total: Array = (to_goal + self.closeness * np.linalg.norm(thing - gripper, axis=-1)).sum(axis=-1)
        return total

    def features(self, seen: Array) -> Array:
        """What a policy sees: relative positions and velocities, of size about 1. [E, ..., 21] -> [E, ..., F]."""
        goals = self.goals.reshape(len(self.goals), *[1] * (seen.ndim - 2), 3)
        gripper, thing, fingers = seen[..., :3], seen[..., 3:6], seen[..., 6:8]
        heights = np.stack(
            [gripper[..., 2], thing[..., 2], np.broadcast_to(goals[..., 2], gripper.shape[:-1])], axis=-1
        )
        return np.concatenate(
            [10 * (thing - gripper), 10 * (goals - thing), 20 * fingers, 5 * (heights - 0.5), seen[..., 8:14]], axis=-1
        )

    def _imagine(self, count: int, steps: int, act: Callable[[int, Array], Array]) -> Array:
        """What would be seen if ``act`` chose, from time and what is seen [E, N, 21]. Shape: [E, N, T, 21]."""
        episodes = len(self.states)
        states, seen = (np.repeat(part, count, axis=0) for part in (self.states, self.seen))
        future = np.empty((episodes, count, steps, seen.shape[1]))
        for t in range(steps):
            chosen = act(t, seen.reshape(episodes, count, -1)).reshape(episodes * count, -1)
            states, seen = self._step(states, seen, chosen)
            future[:, :, t] = seen.reshape(episodes, count, -1)
        return future

    def _step(self, states: Array, seen: Array, actions: Array) -> tuple[Array, Array]:
        self.simulated += len(states)
        return self.arms.step(states, seen, actions)
