"""What the page is sent: pure functions of models and arrays to plain data without NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.explore.subjects import Subject
from gatel0rd.models.events import boundaries, find_events

LONGEST = 5000
"""Steps of a sequence that are shown; later ones are left out."""


@dataclass(frozen=True)
class Edit:
    """Another value of a variable at one step."""

    step: int
    variable: str
    value: float


def plain(values: NDArray[Any]) -> list[Any]:
    """Numbers with six significant digits as lists; what is not finite becomes None."""
    array = np.asarray(values, dtype=np.float64)
    short = [float(f"{value:.6g}") if math.isfinite(value) else None for value in array.ravel().tolist()]
    listed: list[Any] = np.array(short, dtype=object).reshape(array.shape).tolist()
    return listed


def number(value: float) -> float | None:
    """A number, or None if it is not finite."""
    found: float | None = plain(np.array([value]))[0]
    return found


def overview(subjects: Sequence[Subject]) -> dict[str, Any]:
    """Models, sequences and variables, without their values."""
    recordings = subjects[0].recordings
    variables: dict[str, dict[str, Any]] = {}
    for kind in ("observation", "action"):
        for subject in subjects:
            own = subject.recordings
            values = own.observations if kind == "observation" else own.actions
            names = own.observation_names if kind == "observation" else own.action_names
            for column, name in enumerate(names):
                spread = number(float(np.ptp(values[:, column])))
                variables.setdefault(name, {"name": name, "kind": kind, "spread": spread})
    return {
        "models": [
            {
                "name": subject.name,
                "cell": subject.model.cell,
                "scenario": subject.scenario,
                "init_steps": subject.model.model.config.init_steps,
                "observations": list(subject.model.observation_names),
                "actions": list(subject.model.action_names),
            }
            for subject in subjects
        ],
        "sequences": [
            {"name": name, "length": shown_length(int(length)), "whole_length": int(length)}
            for name, length in zip(recordings.names, recordings.lengths, strict=True)
        ],
        "variables": list(variables.values()),
    }


def shown_length(length: int) -> int:
    """How many steps of a sequence are shown."""
    return min(length, LONGEST)


def recorded(subjects: Sequence[Subject], index: int) -> dict[str, list[Any]]:
    """The values of every variable in one sequence."""
    columns: dict[str, list[Any]] = {}
    for subject in subjects:
        names = (subject.model.observation_names, subject.model.action_names)
        for own, values in zip(names, subject.recordings.sequence(index), strict=True):
            columns |= {name: plain(values[:LONGEST, i]) for i, name in enumerate(own) if name not in columns}
    return columns


def predicted(
    subject: Subject, index: int, *, real_steps: int | None = None, edits: Sequence[Edit] = ()
) -> dict[str, Any]:
    """One sequence as a model sees it; errors are against the recording, in the model's units.

    Row t is about input t: its prediction is of step t + 1. From input ``real_steps`` on the model runs freely.
    """
    observations, actions = (values[:LONGEST] for values in subject.recordings.sequence(index))
    model = subject.model
    seen, acted = observations.copy(), actions.copy()
    for edit in edits:
        if edit.variable in model.observation_names:
            seen[edit.step, model.observation_names.index(edit.variable)] = edit.value
        elif edit.variable in model.action_names:
            acted[edit.step, model.action_names.index(edit.variable)] = edit.value
    real = len(seen) - 1 if real_steps is None else max(real_steps, model.model.config.init_steps)
    scale = np.array(model.observation_scaling.scale)
    with np.errstate(over="ignore", invalid="ignore"):  # free-running may explode
        course = model.run(seen, acted, real_steps=real)
        squared = (((course.predictions - observations[1:]) / scale) ** 2).mean(axis=1)
    return {
        "predictions": {name: plain(course.predictions[:, i]) for i, name in enumerate(model.observation_names)},
        "latents": plain(course.latents.T),
        "gates": None if course.gates is None else plain(course.gates.T),
        "events": [] if course.gates is None else events(course.gates),
        "open_rate": None if course.gates is None else number(float((course.gates > 0).mean())),
        "real_steps": real,
        "one_step_error": number(float(squared[:real].mean())),
        "free_error": number(float(squared[real:].mean())) if real < len(squared) else None,
    }


def events(gates: NDArray[Any]) -> list[int]:
    """Steps at which a gate opens that was closed before. Shape: [T, G]."""
    times: list[int] = boundaries(find_events(gates)).tolist()
    return times
