"""Sequences as people hold them in memory: arrays, lists of arrays, and pandas tables with time stamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.layout import RecordingError, find_repeated, list_names
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.tables import SEQUENCE_NAMES

Sequences = Any
"""A list of arrays [T, columns] or of pandas tables, one array [N, T, columns] or [T, columns], or one pandas table."""


@dataclass(frozen=True)
class GivenSequences:
    """Sequences, and how their answers are handed back.

    Attributes:
        lengths: rows of each sequence as it was given, from whose edges rows without values are cut off.
        single: whether one sequence was given, and not a list of one.
        names: columns, where they have names.
        times: index of the rows of each sequence, where there is one; else steps are counted.
        frames: the pandas tables, if that is what was given.
        rows: of each sequence, the places of its rows in the one table that was given.
        source: that table.
    """

    recordings: Recordings
    expected_names: tuple[str, ...]
    lengths: list[int]
    single: bool = False
    names: list[str] | None = None
    times: list[NDArray[Any]] | None = None
    frames: list[Any] | None = None
    rows: list[NDArray[np.int64]] | None = None
    source: Any = None

    def label_rows(self, labels: list[NDArray[np.int64]]) -> Any:
        """Labels of rows in the form in which the rows came; rows that were cut off have that of their neighbour."""
        first = [step for _, step in self.recordings.origins]
        labels = [
            np.pad(own, (before, length - before - len(own)), mode="edge")
            for own, before, length in zip(labels, first, self.lengths, strict=True)
        ]
        if self.frames is None:
            return labels[0] if self.single else labels
        import pandas

        if self.rows is not None:
            places = np.concatenate(self.rows)  # by place: several sequences may have the same time stamps
            found = pandas.Series(np.concatenate(labels), index=places).reindex(range(len(self.source)))
            return found.set_axis(self.source.index).rename("segment")
        return [
            pandas.Series(own, index=frame.index, name="segment")
            for own, frame in zip(labels, self.frames, strict=True)
        ]


def is_frame(value: Any) -> bool:
    """Whether something is a pandas table or column, without importing pandas."""
    return type(value).__module__.split(".")[0] == "pandas" and hasattr(value, "index")


def read_sequences(
    X: Sequences, actions: Sequences | None = None, *, names: Sequence[str] | None = None
) -> GivenSequences:
    """Sequences of any of the forms of :data:`Sequences`.

    In a pandas table a column with a name such as ``sequence``, ``episode`` or ``recording`` names the sequence of each
    row, and the index is the time. All other columns are observed; ``actions`` may be a list of columns of the table.

    Args:
        names: the observed columns that tables should have, in this order; of a list of tables, those of the first if
            not given.
    """
    if is_frame(X):
        return _read_table(X, actions, names)
    X = as_array(X)
    if isinstance(X, Sequence) and len(X) and all(is_frame(entry) for entry in X):
        return _read_tables(X, actions, names)
    if isinstance(X, np.ndarray) and X.ndim in (1, 2) and X.dtype != object:
        recordings = from_arrays([X], None if actions is None else [np.asarray(actions)])
        return GivenSequences(recordings, ("0",), [len(X)], True)
    return GivenSequences(from_arrays(X, actions), tuple(map(str, range(len(X)))), [len(rows) for rows in X])


def as_array(X: Any) -> Any:
    """What can become an array as one; lists of sequences, and arrays of them, stay as they are."""
    if type(X).__module__.startswith("scipy.sparse"):
        raise TypeError("sparse data was given, which is not supported; expected a dense array, such as X.toarray()")
    if hasattr(X, "__array__") and not isinstance(X, np.ndarray):
        X = np.asarray(X)
    if not isinstance(X, np.ndarray):
        return X
    if np.iscomplexobj(X):
        raise ValueError(
            "Complex data not supported; expected real numbers, such as real and imaginary parts as columns"
        )
    if X.dtype == object and X.ndim == 2:
        X = X.astype(np.float64)
    if X.ndim == 2 and X.shape[1] == 0:
        raise RecordingError(
            f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required: there is nothing to predict"
        )
    return X


@dataclass(frozen=True)
class TableParts:
    """The sequences of a pandas table, before they are cleaned.

    Attributes:
        frame: the table, with texts as names of columns.
        observed, acted: its columns; ``given`` are the actions that are no columns.
        names: of the sequences; None if the table is one.
        parts, rows: tables of the sequences, and the places of their rows.
    """

    frame: Any
    observed: list[str]
    acted: list[str]
    names: list[str] | None
    parts: list[Any]
    rows: list[NDArray[np.int64]]
    given: NDArray[Any] | None = None

    def observations(self) -> list[NDArray[np.float64]]:
        """Of every sequence, [T, O]."""
        return [read_columns(part, self.observed) for part in self.parts]

    def actions(self) -> list[NDArray[Any]] | None:
        """Of every sequence, [T, A]; None if there are none."""
        if self.given is not None:
            return [self.given]
        return [read_columns(part, self.acted) for part in self.parts] if self.acted else None


def read_columns(part: Any, names: list[str]) -> NDArray[np.float64]:
    """Some columns of a table, as numbers."""
    try:
        found: NDArray[np.float64] = part[names].to_numpy(np.float64)
    except (ValueError, TypeError) as error:
        advice = "leave it out, or make categories of it with pandas.get_dummies"
        raise RecordingError(f"a column of the table does not hold numbers ({error}); {advice}") from error
    return found


def split_table(table: Any, actions: Any, expected: Sequence[str] | None) -> TableParts:
    """The sequences of a table, whose observed columns may be expected to have certain names."""
    if table.ndim == 1:  # one column, whatever it is called
        table, expected = table.to_frame(), None
    columns = [str(name) for name in table.columns]
    if twice := find_repeated(columns):
        raise RecordingError(f"the table has more than one column {', '.join(twice)}; rename them")
    frame = table.set_axis(columns, axis=1)  # a copy: names may have been numbers
    sequence = next((name for name in columns if name.lower() in SEQUENCE_NAMES), None)
    acted = [str(name) for name in actions] if isinstance(actions, (list, tuple)) else []
    if missing := [name for name in acted if name not in columns]:
        raise RecordingError(
            f"the table has no column {', '.join(missing)} for the actions; it has {', '.join(columns)}"
        )
    observed = order_columns([name for name in columns if name not in (sequence, *acted)], expected)
    given = None if acted or actions is None else np.asarray(actions)
    if sequence is None:
        return TableParts(frame, observed, acted, None, [frame], [np.arange(len(frame))], given)
    groups = frame.groupby(sequence, sort=False)
    parts = list(groups)
    rows = [groups.indices[name] for name, _ in parts]
    return TableParts(
        frame, observed, acted, [str(name) for name, _ in parts], [part for _, part in parts], rows, given
    )


def _read_table(table: Any, actions: Any, expected: Sequence[str] | None) -> GivenSequences:
    found = split_table(table, actions, expected)
    names = ["0"] if found.names is None else found.names
    recordings = from_arrays(found.observations(), found.actions(), observation_names=found.observed, names=names)
    return GivenSequences(
        recordings,
        tuple(names),
        [len(part) for part in found.parts],
        found.names is None,
        found.observed,
        [part.index.to_numpy() for part in found.parts],
        found.parts,
        found.rows,
        found.frame,
    )


def _read_tables(tables: Sequence[Any], actions: Any, expected: Sequence[str] | None) -> GivenSequences:
    first = split_table(tables[0], actions, expected)
    found = [first, *(split_table(table, actions, first.observed) for table in tables[1:])]
    for number, entry in enumerate(found):
        if len(entry.parts) != 1:
            raise RecordingError(
                f"table {number} of the list holds {len(entry.parts)} sequences; expected one in each, or one table of "
                "all, as pandas.concat makes it"
            )
    acted = [own[0] for entry in found if (own := entry.actions()) is not None]
    numbers = tuple(map(str, range(len(found))))
    recordings = from_arrays(
        [entry.observations()[0] for entry in found], acted or None, observation_names=first.observed, names=numbers
    )
    frames = list(tables)
    times = [table.index.to_numpy() for table in frames]
    return GivenSequences(recordings, numbers, [len(table) for table in frames], False, first.observed, times, frames)


def order_columns(observed: list[str], expected: Sequence[str] | None) -> list[str]:
    """The names of a table's columns in the order that is expected; other names are an error."""
    if expected is None:
        return observed
    if {*observed} != {*expected}:
        lacking = [name for name in expected if name not in observed]
        unknown = [name for name in observed if name not in expected]
        found = [f"lacks {list_names(lacking)}"] * bool(lacking) + [f"has also {list_names(unknown)}"] * bool(unknown)
        raise RecordingError(
            "The feature names should match those that were passed during fit, or those of the first table: "
            f"{list_names(expected)} were expected, the table {' and '.join(found)}; choose or rename its columns"
        )
    return list(expected)
