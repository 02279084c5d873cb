"""Many runs side by side: one process per run and core on this machine, or a cluster; one display for all."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from gatel0rd.files import exclusive
from gatel0rd.paper.agents import AgentRun
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.plan import AnyRun, estimated_planning_seconds, estimated_seconds, is_finished, is_planned
from gatel0rd.paper.profiles import Profile
from gatel0rd.training.recipe import DataRecipe


class Display(Protocol):
    """Who wants to know how runs are doing."""

    def generated(self, recipe: DataRecipe, done: int, total: int) -> None: ...

    def started(self, index: int, run: AnyRun) -> None: ...

    def progressed(self, index: int, metrics: dict[str, Any]) -> None: ...

    def planned(self, index: int, done: int, total: int) -> None: ...

    def retried(self, index: int, reason: str) -> None: ...

    def ended(self, index: int, error: str | None) -> None: ...


@dataclass(frozen=True)
class Failure:
    """A run that did not finish, and why."""

    run: AnyRun
    error: str


RETRIES = 3
"""How often a run is started again whose process or node died."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is done with every run.

    Attributes:
        out: where runs and data go.
        resume: go on with runs that were interrupted.
        planning: after training, plan as many episodes as this profile says with the run's models.
        planned: names of the runs with which is planned; all if not given.
        patience: seconds to wait for a predecessor that died a moment ago and may still hold a run's directory.
    """

    out: Path
    resume: bool = False
    planning: Profile | None = None
    planned: frozenset[str] | None = None
    patience: float = 10.0

    def planning_of(self, run: AnyRun) -> Profile | None:
        """How much is planned with this run's models."""
        wanted = self.planned is None or run.directory_name in self.planned
        return self.planning if wanted and not isinstance(run, AgentRun) else None

    def do(self, run: AnyRun, tell: Callable[[str, Any], None]) -> None:
        """Train and plan; ``tell`` hears of each epoch as ``progressed`` and of each control step as ``planned``."""
        with exclusive(self.out / run.directory_name, self.patience):
            pass
        if isinstance(run, AgentRun):
            from gatel0rd.paper.execute_agent import execute_agent

            execute_agent(
                run,
                self.out / run.directory_name,
                resume=self.resume,
                on_update=lambda metrics: tell("progressed", (metrics,)),
            )
            return
        from gatel0rd.paper.execute import execute

        directory = execute(run, self.out, resume=self.resume, on_epoch=lambda metrics: tell("progressed", (metrics,)))
        planning = self.planning_of(run)
        if planning is not None:
            from gatel0rd.paper.planning import plan_over_training

            plan_over_training(
                directory,
                episodes=planning.episodes,
                course_episodes=planning.course_episodes,
                on_step=lambda done, total: tell("planned", (done, total)),
            )


def run_all(runs: Sequence[AnyRun], work: Work, *, executor: ExecutorConfig, display: Display) -> list[Failure]:
    """Execute runs, longest first; one run's failure does not stop the others."""
    seconds = [remaining_seconds(run, work) for run in runs]
    order = sorted(range(len(runs)), key=lambda index: -seconds[index])
    if executor.kind != "local":
        importlib.import_module("ray" if executor.kind == "ray" else "submitit")  # if it is missing, say so at once
    _make_data([run for run in runs if not is_finished(run, work.out)], work.out, display)
    if executor.kind != "local":
        from gatel0rd.paper.executors import cluster

        on_cluster = cluster.run_on_ray if executor.kind == "ray" else cluster.run_on_slurm
        return on_cluster(runs, order, work, executor, display)
    workers = min(executor.workers or os.cpu_count() or 1, max(1, len(runs)))
    if workers == 1:
        return _run_inline(runs, order, work, display)
    return _run_parallel(runs, order, work, workers, display)


def remaining_seconds(run: AnyRun, work: Work) -> float:
    """About how long one core has to do with a run; 0 if all is done."""
    seconds = 0.0 if is_finished(run, work.out) else estimated_seconds(run)
    planning = work.planning_of(run)
    if planning is not None and not isinstance(run, AgentRun) and not is_planned(run, work.out, planning):
        seconds += estimated_planning_seconds(run.scenario, planning)
    return seconds


def _make_data(runs: Sequence[AnyRun], out: Path, display: Display) -> None:
    """Make missing data sets first, once, so that workers only read them."""
    from gatel0rd.worlds.data import obtain

    modelling = [run for run in runs if not isinstance(run, AgentRun)]
    recipes = {r for run in modelling for r in (run.train_data, *run.evaluation_data, *run.validation_data)}
    for recipe in sorted(recipes, key=lambda recipe: recipe.name):
        if not (out / "data" / f"{recipe.name}.safetensors").exists():
            obtain(recipe, out / "data", partial(display.generated, recipe))


def _run_inline(runs: Sequence[AnyRun], order: Iterable[int], work: Work, display: Display) -> list[Failure]:
    failures = []
    for index in order:
        display.started(index, runs[index])
        error = None
        try:
            work.do(runs[index], lambda kind, content, i=index: getattr(display, kind)(i, *content))  # type: ignore[misc]
        except Exception as exception:
            error = describe(exception)
            failures.append(Failure(runs[index], error))
        display.ended(index, error)
    return failures


def _run_parallel(
    runs: Sequence[AnyRun], order: Sequence[int], work: Work, workers: int, display: Display
) -> list[Failure]:
    context = multiprocessing.get_context("spawn")
    waiting = list(order)
    active: dict[Any, tuple[int, Any]] = {}
    deaths: Counter[int] = Counter()
    failures: list[Failure] = []

    def start(pipe: Connection | None = None, process: Any = None) -> None:
        """Give the next run to a worker that has nothing to do, or to a new one."""
        index = waiting.pop(0)
        if pipe is None:
            pipe, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
        active[pipe] = (index, process)
        with contextlib.suppress(BrokenPipeError):  # it died; its end of the pipe says so below
            pipe.send((runs[index], replace(work, resume=True) if deaths[index] else work))
        if not deaths[index]:
            display.started(index, runs[index])

    def end(index: int, error: str | None) -> None:
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
                except (EOFError, ConnectionResetError):
                    index, process = active.pop(pipe)
                    process.join()
                    deaths[index] += 1
                    reason = f"its process died (exit code {process.exitcode})"
                    if deaths[index] > RETRIES:
                        end(index, f"{reason} {deaths[index]} times; run again with --resume")
                    else:
                        waiting.insert(0, index)
                        display.retried(index, reason)
                    continue
                index, process = active[pipe]
                if kind != "end":
                    getattr(display, kind)(index, *content)
                    continue
                del active[pipe]
                end(index, content)
                if waiting:
                    start(pipe, process)
                else:
                    pipe.close()
                    process.join()
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


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent is gone, so that no orphan holds a run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _serve(pipe: Connection) -> None:
    """A worker: does one run after the other until its coordinator has no more."""
    die_with_parent()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, EOFError):
        while True:
            run, work = pipe.recv()
            try:
                work.do(run, lambda kind, content: pipe.send((kind, content)))
                pipe.send(("end", None))
            except Exception as exception:
                pipe.send(("end", describe(exception)))


def describe(exception: Exception) -> str:
    """The message of an error that was foreseen, the whole traceback of one that was not."""
    foreseen = isinstance(exception, (ValueError, RuntimeError)) and str(exception)
    return str(exception) if foreseen else "".join(traceback.format_exception(exception))
