"""Rollouts of Shepherd, generated side by side (Suppl. B.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatel0rd.training.dataset import Dataset, Progress, ignore_progress
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.shepherd.dynamics import (
    HIGHEST,
    LOWEST,
    ShepherdState,
    observe,
    rules_of,
    sample_sheep,
    start,
    transition,
)

ROLLOUTS_AT_ONCE = 16384
BATCHES_TO_TRY = 20
"""A quarter that is still empty after this many batches is held to be impossible."""
GRASP_FLIP = 0.1
CLOSED_UNTIL, OPEN_FROM = 0.3, 0.7
"""Shares of the sequence at which the gate is still closed, and open, if it is to open."""


class Kind(NamedTuple):
    """A kind of rollouts: where the agent starts in x, how often its moves are favoured, which quarters it fills.

    ``favoured`` is meant for 100 steps. Shorter sequences favour in proportion more, longer ones less, so that the
    agent comes as far; this works down to 60 steps.
    """

    left: float
    right: float
    favoured: float
    quarters: tuple[int, ...]


KINDS = (
    Kind(left=-1, right=3, favoured=0.0, quarters=(0,)),
    Kind(left=-1, right=1, favoured=0.4, quarters=(1,)),
    Kind(left=1, right=3, favoured=0.75, quarters=(2, 3)),
)
"""On the left moves are favoured less: with 0.75 most agents are at the lever too early, and those that are not all
start at the far end. Accepted of 100 steps: 0.92 (quarter 0), 0.44 (1), 0.46 (2), 0.022 (3)."""


class Rollouts(NamedTuple):
    """Shape: observations [N, T, 7], actions [N, T, 3], velocity [N], the others [N, T]."""

    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    velocity: NDArray[np.float32]
    hidden: NDArray[np.bool_]
    gate_open: NDArray[np.bool_]
    carried: NDArray[np.bool_]
    caught: NDArray[np.bool_]


def sample_actions(count: int, steps: int, favoured: float, generator: np.random.Generator) -> NDArray[np.float32]:
    """Random actions [count, T, 3].

    Moves are uniform in [-1, 1]²; with probability ``favoured``, each component of its own, they are uniform in the
    half that leads to the lever instead, left or up. The grasp is ±0.5 plus a uniform number in [-0.5, 0.5]; its sign
    starts positive and flips with probability 0.1 per step.
    """
    actions = 2 * generator.random((count, steps, 3), dtype=np.float32) - 1
    moves = actions[..., :2]
    towards = np.abs(moves) * np.array([-1, 1], dtype=np.float32)
    moves[...] = np.where(generator.random(moves.shape, dtype=np.float32) < favoured, towards, moves)
    flips = np.where(generator.random((count, steps), dtype=np.float32) < GRASP_FLIP, -1, 1)
    flips[:, 0] = 1
    actions[..., 2] = 0.5 * np.cumprod(flips, axis=1) + 0.5 * actions[..., 2]
    return actions


def rollouts(state: ShepherdState, actions: NDArray[np.float32], mask: tuple[float, float]) -> Rollouts:
    """Run meadows from their starts. Shape: state [N], actions [N, T, 3]."""
    count, steps = actions.shape[:2]
    observations = np.empty((count, steps, 7), dtype=np.float32)
    hidden, gate_open, carried, caught = flags = np.empty((4, count, steps), dtype=bool)
    velocity = state.velocity.astype(np.float32)
    for t in range(steps):
        observations[:, t] = observe(state, mask)
        flags[:, :, t] = state.hidden, state.gate_open, state.carried, state.caught
        state = transition(state, actions[:, t].astype(np.float64))
    return Rollouts(observations, actions, velocity, hidden, gate_open, carried, caught)


def quarters_of(kind: Kind, parts: Rollouts) -> NDArray[np.int64]:
    """The quarter each rollout of a kind belongs to, -1 if it fits none. Shape: [N]."""
    steps = parts.gate_open.shape[1]
    if kind.quarters == (0,):
        return np.where(parts.gate_open[:, -1], -1, 0)
    fits = ~parts.gate_open[:, round(CLOSED_UNTIL * steps)] & parts.gate_open[:, round(OPEN_FROM * steps)]
    quarter = np.where(parts.caught[:, -1], kind.quarters[-1], kind.quarters[0])
    return np.where(fits, quarter, -1)


def generate(recipe: DataRecipe, progress: Progress = ignore_progress) -> Dataset:
    """A data set of four equal quarters, in this order.

    0. The gate stays closed; uniform moves from anywhere.
    1. The gate is opened by an agent that starts on the left.
    2. The gate is opened by an agent that starts on the right, and the sheep is not caught.
    3. As 2, and the sheep is caught.

    In the last three the gate is closed at 30 % and open at 70 % of the sequence: at observations 30 and 70 of 100,
    when every sheep has been hidden. Moves to the left and upwards are favoured there, see :data:`KINDS`.

    Labels: ``hidden``, ``gate_open``, ``carried``, ``caught`` [N, T], as they are at that observation;
    ``reappearance`` [N], the index of the first observation that shows the sheep again after it was hidden, -1 without
    one; ``velocity`` [N] of the sheep.
    """
    if recipe.policy != "random":
        raise ValueError(f"policy is {recipe.policy!r}; Shepherd has random")
    if recipe.sequences % 4:
        raise ValueError(f"{recipe.sequences} sequences cannot be balanced; ask for a multiple of 4")
    rules = rules_of(recipe.preset)
    words = f"{recipe.policy} {recipe.split} {recipe.preset}".encode()
    generator = np.random.default_rng([recipe.seed, *words])
    quarter_size = recipe.sequences // 4
    kept: list[list[Rollouts]] = [[], [], [], []]
    missing = [quarter_size] * 4
    for kind in KINDS:
        batches, favoured = 0, kind.favoured * 100 / recipe.steps
        while any(missing[quarter] for quarter in kind.quarters):
            x = generator.uniform(kind.left, kind.right, ROLLOUTS_AT_ONCE)
            y = generator.uniform(LOWEST[1], HIGHEST[1], ROLLOUTS_AT_ONCE)
            agent = np.clip(np.stack([x, y], axis=-1), LOWEST, HIGHEST)
            state = start(agent, *sample_sheep(generator, rules, (ROLLOUTS_AT_ONCE,)))
            actions = sample_actions(ROLLOUTS_AT_ONCE, recipe.steps, favoured, generator)
            found = rollouts(state, actions, rules.mask)
            quarters = quarters_of(kind, found)
            batches += 1
            for quarter in kind.quarters:
                index = np.flatnonzero(quarters == quarter)[: missing[quarter]]
                kept[quarter].append(Rollouts._make(part[index] for part in found))
                missing[quarter] -= len(index)
                if batches >= BATCHES_TO_TRY and missing[quarter] == quarter_size:
                    tried = batches * ROLLOUTS_AT_ONCE
                    raise ValueError(
                        f"none of {tried} rollouts of {recipe.steps} steps fits quarter {quarter}; ask for more steps"
                    )
            progress(recipe.sequences - sum(missing), recipe.sequences)
    parts = [part for quarter in kept for part in quarter]
    data = Rollouts._make(np.concatenate(column) for column in zip(*parts, strict=True))
    appears = data.hidden[:, :-1] & ~data.hidden[:, 1:]
    labels: dict[str, NDArray[Any]] = {
        name: getattr(data, name) for name in ("hidden", "gate_open", "carried", "caught", "velocity")
    }
    labels["reappearance"] = np.where(appears.any(axis=1), appears.argmax(axis=1) + 1, -1)
    return Dataset(
        recipe=recipe,
        observations=data.observations,
        actions=data.actions,
        strata=np.repeat([0, 1, 2, 3], quarter_size),
        labels=labels,
    )
