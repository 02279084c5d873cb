"""Recordings of one's own: sequences of any lengths with named columns, from NumPy, CSV, Parquet and Minari.

Rules, which the readers note in :attr:`Recordings.notes` when they apply:

- a gap of at most :data:`LONGEST_GAP` steps is interpolated, a longer one ends a sequence and begins another, and one
  at the edge of a sequence is cut off;
- a column whose value never changes is left out;
- sequences with fewer than :data:`SHORTEST` steps are left out.

Tables are long (a row per time step) or wide (a row per sequence, columns ``x_0``, ``x_1``, ... or ``0``, ``1``, ...).
Columns without a name, as pandas writes for its index, are left out.
"""

from __future__ import annotations

import csv
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
LONGEST_GAP = 5
SHORTEST = 3
CHUNK = 1000
"""Lines of text that are read at once; more are slower and need more memory."""
SEQUENCE_NAMES = ("sequence", "episode", "trial", "series", "recording", "run", "subject", "id")
TIME_NAMES = ("time", "t", "step", "timestep", "frame", "timestamp", "date", "datetime", "index")
UNNAMED = ("", "unnamed: 0", "__index_level_0__")
FEWEST_WIDE = 10
"""Steps from which a table without names of sequences is read as wide: ``joint_1`` to ``joint_7`` are variables."""
MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-", "?"}
TRUTH = {"true": 1.0, "false": 0.0}
ROLES = "sequence, time, observations, actions and ignored"
FORMATS = ".npz, .csv, .parquet, or minari:NAME"


class RecordingError(ValueError):
    """Recordings that cannot be used; the message says what was found, what was expected and what to do."""


class MissingColumnError(RecordingError):
    """A column that a layout names is not there."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which column is what, where a file does not say so by itself.

    Attributes:
        sequence: column that names the sequence a row belongs to; found by its name if not given.
        time: column that orders rows; found by its name if not given. It is not a variable.
        observations: columns to predict; all that are nothing else if not given.
        actions: columns that are given, not predicted.
        ignored: columns to leave out.
    """

    sequence: str | None = None
    time: str | None = None
    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Sequences laid end to end.

    Attributes:
        origins: of each sequence, the name of the recording it is a piece of, and the step at which it begins there.

    Shape: observations [S, O], actions [S, A] float32; lengths [N] add up to S.
    """

    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    observations: Array
    actions: Array
    names: tuple[str, ...]
    lengths: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    origins: tuple[tuple[str, int], ...] = ()

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
        if twice := _repeated((*self.observation_names, *self.action_names)):
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

    def take(self, chosen: Sequence[int]) -> Recordings:
        """Only some of the sequences."""
        parts = [self.sequence(index) for index in chosen]
        return replace(
            self,
            observations=np.concatenate([self.observations[:0], *(part[0] for part in parts)]),
            actions=np.concatenate([self.actions[:0], *(part[1] for part in parts)]),
            names=tuple(self.names[index] for index in chosen),
            lengths=self.lengths[np.asarray(chosen, dtype=np.int64)],
            origins=tuple(self.origins[index] for index in chosen),
            notes=(),
        )

    def aligned(self, observation_names: Sequence[str], action_names: Sequence[str], trained_on: str) -> Recordings:
        """The columns that a model wants, in its order; missing ones are a :class:`RecordingError`."""
        columns = {name: self.observations[:, i] for i, name in enumerate(self.observation_names)}
        columns |= {name: self.actions[:, i] for i, name in enumerate(self.action_names)}
        missing = [name for name in (*observation_names, *action_names) if name not in columns]
        if missing:
            raise RecordingError(
                f"the data has no column {', '.join(missing)}; it has {', '.join(columns)}, and {trained_on} was "
                f"trained on {', '.join([*observation_names, *action_names])}"
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
        size = (self.observations.nbytes + self.actions.nbytes) / 1e6
        lines = [
            f"{_count(len(self), 'sequence')}, {span}, {len(self.observations)} rows, {size:.1f} MB",
            f"predicted: {', '.join(self.observation_names)}",
            f"given (actions): {', '.join(self.action_names) or 'none'}",
        ]
        return lines + [f"note: {note}" for note in self.notes]


def read_recordings(source: str | Path, layout: Layout | None = None, *, keep_constant: bool = False) -> Recordings:
    """Read a file (or ``minari:NAME``) and apply the rules of this module.

    Args:
        source: a path that ends in .npz, .csv or .parquet, or the name of a Minari data set.
        layout: what the columns are, where it cannot be seen from their names.
        keep_constant: leave constant columns in, as a model needs that was trained with them.
    """
    layout = layout or Layout()
    if str(source).startswith("minari:"):
        made = _from_minari(str(source).removeprefix("minari:"))
        return clean(_arranged(made, layout, str(source)), keep_constant=keep_constant)
    path = Path(source)
    readers = {".npz": _from_npz, ".csv": _from_csv, ".parquet": _from_parquet}
    if not path.exists():
        raise RecordingError(f"there is no {path}; expected {FORMATS}")
    if path.is_dir():
        raise RecordingError(f"{path} is a directory; expected {FORMATS}")
    if path.suffix.lower() not in readers:
        raise RecordingError(f"{path} ends in {path.suffix or 'nothing'}; expected {FORMATS}")
    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty; expected {FORMATS} with a row per time step")
    return clean(readers[path.suffix.lower()](path, layout), keep_constant=keep_constant)


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
    """
    if isinstance(observations, np.ndarray) and observations.ndim != 3:
        raise RecordingError(
            f"observations have shape {observations.shape}; expected [N, T, columns], or a list of arrays [T, columns] "
            "(of one, if there is one sequence)"
        )
    made = _joined(observations, actions, observation_names=observation_names, action_names=action_names, names=names)
    return clean(made, keep_constant=keep_constant)


def _joined(
    observations: Iterable[NDArray[Any]],
    actions: Iterable[NDArray[Any]] | None = None,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Recordings:
    seen = _rows_of(observations, "observations")
    acted = [array[:, :0] for array in seen] if actions is None else _rows_of(actions, "actions")
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


def _rows_of(arrays: Iterable[NDArray[Any]], what: str) -> list[Array]:
    """Sequences as arrays [T, columns]."""
    found: list[Array] = []
    for index, array in enumerate(arrays):
        try:
            with np.errstate(over="ignore"):
                rows = np.asarray(array, dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise RecordingError(f"{what} of sequence {index} are not an array of numbers ({error})") from error
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or (found and rows.shape[1] != found[0].shape[1]):
            columns = f"{found[0].shape[1]} columns as in the first" if found else "[T, columns]"
            raise RecordingError(f"{what} of sequence {index} have shape {rows.shape}; expected {columns}")
        found.append(rows)
    if not found:
        raise RecordingError("there are no sequences; expected a list of arrays [T, columns]")
    return found


def clean(made: Recordings, *, keep_constant: bool) -> Recordings:
    """Apply the rules for gaps, constant columns and short sequences."""
    made = _without_gaps(made)
    notes = list(made.notes)
    long_enough = np.flatnonzero(made.lengths >= SHORTEST).tolist()
    if len(long_enough) < len(made):
        if not long_enough:
            raise RecordingError(
                "; ".join([f"no sequence has {SHORTEST} steps or more: nothing can be predicted", *notes])
            )
        short = len(made) - len(long_enough)
        notes.append(f"{_count(short, 'sequence')} with fewer than {SHORTEST} steps left out")
        made = made.take(long_enough)
    if not keep_constant:
        seen, given = (
            [name for name, column in zip(names, array.T, strict=True) if np.ptp(column) > 0]
            for names, array in ((made.observation_names, made.observations), (made.action_names, made.actions))
        )
        constant = [name for name in (*made.observation_names, *made.action_names) if name not in {*seen, *given}]
        if not seen:
            raise RecordingError(
                f"all columns are constant ({', '.join(made.observation_names)}); there is nothing to predict"
            )
        if constant:
            notes.append(f"constant columns left out: {', '.join(constant)}")
            made = made.aligned(seen, given, "the model")
    return replace(made, notes=tuple(notes))


def _without_gaps(made: Recordings) -> Recordings:
    """Interpolate short gaps; longer ones split a sequence."""
    both = ((made.observation_names, made.observations), (made.action_names, made.actions))
    for columns, array in both:
        if np.isinf(array).any():
            row, column = np.argwhere(np.isinf(array))[0]
            index = int(np.searchsorted(made.starts, row, side="right")) - 1
            raise RecordingError(
                f"step {row - made.starts[index]} of sequence {made.names[index]!r} is infinite or too large in column "
                f"{columns[column]!r}; remove or repair it"
            )
    gaps = [np.isnan(array) for _, array in both]
    if not any(gap.any() for gap in gaps):
        return made
    empty = [name for (names, _), gap in zip(both, gaps, strict=True) for name in np.array(names)[gap.all(axis=0)]]
    if empty:
        raise RecordingError(f"all values are missing in column {', '.join(empty)}; fill it in or --ignore it")
    values, missing = np.concatenate([array for _, array in both], axis=1), np.concatenate(gaps, axis=1)
    filled, split = 0, 0
    parts: list[Array] = []
    names: list[str] = []
    origins: list[tuple[str, int]] = []
    for name, start, length in zip(made.names, made.starts, made.lengths, strict=True):
        rows, gap = values[start : start + length], missing[start : start + length]
        lost = np.zeros(len(rows), dtype=bool)
        for column in np.flatnonzero(gap.any(axis=0)):
            for first, last in _stretches(gap[:, column]):
                if first > 0 and last < len(rows) and last - first <= LONGEST_GAP:
                    before, after = rows[first - 1, column], rows[last, column]
                    rows[first:last, column] = np.linspace(before, after, last - first + 2)[1:-1]
                    filled += last - first
                else:
                    lost[first:last] = True
        pieces = list(_stretches(~lost)) or [(0, 0)]
        split += len(pieces) > 1
        parts += [rows[first:last] for first, last in pieces]
        origins += [(name, first) for first, _ in pieces]
        names += [name] if len(pieces) == 1 else [f"{name}/{number}" for number in range(len(pieces))]
    joined = np.concatenate(parts)
    if not len(joined):
        raise RecordingError("every row has a missing value; fill them in, or leave columns out (--ignore)")
    total = int(missing.sum())
    note = f"{_count(total, 'missing value')}: {filled} interpolated (gaps of at most {LONGEST_GAP} steps)"
    note += f", {total - filled} cut off with their rows" if total > filled else ""
    note += f"; {_count(split, 'sequence')} split at longer gaps" if split else ""
    border = len(made.observation_names)
    return replace(
        made,
        observations=joined[:, :border],
        actions=joined[:, border:],
        names=tuple(names),
        lengths=np.array([len(part) for part in parts], dtype=np.int64),
        origins=tuple(origins),
        notes=(*made.notes, note),
    )


def _stretches(where: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where a condition holds: [first, last) of each stretch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], where.astype(np.int8), [0]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _numbered(labels: Iterable[str], numbers: dict[str, int]) -> NDArray[np.int64]:
    """Labels as numbers in the order of their first appearance, which ``numbers`` collects."""
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _arranged(made: Recordings, layout: Layout, source: str | Path) -> Recordings:
    """Sequences whose columns a file names by itself, with the roles that a layout gives them."""
    for given, what in ((layout.sequence, "sequence"), (layout.time, "time")):
        if given is not None:
            raise RecordingError(f"{source} has no column {given!r} for the {what}: it holds whole sequences, in order")
    _check_roles(layout, [*made.observation_names, *made.action_names], source)
    taken = {*layout.observations, *layout.actions, *layout.ignored}
    observed = layout.observations or [name for name in made.observation_names if name not in taken]
    acted = [*(name for name in made.action_names if name not in taken), *layout.actions]
    return made.aligned(observed, acted, str(source))


def _check_roles(layout: Layout, header: Sequence[str], source: str | Path) -> None:
    roles = [(layout.sequence, "sequence"), (layout.time, "time")]
    roles += [(name, "observations") for name in layout.observations]
    roles += [(name, "actions") for name in layout.actions]
    roles += [(name, "columns to ignore") for name in layout.ignored]
    for name, what in roles:
        if name is not None and name not in header:
            raise MissingColumnError(
                f"{source} has no column {name!r} for the {what}; it has {', '.join(header)}", name
            )
    if twice := _repeated([name for name, _ in roles if name is not None]):
        raise RecordingError(f"column {', '.join(twice)} is given twice; it can be only one of {ROLES}")


def _from_npz(path: Path, layout: Layout) -> Recordings:
    arrays = _plain_arrays(path)
    observed, acted_on = (
        [str(entry) for entry in np.atleast_1d(arrays.pop(name))] if name in arrays else None
        for name in ("observation_names", "action_names")
    )
    if layout.sequence is not None and layout.sequence not in arrays:
        raise RecordingError(
            f"{path} has no array {layout.sequence!r} for the sequence; it has {', '.join(arrays) or 'none'}"
        )
    labels = arrays.pop(layout.sequence or "sequence", None)
    for name, array in arrays.items():
        used = "observations" not in arrays or name in ("observations", "actions", "lengths")
        if used and array.dtype.kind not in "fiub":
            raise RecordingError(f"{name} in {path} holds {array.dtype}; expected numbers")
    layout = replace(layout, sequence=None)
    if "observations" not in arrays:
        if not arrays or labels is not None or arrays.keys() & {"actions", "lengths"}:
            raise RecordingError(
                f"{path} has no array 'observations'; it has {', '.join(arrays) or 'none'}. Expected observations "
                "[N, T, O], or [S, O] with lengths [N] or sequence [S], or an array [T, O] per sequence"
            )
        return _arranged(_joined(arrays.values(), names=list(arrays), observation_names=observed), layout, path)
    observations, actions, lengths = (
        arrays.pop("observations"),
        arrays.pop("actions", None),
        arrays.pop("lengths", None),
    )
    if observations.ndim not in (1, 2, 3):
        raise RecordingError(f"observations in {path} have shape {observations.shape}; expected [N, T, O] or [S, O]")
    together = observations.ndim < 3
    if lengths is not None and (lengths.dtype.kind not in "iu" or lengths.ndim != 1 or (lengths < 0).any()):
        raise RecordingError(f"lengths in {path} are {lengths.dtype} {lengths.shape}; expected whole numbers [N]")
    cut = not together or lengths is not None or labels is not None
    if cut and actions is not None and actions.shape[:1] != observations.shape[:1]:
        raise RecordingError(f"{path} has observations {observations.shape} and actions {actions.shape}")
    if together and lengths is None and labels is not None:  # a name per row
        if labels.shape != (len(observations),):
            raise RecordingError(f"{path} has names of sequences {labels.shape} for {len(observations)} rows")
        numbers: dict[str, int] = {}
        label = _numbered(labels.astype(str).tolist(), numbers)
        order, lengths, labels = np.argsort(label, kind="stable"), np.bincount(label), np.array(list(numbers))
        observations, actions = observations[order], None if actions is None else actions[order]
    if together and lengths is not None:
        if int(lengths.sum()) != len(observations):
            raise RecordingError(f"the lengths in {path} add up to {lengths.sum()}; there are {len(observations)} rows")
        cuts = np.cumsum(lengths.astype(np.int64))[:-1]
        seen = np.split(observations, cuts)
        acted = None if actions is None else np.split(actions, cuts)
    elif together:
        seen, acted, labels = [observations], None if actions is None else [actions], np.array([path.stem])
    else:
        seen, acted = list(observations), None if actions is None else list(actions)
        if lengths is not None:  # padded
            if len(lengths) != len(seen) or (lengths > observations.shape[1]).any():
                raise RecordingError(
                    f"the lengths in {path} do not fit observations of shape {observations.shape}; expected "
                    f"{len(seen)} of at most {observations.shape[1]}"
                )
            seen = [array[:length] for array, length in zip(seen, lengths, strict=True)]
            acted = acted and [array[:length] for array, length in zip(acted, lengths, strict=True)]
    names = None if labels is None else labels.astype(str).tolist()
    made = _arranged(_joined(seen, acted, names=names, observation_names=observed, action_names=acted_on), layout, path)
    return replace(made, notes=(f"arrays left out: {', '.join(arrays)}",) if arrays else ())


def _plain_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path):  # np.load takes other files, too
            pass
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordingError(
            f"{path} is not a NumPy archive of plain arrays ({error}); nothing in it was executed"
        ) from error
    if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise RecordingError(f"{path} holds {', '.join(others)}, which is not a NumPy array")
    return arrays


Chunk = tuple[Sequence[int], list[Any]]
"""Numbers of some rows for people, and the columns of these rows."""


def _from_csv(path: Path, layout: Layout) -> Recordings:
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            first = next((line for line in file if line.strip()), "")
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            rows = ((reader.line_num, row) for row in reader if row and not (len(row) == 1 and row[0].isspace()))
            _, header = next(rows, (0, []))
            return _from_rows(header, _chunks(len(header), rows, path), path, layout)
        except UnicodeDecodeError as error:
            raise RecordingError(f"{path} is not a text file in UTF-8 ({error.reason}); save it as UTF-8") from error
        except csv.Error as error:
            raise RecordingError(f"line {reader.line_num} of {path}: {error}") from error


def _chunks(width: int, rows: Iterator[tuple[int, list[str]]], path: Path) -> Iterator[Chunk]:
    while chunk := list(islice(rows, CHUNK)):
        for line, row in chunk:
            if len(row) != width:
                raise RecordingError(f"line {line} of {path} has {_count(len(row), 'column')}; the header has {width}")
        yield [line for line, _ in chunk], list(zip(*(row for _, row in chunk), strict=True))


def _from_parquet(path: Path, layout: Layout) -> Recordings:
    import pyarrow
    import pyarrow.parquet

    def plain(column: Any) -> Any:
        column = column.cast(pyarrow.int8()) if pyarrow.types.is_boolean(column.type) else column
        return column.to_numpy(zero_copy_only=False)

    def chunks(file: Any) -> Iterator[Chunk]:
        first = 1
        for batch in file.iter_batches():
            yield range(first, first + len(batch)), [plain(column) for column in batch.columns]
            first += len(batch)

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            return _from_rows(list(file.schema_arrow.names), chunks(file), path, layout)
    except (pyarrow.ArrowException, OSError) as error:
        raise RecordingError(f"{path} is not a Parquet file that can be read ({error})") from error


def _from_rows(header: list[str], chunks: Iterator[Chunk], path: Path, layout: Layout) -> Recordings:
    """Rows that are time steps of named sequences, or (wide) whole sequences."""
    header = [name.strip() for name in header]
    nameless = {name for name in header if name.lower() in UNNAMED}
    if twice := _repeated([name for name in header if name]):
        raise RecordingError(f"{path} has more than one column {', '.join(twice)}; rename them")
    if header and all(map(_is_number, header)) and _wide(header) is None:
        raise RecordingError(f"the first line of {path} holds numbers ({header[0]}, ...); expected names of columns")
    _check_roles(layout, header, path)
    taken = {*layout.observations, *layout.actions, *layout.ignored, layout.sequence, layout.time} | nameless
    free = {name.lower(): name for name in reversed(header) if name not in taken}
    sequence = layout.sequence or next((free[name] for name in SEQUENCE_NAMES if name in free), None)
    time = layout.time or next((free[name] for name in TIME_NAMES if name in free), None)
    taken |= {sequence, time}
    observed = list(layout.observations) or [name for name in header if name not in taken]
    numeric = [*observed, *layout.actions]
    if not observed:
        raise RecordingError(f"{path} has no column to predict; its columns are {', '.join(header) or 'none'}")
    blocks: list[Array] = []
    times: list[NDArray[Any]] = []
    labels: list[NDArray[np.int64]] = []
    numbers: dict[str, int] = {}
    for lines, columns in chunks:
        by_name = dict(zip(header, columns, strict=True))
        blocks.append(np.stack([_numbers(by_name[name], name, lines, path) for name in numeric], axis=1))
        if sequence is not None:
            labels.append(_numbered((str(label).strip() for label in by_name[sequence]), numbers))
            if nobody := numbers.keys() & {"", "nan", "None"}:
                line = lines[int(np.argmax(labels[-1] == numbers[nobody.pop()]))]
                raise RecordingError(f"{_place(line, path)} has no name of a sequence in column {sequence!r}")
        if time is not None:
            times.append(_times(by_name[time], time, lines, path))
    if not blocks:
        raise RecordingError(f"{path} has a header and no rows")
    values = np.concatenate(blocks)
    del blocks
    unique = sequence is not None and len(numbers) == len(values)
    wide = _wide(numeric) if time is None and not (layout.actions or layout.observations) else None
    if wide and (unique or (sequence is None and len(next(iter(wide.values()))) >= FEWEST_WIDE)):
        cube = np.stack([values[:, places] for places in wide.values()], axis=2)  # [N, T, O]
        made = _joined(cube, observation_names=list(wide), names=list(numbers) if unique else None)
        note = "read as wide, a row per sequence"
        return replace(made, notes=(note if unique else f"{note}; --sequence, --time or --observations make it long",))
    label = np.concatenate(labels) if labels else np.zeros(len(values), dtype=np.int64)
    names = list(numbers) or [path.stem]
    order = _order(label, times, f"{path}: column {time!r}", names)
    if order is not None:
        values = values[order]
    found = f"column {sequence!r} names the sequence" if sequence else "no column names a sequence, all rows are one"
    return Recordings(
        observation_names=tuple(observed),
        action_names=layout.actions,
        observations=values[:, : len(observed)],
        actions=values[:, len(observed) :],
        names=tuple(names),
        lengths=np.bincount(label).astype(np.int64),
        notes=(
            found + (" (--sequence COLUMN)" if layout.sequence is None else ""),
            *([f"column {time!r} orders rows"] if time else []),
        ),
    )


def _order(label: NDArray[np.int64], times: list[NDArray[Any]], column: str, names: list[str]) -> NDArray[Any] | None:
    """Where each row comes from when sequences are together and in the order of time; None if they are already."""
    order = grouped = np.argsort(label, kind="stable")
    if times:
        if len({block.dtype for block in times}) > 1:
            raise RecordingError(f"{column} holds numbers and dates; expected one or the other")
        time = np.concatenate(times)
        order = np.lexsort((time, label))
        if not np.array_equal(order, grouped):
            same = (np.diff(label[order]) == 0) & (time[order][1:] == time[order][:-1])
            if same.any():
                row = order[int(np.argmax(same))]
                raise RecordingError(
                    f"{column} has {time[row]} more than once in sequence {names[label[row]]!r}, and rows are not in "
                    "its order; name the column that tells sequences apart (--sequence), or --ignore this one to keep "
                    "the order of rows"
                )
    return None if np.array_equal(order, np.arange(len(order))) else order


def _place(line: int, path: Path) -> str:
    return f"{'row' if path.suffix.lower() == '.parquet' else 'line'} {line} of {path}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(column: Any, name: str, lines: Sequence[int], path: Path) -> Array:
    """A column as numbers, NaN where a value is missing; text is an error that names the place."""
    if not (isinstance(column, np.ndarray) and column.dtype.kind in "fiub"):
        try:
            column = np.array(list(map(float, map(str, column))))
        except ValueError:
            column = np.array([_number(str(text), name, line, path) for text, line in zip(column, lines, strict=True)])
    with np.errstate(over="ignore"):
        found: Array = column.astype(np.float32)
    if np.isinf(found).any():
        index = int(np.argmax(np.isinf(found)))
        raise RecordingError(
            f"{_place(lines[index], path)}: {column[index]} in column {name!r} is infinite or too large; remove or "
            "repair it"
        )
    return found


def _number(text: str, name: str, line: int, path: Path) -> float:
    known = text.strip().lower()
    if known in MISSING:
        return np.nan
    if known in TRUTH:
        return TRUTH[known]
    if _is_number(known):
        return float(known)
    advice = f"leave the column out (--ignore {name}), or name it as what it is (--sequence, --time)"
    if _is_number(known.replace(",", ".")):
        advice = "write decimals with a point"
    raise RecordingError(f"{_place(line, path)}: {text!r} in column {name!r} is not a number; {advice}")


def _times(column: Any, name: str, lines: Sequence[int], path: Path) -> NDArray[Any]:
    """What rows are ordered by: numbers as float64, or dates as datetime64."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiubM":
        found = column.astype("datetime64[us]" if column.dtype.kind == "M" else np.float64)
    else:
        try:
            found = np.array(list(map(float, map(str, column))))
        except ValueError:
            texts = [str(text).strip() for text in column]
            if _is_number(texts[0]):
                found = np.array([float(text) if _is_number(text) else np.nan for text in texts])
            else:
                found = np.array([_date(text) for text in texts], dtype="datetime64[us]")
    unknown = np.isnat(found) if found.dtype.kind == "M" else ~np.isfinite(found)
    if unknown.any():
        index = int(np.argmax(unknown))
        raise RecordingError(
            f"{_place(lines[index], path)}: {str(column[index])!r} in column {name!r} is not a time; expected numbers, "
            f"or dates such as 2024-12-31 23:59:00 in all rows, or --ignore {name}"
        )
    return found


def _date(text: str) -> datetime | None:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)


def _wide(names: Sequence[str]) -> dict[str, list[int]] | None:
    """Variable -> its columns in the order of time, if all columns look like ``name_3`` or ``3``; else None."""
    found: dict[str, list[tuple[int, int]]] = {}
    for place, name in enumerate(names):
        match = re.fullmatch(r"(?:(.+)[_.\[])?(\d+)\]?", name)
        if match is None:
            return None
        found.setdefault(match[1] or "x", []).append((int(match[2]), place))
    ordered = {variable: sorted(entries) for variable, entries in found.items()}
    steps = [[step for step, _ in entries] for entries in ordered.values()]
    first, count = steps[0][0], len(steps[0])
    if count < SHORTEST or any(own != list(range(first, first + count)) for own in steps):
        return None
    return {variable: [place for _, place in entries] for variable, entries in ordered.items()}


def _from_minari(name: str) -> Recordings:
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
        observations.append(_flat(data.observation_space, episode.observations, steps + 1))
        actions.append(_flat(data.action_space, episode.actions, steps))
        names.append(str(episode.id))
    return _joined(observations, actions, names=names)


def _flat(space: Any, values: Any, steps: int) -> Array:
    """A batch of a space's elements as rows of numbers."""
    from gymnasium import spaces

    def at(values: Any, step: int) -> Any:
        if isinstance(values, dict):
            return {key: at(value, step) for key, value in values.items()}
        return tuple(at(value, step) for value in values) if isinstance(values, tuple) else values[step]

    if isinstance(space, spaces.Box):
        return np.asarray(values, dtype=np.float32).reshape(steps, -1)
    rows = [spaces.flatten(space, at(values, step)) for step in range(steps)]
    return np.asarray(rows, dtype=np.float32).reshape(steps, -1)
