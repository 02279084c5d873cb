"""One live display for all runs: a bar each, with loss, error, gate rate and time left."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gatel0rd.paper.run import Follower, Run
from gatel0rd.streams import escape_controls
from gatel0rd.training.recipe import DataRecipe


class LiveDisplay:
    """A progress bar per active run and one for all; plain lines where the output is not a terminal."""

    def __init__(self, total: int, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
            console=console,
            disable=not console.is_terminal,
        )
        self.overall = self.progress.add_task("all runs", total=total, state="runs")
        self.data: dict[str, TaskID] = {}
        self.tasks: dict[int, TaskID] = {}
        self.names: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self.began: dict[int, float] = {}
        self.followers: dict[int, Follower] = {}

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, emoji=False, highlight=False)

    def __enter__(self) -> LiveDisplay:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def generated(self, recipe: DataRecipe, done: int, total: int) -> None:
        name = f"data {recipe.scenario}/{recipe.policy} {recipe.split}"
        if name not in self.data:
            self.data[name] = self.progress.add_task(name, total=total, state="sequences")
        self.progress.update(self.data[name], completed=done)
        if done >= total:
            self.progress.remove_task(self.data.pop(name))
            self._print(f"{name}: {total} sequences")

    def started(self, index: int, run: Run, place: Path | None = None) -> None:
        self.names[index], self.places[index] = run.title, str(place or run.directory_name)
        self.followers[index] = run.follow()
        self.began[index] = time.monotonic()
        self.tasks[index] = self.progress.add_task(self.names[index], total=run.length, state="starting")

    def progressed(self, index: int, metrics: dict[str, Any]) -> None:
        reading = self.followers[index].read(metrics)
        self.progress.update(self.tasks[index], completed=reading.done, state=reading.words)
        # a log file gets a line now and then instead of a live bar
        if not self.console.is_terminal and reading.line is not None:
            self._print(f"{self.names[index]}: {reading.line}")

    def planned(self, index: int, done: int, total: int) -> None:
        self.progress.update(self.tasks[index], completed=done, total=total, state="control steps")
        if not self.console.is_terminal and done * 10 // total > (done - 1) * 10 // total:  # a line per tenth
            self._print(f"{self.names[index]}: {done} of {total} control steps")

    def retried(self, index: int, reason: str) -> None:
        self._print(f"{self.names[index]}: {reason}, resumes from its checkpoint")

    def ended(self, index: int, error: str | None) -> None:
        self.progress.remove_task(self.tasks[index])
        self.progress.advance(self.overall)
        seconds = time.monotonic() - self.began[index]
        word, rest = (
            ("done", f" in {seconds:.0f} s, {self.places[index]}") if error is None else ("failed", f": {error}")
        )
        color = "green" if error is None else "red"
        self.console.print(Text.assemble(f"{self.names[index]}: ", (word, color), escape_controls(rest)))
