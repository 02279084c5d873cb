"""What happens on the pool table, and sequences worth looking at."""

from __future__ import annotations

import numpy as np

from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds.events import Events, onsets, path_lengths


def label_events(data: Dataset) -> Events:
    """Touches of a cushion, and drops into a pocket."""
    return {"cushion contact": data.labels["cushion"], "drop": onsets(data.labels["pocketed"])}


def choose_examples(data: Dataset) -> dict[str, int]:
    """The longest paths with two and with three contacts."""
    path, contacts = path_lengths(data, slice(0, 2)), data.labels["cushion"].sum(axis=1)
    stays = ~data.labels["pocketed"].any(axis=1)
    return {
        name: int(np.where(stays & (contacts == count), path, -1).argmax())
        for name, count in (("two contacts", 2), ("three contacts", 3))
    }
