"""What is measured on a model beyond its error; the results go into the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.models import Rollout, WorldModel
from gatel0rd.models.events import event_starts
from gatel0rd.training import join_gates, run_in_parts, time_first
from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds import World, registry
from gatel0rd.worlds.events import Events

Measures = dict[str, Any]
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


def widen(times: NDArray[np.bool_], tolerance: int) -> NDArray[np.bool_]:
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
    near_open = {tolerance: widen(padded, tolerance) for tolerance in TOLERANCES}
    match: Measures = {
        "open_times": share(is_open[counted]),
        "openings_per_sequence": float(opens.sum(axis=1).mean()),
        "events": {},
    }
    for kind, times in {**events, "any": np.logical_or.reduce(list(events.values()))}.items():
        found: Measures = {"count": int(times.sum())}
        for tolerance in TOLERANCES:
            near_event = widen(times, tolerance)[:, :-1]
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

    Where nothing can happen any more, as to a ball in a pocket, nothing is counted.
    """
    counted = ~registry.get(data.recipe.scenario).is_over(data)
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


@torch.no_grad()
def example(model: WorldModel, data: Dataset, index: int) -> Measures:
    """One free-running sequence: observations, predictions, latents relative to h_0, gates; [T-1, ·] each."""
    observations, actions = (tensor[:, [index]] for tensor in time_first(data, model.config))
    rollout = model.free_run(observations[:-1], actions[:-1])
    start = model.core.latents(model.initial(observations, actions))
    events = registry.get(data.recipe.scenario).events(data)
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


NEAR = max(TOLERANCES)
"""Steps around an event within which a change of the latent state counts as one at the event."""


def changed_dimensions(model: WorldModel, data: Dataset) -> NDArray[np.bool_]:
    """Which dimensions of the latent state change at which input, free-running, [N, T-1, D].

    With gates that is where a gate is open, because a closed one leaves its dimension as it is, bit by bit. Without
    gates every latent state is compared with the one before; at the first input nothing counts as a change.
    """
    parts = rollouts(model, data, free=True)
    gates = join_gates(parts)
    if gates is not None:
        return (gates > 0).numpy().swapaxes(0, 1)
    latents = torch.cat([part.latents for part in parts], dim=1).numpy().swapaxes(0, 1)  # [N, T-1, D]
    changed = np.zeros(latents.shape, dtype=bool)
    changed[:, 1:] = latents[:, 1:] != latents[:, :-1]
    return changed


def latent_measures(
    changed: NDArray[np.bool_], event: NDArray[np.bool_], counted: NDArray[np.bool_]
) -> dict[str, Measures]:
    """How latent states change in sequences ``with`` an event and in those ``without`` it.

    ``dimensions``: how many dimensions ever change, and ``dimensions_near_event``: how many within :data:`NEAR` steps
    of the event, medians over sequences; ``unchanged``: share of the sequences in which nothing changes;
    ``changed_share``: share of the latent state that changes from a step to the next. None where there are no such
    sequences; one that is left out from its first input on counts nowhere.

    Shape: changed [N, T-1, D]; event [N, T]; counted [N, T], False where inputs are left out.
    """
    counted = counted[:, :-1]
    changed = changed & counted[:, :, None]
    near = changed & widen(event, NEAR)[:, :-1, None]
    happens, something = event.any(axis=1), counted.any(axis=1)
    found = {}
    for name, rows in (("with", happens & something), ("without", ~happens & something)):
        dims = changed[rows].any(axis=1).sum(axis=1)  # [n]
        steps = int(counted[rows, 1:].sum())
        found[name] = {
            "sequences": int(rows.sum()),
            "dimensions": float(np.median(dims)) if dims.size else None,
            "dimensions_near_event": float(np.median(near[rows].any(axis=1).sum(axis=1)))
            if dims.size and name == "with"
            else None,
            "unchanged": share(dims == 0),
            "changed_share": float(changed[rows, 1:].sum() / (steps * changed.shape[2])) if steps else None,
        }
    return found


def measure_latents(world: World, model: WorldModel, data: Dataset) -> Measures | None:
    """:func:`latent_measures` by the world's own event; None if it names none."""
    if world.memory_event is None:
        return None
    events = world.events(data)
    if world.memory_event not in events:
        known = ", ".join(events) or "none"
        raise ValueError(
            f"{world.title} has the memory_event {world.memory_event!r}; expected one of its events: {known}"
        )
    changed, counted = changed_dimensions(model, data), ~world.is_over(data)
    return {world.memory_event: latent_measures(changed, events[world.memory_event], counted)}


def choose_evaluation(evaluations: Mapping[str, Dataset]) -> Dataset:
    """What is measured on: the generalization set where there is one, or else the test set."""
    return evaluations.get("generalization", evaluations["test"])


def measure(scenario: str, model: WorldModel, evaluations: Mapping[str, Dataset]) -> Measures:
    """Gates at events, changes of the latent state, and examples; on the generalization set where there is one."""
    world = registry.get(scenario)
    data = choose_evaluation(evaluations)
    return {
        "gating": measure_gates(world, model, data),
        "latents": measure_latents(world, model, data),
        "examples": {name: example(model, data, index) for name, index in world.examples(data).items()},
    }


def measure_gates(world: World, model: WorldModel, data: Dataset) -> Measures | None:
    """Gates against the events of a world; None if it has no events, or the model no gates."""
    events = world.events(data)
    if not events:
        return None
    if world.exact_event is not None:
        return gating(model, data, events[world.exact_event])
    return event_measures(model, data, events)
