"""Read recordings of one's own: NumPy archives, CSV, Parquet and Minari data sets, cleaned by common rules."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gatel0rd.recordings.arrays import from_minari, from_npz
from gatel0rd.recordings.cleaning import clean
from gatel0rd.recordings.layout import Categories, Layout, RecordingError, list_names
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.tables import from_csv, from_parquet

MINARI = "minari:"
READERS = {".npz": from_npz, ".csv": from_csv, ".parquet": from_parquet}
TABLES = (".csv", ".parquet")
FORMATS = ".npz, .csv, .parquet, or minari:NAME"


Source = str | Path | Sequence[str | Path]
"""A file, a pattern of files (``data/*.csv``), the name of a Minari data set, or several files and patterns."""


def read_recordings(source: Source, layout: Layout | None = None, *, keep_constant: bool = False) -> Recordings:
    r"""Read a file (or ``minari:NAME``), or many, and apply the rules of :mod:`gatel0rd.recordings.cleaning`.

    Args:
        source: a path that ends in .npz, .csv or .parquet, which may hold ``*`` and ``?`` and then names many files,
            a list of such paths, or the name of a Minari data set.
        layout: what the columns are, where it cannot be seen from their names.
        keep_constant: leave constant columns in, as a model needs that was trained with them.

    Example:
        >>> from pathlib import Path
        >>> from gatel0rd.recordings import read_recordings
        >>> _ = Path("tank.csv").write_text("time,level,flow\n0,1.0,0.3\n1,1.2,0.1\n2,1.1,0.2\n")
        >>> read_recordings("tank.csv").observations.shape
        (3, 2)
    """
    layout = layout or Layout()
    sources = [source] if isinstance(source, (str, Path)) else list(source)
    if len(sources) != 1 or has_wildcard(sources[0]):
        return clean(read_many(find_files(sources), layout), keep_constant=keep_constant)
    (only,) = sources
    if str(only).startswith(MINARI):
        return clean(from_minari(str(only).removeprefix(MINARI), layout), keep_constant=keep_constant)
    return clean(read_file(Path(only), layout), keep_constant=keep_constant)


def read_file(path: Path, layout: Layout) -> Recordings:
    """Read one file, without cleaning it."""
    if not path.exists():
        raise RecordingError(f"there is no {path}; expected {FORMATS}")
    if path.is_dir():
        raise RecordingError(f"{path} is a directory; expected {FORMATS}, or many files as in {path / '*.csv'}")
    if path.suffix.lower() not in READERS:
        raise RecordingError(f"{path} ends in {path.suffix or 'nothing'}; expected {FORMATS}")
    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty; expected {FORMATS} with a row per time step")
    return READERS[path.suffix.lower()](path, layout)


def has_wildcard(source: str | Path) -> bool:
    """Whether a source names many files."""
    return not str(source).startswith(MINARI) and not Path(source).exists() and glob.has_magic(str(source))


def find_files(sources: Sequence[str | Path]) -> list[Path]:
    """All files of paths and patterns, in the order of the sources; of a pattern in alphabetical order."""
    found: list[Path] = []
    for source in sources:
        if str(source).startswith(MINARI):
            raise RecordingError(f"{source} was named with other recordings; a Minari data set has to stand alone")
        if not has_wildcard(source):
            found.append(Path(source))
            continue
        paths = [Path(path) for path in sorted(glob.glob(str(source), recursive=True))]
        paths = [path for path in paths if path.suffix.lower() in READERS and path.is_file()]
        if not paths:
            raise RecordingError(f"there is no file {source}; expected {FORMATS}")
        found += paths
    if not found:
        raise RecordingError(f"no recordings were named; expected {FORMATS}")
    return list(dict.fromkeys(found))


def read_many(paths: Sequence[Path], layout: Layout) -> Recordings:
    """Read many files; a file without names of sequences is one sequence."""
    parts = [read_file(path, layout) for path in paths]
    if any(part.layout.categories != parts[0].layout.categories for part in parts):
        layout = replace(layout, categories=join_categories(paths, parts, layout))
        parts = [read_file(path, layout) for path in paths]
    first = parts[0]
    for path, part in zip(paths, parts, strict=True):
        if (part.observation_names, part.action_names) != (first.observation_names, first.action_names):
            theirs = list_names((*part.observation_names, *part.action_names))
            ours = list_names((*first.observation_names, *first.action_names))
            raise RecordingError(f"{path} has the columns {theirs}; expected {ours}, as in {paths[0]}")
    times = [part.times for part in parts if part.times is not None]
    alike = len(times) == len(parts) and len({array.dtype.kind == "M" for array in times}) == 1
    stems = [path.stem for path in paths]
    if len(set(stems)) < len(stems):
        stems = [str(path.with_suffix("")) for path in paths]
    names = tuple(
        stem if len(part) == 1 else f"{stem}/{name}"
        for stem, part in zip(stems, parts, strict=True)
        for name in part.names
    )
    return replace(
        first,
        observations=np.concatenate([part.observations for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        names=names,
        lengths=np.concatenate([part.lengths for part in parts]),
        notes=(f"{len(paths)} files", *dict.fromkeys(note for part in parts for note in part.notes)),
        origins=(),
        times=np.concatenate(times) if alike else None,
    )


def join_categories(paths: Sequence[Path], parts: Sequence[Recordings], layout: Layout) -> tuple[Categories, ...]:
    """The categories of all files, column by column."""
    found: dict[str, set[str]] = {}
    every = list(dict.fromkeys(entry.column for part in parts for entry in part.layout.categories))
    for path, part in zip(paths, parts, strict=True):
        if lacking := [column for column in every if column in (*part.observation_names, *part.action_names)]:
            check_missing(path, part, lacking)
            # without any text "none" and "-" were missing numbers
            asked = (*layout.categories, *(Categories(column=column) for column in lacking))
            part = read_file(path, replace(layout, categories=asked))
        for entry in part.layout.categories:
            found.setdefault(entry.column, set()).update(entry.values)
    return tuple(Categories(column=column, values=tuple(sorted(values))) for column, values in found.items())


def check_missing(path: Path, part: Recordings, columns: Sequence[str]) -> None:
    """Columns that hold texts in other files may not hold numbers in this one."""
    values = dict(zip(part.observation_names, part.observations.T, strict=True))
    values |= dict(zip(part.action_names, part.actions.T, strict=True))
    if numbers := [column for column in columns if not np.isnan(values[column]).all()]:
        raise RecordingError(
            f"column {numbers[0]!r} of {path} holds numbers, and texts in other files; repair it, or --categories "
            f"{numbers[0]} reads numbers and texts as categories"
        )
