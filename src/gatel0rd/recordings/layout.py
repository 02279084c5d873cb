"""Which column of a file is what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_NAMES = 40
"""Names that are listed for people."""
ROLES = "sequence, time, observations, actions and ignored"


class RecordingError(ValueError):
    """Recordings that cannot be used; the message says what was found, what was expected and what to do.

    Example:
        >>> from gatel0rd.recordings import RecordingError, read_recordings
        >>> try:
        ...     read_recordings("nowhere.csv")
        ... except RecordingError as error:
        ...     print(error)
        there is no nowhere.csv; expected .npz, .csv, .parquet, or minari:NAME
    """


class MissingColumnError(RecordingError):
    """A column that a layout names is not there."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, kw_only=True)
class Categories:
    """A column of text, which becomes a column of zeros and ones per value; of two values one column is enough.

    Attributes:
        values: in alphabetical order; found in the data if there are none.
    """

    column: str
    values: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it becomes."""
        kept = self.values[1:] if len(self.values) == 2 else self.values
        return tuple(f"{self.column}={value}" for value in kept)


@dataclass(frozen=True, kw_only=True)
class Layout:
    r"""Which column is what, where a file does not say so by itself.

    Attributes:
        sequence: column that names the sequence a row belongs to; found by its name if not given.
        time: column that orders rows; found by its name if not given. It is not a variable.
        observations: columns to predict; all that have no other role if not given.
        actions: columns that are given, not predicted.
        ignored: columns to leave out.
        left_out: columns to leave out where there are any: those that a model's own data had and it does not need.
        wide: whether a row of a table is a whole sequence; seen from the names of the columns if not given.
        categories: columns whose values are names; columns of text are found by themselves.
        same_row: whether actions stand in the row that they explain, not in the one before; they are moved up then.

    Example:
        >>> from pathlib import Path
        >>> from gatel0rd.recordings import Layout, read_recordings
        >>> _ = Path("tank.csv").write_text("minute,level,valve\n0,1.0,0\n1,1.2,1\n2,1.1,1\n")
        >>> read_recordings("tank.csv", Layout(time="minute", actions=("valve",))).observation_names
        ('level',)
    """

    sequence: str | None = None
    time: str | None = None
    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    wide: bool | None = None
    categories: tuple[Categories, ...] = ()
    same_row: bool = False


def check_roles(layout: Layout, header: Sequence[str], source: str | Path) -> None:
    """Raise a :class:`RecordingError` if a layout names a column that is missing, or one column twice."""
    roles = [(layout.sequence, "sequence"), (layout.time, "time")]
    roles += [(name, "observations") for name in layout.observations]
    roles += [(name, "actions") for name in layout.actions]
    roles += [(name, "columns to ignore") for name in layout.ignored]
    known = set(header)
    for name, what in [*roles, *((entry.column, "categories") for entry in layout.categories)]:
        if name is not None and name not in known:
            message = f"{source} has no column {name!r} for the {what}; it has {list_names(header)}"
            raise MissingColumnError(message, name)
    if twice := find_repeated([name for name, _ in roles if name is not None]):
        raise RecordingError(f"column {', '.join(twice)} is given twice; it can be only one of {ROLES}")


def list_names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names for people, of many only the first ones."""
    shown = ", ".join(names[:most])
    return f"{shown}, … ({len(names) - most} more)" if len(names) > most else shown


def in_one_line(error: Exception) -> str:
    """What an error of another library says, without its line breaks."""
    return " ".join(str(error).split())


def find_repeated(names: Sequence[str]) -> list[str]:
    """The names that occur more than once, in alphabetical order."""
    return sorted(name for name, times in Counter(names).items() if times > 1)
