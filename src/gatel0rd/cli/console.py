"""What commands print with: the console, bars of progress, and numbers for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from pathlib import Path

    from rich.progress import Progress

console = Console(soft_wrap=not sys.stdout.isatty())


def show_progress() -> Progress:
    """A bar with the time left, for work that is counted in steps."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def format_duration(seconds: float) -> str:
    """A time span for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_interval(interval: tuple[float, float]) -> str:
    """A confidence interval of a rate, in percent."""
    return f"95 % interval {interval[0]:.0%} to {interval[1]:.0%}"


def print_written(path: Path) -> None:
    """Say that a file was written, and how large it is."""
    console.print(f"wrote {path}, {path.stat().st_size / 1e6:.1f} MB")
