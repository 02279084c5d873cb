"""Many runs, longest first, wherever they are executed: what is waiting, what is retried, what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gatel0rd.paper.executors.base import (
    RETRIES,
    Busy,
    Died,
    Display,
    Ended,
    Event,
    Executor,
    Failure,
    Started,
    Told,
    Work,
)
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.records import load_records
from gatel0rd.paper.run import Run


def run_all(runs: Sequence[Run], work: Work, *, executor: ExecutorConfig, display: Display) -> list[Failure]:
    """Execute runs, longest first; one run's failure does not stop the others."""
    # A run that an older version finished would be repeated, so better stop at its record. What is wrong with a damaged
    # one is said when its run is executed.
    load_records([work.out], damaged=[])
    seconds = [work.remaining_seconds(run) for run in runs]
    order = sorted(range(len(runs)), key=lambda index: -seconds[index])
    with make_executor(runs, work, executor) as place:  # what is missing or unreachable is said before the work
        trained = [run for run in runs if work.must_train(run)]
        _make_data(trained, work.out, display)
        return Coordinator(runs, place, display).run(order)


def make_executor(runs: Sequence[Run], work: Work, config: ExecutorConfig) -> Executor:
    """What executes the runs, as the configuration says."""
    if config.kind == "ray":
        from gatel0rd.paper.executors.ray import RayExecutor

        return RayExecutor(runs, work, config)
    if config.kind == "slurm":
        from gatel0rd.paper.executors.slurm import SlurmExecutor

        return SlurmExecutor(runs, work, config)
    from gatel0rd.paper.executors.local import make_local

    return make_local(runs, work, config)


class Coordinator:
    """Keeps an executor busy, starts runs again that died, and shows what it hears."""

    def __init__(self, runs: Sequence[Run], executor: Executor, display: Display) -> None:
        self.runs, self.executor, self.display = runs, executor, display
        self.waiting: list[int] = []
        self.active: set[int] = set()
        self.shown: set[int] = set()
        self.deaths: Counter[int] = Counter()
        self.failures: list[Failure] = []

    def run(self, order: Sequence[int]) -> list[Failure]:
        """Do the runs in this order; returns those that failed."""
        self.active = set(self.executor.recover())
        self.waiting = [index for index in order if index not in self.active]
        while self.waiting or self.active:
            self.submit()
            self.executor.wait(self.hear)
        return self.failures

    def submit(self) -> None:
        """Submit as many runs as the executor takes."""
        while self.waiting and len(self.active) < self.executor.capacity:
            try:
                self.executor.submit(self.waiting[0], again=self.deaths[self.waiting[0]] > 0)
            except Busy as reason:
                if not self.active:  # nothing is under way that could make room
                    raise ValueError(str(reason)) from reason
                return
            self.active.add(self.waiting.pop(0))

    def hear(self, event: Event) -> None:
        """Take note of what happened."""
        self.show(event.index)
        match event:
            case Told(index, topic, content):
                getattr(self.display, topic)(index, *content)
            case Ended(index, error):
                self.end(index, error)
            case Died(index, reason):
                self.active.discard(index)
                self.deaths[index] += 1
                if self.deaths[index] <= RETRIES:
                    self.waiting.insert(0, index)
                    self.display.retried(index, reason)
                else:
                    self.end(index, f"{reason}, after {RETRIES} retries; run again with --resume")
            case Started():
                pass

    def show(self, index: int) -> None:
        """A run is shown from the first moment that something is heard of it; on a cluster it may wait for long."""
        if index not in self.shown:
            self.shown.add(index)
            self.display.started(index, self.runs[index])

    def end(self, index: int, error: str | None) -> None:
        self.active.discard(index)
        if error is not None:
            self.failures.append(Failure(self.runs[index], error))
        self.display.ended(index, error)


def _make_data(runs: Sequence[Run], out: Path, display: Display) -> None:
    """Make missing data sets first, once, so that workers only read them."""
    from gatel0rd.worlds.data import obtain

    recipes = {recipe for run in runs for recipe in run.recipes}
    for recipe in sorted(recipes, key=lambda recipe: recipe.name):
        if not (out / "data" / f"{recipe.name}.safetensors").exists():
            obtain(recipe, out / "data", partial(display.generated, recipe))
