"""Which method segments? The one that gives the validation recordings the larger density.

Both methods explain the same observations step by step, so that the logarithms of their densities can be compared:

- ``gates``: the network's predictions with normal errors, whose variances are those of the training part, for steps at
  which a gate is open and for the others apart; each step with an event costs the logarithm of how rare events are.
- ``changes``: the regression whose coefficients change (:mod:`gatel0rd.recordings.changes`).

No labels are used. Where a number of events, a share of open gates or λ was given, the method is ``gates``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gatel0rd.recordings.changes import CONDITION, choose_condition, count_conditioned
from gatel0rd.recordings.detector import ChangeDetector
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.whole import MOST_SEQUENCES, MOST_STEPS, FollowedSequence

MethodName = Literal["gates", "changes"]
SMALLEST = 1e-4
"""Smallest standard deviation of an error, in units of the observations' own: finer detail is no evidence."""


@dataclass(frozen=True)
class MethodChoice:
    """The chosen method, and what it was chosen by.

    Attributes:
        evidence: of each method, nats per step of the validation part.
        detector: finds changes, whichever method was chosen.
    """

    method: MethodName
    evidence: dict[str, float]
    detector: ChangeDetector

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"method": self.method, "evidence": self.evidence, "detector": self.detector.to_json()}

    @staticmethod
    def from_json(content: dict[str, Any]) -> MethodChoice:
        """What :meth:`to_json` gave."""
        return MethodChoice(content["method"], content["evidence"], ChangeDetector.from_json(content["detector"]))


def choose_method(
    train: Recordings,
    validation: Recordings,
    followed: tuple[Sequence[FollowedSequence], Sequence[FollowedSequence]] | None,
    *,
    asked: MethodName | None = None,
) -> MethodChoice:
    """Learn a change detector, and compare it with a network.

    Args:
        followed: the network on sequences of the training and of the validation part; None if it has no gates.
        asked: the method that is to be used whatever is found.
    """
    detector = ChangeDetector.learn(train)
    shown = shorten(validation)
    condition = choose_condition(shown.lengths)
    steps = count_conditioned(shown.lengths, condition)
    evidence = {"changes": detector.measure_evidence(shown, condition) / steps}
    if followed is not None:
        evidence["gates"] = measure_gate_evidence(*followed, condition) / steps
    best: MethodName = "gates" if evidence.get("gates", -math.inf) > evidence["changes"] else "changes"
    return MethodChoice(asked or best, evidence, detector)


def shorten(recordings: Recordings) -> Recordings:
    """The part of recordings that is measured while training."""
    taken = recordings.take(range(min(MOST_SEQUENCES, len(recordings))))
    return taken if taken.lengths.max() <= MOST_STEPS else taken.cut(MOST_STEPS)


def measure_gate_evidence(
    train: Sequence[FollowedSequence], validation: Sequence[FollowedSequence], condition: int = CONDITION
) -> float:
    """Logarithm of the density of validation sequences, after their first steps (``condition``)."""
    opened = np.concatenate([is_open(entry) for entry in train])
    errors = np.concatenate([entry.errors for entry in train]).astype(np.float64)
    variances = np.stack(
        [
            np.maximum(np.square(errors[chosen if chosen.any() else ~chosen]).mean(axis=0), SMALLEST**2)
            for chosen in (~opened, opened)
        ]
    )
    hazard = min(0.5, max(1 / (len(opened) + 1), sum(len(entry.boundaries) for entry in train) / len(opened)))
    total = 0.0
    for entry in validation:
        chosen = variances[is_open(entry).astype(int)]
        density = -0.5 * (np.log(2 * np.pi * chosen) + np.square(entry.errors, dtype=np.float64) / chosen)
        steps, events = len(density) - condition, int((entry.boundaries >= condition).sum())
        if steps > 0:
            total += float(density[condition:].sum())
            total += events * math.log(hazard) + (steps - events) * math.log1p(-hazard)
    return total


def is_open(entry: FollowedSequence) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The steps at which any gate is open."""
    assert entry.gates is not None
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.any(entry.gates > 0, axis=-1)
    return found
