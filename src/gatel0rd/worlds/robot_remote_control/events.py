"""What happens in Robot Remote Control, and sequences worth looking at."""

from __future__ import annotations

import numpy as np

from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds.events import Events, at_index, path_lengths


def label_events(data: Dataset) -> Events:
    """The first observation at which the robot is controlled."""
    return {"control": at_index(data.labels["onset"], data.recipe.steps)}


def choose_examples(data: Dataset) -> dict[str, int]:
    """A sequence with control, with much to see before and after it, and one without."""
    onset = data.labels["onset"]
    middle = np.where((onset >= 12) & (onset <= 25), path_lengths(data, slice(2, 4)), -1)
    return {"control": int(middle.argmax()), "no control": int(np.flatnonzero(onset < 0)[0])}
