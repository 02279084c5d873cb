"""Tables and layouts: what is only spelled in another way is read as the same numbers, the rest is refused in words."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.driver import BrokenPromiseError, Target
from fuzz.mutations import damage_bytes

from gatel0rd.recordings import Layout, RecordingError, Recordings, read_recordings
from gatel0rd.recordings.layout import Categories

NAMES = (
    "level",
    "x",
    "flow rate",
    "λ",
    "a_1",
    "x_0",
    "x_1",
    "x_2",
    "0",
    "1",
    "2",
    "joint[3]",
    "Time",
    "t",
    "id",
    "run",
)
CELLS = (
    *("", " ", "NA", "nan", "-", "?", "None", "inf", "-inf", "1e400", "1e39", "-1e38", "1e-400", "9" * 400, "9" * 5000),
    *(
        "0x10",
        "1_000",
        "１２",
        "٣",
        "²",
        "true",
        "FALSE",
        "1,5",
        "1.234,5",
        "1.234.567",
        "'1'",
        '"',
        '""',
        '"1',
        "1\n2",
    ),
    *(
        "2024-12-31",
        "31.12.2024 23:59",
        "31.13.2024",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "24:00",
    ),
    *("\0", "a\0b", "\ud800", "\x1b[31m", "\u202e", "🦭", "on", "off", "other", "=1+1", "x" * 200_000, "\ufeff1", "\r"),
)
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7")


@dataclass(frozen=True)
class Truth:
    """What a table says: numbers [S, C] of named columns, and which rows are of which sequence."""

    names: tuple[str, ...]
    values: np.ndarray[Any, Any]
    labels: list[str] | None
    timed: bool

    def columns(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        if self.labels is not None:
            found["episode"] = self.labels
        if self.timed:
            found["time"] = list(range(len(self.values)))
        return found | {name: self.values[:, i].tolist() for i, name in enumerate(self.names)}


def draw_truth(rng: random.Random) -> Truth:
    """A table of a few sequences of at least three rows each."""
    count = rng.randint(1, 4)
    odd = ["x;y", "a,b"] if count > 1 and rng.random() < 0.5 else []  # alone, they could be two columns
    names = tuple(rng.sample(["level", "flow rate", "λ", "Druck/bar", 'a "b"', *odd], count))
    lengths = [rng.randint(3, 9) for _ in range(rng.randint(1, 3))]
    labels = [f"s{i}" for i, n in enumerate(lengths) for _ in range(n)] if rng.random() < 0.6 else None
    numbers = np.random.default_rng(rng.randrange(2**32))
    scale = 10.0 ** rng.randint(-6, 6)
    values = numbers.normal(rng.choice([0, 0, 3, 1e5]), scale, (sum(lengths), len(names)))
    return Truth(names, np.round(values, 9), labels, rng.random() < 0.5)


def spell_number(rng: random.Random, value: Any, comma: bool) -> str:
    """A number as somebody may write it."""
    if isinstance(value, (str, int)):
        return str(value)
    text = rng.choice([repr(value), f"{value:.17g}", f"{value:+.17e}", f"{value:.17G}", f" {value!r} ", f"{value!r}\t"])
    text = text.strip("\t") if comma else text.rstrip("\t")
    return text.replace(".", ",") if comma else text


def spell_table(rng: random.Random, columns: dict[str, list[Any]]) -> str:
    """A CSV file with one of the usual delimiters, line ends and ways to quote."""
    delimiter = rng.choice([",", ";", "\t"])
    names = list(columns)
    rng.shuffle(names)
    comma = delimiter != "," and len(names) > 1 and rng.random() < 0.5
    file = io.StringIO()
    end = rng.choice(["\n", "\r\n"])
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(names)
    for row in zip(*(columns[name] for name in names), strict=True):
        writer.writerow([spell_number(rng, value, comma) for value in row])
        if rng.random() < 0.02:
            file.write(end)
    text = file.getvalue()
    return text.rstrip("\r\n") if rng.random() < 0.3 else text


def damage_text(rng: random.Random, text: str) -> str:
    """A table with cells, rows or its header changed."""
    lines = text.split("\n")
    place = rng.randrange(len(lines))
    delimiter = max(",;\t", key=lines[0].count)
    cells = lines[place].split(delimiter)
    match rng.randrange(12):
        case 0 | 1 | 2 | 3:
            cells[rng.randrange(len(cells))] = rng.choice(CELLS)
            lines[place] = delimiter.join(cells)
        case 4:
            lines[place] = delimiter.join(cells[:-1] if rng.random() < 0.5 else [*cells, rng.choice(CELLS)])
        case 5:
            lines[0] = delimiter.join(rng.choice(NAMES) for _ in cells)
        case 6:
            column, cell = rng.randrange(len(cells)), rng.choice(CELLS)
            rows = [line.split(delimiter) for line in lines[1:]]
            lines[1:] = [delimiter.join([*row[:column], cell, *row[column + 1 :]]) for row in rows]
        case 7:
            lines = lines[:place]
        case 8:
            lines[place:place] = rng.choices(lines, k=rng.randint(1, 3))
        case 9:
            rng.shuffle(lines)
        case 10:
            lines[place] = lines[place].replace(delimiter, rng.choice(["|", ";", " ", "\t\t", "\0", ",,"]))
        case _:
            lines[place] = rng.choice(["", '"', "#", "\ufeff", "\0" * 9, "," * 2000, "sep=;", " "]) + lines[place]
    return "\n".join(lines)


def draw_layout(rng: random.Random, names: list[str]) -> Layout:
    """Mostly nothing, or names that are there, or that are not."""
    if rng.random() < 0.5:
        return Layout()
    known = [*names, *NAMES[:3], ""]

    def some(most: int) -> tuple[str, ...]:
        return tuple(rng.choices(known, k=rng.randint(0, most))) if rng.random() < 0.4 else ()

    return Layout(
        sequence=rng.choice([None, None, rng.choice(known)]),
        time=rng.choice([None, None, rng.choice(known)]),
        observations=some(2),
        actions=some(2),
        ignored=some(2),
        wide=rng.choice([None, None, True, False]),
        categories=tuple(Categories(column=name, values=rng.choice([(), ("on", "off")])) for name in some(1)),
        same_row=rng.random() < 0.2,
    )


def check_recordings(found: Recordings) -> None:
    """What every reader may rely on."""
    for array in (found.observations, found.actions):
        if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
            raise BrokenPromiseError(f"recordings with {array.dtype} that are not finite numbers")
    if len(found.observations) != found.lengths.sum() or (found.lengths < 3).any():
        raise BrokenPromiseError(f"lengths do not fit: {found.lengths.tolist()} of {len(found.observations)} rows")
    if found.times is not None and len(found.times) != len(found.observations):
        raise BrokenPromiseError(f"times do not fit: {len(found.times)} of {len(found.observations)} rows")
    if len(found.origins) != len(found.names) or not all(isinstance(name, str) for name in found.names):
        raise BrokenPromiseError(f"names of sequences are no texts: {found.names!r}")
    found.preview()


class Tables(Target):
    """Tables through the reader of recordings."""

    name = "tables"
    seconds = 20.0

    def attempt(self, rng: random.Random, place: Path) -> str:
        kind = rng.choice(["spelled", "damaged", "damaged", "damaged", "npz", "parquet", "several"])
        return f"{kind}: {getattr(self, f'try_{kind}')(rng, place)}"

    def try_spelled(self, rng: random.Random, place: Path) -> str:
        """The same numbers in any format and spelling are the same recordings."""
        truth = draw_truth(rng)
        suffix = rng.choice(["csv", "csv", "CSV", "parquet"])
        path = place / f"table.{suffix}"
        if suffix == "parquet":
            write_parquet(path, truth.columns())
        else:
            text = spell_table(rng, truth.columns())
            path.write_bytes(text.encode(rng.choice(["utf-8", "utf-8-sig"])))
        found = read_recordings(path, keep_constant=True)
        check_recordings(found)
        order = [found.observation_names.index(name) for name in truth.names]
        if found.observations.shape != truth.values.shape:
            raise BrokenPromiseError(f"another shape: {found.observations.shape}, expected {truth.values.shape}")
        spread = np.maximum(np.ptp(truth.values, axis=0), 1e-30)
        if (np.abs(found.observations[:, order] - truth.values) > 2e-3 * spread + 1e-6 * np.abs(truth.values)).any():
            raise BrokenPromiseError("other numbers than those in the table")
        if len(found) != (1 if truth.labels is None else len(set(truth.labels))):
            raise BrokenPromiseError(f"another number of sequences: {len(found)}")
        return "the same numbers"

    def try_damaged(self, rng: random.Random, place: Path) -> str:
        truth = draw_truth(rng)
        text = spell_table(rng, truth.columns())
        for _ in range(rng.randint(0, 4)):
            text = damage_text(rng, text)
        encoding = rng.choice(ENCODINGS) if rng.random() < 0.1 else "utf-8"
        data = text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")
        if rng.random() < 0.25:
            data = damage_bytes(rng, data)
        (place / "table.csv").write_bytes(data)
        return read(place / "table.csv", draw_layout(rng, list(truth.columns())))

    def try_npz(self, rng: random.Random, place: Path) -> str:
        path = place / "table.npz"
        numbers = np.random.default_rng(rng.randrange(2**32))
        arrays: dict[str, Any] = {"observations": numbers.normal(size=(12, 2)), "lengths": np.array([3, 4, 5])}
        arrays = arrays if rng.random() < 0.5 else {"observations": numbers.normal(size=(4, 7, 2))}
        arrays |= {name: draw_array(rng) for name in draw_keys(rng)}
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        if rng.random() < 0.4:
            path.write_bytes(damage_bytes(rng, path.read_bytes()))
        return read(path, replace(draw_layout(rng, ["x0", "x1", "a0", "sequence"]), categories=()))

    def try_parquet(self, rng: random.Random, place: Path) -> str:
        path = place / "table.parquet"
        rows = rng.choice([0, 1, 3, 12, 12, 12])
        columns = {name: draw_column(rng, rows) for name in rng.sample(NAMES, rng.randint(0, 4))}
        write_parquet(path, columns)
        if rng.random() < 0.4:
            path.write_bytes(damage_bytes(rng, path.read_bytes()))
        return read(path, draw_layout(rng, list(columns)))

    def try_several(self, rng: random.Random, place: Path) -> str:
        for number in range(rng.randint(1, 3)):
            text = spell_table(rng, draw_truth(random.Random(rng.randrange(3))).columns())
            text = damage_text(rng, text) if rng.random() < 0.3 else text
            (place / f"{number}.csv").write_text(text, newline="", encoding="utf-8", errors="replace")
        return read(place / rng.choice(["*.csv", "?.csv", "**/*", "[0-9].csv", "["]), Layout())


def read(source: Path, layout: Layout) -> str:
    try:
        check_recordings(read_recordings(source, layout))
    except RecordingError as error:
        if not str(error) or (source.suffix != ".csv" and "\n" in str(error)):  # columns of text files may be named so
            raise BrokenPromiseError(f"an error that is not a sentence: {error!r}") from error
        return "refused"
    return "read"


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, allow_truncated_timestamps=True)


def draw_column(rng: random.Random, rows: int) -> Any:
    """A column of one of Parquet's types, some of which nobody would call numbers."""
    import pyarrow

    numbers = [rng.choice([0, 1, -1, 5, 100, rng.randint(-9, 9)]) for _ in range(rows)]
    with_gaps = [None if rng.random() < 0.2 else value for value in numbers]
    makers: list[Any] = [
        lambda: pyarrow.array(numbers, pyarrow.int64()),
        lambda: pyarrow.array(with_gaps, pyarrow.int8()),
        lambda: pyarrow.array([2**64 - 1 - abs(value) for value in numbers], pyarrow.uint64()),
        lambda: pyarrow.array([value * rng.choice([1.5, 1e300, float("nan")]) for value in numbers]),
        lambda: pyarrow.array([value > 0 for value in numbers]),
        lambda: pyarrow.array([None if value is None else value > 0 for value in with_gaps], pyarrow.bool_()),
        lambda: pyarrow.array([rng.choice(["on", "off", "1", "2.5", None]) for _ in numbers], pyarrow.string()),
        lambda: pyarrow.array([rng.choice([b"a", b"\xff", None]) for _ in numbers], pyarrow.binary()),
        lambda: pyarrow.array([value * 10**9 for value in numbers], pyarrow.timestamp("ns", "Europe/Berlin")),
        lambda: pyarrow.array(with_gaps, pyarrow.timestamp(rng.choice(["s", "us"]))),
        lambda: pyarrow.array([value * 2**40 for value in numbers], pyarrow.timestamp("s")),
        lambda: pyarrow.array(numbers, pyarrow.date32()),
        lambda: pyarrow.array([abs(value) for value in numbers], pyarrow.time32("s")),
        lambda: pyarrow.array(numbers, pyarrow.duration("us")),
        lambda: pyarrow.array(with_gaps, pyarrow.int64()).cast(pyarrow.decimal128(30, 4)),
        lambda: pyarrow.array([[value] for value in numbers], pyarrow.list_(pyarrow.int64())),
        lambda: pyarrow.array([{"a": value} for value in numbers], pyarrow.struct([("a", pyarrow.int64())])),
        lambda: pyarrow.array([str(value) for value in numbers]).dictionary_encode(),
        lambda: pyarrow.nulls(rows),
    ]
    return rng.choice(makers[: 5 if rng.random() < 0.6 else None])()


def draw_keys(rng: random.Random) -> list[str]:
    usual = ["observations", "actions", "lengths", "sequence", "observation_names", "action_names"]
    odd = ["x", "../up", "a/b", "", "λ", "arr_0"]
    return list(dict.fromkeys(rng.choice(usual if rng.random() < 0.8 else odd) for _ in range(rng.randint(0, 2))))


def draw_array(rng: random.Random) -> np.ndarray[Any, Any]:
    """Mostly an array of numbers of a usual shape."""
    shape = rng.choice(
        [(4, 7, 2), (12, 2), (12,), (4,), (), (0,), (0, 2), (4, 0, 2), (4, 7, 0), (2, 2, 2, 2), (1, 12, 1)]
    )
    numbers = np.random.default_rng(rng.randrange(2**32)).normal(size=shape)
    makers: list[Any] = [
        *([lambda: numbers] * 5),
        lambda: numbers.astype(rng.choice(["f2", "f4", ">f8", "i1", "u1", "i8", "?", "c8", "U3", "S3", "M8[s]"])),
        lambda: np.abs(numbers * 5).astype(np.int64),
        lambda: np.full(shape, rng.choice([np.nan, np.inf, 1e300, 1e39, 0.0])),
        lambda: np.full(shape, 2**63, dtype=np.uint64),
        lambda: np.where(numbers > 0, np.nan, numbers),
        lambda: np.array(["level", "flow"]),
        lambda: np.array([3, 4, 5]),
        lambda: np.zeros(shape, dtype=[("a", "f4"), ("b", "U2")]),
        lambda: np.array([None, "x", {}], dtype=object),
        lambda: numbers.astype(np.longdouble),
    ]
    return rng.choice(makers)()
