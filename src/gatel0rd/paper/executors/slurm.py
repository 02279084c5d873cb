"""Runs as SLURM jobs, through submitit."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gatel0rd.errors import FailedError
from gatel0rd.files import FileError, read_json, write_json, write_sealed_json
from gatel0rd.paper.executors.base import (
    CLUSTER_PATIENCE,
    POLL_SECONDS,
    Busy,
    Died,
    Ended,
    Event,
    Executor,
    Throttle,
    Told,
    Topic,
    Work,
    describe_error,
)
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.run import Run
from gatel0rd.streams import prepare_streams

QUEUE_SECONDS = 15.0
"""How often SLURM is asked whether jobs are still there."""
LEAST_MINUTES, MEMORY_GB = 30, 2
"""What is asked for a job: three times the estimated time of the longest run, but at least this; and memory."""


class SlurmExecutor(Executor):
    """A job per run. A coordinator that was killed finds the jobs again that its predecessor submitted."""

    def __init__(self, runs: Sequence[Run], work: Work, config: ExecutorConfig) -> None:
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)  # it warns at every look where there is no accounting
        self.submitit: Any = submitit
        self.runs = runs
        self.work = replace(work, out=work.out.resolve(), resume=True, patience=CLUSTER_PATIENCE)
        self.folder = self.work.out / "slurm"
        self.on_this_machine = config.slurm.get("cluster", "slurm") == "local"
        if not self.on_this_machine and shutil.which("srun") is None:
            raise FailedError(
                "there is no srun here, so this machine is not part of a SLURM cluster; start it on one of its login "
                "nodes, or try it out on this machine with --slurm cluster=local"
            )
        self.submitter = self._make_submitter(config)
        self.capacity = config.workers or ((os.cpu_count() or 1) if self.on_this_machine else len(runs))
        self.ledger = Ledger(self.folder / "jobs.json")
        self.active: dict[int, Any] = {}
        self.recovered: set[int] = set()
        self.heard: dict[int, Any] = {}
        self.asked = time.monotonic()

    def recover(self) -> Iterable[int]:
        if self.on_this_machine:  # its jobs cannot be found again; their locks can
            return ()
        job_class = self.submitter._executor.job_class
        for index, run in enumerate(self.runs):
            earlier = self.ledger.find(run)
            job = None if earlier is None else job_class(self.folder, earlier)
            if job is not None and not job.done():
                self.active[index] = job
        self.recovered = set(self.active)
        return list(self.active)

    def submit(self, index: int, *, again: bool) -> None:
        run = self.runs[index]
        self._progress_path(index).unlink(missing_ok=True)  # of an earlier attempt
        try:
            job = self.submitter.submit(SlurmJob(run, self.work, self._progress_path(index)))
        except (self.submitit.core.utils.FailedJobError, OSError) as refused:
            raise Busy(f"SLURM does not take jobs: {refused}") from refused  # it may when others are finished
        self.ledger.add(run, job.job_id)
        self.active[index] = job

    def wait(self, tell: Callable[[Event], None]) -> None:
        time.sleep(POLL_SECONDS)
        queue = self._ask_for_queue()
        for index, job in list(self.active.items()):
            self._tell_progress(index, tell)
            finished = job.done()
            if finished or (queue is not None and has_vanished(job, queue)):
                del self.active[index]
                tell(self._result(index, job) if finished else self._death(index, job))

    def _result(self, index: int, job: Any) -> Event:
        """How a job ended."""
        try:
            error = job.result()
        except self.submitit.core.utils.UncompletedJobError:
            return self._death(index, job)
        self._progress_path(index).unlink(missing_ok=True)
        self.ledger.remove(self.runs[index])
        if index in self.recovered:  # the earlier command may have asked for less, as for a run without planning
            self.recovered.remove(index)
            if error is None and self.work.remaining_seconds(self.runs[index]) > 0:
                return Died(index, f"job {job.job_id} of an earlier command has ended, and something is left to do")
        return Ended(index, error)

    def _death(self, index: int, job: Any) -> Event:
        self.ledger.remove(self.runs[index])
        return Died(index, f"job {job.job_id} died (its log is in {self.folder})")

    def _tell_progress(self, index: int, tell: Callable[[Event], None]) -> None:
        """Tell what a job left in its file, if that is new."""
        try:
            told = json.loads(self._progress_path(index).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or replaced at this moment on a file server
            return
        if told != self.heard.get(index):
            self.heard[index] = told
            topic, content = told
            tell(Told(index, topic, content))

    def _ask_for_queue(self) -> set[str] | None:
        """The jobs that SLURM has, if it is time to ask for them."""
        if self.on_this_machine or time.monotonic() - self.asked <= QUEUE_SECONDS:
            return None
        self.asked = time.monotonic()
        return queued_jobs()

    def _progress_path(self, index: int) -> Path:
        return self.folder / "progress" / f"{self.runs[index].directory_name.replace('/', '-')}.json"

    def _make_submitter(self, config: ExecutorConfig) -> Any:
        """submitit's executor, with what jobs ask for."""
        cluster = "local" if self.on_this_machine else "slurm"
        submitter = self.submitit.AutoExecutor(folder=self.folder, cluster=cluster)
        longest = max((self.work.remaining_seconds(run) for run in self.runs), default=0.0)
        submitter.update_parameters(
            name="gatel0rd",
            cpus_per_task=1,
            mem_gb=config.slurm_number("mem_gb") or MEMORY_GB,
            timeout_min=round(config.slurm_number("time") or max(LEAST_MINUTES, 3 * longest / 60)),
        )
        if not self.on_this_machine:
            known = ("cluster", "time", "mem_gb")
            more = {name: value for name, value in config.slurm.items() if name not in known}
            extra = {"slurm_additional_parameters": more} if more else {}
            submitter.update_parameters(slurm_setup=["export OMP_NUM_THREADS=1"], **extra)
        return submitter


class Ledger:
    """A file with the jobs that were submitted and have not ended, by the names of their runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.jobs: dict[str, str] = read_json(path) if path.exists() else {}
        except FileError as error:
            raise FileError(f"{error}; or delete it if none of its jobs is left (squeue --me shows them)") from error

    def find(self, run: Run) -> str | None:
        return self.jobs.get(run.directory_name)

    def add(self, run: Run, job: str) -> None:
        self.jobs[run.directory_name] = job
        write_sealed_json(self.path, self.jobs)

    def remove(self, run: Run) -> None:
        self.jobs.pop(run.directory_name, None)
        write_sealed_json(self.path, self.jobs)


@dataclass
class SlurmJob:
    """One run as a SLURM job; what it tells goes into a file that the coordinator reads."""

    run: Run
    work: Work
    progress: Path

    def __call__(self) -> str | None:
        """What went wrong, if anything did."""

        def send(topic: Topic, content: tuple[Any, ...]) -> None:
            write_json(self.progress, [topic, content])

        prepare_streams()
        try:
            self.work.do(self.run, Throttle(send))
        except Exception as exception:
            return describe_error(exception)
        return None

    def checkpoint(self) -> Any:
        """Called by submitit before SLURM takes the job's time or node away: the same again, from the checkpoint."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def queued_jobs() -> set[str] | None:
    """The jobs that SLURM has; None if it cannot be asked at the moment."""
    answer = subprocess.run(["squeue", "--noheader", "--format=%A"], capture_output=True, text=True)
    return None if answer.returncode else set(answer.stdout.split())


def has_vanished(job: Any, queue: set[str]) -> bool:
    """Whether SLURM no longer knows of a job that left no result, which clusters without accounting do not tell."""
    return job.state == "UNKNOWN" and job.job_id not in queue and not job.paths.result_pickle.exists()
