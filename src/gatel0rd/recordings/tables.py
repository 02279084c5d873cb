"""Recordings from tables: CSV and Parquet.

Tables are long (a row per time step) or wide (a row per sequence, columns ``x_0``, ``x_1``, ... or ``0``, ``1``, ...).
Columns without a name, as pandas writes for its index, are left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models.fitted import narrow
from gatel0rd.recordings.arrays import join_sequences, number_labels
from gatel0rd.recordings.categories import CellReader, expand_texts
from gatel0rd.recordings.cleaning import SHORTEST
from gatel0rd.recordings.layout import Layout, RecordingError, check_roles, find_repeated, in_one_line, list_names
from gatel0rd.recordings.recordings import Array, Recordings
from gatel0rd.recordings.values import is_number, parse_times, place_of
from gatel0rd.streams import count_of

CHUNK = 1000
"""Lines of text that are read at once; more are slower and need more memory."""
SEQUENCE_NAMES = ("sequence", "episode", "trial", "series", "recording", "run", "subject", "id")
TIME_NAMES = ("time", "t", "step", "timestep", "frame", "timestamp", "date", "datetime", "index")
DELIMITERS = ",;\t"
DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?\s*")
"""Only in files whose columns are separated by something else."""
THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*")
"""Only in columns with decimal commas; elsewhere 1.000 is one."""
UNNAMED = ("", "unnamed: 0", "__index_level_0__")
HOUR = 3_600_000_000
"""In microseconds."""
FEWEST_WIDE = 10
"""Steps from which a table without names of sequences is read as wide: ``joint_1`` to ``joint_7`` are variables."""

Chunk = tuple[Sequence[int], list[Any]]
"""Numbers of some rows for people, and the columns of these rows."""


def from_csv(path: Path, layout: Layout) -> Recordings:
    """Read a text file with columns that are separated by commas, semicolons or tabs."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            delimiter = find_delimiter(list(islice((line for line in file if line.strip()), 2)))
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter)
            with_commas = set() if delimiter == "," else find_decimal_commas(reader)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter)
            rows = ((reader.line_num, row) for row in reader if row and not (len(row) == 1 and row[0].isspace()))
            if with_commas:
                rows = ((line, points_for_commas(row, with_commas)) for line, row in rows)
            _, header = next(rows, (0, []))
            return from_rows(header, csv_chunks(len(header), rows, path), path, layout)
        except UnicodeDecodeError as error:
            raise RecordingError(f"{path} is not a text file in UTF-8 ({error.reason}); save it as UTF-8") from error
        except csv.Error as error:
            raise RecordingError(f"line {reader.line_num} of {path}: {error}") from error


def find_delimiter(lines: Sequence[str]) -> str:
    """What separates columns: what cuts header and first row into as many cells, or else what the header has most of.

    Semicolons and tabs count twice, because commas are part of numbers and names in many files with these.
    """
    header = lines[0] if lines else ""
    fitting = [sign for sign in DELIMITERS if len(lines) == 2 and _are_cut_alike(lines, sign)]
    return max(fitting or DELIMITERS, key=lambda sign: header.count(sign) * (1 + (sign != ",")))


def _are_cut_alike(lines: Sequence[str], delimiter: str) -> bool:
    """Whether all lines have the same number of cells, and more than one."""
    try:
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter)}
    except csv.Error:  # the reader of the whole file says where
        return False
    return len(widths) == 1 and widths != {1}


def find_decimal_commas(rows: Iterable[list[str]]) -> set[int]:
    """The columns in which any number has a decimal comma, wherever in the file it is."""
    found: set[int] = set()
    for row in rows:
        for column, cell in enumerate(row):
            if "," in cell and column not in found and DECIMAL_COMMA.fullmatch(cell):
                found.add(column)
    return found


def points_for_commas(row: list[str], with_commas: set[int]) -> list[str]:
    """Numbers with a decimal point, in columns with decimal commas; points are between thousands there."""
    return [
        cell.replace(".", "").replace(",", ".")
        if column in with_commas and (DECIMAL_COMMA.fullmatch(cell) or THOUSANDS.fullmatch(cell))
        else cell
        for column, cell in enumerate(row)
    ]


def csv_chunks(width: int, rows: Iterator[tuple[int, list[str]]], path: Path) -> Iterator[Chunk]:
    """Rows of text in chunks, column by column."""
    while chunk := list(islice(rows, CHUNK)):
        for line, row in chunk:
            if len(row) != width:
                found = count_of(len(row), "column")
                raise RecordingError(f"line {line} of {path} has {found}; the header has {width}")
        yield [line for line, _ in chunk], list(zip(*(row for _, row in chunk), strict=True))


def from_parquet(path: Path, layout: Layout) -> Recordings:
    """Read a Parquet file."""
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
            return from_rows(list(file.schema_arrow.names), chunks(file), path, layout)
    except (pyarrow.ArrowException, OSError) as error:
        raise RecordingError(f"{path} is not a Parquet file that can be read ({in_one_line(error)})") from error


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns, given or found by their names."""

    sequence: str | None
    time: str | None
    observations: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def numeric(self) -> tuple[str, ...]:
        return (*self.observations, *self.actions)


@dataclass(frozen=True)
class TableRows:
    """The rows of a table.

    Attributes:
        values: numbers of observations and actions, [S, O + A]; of columns of text, numbers of their values.
        readers: of these columns.
        labels: the number of the sequence of each row, [S]; None if no column names it.
        times: what rows are ordered by, a part per chunk.
        names: of the sequences, in the order of their first appearance.
    """

    values: Array
    readers: list[CellReader]
    labels: NDArray[np.int64] | None
    times: list[NDArray[Any]]
    names: list[str]


def from_rows(header: list[str], chunks: Iterator[Chunk], path: Path, layout: Layout) -> Recordings:
    """Rows that are time steps of named sequences, or (wide) whole sequences."""
    header = [name.strip() for name in header]
    columns = find_columns(header, path, layout)
    rows = collect_rows(header, chunks, path, columns, layout)
    texts = [reader.categories() for reader in rows.readers if reader.is_text]
    steps = find_steps(columns.numeric)
    if layout.wide and steps is None:
        raise RecordingError(
            f"{path} has the columns {list_names(header)}; expected x_0, x_1, ... of every variable, because each row "
            "is to be a whole sequence"
        )
    if steps is not None and (layout.wide or (layout.wide is None and looks_wide(steps, rows, columns, layout))):
        if texts:
            found = f"column {texts[0].column!r} of {path} holds text ({list_names(texts[0].values, 3)})"
            raise RecordingError(f"{found}; where a row is a whole sequence all columns have to hold numbers")
        recordings = from_wide(rows, steps)
        return replace(recordings, layout=replace(layout, wide=True))
    notes = (
        (f"column {columns.sequence!r} names the sequence" if columns.sequence else NO_SEQUENCE)
        + (" (--sequence COLUMN)" if layout.sequence is None else ""),
        *([f"column {columns.time!r} orders rows"] if columns.time else []),
        *(f"column {entry.column!r} holds categories: {', '.join(entry.values)}" for entry in texts),
    )
    long = from_long(rows, columns, path)
    return replace(long, notes=(*notes, *long.notes), layout=replace(layout, wide=False, categories=tuple(texts)))


NO_SEQUENCE = "no column names a sequence, all rows of a file are one"


def find_columns(header: Sequence[str], path: Path, layout: Layout) -> Columns:
    """Give every column its role."""
    nameless = {name for name in header if name.lower() in UNNAMED}
    if twice := find_repeated([name for name in header if name]):
        raise RecordingError(f"{path} has more than one column {', '.join(twice)}; rename them")
    if header and all(map(is_number, header)) and find_steps(header) is None:
        raise RecordingError(f"the first line of {path} holds numbers ({header[0]}, ...); expected names of columns")
    check_roles(layout, header, path)
    taken = {layout.sequence, layout.time, *layout.observations, *layout.actions, *layout.ignored, *layout.left_out}
    taken |= nameless
    free = {name.lower(): name for name in reversed(header) if name not in taken}
    sequence = layout.sequence or next((free[name] for name in SEQUENCE_NAMES if name in free), None)
    time = layout.time or next((free[name] for name in TIME_NAMES if name in free), None)
    taken |= {sequence, time}
    observed = layout.observations or tuple(name for name in header if name not in taken)
    if not observed:
        raise RecordingError(f"{path} has no column to predict; its columns are {list_names(header) or 'none'}")
    return Columns(sequence, time, observed, layout.actions)


def collect_rows(
    header: Sequence[str], chunks: Iterator[Chunk], path: Path, columns: Columns, layout: Layout
) -> TableRows:
    """Read all chunks."""
    known = {entry.column: entry for entry in layout.categories}
    readers = [CellReader(name, path, known.get(name)) for name in columns.numeric]
    blocks: list[Array] = []
    times: list[NDArray[Any]] = []
    labels: list[NDArray[np.int64]] = []
    numbers: dict[str, int] = {}
    for lines, cells in chunks:
        by_name = dict(zip(header, cells, strict=True))
        block = np.stack([reader.read(by_name[reader.name], lines) for reader in readers], axis=1)
        blocks.append(narrow(block, whole=False))
        if columns.sequence is not None:
            labels.append(number_labels((str(label).strip() for label in by_name[columns.sequence]), numbers))
            if nobody := numbers.keys() & {"", "nan", "None"}:
                line = lines[int(np.argmax(labels[-1] == numbers[nobody.pop()]))]
                raise RecordingError(f"{place_of(line, path)} has no name of a sequence in column {columns.sequence!r}")
        if columns.time is not None:
            times.append(parse_times(by_name[columns.time], columns.time, lines, path))
    if not blocks:
        raise RecordingError(f"{path} has a header and no rows")
    values = np.concatenate(blocks)
    for place, reader in enumerate(readers):
        reader.complete(values[:, place])
    return TableRows(values, readers, np.concatenate(labels) if labels else None, times, list(numbers))


def find_steps(names: Sequence[str]) -> dict[str, list[int]] | None:
    """Variable -> its columns in the order of time, if all columns look like ``name_3`` or ``3``; else None."""
    found: dict[str, list[tuple[int, int]]] = {}
    for place, name in enumerate(names):
        match = re.fullmatch(r"(?:(.+)[_.\[])?(\d{1,18})\]?", name)
        if match is None:
            return None
        found.setdefault(match[1] or "x", []).append((int(match[2]), place))
    ordered = {variable: sorted(entries) for variable, entries in found.items()}
    steps = [[step for step, _ in entries] for entries in ordered.values()]
    first, count = steps[0][0], len(steps[0])
    if count < SHORTEST or any(own != list(range(first, first + count)) for own in steps):
        return None
    return {variable: [place for _, place in entries] for variable, entries in ordered.items()}


def looks_wide(steps: dict[str, list[int]], rows: TableRows, columns: Columns, layout: Layout) -> bool:
    """Whether rows are whole sequences: each has its own name, or none has one and there are many steps."""
    if columns.time is not None or layout.actions or layout.observations:
        return False
    if columns.sequence is not None:
        return len(rows.names) == len(rows.values)
    return len(next(iter(steps.values()))) >= FEWEST_WIDE


def from_wide(rows: TableRows, steps: dict[str, list[int]]) -> Recordings:
    """A sequence per row."""
    cube = np.stack([rows.values[:, places] for places in steps.values()], axis=2)  # [N, T, O]
    named = len(rows.names) == len(rows.values)
    recordings = join_sequences(cube, observation_names=list(steps), names=rows.names if named else None)
    note = "read as wide, a row per sequence"
    return replace(recordings, notes=(note if named else f"{note}; --sequence, --time or --observations make it long",))


def from_long(rows: TableRows, columns: Columns, path: Path) -> Recordings:
    """A time step per row."""
    labels = np.zeros(len(rows.values), dtype=np.int64) if rows.labels is None else rows.labels
    names = rows.names or [path.stem]
    order, notes = order_rows(labels, rows.times, columns.time, path, names)
    values = rows.values if order is None else rows.values[order]
    times = np.concatenate(rows.times) if rows.times else None
    border = len(columns.observations)
    observed, observations = expand_texts(columns.observations, values[:, :border], rows.readers[:border])
    acted, actions = expand_texts(columns.actions, values[:, border:], rows.readers[border:])
    return Recordings(
        observation_names=observed,
        action_names=acted,
        observations=observations,
        actions=actions,
        names=tuple(names),
        lengths=np.bincount(labels).astype(np.int64),
        times=times if times is None or order is None else times[order],
        notes=notes,
    )


def order_rows(
    label: NDArray[np.int64], times: list[NDArray[Any]], column: str | None, path: Path, names: Sequence[str]
) -> tuple[NDArray[Any] | None, tuple[str, ...]]:
    """Where each row comes from when sequences are together and in the order of time; None if they are already.

    With a note if rows of a sequence are not in the order of time.
    """
    order = np.argsort(label, kind="stable")
    notes: tuple[str, ...] = ()
    if times:
        if len({block.dtype for block in times}) > 1:
            raise RecordingError(f"{path}: column {column!r} holds numbers and dates; expected one or the other")
        time, source = np.concatenate(times), f"{path}: column {column!r}"
        grouped, own = label[order], time[order]
        late = find_late(grouped, own)
        if late.any():
            check_clocks(grouped, own, source, names)
            order = np.lexsort((time, label))
            check_repeated(label[order], time[order], source, names)
            first = int(np.argmax(late))
            row, name = first - int(np.argmax(grouped == grouped[first])), names[grouped[first]]
            moved = f"{count_of(int(late.sum()), 'row')} moved to the order of column {column!r}"
            notes = (f"{moved}, the first is row {row} of sequence {name!r} ({show_time(own[first])})",)
    return None if np.array_equal(order, np.arange(len(order))) else order, notes


def find_late(label: NDArray[np.int64], time: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows that follow a later one of their sequence; the rows of a sequence are together. Shape: [S], [S] -> [S]."""
    ranks = np.unique(time, return_inverse=True)[1] + label * len(time)
    late: NDArray[np.bool_] = ranks < np.maximum.accumulate(ranks)
    return late


def check_repeated(label: NDArray[np.int64], time: NDArray[Any], source: str, names: Sequence[str]) -> None:
    """Times that a sequence has twice do not say which row comes first. Shape: [S], [S], in their order."""
    same = (np.diff(label) == 0) & (time[1:] == time[:-1])
    if same.any():
        row = int(np.argmax(same))
        raise RecordingError(
            f"{source} has {show_time(time[row])} more than once in sequence {names[label[row]]!r}, and rows are not "
            "in its order; name the column that tells sequences apart (--sequence), or --ignore this one to keep the "
            "order of rows"
        )


def check_clocks(label: NDArray[np.int64], time: NDArray[Any], source: str, names: Sequence[str]) -> None:
    """Dates of clocks that were set back are an error: sorting would mix the hour before with the hour after.

    Shape: [S], [S]; the rows of a sequence are together.
    """
    if time.dtype.kind != "M":
        return
    back = (np.diff(label) == 0) & (np.diff(time) < np.timedelta64(0))
    for number in np.unique(label[1:][back]).tolist():
        first, end = np.searchsorted(label, [number, number + 1]).tolist()
        if is_set_back(time[first:end]):
            row = int(np.argmax(back[first:end]))
            before, after = map(show_time, time[first + row : first + row + 2])
            raise RecordingError(
                f"{source} goes back from {before} to {after} (row {row + 1} of sequence {names[number]!r}), "
                "as clocks do at the end of daylight saving time; write dates in UTC or with their offset "
                "(2024-10-27T02:30:00+01:00), or --ignore the column to take every row as a step"
            )


def show_time(time: Any) -> str:
    """A time for people."""
    return str(time).removesuffix(".000000")


def is_set_back(time: NDArray[np.datetime64]) -> bool:
    """Whether the dates of a sequence go back by about an hour, at most once a year, and on from there."""
    steps = np.diff(time).astype("timedelta64[us]").astype(np.int64)
    back, forth = np.flatnonzero(steps < 0), steps[steps > 0]
    again = time[back[0] + 1 :]
    if again[0] == time[0] or again.max() <= time[0]:  # another recording, or an earlier part of this one
        return False
    if len(np.unique(time[back].astype("datetime64[Y]"))) < len(back):
        return False
    usual = float(np.median(forth))
    if usual > HOUR / 2:  # a row that is a little late looks the same
        return False
    most = max(3 * usual, HOUR / 4)

    def loses_hour(row: int) -> bool:
        rows = int(np.argmax(time[row + 1 :] > time[row]))  # 0: that hour is the last
        around = steps[max(row - 1, 0) : row + 2]  # where two rows are in the wrong order, nothing is lost
        is_lost = around.sum() < len(around) * usual - HOUR / 2
        return bool(is_lost and 0 <= HOUR + steps[row] <= most and (not rows or steps[row + rows] <= most))

    return all(map(loses_hour, back.tolist()))
