"""What happens in Shepherd, sequences worth looking at, and the error at the sheep's reappearance."""

from __future__ import annotations

import numpy as np
import torch

from gatel0rd.models import WorldModel
from gatel0rd.training import run_in_parts, time_first
from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds.events import Events, onsets
from gatel0rd.worlds.shepherd import ShepherdWorld


def label_events(data: Dataset) -> Events:
    """Moments at which something hidden changes."""
    labels = data.labels
    return {
        "sheep hidden": onsets(labels["hidden"]),
        "gate opened": onsets(labels["gate_open"]),
        "cage grasped": onsets(labels["carried"]),
        "cage dropped": onsets(~labels["carried"]),
        "sheep caught": onsets(labels["caught"]),
    }


def choose_examples(data: Dataset) -> dict[str, int]:
    """A sequence in which the sheep is caught, and one in which the gate stays closed."""
    return {
        "caught": int(np.flatnonzero(data.labels["caught"].any(axis=1))[0]),
        "gate closed": int(np.flatnonzero(~data.labels["gate_open"].any(axis=1))[0]),
    }


@torch.no_grad()
def measure_reappearance(model: WorldModel, data: Dataset) -> dict[str, float]:
    """Squared error of the sheep's predicted x when it reappears, real inputs being fed in until then (Fig. 5b)."""
    rollouts = run_in_parts(model.forward, *time_first(data, model.config))
    predictions = torch.cat([rollout.predictions for rollout in rollouts], dim=1).numpy()
    sequence = np.flatnonzero(data.labels["reappearance"] > 0)
    time = data.labels["reappearance"][sequence]
    sheep_x = ShepherdWorld.observation_names.index("sheep_x")
    error = predictions[time - 1, sequence, sheep_x] - data.observations[sequence, time, sheep_x]
    return {"reappearance": float(np.square(error, dtype=np.float64).mean())}
