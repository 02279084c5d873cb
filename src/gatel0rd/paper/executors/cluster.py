"""The same plan on more than one machine: a Ray cluster, or SLURM through submitit.

Both call :meth:`Work.do` for each run, retry runs whose node died, and leave the same records. Where all machines see
the output directory, runs are done in place and a retried run goes on from its checkpoint. Machines of a Ray cluster
that do not see it work in a directory of their own and send the files back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gatel0rd.files import write_atomically, write_json
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.executors.local import RETRIES, Display, Failure, Work, describe, remaining_seconds
from gatel0rd.paper.plan import AnyRun

Messages = list[tuple[int, str, Any]]
TELL_SECONDS = 1.0
"""How often a run on a cluster says how far it is."""
POLL_SECONDS = 0.5
QUEUE_SECONDS = 15.0
"""How often SLURM is asked whether jobs are still there."""
PATIENCE = 180.0
"""How long a retried run waits until the lock of its dead predecessor is given up, which takes file servers a while."""
TOKEN = ".cluster-token-"
"""Beginning of the name of a file by which machines of a cluster see that they see the output directory."""


class Slow:
    """Passes on what a run tells, but only the latest and not all the time."""

    def __init__(self, send: Any) -> None:
        self.send, self.last = send, 0.0

    def __call__(self, kind: str, content: Any) -> None:
        if time.monotonic() - self.last >= TELL_SECONDS:
            self.last = time.monotonic()
            self.send(kind, content)


def as_seen_here(work: Work, token: str) -> tuple[Work, bool]:
    """The work as this machine can do it: in place if it sees the output directory, or else in one of its own."""
    if (work.out / f"{TOKEN}{token}").exists():
        return work, True
    return replace(work, out=Path(tempfile.gettempdir()) / f"gatel0rd-{token}"), False


def pack(directory: Path) -> dict[str, bytes]:
    """A run's files, to be sent to another machine."""
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def unpack(files: dict[str, bytes], directory: Path) -> None:
    """Write a run's files, its record last: a run with a record is complete."""
    for name in sorted(files, key=lambda name: name == "record.json"):
        write_atomically(directory / name, files[name])


def do_on_ray(run: AnyRun, work: Work, index: int, mailbox: Any, token: str, files: dict[str, bytes]) -> Any:
    """One run on a machine of a Ray cluster; returns what went wrong, and files if they have to be sent back."""

    def send(kind: str, content: Any) -> None:
        mailbox.put.remote([(index, kind, content)])

    send("started", None)
    here, in_place = as_seen_here(work, token)
    directory = here.out / run.directory_name
    try:
        if not in_place and not directory.exists():
            unpack(files, directory)
        here.do(run, Slow(send))
        if in_place:
            return None, {}
        files = pack(directory)
        shutil.rmtree(directory)
        return None, files
    except Exception as exception:
        return describe(exception), {}


class Mailbox:
    """Where runs on other machines leave what they have to tell."""

    def __init__(self) -> None:
        self.messages: Messages = []

    def put(self, messages: Messages) -> None:
        self.messages += messages

    def take(self) -> Messages:
        taken, self.messages = self.messages, []
        return taken


class Started:
    """Shows runs on a display; on a cluster a run may start again without its coordinator's doing."""

    def __init__(self, runs: Sequence[AnyRun], display: Display) -> None:
        self.runs, self.display = runs, display
        self.seen: set[int] = set()

    def show(self, messages: Messages) -> None:
        for index, kind, content in messages:
            if kind != "started":
                self.begin(index)
                getattr(self.display, kind)(index, *content)
            elif index in self.seen:
                self.display.retried(index, "its node died")
            else:
                self.begin(index)

    def begin(self, index: int) -> None:
        if index not in self.seen:
            self.seen.add(index)
            self.display.started(index, self.runs[index])

    def end(self, index: int, error: str | None) -> None:
        self.begin(index)
        self.display.ended(index, error)


def run_on_ray(
    runs: Sequence[AnyRun], order: Sequence[int], work: Work, executor: ExecutorConfig, display: Display
) -> list[Failure]:
    """Execute runs as tasks of a Ray cluster, one core each."""
    import ray

    work = replace(work, out=work.out.resolve(), resume=True, patience=PATIENCE)
    token = secrets.token_hex(8)
    started_here = not ray.is_initialized()
    if started_here:
        own: Any = {"num_cpus": executor.workers or os.cpu_count(), "include_dashboard": False}
        options: Any = {"address": executor.address} if executor.address else own
        try:
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except ConnectionError as refused:
            raise ValueError(f"there is no Ray cluster at {executor.address!r} ({refused})") from refused
    failures: list[Failure] = []
    try:
        write_atomically(work.out / f"{TOKEN}{token}", "")
        affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        beside_us = affinity(ray.get_runtime_context().get_node_id(), soft=False)
        mailbox: Any = ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=beside_us).remote()
        task: Any = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(do_on_ray)
        shown = Started(runs, display)
        waiting = list(order)
        active: dict[Any, int] = {}
        while waiting or active:
            while waiting and len(active) < (executor.workers or len(runs)):
                index = waiting.pop(0)
                files = pack(work.out / runs[index].directory_name)
                active[task.remote(runs[index], work, index, mailbox, token, files)] = index
            done, _ = ray.wait(list(active), timeout=POLL_SECONDS)
            with contextlib.suppress(ray.exceptions.RayActorError):  # work goes on if nobody can tell of it
                shown.show(ray.get(mailbox.take.remote()))
            for reference in done:
                index = active.pop(reference)
                try:
                    error, files = ray.get(reference)
                    unpack(files, work.out / runs[index].directory_name)
                except ray.exceptions.RayTaskError as exception:
                    error = str(exception)
                except ray.exceptions.RayError as exception:
                    error = f"its node or process died more than {RETRIES} times ({type(exception).__name__})"
                if error is not None:
                    failures.append(Failure(runs[index], error))
                shown.end(index, error)
    finally:
        (work.out / f"{TOKEN}{token}").unlink(missing_ok=True)
        if started_here:
            ray.shutdown()
    return failures


@dataclass
class SlurmJob:
    """One run as a SLURM job; what it tells goes into a file that the coordinator reads."""

    run: AnyRun
    work: Work
    progress: Path

    def __call__(self) -> str | None:
        """What went wrong, if anything did."""

        def send(kind: str, content: Any) -> None:
            write_json(self.progress, [kind, content])

        try:
            self.work.do(self.run, Slow(send))
        except Exception as exception:
            return describe(exception)
        return None

    def checkpoint(self) -> Any:
        """Called by submitit before SLURM takes the job's time or node away: the same again, from the checkpoint."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def queued_jobs() -> set[str] | None:
    """The jobs that SLURM has; None if it cannot be asked at the moment."""
    answer = subprocess.run(["squeue", "--noheader", "--format=%A"], capture_output=True, text=True)
    return None if answer.returncode else set(answer.stdout.split())


def vanished(job: Any, queue: set[str]) -> bool:
    """Whether SLURM no longer knows of a job that left no result, which clusters without accounting do not tell."""
    return job.state == "UNKNOWN" and job.job_id not in queue and not job.paths.result_pickle.exists()


def run_on_slurm(
    runs: Sequence[AnyRun], order: Sequence[int], work: Work, executor: ExecutorConfig, display: Display
) -> list[Failure]:
    """Execute runs as SLURM jobs. A coordinator that was killed finds the jobs again that its predecessor submitted."""
    import submitit

    logging.getLogger("submitit").setLevel(logging.ERROR)  # it warns at every look where there is no accounting
    work = replace(work, out=work.out.resolve(), resume=True, patience=PATIENCE)
    folder = work.out / "slurm"
    options = dict(executor.slurm)
    on_this_machine = options.pop("cluster", "slurm") == "local"
    submitter = submitit.AutoExecutor(folder=folder, cluster="local" if on_this_machine else "slurm")
    longest = max((remaining_seconds(runs[index], work) for index in order), default=0.0)
    minutes = executor.slurm_number("time") or max(30, round(3 * longest / 60))
    memory = executor.slurm_number("mem_gb") or 2
    options = {name: value for name, value in options.items() if name not in ("time", "mem_gb")}
    submitter.update_parameters(name="gatel0rd", cpus_per_task=1, mem_gb=memory, timeout_min=round(minutes))
    if not on_this_machine:
        extra = {"slurm_additional_parameters": options} if options else {}
        submitter.update_parameters(slurm_setup=["export OMP_NUM_THREADS=1"], **extra)
    limit = executor.workers or ((os.cpu_count() or 1) if on_this_machine else len(runs))
    ledger = folder / "jobs.json"
    submitted: dict[str, str] = json.loads(ledger.read_text()) if ledger.exists() else {}
    job_class = submitter._executor.job_class
    shown, deaths = Started(runs, display), Counter[int]()
    failures: list[Failure] = []
    waiting = list(order)
    active: dict[int, Any] = {}

    def progress_of(index: int) -> Path:
        return folder / "progress" / f"{runs[index].directory_name.replace('/', '-')}.json"

    def submit(index: int) -> Any:
        job = submitter.submit(SlurmJob(runs[index], work, progress_of(index)))
        submitted[runs[index].directory_name] = job.job_id
        write_json(ledger, submitted)
        return job

    for index in () if on_this_machine else order:  # jobs on this machine cannot be found again; their locks can
        earlier = submitted.get(runs[index].directory_name)
        job = job_class(folder, earlier) if earlier else None
        if job is not None and not job.done():
            active[index] = job
            waiting.remove(index)
    heard: dict[int, Any] = {}
    asked = time.monotonic()
    while waiting or active:
        while waiting and len(active) < limit:
            try:
                active[waiting[0]] = submit(waiting[0])
                waiting.pop(0)
            except (submitit.core.utils.FailedJobError, OSError) as refused:
                if not active:
                    raise ValueError(f"SLURM does not take jobs: {refused}") from refused
                break  # it may when others are finished
        time.sleep(POLL_SECONDS)
        queue = None
        if not on_this_machine and time.monotonic() - asked > QUEUE_SECONDS:
            asked, queue = time.monotonic(), queued_jobs()
        for index, job in list(active.items()):
            if progress_of(index).exists() and (told := json.loads(progress_of(index).read_text())) != heard.get(index):
                heard[index] = told
                shown.show([(index, told[0], told[1])])
            finished = job.done()
            if not finished and not (queue is not None and vanished(job, queue)):
                continue
            del active[index]
            try:
                if not finished:
                    raise submitit.core.utils.UncompletedJobError
                error = job.result()
            except submitit.core.utils.UncompletedJobError:
                deaths[index] += 1
                if deaths[index] <= RETRIES:
                    shown.begin(index)
                    display.retried(index, f"job {job.job_id} died")
                    waiting.insert(0, index)
                    continue
                error = f"its job died {deaths[index]} times, the last one as {job.job_id}; see {folder}"
            progress_of(index).unlink(missing_ok=True)
            submitted.pop(runs[index].directory_name, None)
            write_json(ledger, submitted)
            if error is not None:
                failures.append(Failure(runs[index], error))
            shown.end(index, error)
    return failures
