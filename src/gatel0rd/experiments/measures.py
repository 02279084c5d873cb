"""What is measured on a model beyond its error, per scenario; the results go into the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.data import Dataset
from gatel0rd.models import Rollout, WorldModel
from gatel0rd.training import SEQUENCES_AT_ONCE, time_first

Measures = dict[str, Any]
Events = dict[str, NDArray[np.bool_]]
TOLERANCE = 1
"""Steps by which a gate may open too early or too late and still count as opened at an event."""


@torch.no_grad()
def run_in_parts(model: WorldModel, data: Dataset, *, free: bool) -> list[Rollout]:
    """Predictions for every sequence: on its own after the first inputs, or fed with real inputs throughout."""
    observations, actions = time_first(data, model.config)
    run = model.free_run if free else model.forward
    parts = zip(observations[:-1].split(SEQUENCES_AT_ONCE, 1), actions[:-1].split(SEQUENCES_AT_ONCE, 1), strict=True)
    return [run(o, a) for o, a in parts]


def open_gates(model: WorldModel, data: Dataset, *, free: bool) -> NDArray[np.bool_] | None:
    """Which gates are open at which input, [N, T-1, H]; None for a model without gates."""
    gates = [rollout.gates for rollout in run_in_parts(model, data, free=free)]
    if gates[0] is None:
        return None
    return np.concatenate([(part > 0).numpy().swapaxes(0, 1) for part in gates if part is not None])


def gating(model: WorldModel, data: Dataset, events: NDArray[np.bool_]) -> Measures | None:
    """How often any gate is open at inputs with and without an event, real inputs being fed in (Table 2).

    Shape: events [N, T]. None for a model without gates.
    """
    gates = open_gates(model, data, free=False)
    if gates is None:
        return None
    is_open = gates.any(axis=-1)
    event = events[:, : is_open.shape[1]]
    hits, false_alarms = float(is_open[event].mean()), float(is_open[~event].mean())
    return {
        "hits": hits,
        "misses": 1 - hits,
        "false_alarms": false_alarms,
        "correct_rejections": 1 - false_alarms,
    }


def widened(times: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True also within the tolerance of a True. Shape: [N, T] -> [N, T]."""
    wide = times.copy()
    for shift in range(1, TOLERANCE + 1):
        wide[:, shift:] |= times[:, :-shift]
        wide[:, :-shift] |= times[:, shift:]
    return wide


def event_match(is_open: NDArray[np.bool_], events: Events) -> Measures:
    """How well openings of gates and events coincide, within the tolerance.

    ``precision``: share of inputs with an open gate that lie near an event, for each kind and for any of them;
    ``recall``: share of events near which a gate opens. ``chance`` is what openings at random times would reach.

    Shape: is_open [N, T-1], whether any gate opens at that input; each kind of event [N, T], at its observation.
    """
    padded = np.concatenate([is_open, np.zeros_like(is_open[:, :1])], axis=1)  # the last observation is no input
    near_opening = widened(padded)
    kinds = {**events, "any": np.logical_or.reduce(list(events.values()))}
    match: Measures = {"open_times": share(is_open), "events": {}}
    for kind, times in kinds.items():
        near_event = widened(times)
        match["events"][kind] = {
            "count": int(times.sum()),
            "precision": share(near_event[padded]),
            "precision_by_chance": share(near_event[:, :-1]),
            "recall": share(near_opening[times]),
            "recall_by_chance": share(near_opening),
        }
    return match


def share(values: NDArray[np.bool_]) -> float | None:
    """The mean, or None of nothing."""
    return float(values.mean()) if values.size else None


def event_measures(model: WorldModel, data: Dataset, events: Events) -> Measures | None:
    """Openings against events with real inputs and free-running, and how many dimensions sequences change."""
    measures: Measures = {}
    for name, free in (("real inputs", False), ("free-running", True)):
        gates = open_gates(model, data, free=free)
        if gates is None:
            return None
        dims = gates.any(axis=1).sum(axis=-1)  # [N, T-1, H] -> [N]
        counts = np.bincount(dims, minlength=gates.shape[-1] + 1)
        measures[name] = {**event_match(gates.any(axis=-1), events), "dims_histogram": (counts / len(dims)).tolist()}
    return measures


def onsets(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a flag turns on. Shape: [N, T] -> [N, T]."""
    return flags & ~np.concatenate([flags[:, :1], flags[:, :-1]], axis=1)


@torch.no_grad()
def example(model: WorldModel, data: Dataset, index: int, events: Events | None = None) -> Measures:
    """One free-running sequence: observations, predictions, latents relative to h_0, gates; [T-1, ·] each."""
    observations, actions = (tensor[:, [index]] for tensor in time_first(data, model.config))
    rollout = model.free_run(observations[:-1], actions[:-1])
    start = model.core.latents(model.initial(observations, actions))
    return {
        "sequence": index,
        "start": observations[0, 0].tolist(),
        "given": model.config.init_steps,
        "events": {name: np.flatnonzero(times[index]).tolist() for name, times in (events or {}).items()},
        "observations": observations[1:, 0].tolist(),
        "predictions": rollout.predictions[:, 0].tolist(),
        "latents": (rollout.latents - start)[:, 0].tolist(),
        "gates": None if rollout.gates is None else rollout.gates[:, 0].tolist(),
    }


def travelled(data: Dataset, columns: slice) -> NDArray[np.float64]:
    """How far the given coordinates move over each sequence, [N]."""
    path: NDArray[np.float64] = np.abs(np.diff(data.observations[:, :, columns], axis=1)).sum(axis=(1, 2))
    return path


def robot_remote_control(model: WorldModel, evaluations: Mapping[str, Dataset]) -> Measures:
    """Gating at control onset, and two example sequences, on the set with random actions."""
    data = evaluations.get("generalization", evaluations["test"])
    onset = data.labels["onset"]
    events = np.arange(data.recipe.steps) == onset[:, None]
    # a sequence with much to see on both sides
    middle = np.where((onset >= 12) & (onset <= 25), travelled(data, slice(2, 4)), -1)
    chosen = {"control": int(middle.argmax()), "no control": int(np.flatnonzero(onset < 0)[0])}
    examples = {name: example(model, data, index, {"control": events}) for name, index in chosen.items()}
    return {"gating": gating(model, data, events), "examples": examples}


def billiard_ball(model: WorldModel, evaluations: Mapping[str, Dataset]) -> Measures:
    """Gate openings against cushion contacts and drops into pockets, and two sequences with two and three contacts."""
    data = evaluations["test"]
    contacts, pocketed = data.labels["cushion"], data.labels["pocketed"]
    events = {"cushion contact": contacts, "drop": onsets(pocketed)}
    path = travelled(data, slice(0, 2))
    stays = ~pocketed.any(axis=1)
    examples = {}
    for name, count in (("two contacts", 2), ("three contacts", 3)):
        fitting = np.where(stays & (contacts.sum(axis=1) == count), path, -1)
        examples[name] = example(model, data, int(fitting.argmax()), events)
    return {"gating": event_measures(model, data, events), "examples": examples}


def shepherd_events(data: Dataset) -> Events:
    """Moments at which something hidden changes."""
    labels = data.labels
    return {
        "sheep hidden": onsets(labels["hidden"]),
        "gate opened": onsets(labels["gate_open"]),
        "cage grasped": onsets(labels["carried"]),
        "cage dropped": onsets(~labels["carried"]),
        "sheep caught": onsets(labels["caught"]),
    }


def shepherd(model: WorldModel, evaluations: Mapping[str, Dataset]) -> Measures:
    """Gate openings against events, and two sequences: one in which the sheep is caught, one with the gate closed."""
    data = evaluations["test"]
    events = shepherd_events(data)
    chosen = {
        "caught": int(np.flatnonzero(data.labels["caught"].any(axis=1))[0]),
        "gate closed": int(np.flatnonzero(~data.labels["gate_open"].any(axis=1))[0]),
    }
    examples = {name: example(model, data, index, events) for name, index in chosen.items()}
    return {"gating": event_measures(model, data, events), "examples": examples}


def reappearance(model: WorldModel, data: Dataset) -> dict[str, float]:
    """Squared error of the sheep's predicted x when it reappears, real inputs being fed in until then (Fig. 5b)."""
    predictions = torch.cat([rollout.predictions for rollout in run_in_parts(model, data, free=False)], dim=1).numpy()
    sequence = np.flatnonzero(data.labels["reappearance"] > 0)
    time = data.labels["reappearance"][sequence]
    sheep_x = 4
    error = predictions[time - 1, sequence, sheep_x] - data.observations[sequence, time, sheep_x]
    return {"reappearance": float(np.square(error, dtype=np.float64).mean())}


MEASURES: dict[str, Callable[[WorldModel, Mapping[str, Dataset]], Measures]] = {
    "rrc": robot_remote_control,
    "billiard": billiard_ball,
    "shepherd": shepherd,
}
"""Scenario name -> what is measured after training."""

CURVE_MEASURES: dict[str, Callable[[WorldModel, Dataset], dict[str, float]]] = {"shepherd": reappearance}
"""Scenario name -> what is measured with the error, at every evaluation during training."""
