"""The rules that all recordings are cleaned by; :attr:`Recordings.notes` says where one was applied.

- Rows that are not evenly spaced in time are resampled (:mod:`gatel0rd.recordings.sampling`).
- A gap of at most :data:`LONGEST_GAP` steps is interpolated, a longer one ends a sequence and begins another, and one
  at the edge of a sequence is cut off. In columns of categories the last value is held instead.
- Actions that stand in the row that they explain are moved up by one row, if the layout says so.
- A column whose value never changes is left out.
- Sequences with fewer than :data:`SHORTEST` steps are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models.fitted import narrow
from gatel0rd.recordings.layout import RecordingError, list_names
from gatel0rd.recordings.recordings import Array, Recordings
from gatel0rd.recordings.sampling import LONGEST_GAP, find_held, forget_plain_times, sample_evenly
from gatel0rd.streams import count_of

SHORTEST = 3
LARGEST = float(np.finfo(np.float32).max)


def clean(recordings: Recordings, *, keep_constant: bool) -> Recordings:
    """Apply the rules for gaps, short sequences and, unless ``keep_constant``, constant columns."""
    check_finite(recordings)
    recordings = fill_gaps(sample_evenly(recordings))
    if recordings.layout.same_row:
        recordings = move_actions_up(recordings)
    recordings = leave_out_short(recordings)
    recordings = recordings if keep_constant else leave_out_constant(recordings)
    return forget_plain_times(
        replace(recordings, observations=narrow(recordings.observations), actions=narrow(recordings.actions))
    )


def move_actions_up(recordings: Recordings) -> Recordings:
    """Every action in the row before the one that it explains; the last one of a sequence is repeated."""
    rows = np.arange(1, len(recordings.actions) + 1)
    rows[(recordings.starts + recordings.lengths - 1)[recordings.lengths > 0]] -= 1
    note = "actions moved up by one row (--same-row)"
    return replace(recordings, actions=recordings.actions[rows], notes=(*recordings.notes, note))


def check_finite(recordings: Recordings) -> None:
    """Infinite values are an error that names the place."""
    for columns, array in (
        (recordings.observation_names, recordings.observations),
        (recordings.action_names, recordings.actions),
    ):
        too_large = np.abs(array) > LARGEST
        if too_large.any():
            row, column = np.argwhere(too_large)[0]
            index = int(np.searchsorted(recordings.starts, row, side="right")) - 1
            raise RecordingError(
                f"step {row - recordings.starts[index]} of sequence {recordings.names[index]!r} is infinite or too "
                f"large in column {columns[column]!r}; remove or repair it"
            )


def leave_out_short(recordings: Recordings) -> Recordings:
    """Only sequences with at least :data:`SHORTEST` steps."""
    long_enough = np.flatnonzero(recordings.lengths >= SHORTEST).tolist()
    short = len(recordings) - len(long_enough)
    if not short:
        return recordings
    if not long_enough:
        reason = f"no sequence has {SHORTEST} steps or more: nothing can be predicted"
        raise RecordingError("; ".join([reason, *recordings.notes]))
    note = f"{count_of(short, 'sequence')} with fewer than {SHORTEST} steps left out"
    return replace(recordings.take(long_enough), notes=(*recordings.notes, note))


def leave_out_constant(recordings: Recordings) -> Recordings:
    """Only columns whose value changes."""
    observed, acted = (
        [name for name, spread in zip(names, np.ptp(array, axis=0), strict=True) if spread > 0]
        for names, array in (
            (recordings.observation_names, recordings.observations),
            (recordings.action_names, recordings.actions),
        )
    )
    if not observed:
        names = list_names(recordings.observation_names)
        raise RecordingError(f"all columns are constant ({names}); there is nothing to predict")
    every, changing = (*recordings.observation_names, *recordings.action_names), {*observed, *acted}
    constant = [name for name in every if name not in changing]
    if not constant:
        return recordings
    note = f"constant columns left out: {list_names(constant)}"
    return replace(recordings.select_columns(observed, acted, "the model"), notes=(*recordings.notes, note))


def fill_gaps(recordings: Recordings) -> Recordings:
    """Interpolate short gaps; longer ones split a sequence."""
    if not (np.isnan(recordings.observations).any() or np.isnan(recordings.actions).any()):
        return recordings
    values = np.concatenate([recordings.observations, recordings.actions], axis=1)
    missing = np.isnan(values)
    every = np.array([*recordings.observation_names, *recordings.action_names])
    if empty := every[missing.all(axis=0)].tolist():
        raise RecordingError(f"all values are missing in column {list_names(empty)}; fill it in or --ignore it")
    held = find_held(recordings, every.tolist())
    filled, split = 0, 0
    parts: list[Array] = []
    kept: list[NDArray[np.int64]] = []
    names: list[str] = []
    origins: list[tuple[str, int]] = []
    for (name, before), start, length, own in zip(
        recordings.origins, recordings.starts, recordings.lengths, recordings.names, strict=True
    ):
        rows, lost = interpolate(values[start : start + length], held)
        filled += int((missing[start : start + length] & ~np.isnan(rows)).sum())
        pieces = list(stretches(~lost)) or [(0, 0)]
        split += len(pieces) > 1
        parts += [rows[first:last] for first, last in pieces]
        kept += [np.arange(start + first, start + last) for first, last in pieces]
        origins += [(name, before + first) for first, _ in pieces]
        names += [own] if len(pieces) == 1 else [f"{own}/{number}" for number in range(len(pieces))]
    if not sum(map(len, parts)):
        raise RecordingError("every row has a missing value; fill them in, or leave columns out (--ignore)")
    total = int(missing.sum())
    note = f"{count_of(total, 'missing value')}: {filled} interpolated (gaps of at most {LONGEST_GAP} steps)"
    note += f", {total - filled} cut off with their rows" if total > filled else ""
    note += f"; {count_of(split, 'sequence')} split at longer gaps" if split else ""
    times = None if recordings.times is None else recordings.times[np.concatenate(kept)]
    found = recordings.replace_sequences(parts, names=names, origins=origins, times=times)
    return replace(found, notes=(*recordings.notes, note))


def interpolate(rows: Array, held: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """One sequence with short gaps filled in, and the rows that are lost to long ones.

    Shape: rows [T, C], columns whose last value is held [C] -> [T, C], [T].
    """
    rows = rows.copy()
    lost = np.zeros(len(rows), dtype=bool)
    for column in np.flatnonzero(np.isnan(rows).any(axis=0)):
        for first, last in stretches(np.isnan(rows[:, column])):
            if first > 0 and last < len(rows) and last - first <= LONGEST_GAP:
                before, after = rows[first - 1, column], rows[first - 1 if held[column] else last, column]
                rows[first:last, column] = np.linspace(before, after, last - first + 2)[1:-1]
            else:
                lost[first:last] = True
    return rows, lost


def stretches(where: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where a condition holds: [first, last) of each stretch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], where.astype(np.int8), [0]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
