"""Recordings from arrays: lists of NumPy arrays, NumPy archives (.npz) and Minari data sets."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models.fitted import narrow
from gatel0rd.recordings.cleaning import clean
from gatel0rd.recordings.layout import Layout, RecordingError, check_roles, in_one_line
from gatel0rd.recordings.recordings import Array, Recordings

Arrays = dict[str, NDArray[Any]]


def from_arrays(
    observations: Sequence[NDArray[Any]] | NDArray[Any],
    actions: Sequence[NDArray[Any]] | NDArray[Any] | None = None,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    keep_constant: bool = True,
) -> Recordings:
    """Recordings from a list of arrays [T, O] (or [T]), or one array [N, T, O]; actions alike.

    The last action of a sequence has no successor: it may be missing, as in Gymnasium's episodes, and is then repeated.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.recordings import from_arrays
        >>> recordings = from_arrays([np.random.rand(20, 2)], [np.random.rand(19, 1)], action_names=["valve"])
        >>> recordings.action_names
        ('valve',)
    """
    if isinstance(observations, np.ndarray) and observations.ndim != 3:
        raise RecordingError(
            f"observations have shape {observations.shape}; expected [N, T, columns], or a list of arrays [T, columns] "
            "(of one, if there is one sequence)"
        )
    joined = join_sequences(
        observations, actions, observation_names=observation_names, action_names=action_names, names=names
    )
    return clean(joined, keep_constant=keep_constant)


def join_sequences(
    observations: Iterable[NDArray[Any]],
    actions: Iterable[NDArray[Any]] | None = None,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Recordings:
    """Lay sequences end to end, without cleaning them; columns and sequences are numbered where no names are given."""
    seen = as_rows(observations, "observations")
    acted = [array[:, :0] for array in seen] if actions is None else as_rows(actions, "actions")
    if len(acted) != len(seen):
        raise RecordingError(f"there are {len(seen)} sequences of observations and {len(acted)} of actions")
    for index, (o, a) in enumerate(zip(seen, acted, strict=True)):
        if len(a) not in (len(o), len(o) - 1):
            raise RecordingError(
                f"sequence {index} has {len(o)} observations and {len(a)} actions; expected as many, or one less"
            )
        if 0 < len(a) < len(o):
            acted[index] = np.concatenate([a, a[-1:]])
        elif len(a) < len(o):
            acted[index] = np.zeros((len(o), a.shape[1]), np.float32)
    if observation_names is None:
        observation_names = [f"x{i}" for i in range(seen[0].shape[1])]
    if action_names is None:
        action_names = [f"a{i}" for i in range(acted[0].shape[1])]
    return Recordings(
        observation_names=tuple(observation_names),
        action_names=tuple(action_names),
        observations=np.concatenate(seen),
        actions=np.concatenate(acted),
        names=tuple(map(str, range(len(seen)) if names is None else names)),
        lengths=np.array([len(array) for array in seen], dtype=np.int64),
    )


def as_rows(arrays: Iterable[NDArray[Any]], what: str) -> list[Array]:
    """Sequences as arrays [T, columns]."""
    found: list[Array] = []
    for index, array in enumerate(arrays):
        try:
            rows = np.asarray(array)
            rows = rows if rows.dtype == np.float32 else rows.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise RecordingError(f"{what} of sequence {index} are not an array of numbers ({error})") from error
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or (found and rows.shape[1] != found[0].shape[1]):
            columns = f"{found[0].shape[1]} columns as in the first" if found else "[T, columns]"
            raise RecordingError(f"{what} of sequence {index} have shape {rows.shape}; expected {columns}")
        found.append(narrow(rows, whole=False))
    if not found:
        raise RecordingError("there are no sequences; expected a list of arrays [T, columns]")
    return found


def number_labels(labels: Iterable[str], numbers: dict[str, int]) -> NDArray[np.int64]:
    """Labels as numbers in the order of their first appearance, which ``numbers`` collects."""
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def assign_roles(recordings: Recordings, layout: Layout, source: str | Path) -> Recordings:
    """Sequences whose columns a file names by itself, with the roles that a layout gives them."""
    for given, what in ((layout.sequence, "sequence"), (layout.time, "time")):
        if given is not None:
            raise RecordingError(f"{source} has no column {given!r} for the {what}: it holds whole sequences, in order")
    if layout.categories:
        raise RecordingError(f"{source} holds numbers; columns of categories are read from tables (.csv, .parquet)")
    check_roles(layout, [*recordings.observation_names, *recordings.action_names], source)
    taken = {*layout.observations, *layout.actions, *layout.ignored, *layout.left_out}
    observed = layout.observations or [name for name in recordings.observation_names if name not in taken]
    acted = [*(name for name in recordings.action_names if name not in taken), *layout.actions]
    return recordings.select_columns(observed, acted, str(source))


# NumPy archives


@dataclass
class Archive:
    """The arrays of a file that mean something, and the names of the others."""

    path: Path
    observations: NDArray[Any]
    actions: NDArray[Any] | None
    lengths: NDArray[Any] | None
    labels: NDArray[Any] | None
    left_out: tuple[str, ...]

    @property
    def padded(self) -> bool:
        """Whether there is an array per sequence, [N, T, O], and not all rows in one, [S, O]."""
        return self.observations.ndim == 3


def from_npz(path: Path, layout: Layout) -> Recordings:
    """Read observations [N, T, O], or [S, O] with lengths [N] or sequence [S], or an array [T, O] per sequence."""
    arrays = plain_arrays(path)
    columns = {
        name: read_names(arrays.pop(name), name, path) if name in arrays else None
        for name in ("observation_names", "action_names")
    }
    if layout.sequence is not None and layout.sequence not in arrays:
        raise RecordingError(
            f"{path} has no array {layout.sequence!r} for the sequence; it has {', '.join(arrays) or 'none'}"
        )
    labels = arrays.pop(layout.sequence or "sequence", None)
    for name, array in arrays.items():
        used = "observations" not in arrays or name in ("observations", "actions", "lengths")
        if used and array.dtype.kind not in "fiub":
            raise RecordingError(f"{name} in {path} holds {array.dtype}; expected numbers")
    roles = replace(layout, sequence=None)  # it names an array, not a column
    if "observations" in arrays:
        archive = Archive(
            path,
            arrays.pop("observations"),
            arrays.pop("actions", None),
            arrays.pop("lengths", None),
            labels,
            tuple(arrays),
        )
        joined = assign_roles(join_archive(archive, columns), roles, path)
        notes = (f"arrays left out: {', '.join(archive.left_out)}",) if archive.left_out else ()
        return replace(joined, notes=notes, layout=layout)
    if not arrays or labels is not None or arrays.keys() & {"actions", "lengths"}:
        raise RecordingError(
            f"{path} has no array 'observations'; it has {', '.join(arrays) or 'none'}. Expected observations "
            "[N, T, O], or [S, O] with lengths [N] or sequence [S], or an array [T, O] per sequence"
        )
    joined = join_sequences(arrays.values(), names=list(arrays), observation_names=columns["observation_names"])
    return replace(assign_roles(joined, roles, path), layout=layout)


def read_names(array: NDArray[Any], what: str, path: Path) -> list[str]:
    """The names of columns."""
    if array.ndim > 1 or array.dtype.kind not in "fiubUS":
        raise RecordingError(f"{what} in {path} are {array.dtype} {array.shape}; expected a list of texts")
    return [str(entry) for entry in np.atleast_1d(array)]


def join_archive(archive: Archive, columns: dict[str, list[str] | None]) -> Recordings:
    """The sequences of an archive, end to end."""
    check_archive(archive)
    observations, actions, labels = split_archive(archive)
    names = None if labels is None else labels.astype(str).tolist()
    return join_sequences(observations, actions, names=names, **columns)


def check_archive(archive: Archive) -> None:
    """Arrays whose shapes do not fit together are a :class:`RecordingError`."""
    path, observations, actions, lengths = archive.path, archive.observations, archive.actions, archive.lengths
    if observations.ndim not in (1, 2, 3):
        raise RecordingError(f"observations in {path} have shape {observations.shape}; expected [N, T, O] or [S, O]")
    if lengths is not None and (lengths.dtype.kind not in "iu" or lengths.ndim != 1 or (lengths < 0).any()):
        raise RecordingError(f"lengths in {path} are {lengths.dtype} {lengths.shape}; expected whole numbers [N]")
    if archive.padded and actions is not None and actions.ndim not in (2, 3):
        raise RecordingError(f"actions in {path} have shape {actions.shape}; expected [N, T, A], as for observations")
    labels = archive.labels
    if labels is not None and (labels.dtype.kind not in "fiubUS" or labels.ndim != 1):
        raise RecordingError(
            f"names of sequences in {path} are {labels.dtype} {labels.shape}; expected a list of numbers or texts"
        )
    several = archive.padded or lengths is not None or archive.labels is not None
    if several and actions is not None and actions.shape[:1] != observations.shape[:1]:
        raise RecordingError(f"{path} has observations {observations.shape} and actions {actions.shape}")
    if lengths is None:
        return
    if archive.padded and (len(lengths) != len(observations) or (lengths > observations.shape[1]).any()):
        raise RecordingError(
            f"the lengths in {path} do not fit observations of shape {observations.shape}; expected "
            f"{len(observations)} of at most {observations.shape[1]}"
        )
    if not archive.padded and int(lengths.sum()) != len(observations):
        raise RecordingError(f"the lengths in {path} add up to {lengths.sum()}; there are {len(observations)} rows")


Split = tuple[list[NDArray[Any]], list[NDArray[Any]] | None, NDArray[Any] | None]
"""Observations and actions of every sequence, and the names of the sequences."""


def split_archive(archive: Archive) -> Split:
    """Cut an archive's arrays into sequences."""
    observations, actions, lengths = archive.observations, archive.actions, archive.lengths
    if archive.padded:
        ends = [observations.shape[1]] * len(observations) if lengths is None else lengths.tolist()
        seen, acted = (
            None if array is None else [row[:end] for row, end in zip(array, ends, strict=True)]
            for array in (observations, actions)
        )
        assert seen is not None
        return seen, acted, archive.labels
    if lengths is not None:
        return *cut_rows(observations, actions, lengths), archive.labels
    if archive.labels is None:
        return [observations], None if actions is None else [actions], np.array([archive.path.stem])
    if archive.labels.shape != (len(observations),):
        raise RecordingError(
            f"{archive.path} has names of sequences {archive.labels.shape} for {len(observations)} rows"
        )
    numbers: dict[str, int] = {}
    label = number_labels(archive.labels.astype(str).tolist(), numbers)
    order = np.argsort(label, kind="stable")
    rows = cut_rows(observations[order], None if actions is None else actions[order], np.bincount(label))
    return *rows, np.array(list(numbers))


def cut_rows(
    observations: NDArray[Any], actions: NDArray[Any] | None, lengths: NDArray[Any]
) -> tuple[list[NDArray[Any]], list[NDArray[Any]] | None]:
    """Rows as sequences of these lengths."""
    cuts = np.cumsum(lengths.astype(np.int64))[:-1]
    return np.split(observations, cuts), None if actions is None else np.split(actions, cuts)


def plain_arrays(path: Path) -> Arrays:
    """The arrays of a file; never executes code from it."""
    try:
        with zipfile.ZipFile(path):  # np.load takes other files, too
            pass
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordingError(
            f"{path} is not a NumPy archive of plain arrays ({in_one_line(error)}); nothing in it was executed"
        ) from error
    if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise RecordingError(f"{path} holds {', '.join(others)}, which is not a NumPy array")
    return arrays


# Minari


def from_minari(name: str, layout: Layout) -> Recordings:
    """Read a Minari data set that is on this machine."""
    import minari

    try:
        data = minari.load_dataset(name)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise RecordingError(
            f"there is no Minari data set {name!r} on this machine ({error}); `minari download {name}` gets it"
        ) from error
    for space in (data.observation_space, data.action_space):
        if not space.is_np_flattenable:
            raise RecordingError(f"Minari data set {name!r} holds {space}; expected a fixed number of columns")
    observations, actions, names = [], [], []
    for episode in data.iterate_episodes():
        steps = len(episode.rewards)
        observations.append(flatten(data.observation_space, episode.observations, steps + 1))
        actions.append(flatten(data.action_space, episode.actions, steps))
        names.append(str(episode.id))
    joined = join_sequences(observations, actions, names=names)
    return replace(assign_roles(joined, layout, f"minari:{name}"), layout=layout)


def flatten(space: Any, values: Any, steps: int) -> Array:
    """A batch of a space's elements as rows of numbers."""
    from gymnasium import spaces

    def at(values: Any, step: int) -> Any:
        if isinstance(values, dict):
            return {key: at(value, step) for key, value in values.items()}
        return tuple(at(value, step) for value in values) if isinstance(values, tuple) else values[step]

    if isinstance(space, spaces.Box):
        return np.asarray(values, dtype=np.float64).reshape(steps, -1)
    rows = [spaces.flatten(space, at(values, step)) for step in range(steps)]
    return np.asarray(rows, dtype=np.float64).reshape(steps, -1)
