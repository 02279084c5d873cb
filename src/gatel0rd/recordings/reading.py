"""Read recordings of one's own: NumPy archives, CSV, Parquet and Minari data sets, cleaned by common rules."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path

import numpy as np

from gatel0rd.recordings.arrays import from_minari, from_npz
from gatel0rd.recordings.cleaning import clean
from gatel0rd.recordings.layout import Layout, RecordingError
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.tables import from_csv, from_parquet

MINARI = "minari:"
READERS = {".npz": from_npz, ".csv": from_csv, ".parquet": from_parquet}
TABLES = (".csv", ".parquet")
FORMATS = ".npz, .csv, .parquet, or minari:NAME"


def read_recordings(source: str | Path, layout: Layout | None = None, *, keep_constant: bool = False) -> Recordings:
    r"""Read a file (or ``minari:NAME``) and apply the rules of :mod:`gatel0rd.recordings.cleaning`.

    Args:
        source: a path that ends in .npz, .csv or .parquet, which may hold ``*`` and ``?`` and then names many files,
            or the name of a Minari data set.
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
    if has_wildcard(source):
        return read_many(str(source), layout, keep_constant=keep_constant)
    if str(source).startswith(MINARI):
        return clean(from_minari(str(source).removeprefix(MINARI), layout), keep_constant=keep_constant)
    path = Path(source)
    if not path.exists():
        raise RecordingError(f"there is no {path}; expected {FORMATS}")
    if path.is_dir():
        raise RecordingError(f"{path} is a directory; expected {FORMATS}")
    if path.suffix.lower() not in READERS:
        raise RecordingError(f"{path} ends in {path.suffix or 'nothing'}; expected {FORMATS}")
    if path.stat().st_size == 0:
        raise RecordingError(f"{path} is empty; expected {FORMATS} with a row per time step")
    return clean(READERS[path.suffix.lower()](path, layout), keep_constant=keep_constant)


def has_wildcard(source: str | Path) -> bool:
    """Whether a source names many files."""
    return not str(source).startswith(MINARI) and not Path(source).exists() and glob.has_magic(str(source))


def read_many(pattern: str, layout: Layout, *, keep_constant: bool) -> Recordings:
    """Read all files of a pattern, in alphabetical order; a file without names of sequences is one sequence."""
    paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
    paths = [path for path in paths if path.suffix.lower() in READERS and path.is_file()]
    if not paths:
        raise RecordingError(f"there is no file {pattern}; expected {FORMATS}")
    parts = [READERS[path.suffix.lower()](path, layout) for path in paths]
    first = parts[0]
    for path, part in zip(paths, parts, strict=True):
        if (part.observation_names, part.action_names) != (first.observation_names, first.action_names):
            theirs = ", ".join((*part.observation_names, *part.action_names))
            ours = ", ".join((*first.observation_names, *first.action_names))
            raise RecordingError(f"{path} has the columns {theirs}; expected {ours}, as in {paths[0]}")
    names = tuple(
        path.stem if len(part) == 1 else f"{path.stem}/{name}"
        for path, part in zip(paths, parts, strict=True)
        for name in part.names
    )
    joined = replace(
        first,
        observations=np.concatenate([part.observations for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        names=names,
        lengths=np.concatenate([part.lengths for part in parts]),
        notes=(f"{len(paths)} files", *dict.fromkeys(note for part in parts for note in part.notes)),
        origins=(),
    )
    return clean(joined, keep_constant=keep_constant)
