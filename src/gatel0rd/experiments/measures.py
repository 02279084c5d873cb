"""What is measured on a trained model beyond its error, per scenario; the results go into the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.data import Dataset
from gatel0rd.models import WorldModel
from gatel0rd.training import time_first

Measures = dict[str, Any]


@torch.no_grad()
def gating(model: WorldModel, data: Dataset, events: NDArray[np.bool_]) -> Measures | None:
    """How often any gate is open at inputs with and without an event, real inputs being fed in (Table 2).

    Shape: events [N, T]. None for a model without gates.
    """
    observations, actions = time_first(data, model.config)
    gates = model(observations[:-1], actions[:-1]).gates
    if gates is None:
        return None
    is_open = (gates > 0).any(dim=-1).numpy().T  # [T-1, N, G] -> [N, T-1]
    event = events[:, : is_open.shape[1]]
    hits, false_alarms = float(is_open[event].mean()), float(is_open[~event].mean())
    return {
        "hits": hits,
        "misses": 1 - hits,
        "false_alarms": false_alarms,
        "correct_rejections": 1 - false_alarms,
    }


@torch.no_grad()
def example(model: WorldModel, data: Dataset, index: int) -> Measures:
    """One free-running sequence: observations, predictions, latents relative to h_0, gates; [T-1, ·] each."""
    observations, actions = (tensor[:, [index]] for tensor in time_first(data, model.config))
    rollout = model.free_run(observations[:-1], actions[:-1])
    start = model.core.latents(model.initial(observations, actions))
    return {
        "observations": observations[1:, 0].tolist(),
        "predictions": rollout.predictions[:, 0].tolist(),
        "latents": (rollout.latents - start)[:, 0].tolist(),
        "gates": None if rollout.gates is None else rollout.gates[:, 0].tolist(),
    }


def robot_remote_control(model: WorldModel, evaluations: Mapping[str, Dataset]) -> Measures:
    """Gating at control onset, and two example sequences, on the set with random actions."""
    data = evaluations.get("generalization", evaluations["test"])
    onset = data.labels["onset"]
    events = np.arange(data.recipe.steps) == onset[:, None]
    travelled = np.abs(np.diff(data.observations[:, :, 2:], axis=1)).sum(axis=(1, 2))
    middle = np.where((onset >= 12) & (onset <= 25), travelled, -1)  # a sequence with much to see on both sides
    chosen = {"control": int(middle.argmax()), "no control": int(np.flatnonzero(onset < 0)[0])}
    examples = {name: {"onset": int(onset[index]), **example(model, data, index)} for name, index in chosen.items()}
    return {"gating": gating(model, data, events), "examples": examples}


MEASURES: dict[str, Callable[[WorldModel, Mapping[str, Dataset]], Measures]] = {"rrc": robot_remote_control}
"""Scenario name -> its measures."""
