"""Events in time: when gates open, which segments lie between, and how well boundaries agree with the true ones.

An *event* is a time step at which at least one gate opens after all were closed. This is its only definition: what a
fit holds (``--events``), what ``segment`` writes, what the page shows and what the benchmark judges all come from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
APART = 3
"""Steps that lie between two boundaries at least; an event that follows sooner belongs to the boundary before it."""


@dataclass(frozen=True)
class Event:
    """A time step at which at least one gate opens after all were closed, and what follows until all are closed again.

    Attributes:
        time: the input at which it begins.
        duration: steps until all gates are closed again, or until the sequence ends.
        dimensions: dimensions of the latent state whose gates are open during it, in ascending order.
        strengths: of each of these dimensions, how far its gate opens at most.
    """

    time: int
    duration: int
    dimensions: tuple[int, ...]
    strengths: tuple[float, ...]


def event_starts(is_open: NDArray[np.bool_], *, closed_before: bool = False) -> NDArray[np.bool_]:
    """The steps at which an event begins, from the steps at which any gate is open.

    Args:
        closed_before: whether all gates count as closed before the first step. If not, the first step is never an
            event: gates that are open from the first input on were not seen to open.

    Shape: [..., T] -> [..., T].
    """
    first = np.full_like(is_open[..., :1], not closed_before)
    starts: NDArray[np.bool_] = is_open & ~np.concatenate([first, is_open[..., :-1]], axis=-1)
    return starts


def find_events(gates: NDArray[Any]) -> list[Event]:
    """The events of one sequence, in the order of time. Shape: [T, G]."""
    is_open = np.any(gates > 0, axis=-1)
    events = []
    for time in np.flatnonzero(event_starts(is_open)).tolist():
        rest = is_open[time:]
        duration = len(rest) if rest.all() else int(np.argmin(rest))
        largest = gates[time : time + duration].max(axis=0)
        dimensions = np.flatnonzero(largest > 0)
        events.append(Event(time, duration, tuple(dimensions.tolist()), tuple(largest[dimensions].tolist())))
    return events


def boundaries(events: Sequence[Event], *, apart: int = APART, after_start: bool = False) -> Times:
    """Times at which something happens; events less than ``apart`` steps after a boundary belong to it.

    ``after_start``: the beginning of the sequence counts as a boundary, too: a memory that only finds out in the first
    steps what the state is sees nothing happen.
    """
    return keep_apart([event.time for event in events if not after_start or event.time >= apart], apart)


def keep_apart(times: Iterable[int], apart: int) -> Times:
    """Times in order, without those that follow less than ``apart`` steps after one that is kept."""
    kept: list[int] = []
    for time in sorted(set(times)):
        if not kept or time - kept[-1] >= apart:
            kept.append(int(time))
    return np.array(kept, dtype=np.int64)


def segments(cuts: Sequence[int] | Times, length: int) -> list[tuple[int, int]]:
    """[first, last) of the stretches between boundaries."""
    edges = [0, *(int(cut) for cut in cuts if 0 < cut < length), length]
    return [(first, last) for first, last in pairwise(edges) if last > first]


@dataclass(frozen=True)
class Agreement:
    """How well found boundaries agree with true ones: one to one, within a tolerance."""

    found: int
    true: int
    matched: int
    covering: float

    @property
    def precision(self) -> float:
        return self.matched / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.matched / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.matched / (self.found + self.true) if self.found + self.true else 1.0


def match_count(found: Sequence[int] | Times, true: Sequence[int] | Times, tolerance: int) -> int:
    """The largest number of pairs of a found and a true boundary that are at most ``tolerance`` apart."""
    found, true = sorted(map(int, found)), sorted(map(int, true))
    matched = i = j = 0
    while i < len(found) and j < len(true):
        if abs(found[i] - true[j]) <= tolerance:
            matched, i, j = matched + 1, i + 1, j + 1
        elif found[i] < true[j]:
            i += 1
        else:
            j += 1
    return matched


def covering(found: Sequence[int] | Times, true: Sequence[int] | Times, length: int) -> float:
    """Of every true segment, weighted by its length, the largest overlap (intersection over union) with a found one."""
    own, total = segments(np.sort(np.asarray(found)), length), 0.0
    for first, last in segments(np.sort(np.asarray(true)), length):
        overlaps = [
            max(0, min(last, end) - max(first, start)) / (max(last, end) - min(first, start)) for start, end in own
        ]
        total += (last - first) * max(overlaps)
    return total / length


def agreement(
    found: Sequence[Sequence[int] | Times], true: Sequence[Sequence[int] | Times], length: int, tolerance: int
) -> Agreement:
    """Over many sequences of one length: counts are added up, covering is a mean."""
    pairs = list(zip(found, true, strict=True))
    return Agreement(
        found=sum(len(cuts) for cuts in found),
        true=sum(len(cuts) for cuts in true),
        matched=sum(match_count(ours, theirs, tolerance) for ours, theirs in pairs),
        covering=float(np.mean([covering(ours, theirs, length) for ours, theirs in pairs])) if pairs else 1.0,
    )


def peaks(signal: NDArray[Any], threshold: float) -> Times:
    """Local maxima above a threshold; of a plateau the first step. Shape: [T]."""
    before = np.concatenate([[-np.inf], signal[:-1]])
    after = np.concatenate([signal[1:], [-np.inf]])
    return np.flatnonzero((signal > threshold) & (signal > before) & (signal >= after)).astype(np.int64)
