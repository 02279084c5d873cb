"""Columns of text as categories: a column of zeros and ones for each value that a text has.

A column is text if none of its values is a number; one with numbers and texts is a mistake, unless the layout says that
it holds categories. The values are kept with the model, so that other data becomes the same columns. A value that the
model does not know is an error, unless one of its values is :data:`OTHER`, which it then counts as.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.recordings.arrays import number_labels
from gatel0rd.recordings.layout import Categories, RecordingError, list_names
from gatel0rd.recordings.values import MISSING, TRUTH, NotANumberError, is_number, parse_date, parse_numbers, place_of

MOST_CATEGORIES, MOST_GIVEN = 20, 200
"""Different values of a column of text, and of one that was said to hold categories."""
OTHER = "other"
NAMES = {"none", "-", "?"}
"""They are missing numbers, but a value of a text may well have such a name."""


class CellReader:
    """Reads the cells of a column, chunk by chunk: numbers as they are, texts as the numbers of their values.

    Args:
        known: if the column is known to hold categories; values that it has are the only ones that it may hold.
    """

    def __init__(self, name: str, path: Path, known: Categories | None = None) -> None:
        self.name, self.path, self.known = name, path, known
        self.codes: dict[str, int] | None = None if known is None else {text: i for i, text in enumerate(known.values)}
        self.has_numbers = False
        self._rows = 0
        self._named: list[tuple[NDArray[np.int64], list[str]]] = []

    @property
    def is_text(self) -> bool:
        return self.codes is not None

    def read(self, column: Any, lines: Sequence[int]) -> NDArray[np.float64]:
        """The cells of a chunk, NaN where a value is missing."""
        if self.codes is None:
            try:
                found = parse_numbers(column, self.name, lines, self.path)
            except NotANumberError:
                if self.has_numbers or not all(map(is_text, column)):
                    raise
                self.codes = {}
                number_labels((text for _, texts in self._named for text in texts), self.codes)
            else:
                self._remember_names(column, found)
                self._rows += len(found)
                return found
        self._rows += len(column)
        return self._read_texts(column, lines)

    def _remember_names(self, column: Any, found: NDArray[np.float64]) -> None:
        """Where :data:`NAMES` stand, as long as texts may follow, with which they are values."""
        self.has_numbers = self.has_numbers or bool(np.isfinite(found).any())
        if self.has_numbers:
            self._named = []
        elif not (isinstance(column, np.ndarray) and column.dtype.kind in "fiub"):
            rows = [row for row, cell in enumerate(column) if not is_missing(cell)]
            if rows:
                texts = [sys.intern(str(column[row]).strip()) for row in rows]
                self._named.append((np.array(rows, dtype=np.int64) + self._rows, texts))

    def complete(self, codes: NDArray[Any]) -> None:
        """Set the numbers of values that were read before it was clear that the column is text. Shape: [S]."""
        if self.codes is not None:
            for rows, texts in self._named:
                codes[rows] = number_labels(texts, self.codes)

    def _read_texts(self, column: Any, lines: Sequence[int]) -> NDArray[np.float64]:
        assert self.codes is not None
        texts = [None if is_missing(cell) else str(cell).strip() for cell in column]
        for text, line in zip(texts, lines, strict=True):
            if text is None or text in self.codes:
                continue
            if self.known is None and not is_text(text):
                raise RecordingError(
                    f"{place_of(line, self.path)}: {text!r} in column {self.name!r} is a number, and values above it "
                    f"are texts; repair it, or --categories {self.name} reads numbers and texts as categories"
                )
            if self.known is not None and self.known.values and OTHER not in self.codes:
                raise RecordingError(
                    f"{place_of(line, self.path)}: {text!r} in column {self.name!r} is none of the categories that the "
                    f"model was fitted to ({list_names(self.known.values)}); change or remove it, or fit again with "
                    f"such data, or with rows whose value is {OTHER!r}"
                )
        if self.known is not None and self.known.values:
            texts = [text if text is None or text in self.codes else OTHER for text in texts]
        codes = number_labels((text for text in texts if text is not None), self.codes)
        most = MOST_CATEGORIES if self.known is None else MOST_GIVEN
        if len(self.codes) > max(most, len(self.known.values) if self.known else 0):
            raise RecordingError(
                f"column {self.name!r} of {self.path} holds more than {most} different texts "
                f"({list_names(list(self.codes), 3)}); leave the column out (--ignore {self.name}), or name it as what "
                "it is (--sequence, --time)"
            )
        found = np.full(len(texts), np.nan)
        found[[text is not None for text in texts]] = codes
        return found

    def categories(self) -> Categories:
        """What was found, in alphabetical order."""
        assert self.codes is not None
        if self.known is not None and self.known.values:
            return self.known
        if self.codes and all(parse_date(text) is not None for text in self.codes):
            raise RecordingError(
                f"column {self.name!r} of {self.path} holds dates ({list_names(list(self.codes), 3)}); rows are "
                f"ordered by it with --time {self.name}, and --ignore {self.name} leaves it out"
            )
        return Categories(column=self.name, values=tuple(sorted(self.codes)))

    def expand(self, codes: NDArray[Any]) -> NDArray[np.float32]:
        """A column per value. Shape: [S] -> [S, values]."""
        assert self.codes is not None
        found = self.categories()
        values = found.values[1:] if len(found.values) == 2 else found.values
        places = np.array([self.codes[value] for value in values])
        return np.where(np.isnan(codes)[:, None], np.nan, codes[:, None] == places).astype(np.float32)


def is_missing(cell: Any) -> bool:
    """Whether a cell of a column of text has no value."""
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return True
    known = str(cell).strip().lower()
    return known in MISSING and known not in NAMES


def is_text(cell: Any) -> bool:
    """Whether a cell has no value, or one that is not meant as a number."""
    if not isinstance(cell, str):
        return is_missing(cell)
    known = cell.strip().lower()
    return known in MISSING or not (known in TRUTH or is_number(known) or is_number(known.replace(",", ".")))


def expand_texts(
    names: Sequence[str], values: NDArray[Any], readers: Sequence[CellReader]
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Columns of numbers as they are, and those of texts as columns of zeros and ones, with their names."""
    if not any(reader.is_text for reader in readers):
        return tuple(names), values
    expanded: list[str] = []
    parts: list[NDArray[Any]] = []
    for place, (name, reader) in enumerate(zip(names, readers, strict=True)):
        if reader.is_text:
            expanded += reader.categories().names
            parts.append(reader.expand(values[:, place]))
        else:
            expanded.append(name)
            parts.append(values[:, place : place + 1])
    return tuple(expanded), np.concatenate(parts, axis=1)
