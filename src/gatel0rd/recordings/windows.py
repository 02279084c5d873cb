"""Training and validation part of recordings, and the windows that training and measurements take from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.layout import RecordingError
from gatel0rd.recordings.recordings import Recordings

FEWEST = 10
"""Steps on either side of where a sequence is cut."""
Starts = NDArray[np.int64]


class WindowBatch(NamedTuple):
    """Windows of one length: the rows at which they start, and their steps (one less than their rows)."""

    starts: Starts
    steps: int


def split(recordings: Recordings, share: float, seed: int) -> tuple[Recordings, Recordings]:
    """Training and validation part, by sequence; a single sequence is cut, and its end is for validation."""
    origins = list(dict.fromkeys(name for name, _ in recordings.origins))  # pieces of one recording stay together
    if len(recordings) == 1:
        return _cut_in_two(recordings, share)
    if len(origins) == 1:  # a single one in pieces: the last ones are for validation
        return _cut_at(recordings, _choose_row(recordings, share))
    order = np.random.default_rng([seed, 1]).permutation(len(origins))
    kept = {origins[index] for index in order[: max(1, round(len(origins) * share))]}
    chosen: tuple[list[int], list[int]] = ([], [])
    for index, (name, _) in enumerate(recordings.origins):
        chosen[name in kept].append(index)
    return recordings.take(chosen[0]), recordings.take(chosen[1])


def _cut_in_two(recordings: Recordings, share: float) -> tuple[Recordings, Recordings]:
    steps = len(recordings.observations)
    border = round(steps * (1 - share))
    if min(border, steps - border) < FEWEST:
        raise RecordingError(
            f"there is one sequence of {steps} steps; expected at least {math.ceil(FEWEST / share)} steps, "
            "or more sequences, so that a part can be kept for validation"
        )
    return _cut_at(recordings, border)


def _choose_row(recordings: Recordings, share: float) -> int:
    """The row at which validation begins: the border of two pieces, or inside of a long one if none is near."""
    total = len(recordings.observations)
    borders = recordings.starts[1:]
    nearest = int(borders[np.argmin(np.abs(borders - (1 - share) * total))])
    if share / 2 <= 1 - nearest / total <= 2 * share:
        return nearest
    row = round((1 - share) * total)
    piece = int(np.searchsorted(recordings.starts, row, side="right")) - 1
    first, length = int(recordings.starts[piece]), int(recordings.lengths[piece])
    return nearest if length < 2 * FEWEST else min(max(row, first + FEWEST), first + length - FEWEST)


def _cut_at(recordings: Recordings, row: int) -> tuple[Recordings, Recordings]:
    """The rows before one, and those from it on; a sequence around it becomes two."""
    ends = recordings.starts + recordings.lengths

    def part(first: int, last: int) -> Recordings:
        starts = np.maximum(recordings.starts, first)
        lengths = np.minimum(ends, last) - starts
        chosen = np.flatnonzero(lengths > 0).tolist()
        skipped = (starts - recordings.starts).tolist()
        origins = [(recordings.origins[index][0], recordings.origins[index][1] + skipped[index]) for index in chosen]
        return replace(
            recordings,
            observations=recordings.observations[first:last],
            actions=recordings.actions[first:last],
            times=None if recordings.times is None else recordings.times[first:last],
            names=tuple(recordings.names[index] for index in chosen),
            lengths=lengths[chosen],
            origins=tuple(origins),
            notes=(),
        )

    return part(0, row), part(row, len(recordings.observations))


def windows(recordings: Recordings, longest: int, generator: np.random.Generator | None = None) -> list[WindowBatch]:
    """Windows that cover the recordings, by length; from the first row on, or at random offsets.

    Without random offsets what is left at the end of a recording is a shorter window.
    """
    found: dict[int, list[int]] = {}
    for start, length in zip(recordings.starts.tolist(), recordings.lengths.tolist(), strict=True):
        steps = length - 1
        if steps < longest or generator is None:
            first = 0
            while steps - first >= 1:
                size = min(longest, steps - first)
                if size >= 2 or first == 0:
                    found.setdefault(size, []).append(start + first)
                first += longest
        else:
            offset = int(generator.integers(min(longest, steps - longest + 1)))
            found.setdefault(longest, []).extend(range(start + offset, start + steps - longest + 1, longest))
    return [WindowBatch(np.array(starts, dtype=np.int64), steps) for steps, starts in sorted(found.items())]


def batches(recordings: Recordings, config: FitConfig, number: int) -> Iterator[WindowBatch]:
    """The batches of one round: as many as it has updates, every window once before any is taken again."""
    generator = np.random.default_rng([config.seed, 2, number])
    left = config.round_updates
    while left:
        parts: list[WindowBatch] = []
        for group in windows(recordings, config.window, generator):
            starts = generator.permutation(group.starts)
            pieces = range(0, len(starts), config.batch_size)
            parts += [WindowBatch(starts[first : first + config.batch_size], group.steps) for first in pieces]
        for index in generator.permutation(len(parts))[:left]:
            yield parts[int(index)]
            left -= 1
