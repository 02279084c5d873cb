"""Rollouts of Robot Remote Control, generated side by side (Suppl. B.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.training.dataset import Dataset, Progress, ignore_progress
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.robot_remote_control.dynamics import transition

ROLLOUTS_AT_ONCE = 16384
SMALLEST_FACTOR = 0.0001


def sample_actions(recipe: DataRecipe, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Random actions [count, T, 2] of the recipe's policy.

    ``random``: uniform in [-1, 1]². ``time``: scaled by a factor that rises linearly from 0.0001 to 1 over the
    sequence; uniform actions in the paper's text, unit-circle directions with the preset ``reference``.
    """
    shape = (count, recipe.steps)
    if recipe.policy == "time" and recipe.preset == "reference":
        angle = generator.uniform(0, 2 * np.pi, shape)
        actions = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    else:
        actions = generator.uniform(-1, 1, (*shape, 2))
    if recipe.policy == "time":
        actions *= np.linspace(SMALLEST_FACTOR, 1, recipe.steps)[:, None]
    return actions


def rollouts(
    actions: NDArray[np.float64], generator: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Run worlds from random starts. Shape: actions [N, T, 2] -> observations [N, T, 4], controlled [N, T]."""
    count, steps = actions.shape[:2]
    agent, robot = generator.uniform(-1, 1, (2, count, 2))
    controlled = np.zeros(count, dtype=bool)
    observations = np.empty((count, steps, 4), dtype=np.float32)
    flags = np.empty((count, steps), dtype=bool)
    for t in range(steps):
        observations[:, t, :2], observations[:, t, 2:], flags[:, t] = agent, robot, controlled
        agent, robot, controlled = transition(agent, robot, controlled, actions[:, t])
    return observations, flags


def generate(recipe: DataRecipe, progress: Progress = ignore_progress) -> Dataset:
    """A balanced data set: control is gained in the first half of the sequences, never in the second half.

    Labels: ``controlled`` [N, T], whether the robot will follow the action taken at that observation; ``onset`` [N],
    the index of the first such observation, -1 without one.
    """
    if recipe.policy not in ("time", "random"):
        raise ValueError(f"policy is {recipe.policy!r}; Robot Remote Control has time and random")
    if recipe.sequences % 2:
        raise ValueError(f"{recipe.sequences} sequences cannot be balanced; ask for an even number")
    words = f"{recipe.policy} {recipe.split} {recipe.preset}".encode()
    generator = np.random.default_rng([recipe.seed, *words])
    half = recipe.sequences // 2
    kept: dict[bool, list[tuple[NDArray[Any], ...]]] = {True: [], False: []}
    missing = {True: half, False: half}
    while any(missing.values()):
        actions = sample_actions(recipe, ROLLOUTS_AT_ONCE, generator)
        observations, controlled = rollouts(actions, generator)
        for event in (True, False):
            index = np.flatnonzero(controlled[:, -1] == event)[: missing[event]]
            kept[event].append((observations[index], actions[index].astype(np.float32), controlled[index]))
            missing[event] -= len(index)
        progress(recipe.sequences - sum(missing.values()), recipe.sequences)
    observations, actions32, controlled = (
        np.concatenate([part[column] for event in (True, False) for part in kept[event]]) for column in range(3)
    )
    onset = np.where(controlled.any(axis=1), controlled.argmax(axis=1), -1)
    return Dataset(
        recipe=recipe,
        observations=observations,
        actions=actions32,
        strata=np.repeat([0, 1], half),
        labels={"controlled": controlled, "onset": onset},
    )
