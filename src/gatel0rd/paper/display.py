"""One live display for all runs: a bar each, with loss, error, gate rate and time left."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gatel0rd.paper.agents import AgentRun
from gatel0rd.paper.plan import AnyRun
from gatel0rd.training.recipe import DataRecipe


def title_of(run: AnyRun) -> str:
    """What tells a run from its neighbours, in a few words."""
    if isinstance(run, AgentRun):
        place = run.environment.removeprefix("MiniGrid-").removesuffix("-v0")
        rate = f" rate {run.ppo.learning_rate:g}" if run.ppo.learning_rate != 0.001 else ""
        return f"{place} {run.memory_name}{rate} seed {run.seed}"
    cell = run.model.cell
    layers = max(cell.num_layers, cell.net_layers)
    words = [run.scenario, cell.name]
    words += [f"{layers} layers"] if layers > 1 else []
    words += [f"λ {run.train.sparsity_weight:g}"] if cell.name == "gatel0rd" else []
    words += [f"{cell.gate} gate"] if cell.gate != "retanh" else []
    words += [f"noise {cell.noise_std:g}"] if cell.noise_std != 0.1 else []
    words += [] if cell.output_gate else ["no output gate"]
    words += [f"{run.train.penalty} penalty"] if run.train.penalty != "l0" else []
    words += ["teacher-forced"] if run.train.teacher_forcing else []
    words += [] if run.model.init_layers else ["h = 0"]
    words += [f"rate {run.train.learning_rate:g}"]
    return " ".join([*words, f"seed {run.seed}"])


class LiveDisplay:
    """A progress bar per active run and one for all; plain lines where the output is not a terminal."""

    def __init__(self, total: int, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
            console=console,
            disable=not console.is_terminal,
        )
        self.overall = self.progress.add_task("[bold]all runs", total=total, state="runs")
        self.data: dict[str, TaskID] = {}
        self.tasks: dict[int, TaskID] = {}
        self.names: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self.began: dict[int, float] = {}
        self.errors: dict[int, float] = {}
        self.in_grid: dict[int, bool] = {}
        self.episodes: dict[int, deque[tuple[int, float, float]]] = {}

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
            self.console.print(f"{name}: {total} sequences", highlight=False)

    def started(self, index: int, run: AnyRun, place: Path | None = None) -> None:
        self.names[index], self.places[index] = title_of(run), str(place or run.directory_name)
        self.in_grid[index] = isinstance(run, AgentRun) and run.environment.startswith("MiniGrid-")
        self.began[index] = time.monotonic()
        self.tasks[index] = self.progress.add_task(self.names[index], total=run.length, state="starting")

    def progressed(self, index: int, metrics: dict[str, Any]) -> None:
        if "frames" in metrics:
            self._learned(index, metrics)
            return
        parts = [f"loss {metrics['loss']:.2e}"]
        if "evaluation" in metrics:
            self.errors[index] = metrics["evaluation"]["test"]["error"]
        if index in self.errors:
            parts.append(f"error {self.errors[index]:.2e}")
        if "open_rate" in metrics:
            parts.append(f"gates {metrics['open_rate']:.1%}")
        self.progress.update(self.tasks[index], completed=metrics["epoch"], state="  ".join(parts))
        # a log file gets a line per evaluation instead of a live bar
        if not self.console.is_terminal and "evaluation" in metrics:
            self.console.print(f"{self.names[index]}: epoch {metrics['epoch']}, {', '.join(parts)}", highlight=False)

    def _learned(self, index: int, metrics: dict[str, Any]) -> None:
        """An agent's update: success (where a reward means that) and reward over the last 50 updates."""
        seen = self.episodes.setdefault(index, deque(maxlen=50))
        if metrics["episodes"]:
            seen.append((metrics["episodes"], metrics["rewarded"], metrics["return"]))
        count = sum(entry[0] for entry in seen)
        parts = [f"{metrics['frames'] / metrics['seconds']:.0f} frames/s"]
        if count:
            success, reward = (sum(entry[0] * entry[k] for entry in seen) / count for k in (1, 2))
            parts = [f"reward {reward:.2f}", *parts]
            parts = [f"success {success:.0%}", *parts] if self.in_grid[index] else parts
        if metrics["open_rate"]:
            parts.append(f"gates {metrics['open_rate']:.1%}")
        self.progress.update(self.tasks[index], completed=metrics["frames"], state="  ".join(parts))
        if not self.console.is_terminal and metrics["update"] % 50 == 0:
            self.console.print(f"{self.names[index]}: {metrics['frames']} frames, {', '.join(parts)}", highlight=False)

    def planned(self, index: int, done: int, total: int) -> None:
        self.progress.update(self.tasks[index], completed=done, total=total, state="control steps")
        if not self.console.is_terminal and done * 10 // total > (done - 1) * 10 // total:  # a line per tenth
            self.console.print(f"{self.names[index]}: {done} of {total} control steps", highlight=False)

    def retried(self, index: int, reason: str) -> None:
        self.console.print(f"{self.names[index]}: {escape(reason)}, goes on from its checkpoint", highlight=False)

    def ended(self, index: int, error: str | None) -> None:
        self.progress.remove_task(self.tasks[index])
        self.progress.advance(self.overall)
        seconds = time.monotonic() - self.began[index]
        done = f"[green]done[/] in {seconds:.0f} s, {self.places[index]}"
        outcome = done if error is None else f"[red]failed[/]: {escape(error)}"
        self.console.print(f"{self.names[index]}: {outcome}", highlight=False)
