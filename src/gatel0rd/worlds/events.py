"""What the labelled events of all worlds share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gatel0rd.training.dataset import Dataset

Events = dict[str, NDArray[np.bool_]]
"""Name of an event -> whether it happens at that observation, [N, T]."""


def onsets(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a flag turns on. Shape: [N, T] -> [N, T]."""
    turned: NDArray[np.bool_] = flags & ~np.concatenate([flags[:, :1], flags[:, :-1]], axis=1)
    return turned


def at_index(index: NDArray[np.int64], steps: int) -> NDArray[np.bool_]:
    """True at one time of each sequence, nowhere where it is -1. Shape: [N] -> [N, T]."""
    times: NDArray[np.bool_] = np.arange(steps) == index[:, None]
    return times


def path_lengths(data: Dataset, columns: slice) -> NDArray[np.float64]:
    """How far the given coordinates move over each sequence, [N]."""
    path: NDArray[np.float64] = np.abs(np.diff(data.observations[:, :, columns], axis=1)).sum(axis=(1, 2))
    return path
