"""Runs on this machine: one process per run and core, or this process alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from gatel0rd.paper.executors.base import Died, Ended, Event, Executor, Started, Told, Work, describe_error
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.run import Run
from gatel0rd.streams import prepare_streams
from gatel0rd.worlds.parts import die_with_parent


def make_local(runs: Sequence[Run], work: Work, config: ExecutorConfig) -> Executor:
    """As many processes as there are cores or runs, or as were asked for; this one alone if one is enough."""
    workers = min(config.workers or os.cpu_count() or 1, max(1, len(runs)))
    return InlineExecutor(runs, work) if workers == 1 else ProcessExecutor(runs, work, workers)


class InlineExecutor(Executor):
    """One run after the other in this process."""

    capacity = 1

    def __init__(self, runs: Sequence[Run], work: Work) -> None:
        self.runs, self.work = runs, work
        self.submitted: int | None = None

    def submit(self, index: int, *, again: bool) -> None:
        self.submitted = index

    def wait(self, tell: Callable[[Event], None]) -> None:
        index = self.submitted
        assert index is not None
        tell(Started(index))
        error = None
        try:
            self.work.do(self.runs[index], lambda topic, content: tell(Told(index, topic, content)))
        except Exception as exception:
            error = describe_error(exception)
        tell(Ended(index, error))


class ProcessExecutor(Executor):
    """Processes that do one run after the other; one that dies is replaced."""

    def __init__(self, runs: Sequence[Run], work: Work, workers: int) -> None:
        self.runs, self.work, self.capacity = runs, work, workers
        self.context = multiprocessing.get_context("spawn")
        self.idle: list[tuple[Connection, Any]] = []
        self.active: dict[Connection, tuple[int, Any]] = {}
        self.new: list[int] = []
        self.surroundings = contextlib.ExitStack()

    def __enter__(self) -> ProcessExecutor:
        self.surroundings.enter_context(single_threaded_children())
        return self

    def __exit__(self, *exception: object) -> None:
        self._dismiss()
        self.surroundings.close()

    def submit(self, index: int, *, again: bool) -> None:
        pipe, process = self.idle.pop() if self.idle else self._start()
        self.active[pipe] = (index, process)
        with contextlib.suppress(BrokenPipeError):  # it died; its end of the pipe says so in wait()
            pipe.send((self.runs[index], replace(self.work, resume=True) if again else self.work))
        self.new.append(index)

    def wait(self, tell: Callable[[Event], None]) -> None:
        self._dismiss()
        while self.new:
            tell(Started(self.new.pop(0)))
        for pipe in wait(list(self.active)):
            assert isinstance(pipe, Connection)
            index, process = self.active[pipe]
            try:
                topic, content = pipe.recv()
            except (EOFError, ConnectionResetError):
                del self.active[pipe]
                process.join()
                tell(Died(index, f"its process died (exit code {process.exitcode})"))
                continue
            if topic != END:
                tell(Told(index, topic, content))
                continue
            del self.active[pipe]
            self.idle.append((pipe, process))
            tell(Ended(index, content))

    def _start(self) -> tuple[Connection, Any]:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return ours, process

    def _dismiss(self) -> None:
        """End the processes for which there is no run."""
        while self.idle:
            pipe, process = self.idle.pop()
            pipe.close()
            process.join()


END = "end"
"""What a worker says after a run, with the error if there was one."""


def _serve(pipe: Connection) -> None:
    """A worker: does one run after the other until its coordinator has no more."""
    die_with_parent()
    prepare_streams()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, EOFError):
        while True:
            run, work = pipe.recv()
            try:
                work.do(run, lambda topic, content: pipe.send((topic, content)))
                pipe.send((END, None))
            except Exception as exception:
                pipe.send((END, describe_error(exception)))


@contextlib.contextmanager
def single_threaded_children() -> Iterator[None]:
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
