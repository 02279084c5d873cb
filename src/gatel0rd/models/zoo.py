"""Trained models that come with this package: ``zoo:rrc/gatel0rd`` instead of the directory of a run.

An entry is a directory below ``zoo/`` of the package, named after it, with a finished run's weights and its record;
``zoo/data`` has some sequences of the worlds that take long to generate. `gatel0rd zoo` lists the entries, and
``scripts/zoo add RUN`` makes one.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from gatel0rd.files import FileError

PREFIX = "zoo:"
"""What tells the name of an entry from a path."""
ZOO = Path(__file__).parents[1] / "zoo"
"""Where the entries are."""
EXAMPLES = ZOO / "data"
"""Where small data sets are, each named after its recipe."""
RECORD_FILE = "record.json"
SUGGESTIONS = 3


def zoo_names() -> list[str]:
    """The names of all entries, without the prefix."""
    return sorted(path.parent.relative_to(ZOO).as_posix() for path in ZOO.glob(f"*/*/{RECORD_FILE}"))


def zoo_name(path: Path | str) -> str | None:
    """The name of the entry that is meant, without the prefix; None if it is a path."""
    text = path.as_posix() if isinstance(path, Path) else path
    return text.removeprefix(PREFIX).replace("\\", "/").strip("/") if text.startswith(PREFIX) else None


def resolve(path: Path | str) -> Path:
    """The directory of an entry of the zoo; any other path as it is.

    A name that no entry has is a :class:`FileError` that lists the nearest.
    """
    name = zoo_name(path)
    if name is None:
        return Path(path)
    known = zoo_names()
    if name in known:
        return ZOO / name
    near = difflib.get_close_matches(name, known, n=SUGGESTIONS, cutoff=0.4) or known[:SUGGESTIONS]
    nearest = f"the nearest are {', '.join(PREFIX + entry for entry in near)}; " if near else ""
    raise FileError(f"there is no {PREFIX}{name}; {nearest}`gatel0rd zoo` lists all")


def default_output(path: Path, name: str, *, named: str) -> Path:
    """Where a command writes if it is not told: into the directory of a run, or for the zoo into the working directory.

    Args:
        path: the directory of a run, or the name of an entry.
        name: of the file or directory in that of a run.
        named: the end of its name in the working directory, after that of the entry.
    """
    entry = zoo_name(path)
    return path / name if entry is None else Path(entry.replace("/", "-") + named)
