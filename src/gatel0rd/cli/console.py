"""What commands print with: the console, bars of progress, and numbers for people."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from pathlib import Path

    from rich.progress import Progress

HOUR = 3570.0
"""Seconds from which a time is given in hours; what comes after would be rounded to 60 minutes."""

console = Console(soft_wrap=not sys.stdout.isatty())


def show_progress() -> Progress:
    """A bar with the time left, for work that is counted in steps."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def print_lines(lines: Iterable[str]) -> None:
    """Print texts as they are, brackets too; in a terminal long ones are continued below, indented."""
    for line in lines:
        if console.is_terminal and len(line) > console.width:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            line = textwrap.fill(line, console.width, subsequent_indent=indent, break_on_hyphens=False)
        console.print(line, markup=False, highlight=False)


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
    console.print(f"wrote {path}, {path.stat().st_size / 1e6:.1f} MB")
