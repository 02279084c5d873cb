"""How planned episodes of Shepherd end, and what goes wrong in the plans of those that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.mpc import Episodes
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import Flags
from gatel0rd.worlds.shepherd import dynamics as shepherd
from gatel0rd.worlds.shepherd.task import Herding


class HerdingEnd(StrEnum):
    """How an episode ended; the first that fits."""

    CAUGHT = "caught"
    CLOSED = "gate never opened"
    CARRIED = "cage still carried"
    MISSED = "sheep walked past the cage"
    LATE = "sheep on its way into the cage when time was up"


@dataclass(frozen=True, kw_only=True)
class Ends:
    """What happened in each episode, [E].

    Attributes:
        outcomes: how it ended.
        opened: the step at which the gate was opened, -1 if never.
        offset: x of the cage minus x of the sheep at that step, NaN if never.
    """

    outcomes: list[HerdingEnd]
    opened: NDArray[np.int64]
    offset: Array


def describe_ends(task: Herding, episodes: Episodes, generators: Sequence[np.random.Generator]) -> Ends:
    """Carry out the episodes again, from the same starts, and look at what cannot be observed.

    Args:
        generators: those that the episodes began with, unused.
    """
    task.reset(generators)
    states = [task.state]
    for actions in episodes.actions:
        task.step(actions)
        states.append(task.state)
    number = np.arange(len(episodes.steps))
    gate = np.stack([state.gate_open for state in states])
    offset = np.stack([state.cage[:, 0] - state.sheep[:, 0] for state in states])
    carried = np.stack([state.carried for state in states])[episodes.steps, number]
    opened = np.where(gate.any(axis=0), gate.argmax(axis=0), -1)
    in_line = np.abs(offset[episodes.steps, number]) < task.cage_radius
    conditions = [episodes.reached >= 0, opened < 0, carried, ~in_line]
    index = np.select(conditions, range(len(conditions)), default=len(conditions))
    kinds = list(HerdingEnd)
    return Ends(
        outcomes=[kinds[i] for i in index],
        opened=opened,
        offset=np.where(opened >= 0, offset[opened, number], np.nan),
    )


def measure_plans(predicted: Array, real: Array) -> Mapping[str, Array]:
    """Errors of predicted futures that plans may exploit. Shape: observations [E, T, 7] -> [E] each.

    - ``cage_drift``: how far a cage moves from where it is predicted to be left to where it ends, while it really
      stands still. It is left at the step after which the real cage moves no more.
    - ``sheep_error``: distance of the predicted and the real sheep, in x, where both are below the gate.
    - ``phantom``: whether a sheep is predicted below the gate that stays hidden.
    """
    steps = predicted.shape[1]
    cage, real_cage = (future[..., 2:4] / shepherd.MEADOW_SCALE for future in (predicted, real))
    moving: Flags = (np.diff(real_cage, axis=1) != 0).any(axis=2)  # [E, T-1]
    left = np.where(moving.any(axis=1), steps - 1 - moving[:, ::-1].argmax(axis=1), 0)
    drift = np.linalg.norm(cage[:, -1] - cage[np.arange(len(cage)), left], axis=-1)
    below, really_below = (_is_below_gate(future[..., 4:6]) for future in (predicted, real))
    both = below & really_below
    apart: Array = np.where(both, np.abs(predicted[..., 4] - real[..., 4]), 0.0).sum(axis=1)
    phantom: Array = np.asarray(below.any(axis=1) & ~really_below.any(axis=1), dtype=np.float64)
    return {
        "cage_drift": np.where(left < steps - 1, drift, np.nan),
        "sheep_error": np.where(both.any(axis=1), apart / np.maximum(both.sum(axis=1), 1), np.nan),
        "phantom": phantom,
    }


def _is_below_gate(sheep: Array) -> Flags:
    """Whether an observed sheep is in the meadow; x tells it from the mask. Shape: [..., 2] -> [...]."""
    lowest, highest = (np.array(shepherd.SHEEP_X) - shepherd.SHEEP_SHIFT[0]) * 1.2
    below: Flags = (sheep[..., 1] < -0.1) & (sheep[..., 0] > lowest) & (sheep[..., 0] < highest)
    return below
