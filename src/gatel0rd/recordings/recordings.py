"""Recordings: sequences of any lengths with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.layout import Layout, RecordingError, find_repeated, list_names
from gatel0rd.streams import count_of, describe_size

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Sequences laid end to end.

    Attributes:
        notes: what was done to the data, for people.
        origins: of each sequence, the name of the recording it is a piece of, and the step at which it begins there.
        layout: how the data was laid out where it was read from; other data for the same model is read alike.
        times: the time stamp of each row (numbers or dates), where rows have some that say more than their number.

    Shape: observations [S, O], actions [S, A], times [S]; lengths [N] add up to S. Values are float32, or float64 where
    a column's offset is so large that float32 would lose its details.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.recordings import from_arrays
        >>> sequences = [np.random.rand(20, 2), np.random.rand(30, 2)]
        >>> recordings = from_arrays(sequences, observation_names=["level", "flow"])
        >>> len(recordings), recordings.lengths.tolist()
        (2, [20, 30])
    """

    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    observations: Array
    actions: Array
    names: tuple[str, ...]
    lengths: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    origins: tuple[tuple[str, int], ...] = ()
    layout: Layout = field(default_factory=Layout)
    times: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if not self.origins:
            object.__setattr__(self, "origins", tuple((name, 0) for name in self.names))
        total = int(self.lengths.sum())
        for what, array, names in (
            ("observations", self.observations, self.observation_names),
            ("actions", self.actions, self.action_names),
        ):
            if array.shape != (total, len(names)):
                raise RecordingError(
                    f"{what} have shape {array.shape}; expected {total} rows and {len(names)} columns, one per name"
                )
        if not self.observation_names:
            raise RecordingError("there is no column to predict")
        if twice := find_repeated((*self.observation_names, *self.action_names)):
            raise RecordingError(f"there is more than one column {', '.join(twice)}; rename them")
        if len(self.lengths) != len(self.names):
            raise RecordingError(f"there are {len(self.names)} names for {len(self.lengths)} sequences")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Row at which each sequence begins, [N]."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    def sequence(self, index: int) -> tuple[Array, Array]:
        """Observations [T, O] and actions [T, A] of one sequence."""
        start, length = int(self.starts[index]), int(self.lengths[index])
        return self.observations[start : start + length], self.actions[start : start + length]

    def pick_rows(self, lengths: NDArray[np.int64], chosen: Sequence[int]) -> dict[str, Any]:
        """The fields that hold rows, with the first ``lengths`` rows of the chosen sequences."""
        ends = self.starts + lengths
        parts = [slice(int(self.starts[index]), int(ends[index])) for index in chosen]

        def pick(array: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([array[:0], *(array[part] for part in parts)])

        times = None if self.times is None else pick(self.times)
        return {"observations": pick(self.observations), "actions": pick(self.actions), "times": times}

    def take(self, chosen: Sequence[int]) -> Recordings:
        """Only some of the sequences."""
        return replace(
            self,
            **self.pick_rows(self.lengths, chosen),
            names=tuple(self.names[index] for index in chosen),
            lengths=self.lengths[np.asarray(chosen, dtype=np.int64)],
            origins=tuple(self.origins[index] for index in chosen),
            notes=(),
        )

    def cut(self, steps: int) -> Recordings:
        """Only the first steps of every sequence."""
        lengths = np.minimum(self.lengths, steps)
        return replace(self, **self.pick_rows(lengths, range(len(self))), lengths=lengths, notes=())

    def replace_sequences(
        self,
        parts: Sequence[Array],
        *,
        names: Sequence[str],
        origins: Sequence[tuple[str, int]],
        times: NDArray[Any] | None,
    ) -> Recordings:
        """The same columns with other sequences, [T, O + A] each."""
        joined, border = np.concatenate(parts), len(self.observation_names)
        return replace(
            self,
            observations=joined[:, :border],
            actions=joined[:, border:],
            names=tuple(names),
            lengths=np.array([len(part) for part in parts], dtype=np.int64),
            origins=tuple(origins),
            times=times,
        )

    def select_columns(
        self, observation_names: Sequence[str], action_names: Sequence[str], trained_on: str
    ) -> Recordings:
        """The columns that a model needs, in its order; missing ones are a :class:`RecordingError`."""
        columns = {name: self.observations[:, i] for i, name in enumerate(self.observation_names)}
        columns |= {name: self.actions[:, i] for i, name in enumerate(self.action_names)}
        missing = [name for name in (*observation_names, *action_names) if name not in columns]
        if missing:
            raise RecordingError(
                f"the data has no column {list_names(missing)}; it has {list_names(list(columns))}, and {trained_on} "
                f"was trained on {list_names([*observation_names, *action_names])}"
            )

        def pick(names: Sequence[str]) -> Array:
            picked = [columns[name] for name in names]
            return np.stack(picked, axis=1) if picked else self.actions[:, :0]

        return replace(
            self,
            observation_names=tuple(observation_names),
            action_names=tuple(action_names),
            observations=pick(observation_names),
            actions=pick(action_names),
        )

    def preview(self) -> list[str]:
        """What was understood, in a few lines for people."""
        low, high = min(self.lengths, default=0), max(self.lengths, default=0)
        span = f"{low} steps each" if low == high else f"{low} to {high} steps"
        size = describe_size(self.observations.nbytes + self.actions.nbytes)
        lines = [
            f"{count_of(len(self), 'sequence')}, {span}, {len(self.observations)} rows, {size}",
            f"predicted: {list_names(self.observation_names)}",
            f"given (actions): {list_names(self.action_names) or 'none'}",
        ]
        return lines + [f"note: {note}" for note in self.notes]
