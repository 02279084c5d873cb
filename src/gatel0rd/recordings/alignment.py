"""Do actions stand in the row before the observations that they lead to, as they should?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.recordings import Recordings

CLEARLY = 0.05
"""Share of the changes' variance by which one alignment has to explain more than the other."""
ENOUGH = 100_000
"""Rows that are looked at."""
MOST_COLUMNS = 1000
"""Columns with which it is looked at."""


def explained_share(targets: NDArray[np.float64], features: NDArray[np.float64]) -> float:
    """Share of the variance of the columns of ``targets`` that a linear regression explains, on average."""
    features = features - features.mean(axis=0)
    targets = targets - targets.mean(axis=0)
    weights, *_ = np.linalg.lstsq(features, targets, rcond=None)
    total = (targets**2).sum(axis=0)
    left = ((targets - features @ weights) ** 2).sum(axis=0)
    return float(np.mean(1 - left[total > 0] / total[total > 0])) if (total > 0).any() else 0.0


def note_alignment(recordings: Recordings) -> list[str]:
    """A note if changes follow from the actions of the row in which they show, and not from those of the one before.

    Only effects that are about linear show here; the signs of an effect that flips cancel.
    """
    if not recordings.action_names or recordings.observations.shape[1] > MOST_COLUMNS:
        return []
    last = min(ENOUGH, len(recordings.observations))
    inside = np.ones(last, dtype=bool)
    inside[recordings.starts[recordings.starts < last]] = False
    rows = np.flatnonzero(inside)
    seen = recordings.observations[:last].astype(np.float64)
    seen = (seen - seen.mean(axis=0)) / np.maximum(seen.std(axis=0), 1e-300)
    changes, alone = seen[rows] - seen[rows - 1], seen[rows - 1]
    expected = explained_share(changes, alone)  # by the last observation: nothing that actions have to explain
    if expected >= 1 - CLEARLY:
        return []
    before, same = (
        (explained_share(changes, np.concatenate([alone, recordings.actions[rows - shift]], axis=1)) - expected)
        / (1 - expected)
        for shift in (1, 0)
    )
    if same - before > CLEARLY:
        return [
            f"actions explain {same:.0%} of the changes in their own row and {before:.0%} of those in the next one, "
            "where they belong; --same-row moves them up by one row"
        ]
    return []
