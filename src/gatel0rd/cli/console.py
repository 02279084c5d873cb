"""What commands print with: the console, bars of progress, and numbers for people."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from gatel0rd.streams import describe_size, escape_controls

if TYPE_CHECKING:
    from pathlib import Path

    from rich.progress import Progress

HOUR = 3570.0
"""Seconds from which a time is given in hours; what comes after would be rounded to 60 minutes."""


class PlainConsole(Console):
    """Prints texts as they are: brackets, colons and control characters in names of files and columns do nothing."""

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        in_terminal = stream is not None and stream.isatty()
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=not in_terminal)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as rich draws it."""
        return super().render_str(escape_controls(text), **options)


console = PlainConsole()
error_console = PlainConsole(stderr=True)


def print_error(message: str) -> None:
    """Say what is wrong, on standard error."""
    error_console.print(Text.assemble(("gatel0rd:", "red"), " ", escape_controls(message)))


def show_progress() -> Progress:
    """A bar with the time left, for work that is counted in steps."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def print_lines(lines: Iterable[str]) -> None:
    """Print texts as they are, brackets too; in a terminal long ones are continued below, indented."""
    for line in lines:
        if console.is_terminal and len(line) > console.width:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            line = textwrap.fill(line, console.width, subsequent_indent=indent, break_on_hyphens=False)
        console.print(line)


def format_duration(seconds: float) -> str:
    """A time span for people: below an hour in minutes."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < HOUR else f"{seconds / 3600:.1f} h"


def format_core_time(seconds: float) -> str:
    """How long one core would be busy, for people: below an hour in minutes."""
    return f"{seconds / 60:.0f} core minutes" if seconds < HOUR else f"{seconds / 3600:.1f} core hours"


def format_interval(interval: tuple[float, float]) -> str:
    """A confidence interval of a rate, in percent."""
    return f"95 % interval {interval[0]:.0%} to {interval[1]:.0%}"


def print_written(path: Path) -> None:
    """Say that a file was written, and how large it is."""
    console.print(f"wrote {path}, {describe_size(path.stat().st_size)}")
