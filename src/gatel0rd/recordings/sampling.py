"""Rows that are evenly spaced in time: a step of a model is always the same time.

The rule: the step is the median of the times between two rows. Where more than a twentieth of them differ from it by
more than a fifth, or where rows are missing, the recordings are resampled: values between two rows are interpolated
linearly, actions and categories keep their last value, and a pause of more than :data:`LONGEST_GAP` missing steps ends
a sequence and begins another. Without a column of times, if it is left out, or if times repeat, a row is a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.recordings import Array, Recordings
from gatel0rd.streams import count_of

LONGEST_GAP = 5
"""Missing steps that are filled in; more end a sequence."""
IRREGULAR, OFTEN = 0.2, 0.05
"""Steps of time that differ by more from their median, relative to it, are irregular; a larger share is resampled."""
FEWEST = 10
"""Steps from which it is clear what is usual."""
PAUSE = 1.5
"""Steps of time between two rows from which at least one row is missing."""
SECONDS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def find_held(recordings: Recordings, names: Sequence[str]) -> NDArray[np.bool_]:
    """Which columns keep their last value between two rows: those of categories. Shape: [C]."""
    encoded = {name for entry in recordings.layout.categories for name in entry.names}
    return np.array([name in encoded for name in names], dtype=bool)


def as_numbers(times: NDArray[Any]) -> NDArray[np.float64]:
    """Times as numbers, dates as seconds since the first."""
    if times.dtype.kind != "M":
        return times.astype(np.float64)
    seconds: NDArray[np.float64] = (times - times.min()).astype("timedelta64[us]").astype(np.int64) / 1e6
    return seconds


def format_step(step: float, times: NDArray[Any]) -> str:
    """The length of a step for people."""
    if times.dtype.kind != "M":
        return f"{step:.6g}"
    unit, name = next(((unit, name) for unit, name in SECONDS if step >= unit), SECONDS[-1])
    return f"{step / unit:.6g} {name}"


def sample_evenly(recordings: Recordings) -> Recordings:
    """Resample recordings whose rows are not evenly spaced in time, and say so in a note."""
    if recordings.times is None:
        return recordings
    numbers = as_numbers(recordings.times)
    inside = np.ones(len(numbers), dtype=bool)
    inside[recordings.starts[recordings.lengths > 0]] = False
    gaps = np.diff(numbers)[inside[1:]]
    if len(gaps) < FEWEST:
        return recordings
    step = float(np.median(gaps))
    if gaps.min() <= 0:
        note = "time stamps repeat, so that they do not tell how long a step is: a row is a step"
        return replace(recordings, notes=(*recordings.notes, note), times=None)
    share = float(np.mean(np.abs(gaps / step - 1) > IRREGULAR))
    if share <= OFTEN and gaps.max() < PAUSE * step:
        return recordings
    resampled, split = resample(recordings, numbers, step)
    note = f"{share:.1%}".replace(".0%", "%") + " of the steps of time are longer or shorter than usual: resampled "
    note += f"every {format_step(step, recordings.times)}, {len(resampled.observations)} rows instead of {len(numbers)}"
    note += f"; {count_of(split, 'sequence')} split at longer pauses" if split else ""
    return replace(resampled, notes=(*recordings.notes, f"{note} (--ignore the times to take every row as a step)"))


def resample(recordings: Recordings, numbers: NDArray[np.float64], step: float) -> tuple[Recordings, int]:
    """Recordings at even times, and how many of them were split at long pauses."""
    values = np.concatenate([recordings.observations, recordings.actions], axis=1)
    border = recordings.observations.shape[1]
    held = find_held(recordings, [*recordings.observation_names, *recordings.action_names])
    held[border:] = True
    parts: list[Array] = []
    moments: list[NDArray[np.float64]] = []
    names: list[str] = []
    origins: list[tuple[str, int]] = []
    split = 0
    for index, (start, length) in enumerate(zip(recordings.starts, recordings.lengths, strict=True)):
        own = numbers[start : start + length]
        cuts = np.flatnonzero(np.diff(own) >= (LONGEST_GAP + PAUSE) * step) + 1
        split += bool(len(cuts))
        for number, rows in enumerate(np.split(np.arange(start, start + length), cuts)):
            grid = numbers[rows[0]] + step * np.arange(int((numbers[rows[-1]] - numbers[rows[0]]) / step + 1.0001))
            parts.append(read_between(values[rows], numbers[rows], grid, held))
            moments.append(grid)
            names.append(f"{recordings.names[index]}/{number}" if len(cuts) else recordings.names[index])
            origins.append((recordings.origins[index][0], round((numbers[rows[0]] - own[0]) / step)))
    grid, times = np.concatenate(moments), recordings.times
    assert times is not None
    if times.dtype.kind == "M":
        grid = times.min() + np.round(grid * 1e6).astype("timedelta64[us]")
    return recordings.replace_sequences(parts, names=names, origins=origins, times=grid), split


def read_between(
    values: Array, times: NDArray[np.float64], grid: NDArray[np.float64], held: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Values at other times; what is missing at a neighbouring row is missing there, too.

    Shape: [T, C], [T], [S], [C] -> [S, C].
    """
    left = np.clip(np.searchsorted(times, grid, side="right") - 1, 0, len(times) - 1)
    right = np.minimum(left + 1, len(times) - 1)
    span = times[right] - times[left]
    share = np.where(span > 0, (grid - times[left]) / np.where(span > 0, span, 1.0), 0.0)[:, None]
    share = np.where(share < 1e-6, 0.0, np.where(share > 1 - 1e-6, 1.0, share))
    share = np.where(held & (share < 1), 0.0, share)  # [S, C]
    before, after = values[left].astype(np.float64), values[right].astype(np.float64)
    found = before + share * (after - before)
    return np.where(share == 0, before, np.where(share == 1, after, found))


def forget_plain_times(recordings: Recordings) -> Recordings:
    """Without time stamps that are no more than the numbers of the rows."""
    if recordings.times is None or recordings.times.dtype.kind == "M":
        return recordings
    first = np.array([first for _, first in recordings.origins], dtype=np.float64)  # after a pause of any length
    numbers = np.arange(len(recordings.times)) + np.repeat(first - recordings.starts, recordings.lengths)
    return replace(recordings, times=None) if np.array_equal(recordings.times, numbers) else recordings
