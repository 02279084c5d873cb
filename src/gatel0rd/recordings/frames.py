"""Sequences as people hold them in memory: arrays, lists of arrays, and pandas tables with time stamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.layout import RecordingError
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.tables import SEQUENCE_NAMES

Sequences = Any
"""A list of arrays [T, columns] or of pandas tables, one array [N, T, columns] or [T, columns], or one pandas table."""


@dataclass(frozen=True)
class GivenSequences:
    """Sequences, and how their answers are handed back.

    Attributes:
        single: whether one sequence was given, and not a list of one.
        names: columns, where they have names.
        times: index of the rows of each sequence, where there is one; else steps are counted.
        frames: the pandas tables, if that is what was given.
    """

    recordings: Recordings
    expected_names: tuple[str, ...]
    single: bool = False
    names: list[str] | None = None
    times: list[NDArray[Any]] | None = None
    frames: list[Any] | None = None
    source: Any = None

    def label_rows(self, labels: list[NDArray[np.int64]]) -> Any:
        """Labels of rows in the form in which the rows came."""
        if self.frames is None:
            return labels[0] if self.single else labels
        import pandas

        found = [
            pandas.Series(own, index=frame.index, name="segment")
            for own, frame in zip(labels, self.frames, strict=True)
        ]
        if self.source is not None:
            return pandas.concat(found).reindex(self.source.index) if len(found) > 1 else found[0]
        return found


def is_frame(value: Any) -> bool:
    """Whether something is a pandas table or column, without importing pandas."""
    return type(value).__module__.split(".")[0] == "pandas" and hasattr(value, "index")


def read_sequences(X: Sequences, actions: Sequences | None = None) -> GivenSequences:
    """Sequences of any of the forms of :data:`Sequences`.

    In a pandas table a column with a name such as ``sequence``, ``episode`` or ``recording`` names the sequence of each
    row, and the index is the time. All other columns are observed; ``actions`` may be a list of columns of the table.
    """
    if is_frame(X):
        return _read_table(X, actions)
    X = as_array(X)
    if isinstance(X, Sequence) and len(X) and all(is_frame(entry) for entry in X):
        given = [_read_table(entry, None if actions is None else actions) for entry in X]
        acted = [entry.recordings.actions for entry in given]
        recordings = from_arrays(
            [entry.recordings.observations for entry in given],
            acted if acted[0].shape[1] else None,
            observation_names=given[0].recordings.observation_names,
        )
        times = [entry.times[0] for entry in given if entry.times is not None]
        names = tuple(map(str, range(len(X))))
        return GivenSequences(recordings, names, False, given[0].names, times or None, list(X))
    if isinstance(X, np.ndarray) and X.ndim in (1, 2) and X.dtype != object:
        recordings = from_arrays([X], None if actions is None else [np.asarray(actions)])
        return GivenSequences(recordings, ("0",), True)
    return GivenSequences(from_arrays(X, actions), tuple(map(str, range(len(X)))))


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


def _read_table(table: Any, actions: Any) -> GivenSequences:
    frame = table.to_frame() if table.ndim == 1 else table
    columns = [str(name) for name in frame.columns]
    sequence = next((name for name in columns if name.lower() in SEQUENCE_NAMES), None)
    acted = [str(name) for name in actions] if isinstance(actions, (list, tuple)) else []
    if missing := [name for name in acted if name not in columns]:
        raise RecordingError(
            f"the table has no column {', '.join(missing)} for the actions; it has {', '.join(columns)}"
        )
    observed = [name for name in columns if name not in (sequence, *acted)]
    parts = [(None, frame)] if sequence is None else list(frame.groupby(sequence, sort=False))
    try:
        rows = [part[observed].to_numpy(np.float64) for _, part in parts]
        given = [part[acted].to_numpy(np.float64) for _, part in parts] if acted else None
    except (ValueError, TypeError) as error:
        advice = "leave it out, or make categories of it with pandas.get_dummies"
        raise RecordingError(f"a column of the table does not hold numbers ({error}); {advice}") from error
    if given is None and actions is not None:
        given = [np.asarray(actions)]
    names = ["0"] if sequence is None else [str(name) for name, _ in parts]
    recordings = from_arrays(rows, given, observation_names=observed, names=names)
    return GivenSequences(
        recordings,
        tuple(names),
        sequence is None,
        observed,
        [part.index.to_numpy() for _, part in parts],
        [part for _, part in parts],
        frame,
    )
