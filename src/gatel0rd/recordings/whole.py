"""A model on whole recordings, fed with what was really observed: errors and gates of every sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.models.events import APART, boundaries, find_events
from gatel0rd.models.world_model import WorldModel
from gatel0rd.recordings.recordings import Recordings

BATCH = 64
MOST_SEQUENCES, MOST_STEPS = 200, 2000
"""Of the recordings that are measured while training; the first ones, from their beginning."""


@dataclass(frozen=True)
class FollowedSequence:
    """One sequence as a model sees it, in the model's units: errors [T - 1, O], gates [T - 1, G] or None."""

    errors: NDArray[Any]
    gates: NDArray[Any] | None

    @property
    def error(self) -> float:
        """Mean squared error of the next step."""
        return float(np.square(self.errors, dtype=np.float64).mean())

    @property
    def boundaries(self) -> NDArray[np.int64]:
        """Where events begin, as ``gatel0rd segment`` finds them."""
        if self.gates is None:
            return np.zeros(0, np.int64)
        return boundaries(find_events(self.gates), apart=APART, after_start=True)


@torch.no_grad()
def follow(
    model: WorldModel,
    recordings: Recordings,
    observations: Tensor,
    actions: Tensor,
    *,
    most: int | None = MOST_SEQUENCES,
) -> list[FollowedSequence]:
    """Run over recordings, without gate noise.

    Args:
        observations, actions: their rows [S, O] and [S, A] in the model's units.
        most: sequences that are looked at, and not more than :data:`MOST_STEPS` steps of each; all if None.
    """
    count = len(recordings) if most is None else min(most, len(recordings))
    lengths = recordings.lengths[:count] if most is None else np.minimum(recordings.lengths[:count], MOST_STEPS)
    order = np.argsort(lengths, kind="stable")
    found: list[FollowedSequence | None] = [None] * count
    for first in range(0, count, BATCH):
        chosen = order[first : first + BATCH]
        longest = int(lengths[chosen].max())
        last = torch.from_numpy(recordings.starts[chosen] + lengths[chosen] - 1)
        rows = torch.from_numpy(recordings.starts[chosen])[None] + torch.arange(longest)[:, None]
        rows = torch.minimum(rows, last)  # shorter ones repeat their last row, which nothing reads
        seen = observations[rows]
        rollout = model(seen[:-1], actions[rows][:-1])
        errors = (rollout.predictions - seen[1:]).numpy()
        gates = None if rollout.gates is None else rollout.gates.numpy()
        for place, index in enumerate(chosen.tolist()):
            steps = int(lengths[index]) - 1
            own = None if gates is None else gates[:steps, place]
            found[index] = FollowedSequence(errors[:steps, place], own)
    return [entry for entry in found if entry is not None]
