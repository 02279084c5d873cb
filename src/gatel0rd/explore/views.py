"""What the page is sent: pure functions of models and arrays to plain data without NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.explore.models import ExploredModel
from gatel0rd.models.events import find_events
from gatel0rd.models.fitted import FittedModel
from gatel0rd.recordings.segmentation import segment_by_changes

LONGEST = 5000
"""Steps of a sequence that are shown; later ones are left out."""
DIGITS = 6


@dataclass(frozen=True)
class Edit:
    """Another value of a variable at one step."""

    step: int
    variable: str
    value: float


def to_plain(values: NDArray[Any]) -> list[Any]:
    """Numbers as lists, with six significant digits or as many as tell them apart; NaN and infinity become None."""
    digits = count_digits(values) if values.dtype == np.float64 else DIGITS
    array = np.asarray(values, dtype=np.float64)
    short = [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in array.ravel().tolist()]
    listed: list[Any] = np.array(short, dtype=object).reshape(array.shape).tolist()
    return listed


def count_digits(values: NDArray[np.float64]) -> int:
    """Significant digits that show how values differ."""
    finite = values[np.isfinite(values)]
    spread, largest = (float(np.ptp(finite)), float(np.abs(finite).max())) if finite.size else (0.0, 0.0)
    if not 0 < spread < largest:
        return DIGITS
    return min(17, DIGITS + math.ceil(math.log10(largest / spread)))


def to_number(value: float) -> float | None:
    """A number, or None if it is not finite."""
    found: float | None = to_plain(np.array([value]))[0]
    return found


def make_overview(models: Sequence[ExploredModel]) -> dict[str, Any]:
    """Models, sequences and variables, without their values."""
    recordings = models[0].recordings
    variables: dict[str, dict[str, Any]] = {}
    for kind in ("observation", "action"):
        for explored in models:
            own = explored.recordings
            values = own.observations if kind == "observation" else own.actions
            names = own.observation_names if kind == "observation" else own.action_names
            for column, name in enumerate(names):
                spread = to_number(float(np.ptp(values[:, column])))
                variables.setdefault(name, {"name": name, "kind": kind, "spread": spread})
    return {
        "models": [
            {
                "name": explored.name,
                "cell": explored.model.cell,
                "gated": has_gates(explored.model),
                "scenario": explored.scenario,
                "init_steps": explored.model.model.config.init_steps,
                "observations": list(explored.model.observation_names),
                "actions": list(explored.model.action_names),
                "method": explored.method,
                "purpose": explored.model.info.get("purpose"),
                **describe_curve(explored),
            }
            for explored in models
        ],
        "sequences": [
            {"name": name, "length": shown_length(int(length)), "whole_length": int(length)}
            for name, length in zip(recordings.names, recordings.lengths, strict=True)
        ],
        "variables": list(variables.values()),
    }


def describe_curve(explored: ExploredModel) -> dict[str, Any]:
    """Events per sequence and errors of the models that the fit went through, and which of them it chose.

    Points are in the order of falling prices of open gates; each has the ``point`` that it is asked for by.
    """
    info = explored.model.info
    points = [
        {"point": place, **{name: to_number(float(entry[name])) for name in ("price", "events", "error", "open_rate")}}
        for place, entry in enumerate(info["curve"] if explored.model.variants else [])
    ]
    for entry in points:
        if entry["point"] == info.get("chosen"):  # it was trained on after it was chosen
            entry |= {name: to_number(float(info[name])) for name in ("events", "error", "open_rate")}
    return {"curve": points[::-1], "chosen": info.get("chosen") if points else None}


def shown_length(length: int) -> int:
    """How many steps of a sequence are shown."""
    return min(length, LONGEST)


def has_gates(model: FittedModel) -> bool:
    """Whether a model's cell has gates that open and close."""
    return model.model.core.noise_size > 0


def list_values(models: Sequence[ExploredModel], index: int) -> dict[str, list[Any]]:
    """The values of every variable of any model in one sequence."""
    columns: dict[str, list[Any]] = {}
    for explored in models:
        names = (explored.model.observation_names, explored.model.action_names)
        for own, values in zip(names, explored.recordings.sequence(index), strict=True):
            columns |= {name: to_plain(values[:LONGEST, i]) for i, name in enumerate(own) if name not in columns}
    return columns


def predict_sequence(
    explored: ExploredModel,
    index: int,
    *,
    real_steps: int | None = None,
    edits: Sequence[Edit] = (),
    point: int | None = None,
) -> dict[str, Any]:
    """One sequence as a model sees it; errors are against the recording, in the model's units.

    Row t is about input t: its prediction is of step t + 1. From input ``real_steps`` on the model runs freely. At a
    ``point`` of the fit's curve the weights are those of another price of open gates.
    """
    model = explored.take_point(point)
    observations, actions = (values[:LONGEST] for values in explored.recordings.sequence(index))
    seen, acted = _edit(model, observations, actions, edits)
    real = len(seen) - 1 if real_steps is None else max(real_steps, model.model.config.init_steps)
    scale = np.array(model.observation_scaling.scale)
    with np.errstate(over="ignore", invalid="ignore"):  # free-running may explode
        trajectory = model.run(seen, acted, real_steps=real)
        squared = (((trajectory.predictions - observations[1:]) / scale) ** 2).mean(axis=1)
    gates = trajectory.gates
    return {
        "predictions": {name: to_plain(trajectory.predictions[:, i]) for i, name in enumerate(model.observation_names)},
        "latents": to_plain(trajectory.latents.T),
        "gates": None if gates is None else to_plain(gates.T),
        "events": [] if gates is None else list_events(gates),
        "open_rate": None if gates is None else to_number(float((gates > 0).mean())),
        "changes": find_changes(explored, index, seen, acted) if edits else list_changes(explored, index),
        "real_steps": real,
        "one_step_error": to_number(float(squared[:real].mean())),
        "free_error": to_number(float(squared[real:].mean())) if real < len(squared) else None,
    }


def list_changes(explored: ExploredModel, index: int) -> dict[str, Any] | None:
    """The changes of a recorded sequence, which are looked for once."""
    if index not in explored.known_changes:
        observations, actions = (values[:LONGEST] for values in explored.recordings.sequence(index))
        explored.known_changes[index] = find_changes(explored, index, observations, actions)
    return explored.known_changes[index]


def find_changes(
    explored: ExploredModel, index: int, observations: NDArray[Any], actions: NDArray[Any]
) -> dict[str, Any] | None:
    """The boundaries that the method ``changes`` finds; None if the model was not fitted to know them.

    Labels are of the segments between them, counted in this sequence alone.
    """
    if explored.detector is None:
        return None
    own = replace(
        explored.recordings.take([index]),
        observations=observations,
        actions=actions,
        lengths=np.array([len(observations)], dtype=np.int64),
        times=None,
    )
    (found,) = segment_by_changes(explored.detector, own)
    return {
        "times": list(found.boundaries),
        "probabilities": [to_number(value) for value in found.probabilities],
        "variables": [{name: to_number(share) for name, share in own.items()} for own in found.variables],
        "labels": list(found.labels),
    }


def _edit(
    model: FittedModel, observations: NDArray[Any], actions: NDArray[Any], edits: Sequence[Edit]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Copies with other values; edits of variables that the model does not have change nothing."""
    seen, acted = observations.copy(), actions.copy()
    for edit in edits:
        if edit.variable in model.observation_names:
            seen[edit.step, model.observation_names.index(edit.variable)] = edit.value
        elif edit.variable in model.action_names:
            acted[edit.step, model.action_names.index(edit.variable)] = edit.value
    return seen, acted


def list_events(gates: NDArray[Any]) -> list[int]:
    """The steps of events, as everywhere in this package. Shape: [T, G]."""
    return [event.time for event in find_events(gates)]
