"""What happens to the object of Fetch Pick&Place, and sequences worth looking at."""

from __future__ import annotations

import numpy as np

from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds.events import Events, at_index, onsets, path_lengths


def label_events(data: Dataset) -> Events:
    """The first grasp, and when the object starts to move and comes to rest."""
    moves = data.labels["moves"]
    return {
        "grasp": at_index(data.labels["grasp"], data.recipe.steps),
        "object moves": onsets(moves),
        "object rests": onsets(~moves),
    }


def choose_examples(data: Dataset) -> dict[str, int]:
    """The objects that are carried furthest after a late and after an early grasp."""
    grasp, path = data.labels["grasp"], path_lengths(data, slice(3, 6))
    held = grasp[grasp >= 0]
    middle = float(np.median(held)) if len(held) else 0.0
    late, early = grasp > middle, (grasp >= 0) & (grasp <= middle)
    return {
        "late grasp": int(np.where(late, path, -1).argmax()),
        "early grasp": int(np.where(early, path, -1).argmax()),
    }
