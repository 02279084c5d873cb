"""Numbers and times in the cells of a table; what is neither is an error that names the place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.layout import RecordingError

LARGEST = float(np.finfo(np.float32).max)
MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-", "?"}
DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})([ T].*)?")
"""Dates with points begin with the day everywhere; with slashes they begin with the month in some countries."""
TRUTH = {"true": 1.0, "false": 0.0}


def place_of(line: int, path: Path) -> str:
    """Where something is, for people."""
    return f"{'row' if path.suffix.lower() == '.parquet' else 'line'} {line} of {path}"


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class NotANumberError(RecordingError):
    """A cell that should hold a number and does not."""


def parse_numbers(column: Any, name: str, lines: Sequence[int], path: Path) -> NDArray[np.float64]:
    """A column as numbers, NaN where a value is missing."""
    if not (isinstance(column, np.ndarray) and column.dtype.kind in "fiub"):
        try:
            column = np.array(list(map(float, map(str, column))))
        except ValueError:
            cells = zip(column, lines, strict=True)
            column = np.array([parse_number(str(text), name, line, path) for text, line in cells])
    found: NDArray[np.float64] = column.astype(np.float64)
    too_large = np.abs(found) > LARGEST
    if too_large.any():
        index = int(np.argmax(too_large))
        raise RecordingError(
            f"{place_of(lines[index], path)}: {column[index]} in column {name!r} is infinite or too large; remove or "
            "repair it"
        )
    return found


def parse_number(text: str, name: str, line: int, path: Path) -> float:
    """A number, a truth value as 1 or 0, or NaN for a value that is missing."""
    known = text.strip().lower()
    if known in MISSING:
        return np.nan
    if known in TRUTH:
        return TRUTH[known]
    if is_number(known):
        return float(known)
    advice = f"leave the column out (--ignore {name}), or name it as what it is (--sequence, --time)"
    if is_number(known.replace(",", ".")):
        advice = "write decimals with a point"
    else:
        advice += f"; --categories {name} reads numbers and texts as categories"
    raise NotANumberError(f"{place_of(line, path)}: {text!r} in column {name!r} is not a number; {advice}")


def parse_times(column: Any, name: str, lines: Sequence[int], path: Path) -> NDArray[Any]:
    """What rows are ordered by: numbers as float64, or dates as datetime64."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiubM":
        found = column.astype("datetime64[us]" if column.dtype.kind == "M" else np.float64)
    else:
        try:
            found = np.array(list(map(float, map(str, column))))
        except ValueError:
            texts = [str(text).strip() for text in column]
            if is_number(texts[0]):
                found = np.array([float(text) if is_number(text) else np.nan for text in texts])
            else:
                found = np.array([parse_date(text) for text in texts], dtype="datetime64[us]")
    unknown = np.isnat(found) if found.dtype.kind == "M" else ~np.isfinite(found)
    if unknown.any():
        index = int(np.argmax(unknown))
        raise RecordingError(
            f"{place_of(lines[index], path)}: {str(column[index])!r} in column {name!r} is not a time; expected "
            f"numbers, or dates such as 2024-12-31 23:59:00 or 31.12.2024 23:59 in all rows, or --ignore {name}"
        )
    return found


def parse_date(text: str) -> datetime | None:
    """A date in ISO format or as 31.12.2024 23:59, in UTC if it names a time zone; None if it is none."""
    if match := DAY_FIRST.fullmatch(text):
        text = f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}{match[4] or ''}"
    try:
        date = datetime.fromisoformat(text)
        return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # the first and the last day of the calendar may be outside of it in UTC
        return None
