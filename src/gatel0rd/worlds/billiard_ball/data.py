"""Shots on the pool table, cut into windows and balanced (Suppl. B.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.training.dataset import Dataset, Progress, ignore_progress
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.billiard_ball.dynamics import HALF_SIZE, SPEEDS, BilliardTable, random_shots

BALLS_AT_ONCE = 64
BATCHES_TO_TRY = 100
"""A group that is still empty after this many batches is held to be impossible."""
WINDOWS = 3
SPEED_GROUPS = 4
GROUPS = WINDOWS * SPEED_GROUPS + WINDOWS + 1
"""Twelve groups of balls that stay on the table, by window and speed of the shot; three in which the ball drops
during the window, by window; one in which it has dropped before."""


def rollouts(
    table: BilliardTable, steps: int, generator: np.random.Generator
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float32]]:
    """Random shots: positions [B, steps, 2] in [-1, 1], cushion contacts and pocketed [B, steps], first speed [B]."""
    position, velocity = random_shots(BALLS_AT_ONCE, generator)
    motions = [table.shoot(position, velocity), *(table.step() for _ in range(steps - 1))]
    positions = np.stack([motion.position / HALF_SIZE for motion in motions], axis=1).astype(np.float32)
    cushion, pocketed = (
        np.stack([getattr(motion, name) for motion in motions], axis=1) for name in ("cushion", "pocketed")
    )
    return positions, cushion, pocketed, np.linalg.norm(velocity, axis=1).astype(np.float32)


def group_of(window: int, pocketed: NDArray[np.bool_], speed: NDArray[np.float32]) -> NDArray[np.int64]:
    """The group of each ball in one window. Shape: pocketed [B, steps of the window], speed [B]; -> [B]."""
    share = (speed - SPEEDS[0]) / (SPEEDS[1] - SPEEDS[0])
    speed_group = np.minimum((share * SPEED_GROUPS).astype(np.int64), SPEED_GROUPS - 1)
    stays = window * SPEED_GROUPS + speed_group
    drops = np.where(pocketed[:, 0], GROUPS - 1, WINDOWS * SPEED_GROUPS + window)
    return np.where(pocketed[:, -1], drops, stays)


def generate(recipe: DataRecipe, progress: Progress = ignore_progress) -> Dataset:
    """Sixteen equal groups: shots are simulated over three windows until every group is full.

    Neighbouring windows share one observation, so that windows of 51 positions start at steps 0, 50 and 100.
    Labels: ``cushion`` [N, T], whether the ball touched a cushion since the observation before; ``pocketed`` [N, T];
    ``speed`` [N], of the shot in m/s; ``window`` [N].
    """
    if recipe.policy != "shots":
        raise ValueError(f"policy is {recipe.policy!r}; Billiard Ball has shots")
    if recipe.sequences % GROUPS:
        raise ValueError(f"{recipe.sequences} sequences cannot be balanced; ask for a multiple of {GROUPS}")
    generator = np.random.default_rng([recipe.seed, *f"billiard {recipe.split}".encode()])
    size, stride = recipe.sequences // GROUPS, recipe.steps - 1
    table = BilliardTable(BALLS_AT_ONCE)
    kept: list[list[tuple[NDArray[Any], ...]]] = [[] for _ in range(GROUPS)]
    missing = [size] * GROUPS
    batches = 0
    while any(missing):
        batches += 1
        if batches > BATCHES_TO_TRY and size in missing:
            group = missing.index(size)
            raise ValueError(
                f"none of {BATCHES_TO_TRY * BALLS_AT_ONCE} shots over {recipe.steps} steps fits group {group}; "
                "ask for more steps"
            )
        positions, cushion, pocketed, speed = rollouts(table, WINDOWS * stride + 1, generator)
        for window in range(WINDOWS):
            part = slice(window * stride, window * stride + recipe.steps)
            contacts = cushion[:, part].copy()
            contacts[:, 0] = False  # what happened before the first observation belongs to the window before
            groups = group_of(window, pocketed[:, part], speed)
            for group in np.unique(groups):
                index = np.flatnonzero(groups == group)[: missing[group]]
                kept[group].append(
                    (positions[index, part], contacts[index], pocketed[index, part], speed[index], index * 0 + window)
                )
                missing[group] -= len(index)
        progress(recipe.sequences - sum(missing), recipe.sequences)
    observations, contacts, pocketed, speed, windows = (
        np.concatenate([part[column] for group in kept for part in group]) for column in range(5)
    )
    return Dataset(
        recipe=recipe,
        observations=observations,
        actions=np.zeros((recipe.sequences, recipe.steps, 0), dtype=np.float32),
        strata=np.repeat(np.arange(GROUPS), size),
        labels={"cushion": contacts, "pocketed": pocketed, "speed": speed, "window": windows},
    )
