"""A change detector for recordings: learns which explanation fits them best, then finds boundaries in it.

The explanation is the one with the largest evidence for the recordings. Its evidence on recordings that it was not
learned from can be compared with a network's, as both are densities of the same observations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.config import from_json
from gatel0rd.models.events import keep_apart
from gatel0rd.models.fitted import Scaling
from gatel0rd.recordings.changes import (
    CONDITION,
    FLOOR,
    Partition,
    Prior,
    Statistics,
    choose_condition,
    estimate_prior,
    measure_evidence,
    partition,
    refine_prior,
)
from gatel0rd.recordings.explanations import Array, Design, Explanation, build_design, propose_explanations
from gatel0rd.recordings.recordings import Recordings

LEARNED_FROM, LONGEST = 40, 1000
"""Sequences, and steps of each, that a detector is learned from at most."""
ROUNDS = 3
BATCH_NUMBERS = 4_000_000
"""Numbers that a batch of sequences may hold in memory."""
MOST_LABELS = 100
"""Labels of segments; what fits none of them then gets the label of the most similar."""


@dataclass(frozen=True)
class Change:
    """A boundary.

    Attributes:
        time: the row at which something new begins.
        probability: that the two segments around it differ.
        variables: of each observed column, how many nats of evidence it adds.
    """

    time: int
    probability: float
    variables: tuple[float, ...]


@dataclass(frozen=True)
class ChangeDetector:
    """Finds where the regression of an explanation changes.

    Attributes:
        name, explanation, prior: what explains the recordings best.
        observations, actions: scaling of the columns.
        evidence: of every explanation, nats per step on the recordings that it was learned from.
    """

    name: str
    explanation: Explanation
    prior: Prior
    observations: Scaling
    actions: Scaling
    evidence: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def learn(recordings: Recordings) -> ChangeDetector:
        """Compare all explanations on some of the recordings, and keep the best."""
        scalings = (Scaling.of(recordings.observations), Scaling.of(recordings.actions))
        chosen = np.unique(np.linspace(0, len(recordings) - 1, min(len(recordings), LEARNED_FROM)).astype(int))
        pieces = []
        for index in chosen:
            observations, actions = recordings.sequence(int(index))
            first = (len(observations) - LONGEST) // 2 if len(observations) > LONGEST else 0
            pieces.append(
                [
                    scaling.transform(rows[first : first + LONGEST]).astype(np.float64)
                    for scaling, rows in zip(scalings, (observations, actions), strict=True)
                ]
            )
        change = np.concatenate([np.diff(piece[0], axis=0) for piece in pieces]).std(axis=0)
        floor = FLOOR * np.minimum(1.0, change) + 1e-6
        steps = sum(len(piece[0]) - 1 for piece in pieces)
        condition = choose_condition(np.array([len(piece[0]) for piece in pieces]))
        evidence: dict[str, float] = {}
        best: tuple[str, Explanation, Prior] | None = None
        explanations = propose_explanations(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))
        for name, explanation in explanations.items():
            designs = [build_design(explanation, *piece) for piece in pieces]
            prior = estimate_prior(designs, floor, memory=explanation.memory, outliers=explanation.outliers)
            for _ in range(ROUNDS):
                found, _ = partition_in_batches(designs, prior)
                prior = refine_prior(designs, found, prior, floor)
            evidence[name] = float(partition_in_batches(designs, prior, condition)[1].sum()) / steps
            if best is None or evidence[name] > evidence[best[0]]:
                best = (name, explanation, prior)
        assert best is not None
        return ChangeDetector(*best, *scalings, evidence)

    def design(self, observations: NDArray[Any], actions: NDArray[Any]) -> Design:
        """The regression of one sequence, in the data's units. Shape: [T, O], [T, A]."""
        seen, given = self.observations.transform(observations), self.actions.transform(actions)
        return build_design(self.explanation, seen.astype(np.float64), given.astype(np.float64))

    def designs(self, recordings: Recordings) -> list[Design]:
        """The regression of every sequence."""
        return [self.design(*recordings.sequence(index)) for index in range(len(recordings))]

    def measure_evidence(self, recordings: Recordings, condition: int = CONDITION) -> float:
        """Logarithm of the density of recordings, in the detector's units, over all boundaries they may have.

        Args:
            condition: steps at the beginning of every sequence that are taken as given.
        """
        return float(partition_in_batches(self.designs(recordings), self.prior, condition)[1].sum())

    def find(self, recordings: Recordings, *, apart: int) -> list[list[Change]]:
        """The boundaries of every sequence, at least ``apart`` steps apart."""
        designs = self.designs(recordings)
        found, _ = partition_in_batches(designs, self.prior)
        changes = []
        for design, cuts in zip(designs, found, strict=True):
            edges = [0, *cuts, len(design.targets)]
            judged = [self._judge(design, *edges[place : place + 3]) for place in range(len(cuts))]
            changes.append(join_changes(judged, apart))
        return changes

    def segment_statistics(self, design: Design, cuts: Sequence[int]) -> list[Statistics]:
        """What each segment between boundaries (rows) says about its coefficients and noise."""
        edges = [0, *(cut - 1 for cut in cuts), len(design.targets)]
        return [self._statistics(design, first, last) for first, last in pairwise(edges)]

    def label_segments(self, segments: Sequence[Sequence[Statistics]]) -> list[list[int]]:
        """A number for every segment, the same for segments that one set of coefficients explains better than two."""
        kinds: list[Statistics] = []
        known: list[float] = []  # the evidence of each kind
        labels: list[list[int]] = []
        for sequence in segments:
            labels.append([])
            for own in sequence:
                joined = [kind + own for kind in kinds]
                alone, *together = measure_evidence(self.prior, [own, *joined]).sum(axis=-1).tolist()
                gains = [both - before - alone for both, before in zip(together, known, strict=True)]
                best = int(np.argmax(gains)) if gains else -1
                if best >= 0 and gains[best] > 0:
                    kinds[best], known[best] = joined[best], together[best]
                elif len(kinds) < MOST_LABELS:
                    best = len(kinds)
                    kinds.append(own)
                    known.append(alone)
                labels[-1].append(best)
        return labels

    def _statistics(self, design: Design, first: int, last: int) -> Statistics:
        return Statistics.of(design, min(last, first + self.prior.memory), last)

    def _judge(self, design: Design, first: int, cut: int, last: int) -> Change:
        """What a boundary between two segments is worth, by channel."""
        memory, prior = self.prior.memory, self.prior
        reach = min(last, cut + memory)  # what lies between the segments is explained by neither
        apart = self._statistics(design, first, cut).evidence(prior) + Statistics.of(design, reach, last).evidence(
            prior
        )
        apart = apart + sum(Statistics.of(design, step, step + 1).evidence(prior) for step in range(cut, reach))
        together = Statistics.of(design, min(cut, first + memory), last).evidence(prior)
        gain = apart - together
        odds = min(50.0, max(-50.0, float(gain.sum()) + math.log(prior.hazard)))
        return Change(cut + 1, 1 / (1 + math.exp(-odds)), tuple(float(value) for value in gain))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        prior = {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self.prior).items()
        }
        return {
            "name": self.name,
            "explanation": asdict(self.explanation),
            "prior": prior,
            "observations": asdict(self.observations),
            "actions": asdict(self.actions),
            "evidence": self.evidence,
        }

    @staticmethod
    def from_json(content: dict[str, Any]) -> ChangeDetector:
        """What :meth:`to_json` gave."""
        prior: dict[str, Any] = {
            name: np.array(value) if isinstance(value, list) else value for name, value in content["prior"].items()
        }
        observations, actions = (
            Scaling(tuple(content[name]["offset"]), tuple(content[name]["scale"]))
            for name in ("observations", "actions")
        )
        explanation = from_json(Explanation, content["explanation"])
        return ChangeDetector(content["name"], explanation, Prior(**prior), observations, actions, content["evidence"])


def join_changes(changes: Sequence[Change], apart: int) -> list[Change]:
    """Boundaries at least ``apart`` steps apart; what follows sooner belongs to the one before it."""
    kept = keep_apart([change.time for change in changes], apart)
    joined = []
    for place in range(len(kept)):
        end = kept[place + 1] if place + 1 < len(kept) else math.inf
        own = [change for change in changes if kept[place] <= change.time < end]
        variables = np.sum([np.maximum(0.0, change.variables) for change in own], axis=0)
        probability = max(change.probability for change in own)
        joined.append(Change(int(kept[place]), probability, tuple(variables.tolist())))
    return joined


class OnlineChanges:
    """A detector that is given one row at a time."""

    def __init__(self, detector: ChangeDetector) -> None:
        self.detector = detector
        self.reset()

    def reset(self) -> None:
        """Forget the sequence; the next row begins another."""
        self.state = Partition(self.detector.prior, 1)
        self.rows: list[tuple[Array, Array]] = []
        self.time, self.current = -1, 0

    def update(self, observation: Sequence[float] | Array, action: Sequence[float] | Array = ()) -> int | None:
        """Take a row; returns the time at which a new segment began, as soon as that is most likely, else None."""
        detector = self.detector
        scaled = (
            (np.asarray(observation, np.float64) - detector.observations.offset) / detector.observations.scale,
            (np.asarray(action, np.float64) - detector.actions.offset) / detector.actions.scale,
        )
        self.rows = [*self.rows[-(detector.explanation.lags + 1) :], scaled]
        self.time += 1
        if self.time == 0:
            return None
        design = build_design(detector.explanation, *(np.array(part) for part in zip(*self.rows, strict=True)))
        self.state.begin()
        self.state.observe(design.targets[-1:], design.features[-1:])
        best = int(self.state.starts[0, np.argmax(self.state.scores[0])])
        begun = best if best > self.current else None
        self.current = max(best, self.current)
        return None if begun is None else begun + 1


def partition_in_batches(
    designs: Sequence[Design], prior: Prior, condition: int = CONDITION
) -> tuple[list[list[int]], NDArray[np.float64]]:
    """:func:`~gatel0rd.recordings.changes.partition` of any number of sequences of any lengths, in little memory."""
    found: list[list[int]] = [[] for _ in designs]
    evidence = np.zeros(len(designs))
    for batch in batch_by_length(designs, prior):
        cuts, values = partition([designs[index] for index in batch], prior, condition)
        for index, own, value in zip(batch, cuts, values, strict=True):
            found[index], evidence[index] = own, value
    return found, evidence


def batch_by_length(designs: Sequence[Design], prior: Prior) -> Iterator[list[int]]:
    """Numbers of sequences of similar lengths."""
    order = np.argsort([len(design.targets) for design in designs], kind="stable").tolist()
    size = max(1, BATCH_NUMBERS // (48 * prior.mean.size * prior.mean.shape[1]))
    for first in range(0, len(order), size):
        yield order[first : first + size]
