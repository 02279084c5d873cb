"""Many runs side by side: one process per run and core, one display for all."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from gatel0rd.config import DataRecipe
from gatel0rd.experiments.registry import RunConfig


class Display(Protocol):
    """Who wants to know how runs are doing."""

    def generated(self, recipe: DataRecipe, done: int, total: int) -> None: ...

    def started(self, index: int, run: RunConfig) -> None: ...

    def progressed(self, index: int, metrics: dict[str, Any]) -> None: ...

    def ended(self, index: int, error: str | None) -> None: ...


@dataclass(frozen=True)
class Failure:
    """A run that did not finish, and why."""

    run: RunConfig
    error: str


def run_all(runs: Sequence[RunConfig], out: Path, *, workers: int, resume: bool, display: Display) -> list[Failure]:
    """Execute runs, longest first, on ``workers`` processes; one run's failure does not stop the others."""
    order = sorted(range(len(runs)), key=lambda index: -runs[index].gradient_steps)
    _make_data(runs, out, display)
    if workers <= 1:
        return _run_inline(runs, order, out, resume, display)
    return _run_parallel(runs, order, out, workers, resume, display)


def _make_data(runs: Sequence[RunConfig], out: Path, display: Display) -> None:
    """Make missing data sets first, once, so that workers only read them."""
    from gatel0rd.data import generate

    recipes = {recipe for run in runs for recipe in (run.train_data, *run.evaluation_data, *run.validation_data)}
    for recipe in sorted(recipes, key=lambda recipe: recipe.name):
        if not (out / "data" / f"{recipe.name}.safetensors").exists():
            generate(recipe, partial(display.generated, recipe)).save(out / "data")


def _run_inline(
    runs: Sequence[RunConfig], order: Iterable[int], out: Path, resume: bool, display: Display
) -> list[Failure]:
    from gatel0rd.experiments.execute import execute

    failures = []
    for index in order:
        display.started(index, runs[index])
        error = None
        try:
            execute(runs[index], out, resume=resume, on_epoch=lambda metrics, i=index: display.progressed(i, metrics))  # type: ignore[misc]
        except Exception as exception:
            error = describe(exception)
            failures.append(Failure(runs[index], error))
        display.ended(index, error)
    return failures


def _run_parallel(
    runs: Sequence[RunConfig], order: Sequence[int], out: Path, workers: int, resume: bool, display: Display
) -> list[Failure]:
    context = multiprocessing.get_context("spawn")
    waiting = list(order)
    active: dict[Any, tuple[int, Any]] = {}
    failures: list[Failure] = []

    def start() -> None:
        index = waiting.pop(0)
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, runs[index], out, resume), daemon=True)
        process.start()
        theirs.close()
        active[ours] = (index, process)
        display.started(index, runs[index])

    def end(pipe: Any, error: str | None) -> None:
        index, process = active.pop(pipe)
        process.join()
        if error is not None:
            failures.append(Failure(runs[index], error))
        display.ended(index, error)

    with single_threaded_children():
        while waiting or active:
            while waiting and len(active) < workers:
                start()
            for pipe in wait(list(active)):
                assert isinstance(pipe, Connection)
                try:
                    kind, content = pipe.recv()
                except EOFError:
                    process = active[pipe][1]
                    process.join()
                    end(pipe, f"its process died (exit code {process.exitcode}); run again with --resume")
                    continue
                if kind == "progress":
                    display.progressed(active[pipe][0], content)
                else:
                    end(pipe, content)
    return failures


@contextlib.contextmanager
def single_threaded_children() -> Any:
    """Processes started inside use one thread each: one run per core."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _work(pipe: Connection, run: RunConfig, out: Path, resume: bool) -> None:
    from gatel0rd.experiments.execute import execute

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        try:
            execute(run, out, resume=resume, on_epoch=lambda metrics: pipe.send(("progress", metrics)))
            pipe.send(("end", None))
        except Exception as exception:
            pipe.send(("end", describe(exception)))


def describe(exception: Exception) -> str:
    """The message of an error that was foreseen, the whole traceback of one that was not."""
    foreseen = isinstance(exception, (ValueError, RuntimeError)) and str(exception)
    return str(exception) if foreseen else "".join(traceback.format_exception(exception))
