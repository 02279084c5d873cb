"""What is measured on a model beyond its error, per scenario; the results go into the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.models import Rollout, WorldModel
from gatel0rd.models.events import event_starts
from gatel0rd.training import join_gates, run_in_parts, time_first
from gatel0rd.training.dataset import Dataset

Measures = dict[str, Any]
Events = dict[str, NDArray[np.bool_]]
TOLERANCES = (1, 3)
"""Steps by which a gate may be open too early or too late and still count as open at an event."""


@torch.no_grad()
def rollouts(model: WorldModel, data: Dataset, *, free: bool) -> list[Rollout]:
    """Predictions for every sequence: on its own after the first inputs, or fed with real inputs throughout."""
    return run_in_parts(model.free_run if free else model.forward, *time_first(data, model.config))


def open_gates(model: WorldModel, data: Dataset, *, free: bool) -> NDArray[np.bool_] | None:
    """Which gates are open at which input, [N, T-1, H]; None for a model without gates."""
    gates = join_gates(rollouts(model, data, free=free))
    return None if gates is None else (gates > 0).numpy().swapaxes(0, 1)


def gating(model: WorldModel, data: Dataset, events: NDArray[np.bool_]) -> Measures | None:
    """How often any gate is open at inputs with and without an event, real inputs being fed in (Table 2).

    Shape: events [N, T]. None for a model without gates.
    """
    gates = open_gates(model, data, free=False)
    if gates is None:
        return None
    is_open: NDArray[np.bool_] = np.any(gates, axis=-1)
    event = events[:, : is_open.shape[1]]
    hits, false_alarms = float(is_open[event].mean()), float(is_open[~event].mean())
    return {
        "hits": hits,
        "misses": 1 - hits,
        "false_alarms": false_alarms,
        "correct_rejections": 1 - false_alarms,
    }


def widened(times: NDArray[np.bool_], tolerance: int) -> NDArray[np.bool_]:
    """True also within the tolerance of a True. Shape: [N, T] -> [N, T]."""
    wide = times.copy()
    for shift in range(1, tolerance + 1):
        wide[:, shift:] |= times[:, :-shift]
        wide[:, :-shift] |= times[:, shift:]
    return wide


def event_match(is_open: NDArray[np.bool_], events: Events, counted: NDArray[np.bool_]) -> Measures:
    """How well open gates and events coincide, within each tolerance.

    ``precision``: share of inputs with an open gate that lie near an event; ``opening_precision``: the same for inputs
    at which a gate opens after all were closed; ``recall``: share of events near which a gate is open. ``by_chance``:
    what gates that are open at random times would reach. Each kind of event is judged alone, and ``any`` of them.

    Shape: is_open [N, T-1], whether any gate is open at that input; events [N, T], at their observations; counted
    [N, T], False where inputs are left out.
    """
    counted = counted[:, :-1]
    is_open = is_open & counted
    opens = event_starts(is_open, closed_before=True)
    padded = np.concatenate([is_open, np.zeros_like(is_open[:, :1])], axis=1)  # the last observation is no input
    near_open = {tolerance: widened(padded, tolerance) for tolerance in TOLERANCES}
    match: Measures = {
        "open_times": share(is_open[counted]),
        "openings_per_sequence": float(opens.sum(axis=1).mean()),
        "events": {},
    }
    for kind, times in {**events, "any": np.logical_or.reduce(list(events.values()))}.items():
        found: Measures = {"count": int(times.sum())}
        for tolerance in TOLERANCES:
            near_event = widened(times, tolerance)[:, :-1]
            found[str(tolerance)] = {
                "precision": share(near_event[is_open]),
                "opening_precision": share(near_event[opens]),
                "precision_by_chance": share(near_event[counted]),
                "recall": share(near_open[tolerance][times]),
                "recall_by_chance": share(near_open[tolerance][:, :-1][counted]),
            }
        match["events"][kind] = found
    return match


def share(values: NDArray[np.bool_]) -> float | None:
    """The mean, or None of nothing."""
    return float(values.mean()) if values.size else None


def event_measures(model: WorldModel, data: Dataset, events: Events) -> Measures | None:
    """Gates against events with real inputs and free-running, and how many dimensions sequences change.

    A ball that rests in a pocket is left out: nothing can happen to it.
    """
    counted = ~data.labels.get("pocketed", np.zeros(data.observations.shape[:2], dtype=bool))
    measures: Measures = {}
    for name, free in (("real inputs", False), ("free-running", True)):
        gates = open_gates(model, data, free=free)
        if gates is None:
            return None
        dims = gates.any(axis=1).sum(axis=-1)  # [N, T-1, H] -> [N]
        counts = np.bincount(dims, minlength=gates.shape[-1] + 1)
        match = event_match(np.any(gates, axis=-1), events, counted)
        measures[name] = {**match, "dims_histogram": (counts / len(dims)).tolist()}
    return measures


def onsets(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a flag turns on. Shape: [N, T] -> [N, T]."""
    turned: NDArray[np.bool_] = flags & ~np.concatenate([flags[:, :1], flags[:, :-1]], axis=1)
    return turned


@torch.no_grad()
def example(model: WorldModel, data: Dataset, index: int) -> Measures:
    """One free-running sequence: observations, predictions, latents relative to h_0, gates; [T-1, ·] each."""
    observations, actions = (tensor[:, [index]] for tensor in time_first(data, model.config))
    rollout = model.free_run(observations[:-1], actions[:-1])
    start = model.core.latents(model.initial(observations, actions))
    events = EVENTS[data.recipe.scenario](data)
    return {
        "sequence": index,
        "start": observations[0, 0].tolist(),
        "given": model.config.init_steps,
        "events": {name: np.flatnonzero(times[index]).tolist() for name, times in events.items()},
        "observations": observations[1:, 0].tolist(),
        "predictions": rollout.predictions[:, 0].tolist(),
        "latents": (rollout.latents - start)[:, 0].tolist(),
        "gates": None if rollout.gates is None else rollout.gates[:, 0].tolist(),
    }


def travelled(data: Dataset, columns: slice) -> NDArray[np.float64]:
    """How far the given coordinates move over each sequence, [N]."""
    path: NDArray[np.float64] = np.abs(np.diff(data.observations[:, :, columns], axis=1)).sum(axis=(1, 2))
    return path


def control_events(data: Dataset) -> Events:
    """The first observation at which the robot is controlled."""
    return {"control": np.arange(data.recipe.steps) == data.labels["onset"][:, None]}


def control_examples(data: Dataset) -> dict[str, int]:
    """A sequence with control, with much to see before and after it, and one without."""
    onset = data.labels["onset"]
    middle = np.where((onset >= 12) & (onset <= 25), travelled(data, slice(2, 4)), -1)
    return {"control": int(middle.argmax()), "no control": int(np.flatnonzero(onset < 0)[0])}


def billiard_events(data: Dataset) -> Events:
    """Touches of a cushion, and drops into a pocket."""
    return {"cushion contact": data.labels["cushion"], "drop": onsets(data.labels["pocketed"])}


def billiard_examples(data: Dataset) -> dict[str, int]:
    """The longest paths with two and with three contacts."""
    path, contacts = travelled(data, slice(0, 2)), data.labels["cushion"].sum(axis=1)
    stays = ~data.labels["pocketed"].any(axis=1)
    return {
        name: int(np.where(stays & (contacts == count), path, -1).argmax())
        for name, count in (("two contacts", 2), ("three contacts", 3))
    }


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


def shepherd_examples(data: Dataset) -> dict[str, int]:
    """A sequence in which the sheep is caught, and one in which the gate stays closed."""
    return {
        "caught": int(np.flatnonzero(data.labels["caught"].any(axis=1))[0]),
        "gate closed": int(np.flatnonzero(~data.labels["gate_open"].any(axis=1))[0]),
    }


def grasp_events(data: Dataset) -> Events:
    """The first grasp, and when the object starts to move and comes to rest."""
    moves = data.labels["moves"]
    return {
        "grasp": np.arange(data.recipe.steps) == data.labels["grasp"][:, None],
        "object moves": onsets(moves),
        "object rests": onsets(~moves),
    }


def grasp_examples(data: Dataset) -> dict[str, int]:
    """The objects that are carried furthest after a late and after an early grasp."""
    grasp, path = data.labels["grasp"], travelled(data, slice(3, 6))
    held = grasp[grasp >= 0]
    middle = float(np.median(held)) if len(held) else 0.0
    late, early = grasp > middle, (grasp >= 0) & (grasp <= middle)
    return {
        "late grasp": int(np.where(late, path, -1).argmax()),
        "early grasp": int(np.where(early, path, -1).argmax()),
    }


def reappearance(model: WorldModel, data: Dataset) -> dict[str, float]:
    """Squared error of the sheep's predicted x when it reappears, real inputs being fed in until then (Fig. 5b)."""
    predictions = torch.cat([rollout.predictions for rollout in rollouts(model, data, free=False)], dim=1).numpy()
    sequence = np.flatnonzero(data.labels["reappearance"] > 0)
    time = data.labels["reappearance"][sequence]
    sheep_x = 4
    error = predictions[time - 1, sequence, sheep_x] - data.observations[sequence, time, sheep_x]
    return {"reappearance": float(np.square(error, dtype=np.float64).mean())}


EVENTS: dict[str, Callable[[Dataset], Events]] = {
    "rrc": control_events,
    "billiard": billiard_events,
    "shepherd": shepherd_events,
    "fetch": grasp_events,
    "fetch-diverse": grasp_events,
}
"""Scenario name -> its labelled events, [N, T] each."""

EXAMPLES: dict[str, Callable[[Dataset], dict[str, int]]] = {
    "rrc": control_examples,
    "billiard": billiard_examples,
    "shepherd": shepherd_examples,
    "fetch": grasp_examples,
    "fetch-diverse": grasp_examples,
}
"""Scenario name -> sequences worth looking at."""


def measure(scenario: str, model: WorldModel, evaluations: Mapping[str, Dataset]) -> Measures:
    """Gates at events, and examples, after training; on the generalization set where there is one."""
    data = evaluations.get("generalization", evaluations["test"])
    events = EVENTS[scenario](data)
    gates = gating(model, data, events["control"]) if scenario == "rrc" else event_measures(model, data, events)
    return {
        "gating": gates,
        "examples": {name: example(model, data, index) for name, index in EXAMPLES[scenario](data).items()},
    }


CURVE_MEASURES: dict[str, Callable[[WorldModel, Dataset], dict[str, float]]] = {"shepherd": reappearance}
"""Scenario name -> what is measured with the error, at every evaluation during training."""
