"""Runs on a Ray cluster.

Where all machines see the output directory, runs are done in place and a retried run resumes from its checkpoint.
Machines that do not see it work in a directory of their own and send the files back.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatel0rd.files import write_atomically
from gatel0rd.paper.executors.base import (
    CLUSTER_PATIENCE,
    POLL_SECONDS,
    Died,
    Ended,
    Event,
    Executor,
    Started,
    Throttle,
    Told,
    Topic,
    Work,
    describe_error,
)
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.run import Run
from gatel0rd.streams import prepare_streams

TOKEN = ".cluster-token-"
"""Beginning of the name of a file by which machines of a cluster see that they see the output directory."""
ANSWER_SECONDS = 10.0
"""How long an address may take to answer, once Ray is imported."""
Files = dict[str, bytes]


class RayExecutor(Executor):
    """Runs as tasks of a Ray cluster, one core each; a cluster on this machine is started if no address is given."""

    def __init__(self, runs: Sequence[Run], work: Work, config: ExecutorConfig) -> None:
        import ray

        self.ray: Any = ray
        self.runs, self.config = runs, config
        self.work = replace(work, out=work.out.resolve(), resume=True, patience=CLUSTER_PATIENCE)
        self.capacity = config.workers or len(runs)
        self.token = secrets.token_hex(8)
        self.active: dict[Any, int] = {}
        self.connected_here = False

    def __enter__(self) -> RayExecutor:
        if not self.ray.is_initialized():
            self._connect()
        try:
            write_atomically(self._token_path, "")
            affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            on_this_node = affinity(self.ray.get_runtime_context().get_node_id(), soft=False)
            make_mailbox = self.ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=on_this_node)
            self.mailbox = make_mailbox.remote()
            # retries are counted by the coordinator, for all executors alike
            self.task = self.ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(do_on_node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._token_path.unlink(missing_ok=True)
        if self.connected_here:
            self.ray.shutdown()

    def submit(self, index: int, *, again: bool) -> None:
        run = self.runs[index]
        files = pack(self.work.out / run.directory_name)
        self.active[self.task.remote(run, self.work, index, self.mailbox, self.token, files)] = index

    def wait(self, tell: Callable[[Event], None]) -> None:
        done, _ = self.ray.wait(list(self.active), timeout=POLL_SECONDS)
        with contextlib.suppress(self.ray.exceptions.RayActorError):  # work continues if nobody can tell of it
            for event in self.ray.get(self.mailbox.take.remote()):
                tell(event)
        for reference in done:
            tell(self._result(reference, self.active.pop(reference)))

    def _result(self, reference: Any, index: int) -> Event:
        try:
            error, files = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as exception:
            return Ended(index, str(exception))
        except self.ray.exceptions.RayError:
            return Died(index, "its node or process died")
        unpack(files, self.work.out / self.runs[index].directory_name)
        return Ended(index, error)

    def _connect(self) -> None:
        address = self.config.address
        own = {"num_cpus": self.config.workers or os.cpu_count(), "include_dashboard": False}
        options = {"address": address} if address else own
        try:
            if address is not None:
                check_answers(address)
            self.ray.init(log_to_driver=False, configure_logging=False, **options)
        except (ValueError, RuntimeError, OSError) as refused:
            if address is None:
                raise
            raise ValueError(
                f"there is no Ray cluster at {address!r} ({refused}); expected the address of one that runs, as in "
                "HEAD:6379, or auto on one of its nodes; start one with `ray start --head`"
            ) from refused
        self.connected_here = True

    @property
    def _token_path(self) -> Path:
        return self.work.out / f"{TOKEN}{self.token}"


def check_answers(address: str) -> None:
    """An address at which no Ray cluster answers soon is an error; Ray itself might try for minutes.

    Nothing but the end of a process ends such an attempt, so it is made in one that can be killed.
    """
    if address == "local":  # Ray's word for a cluster that it starts itself
        return
    script = f"import sys; from {__name__} import try_connection; try_connection(sys.argv[1])"
    command = [sys.executable, "-c", script, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # Ray is imported, which takes a busy machine its time
        try:
            _, said = process.communicate(timeout=ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise OSError(f"no answer within {ANSWER_SECONDS:.0f} s") from None
    if process.returncode != 0:
        raise OSError((said.strip().splitlines() or ["no reason was given"])[-1])


def try_connection(address: str) -> None:
    """Connect to a Ray cluster and leave it again; a line is printed when everything is imported."""
    import ray

    print(flush=True)
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():  # nobody listens there? Ray would not notice at once
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    ray.init(address=address, log_to_driver=False, configure_logging=False)
    ray.shutdown()


class Mailbox:
    """Where runs on other machines leave what they have to tell."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        self.events.append(event)

    def take(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken


def do_on_node(run: Run, work: Work, index: int, mailbox: Any, token: str, files: Files) -> tuple[str | None, Files]:
    """One run on a machine of the cluster; returns what went wrong, and files if they have to be sent back."""

    def send(topic: Topic, content: tuple[Any, ...]) -> None:
        mailbox.put.remote(Told(index, topic, content))

    prepare_streams()
    mailbox.put.remote(Started(index))
    here, in_place = as_seen_here(work, token)
    directory = here.out / run.directory_name
    try:
        if not in_place and not directory.exists():
            unpack(files, directory)
        here.do(run, Throttle(send))
        if in_place:
            return None, {}
        files = pack(directory)
        shutil.rmtree(directory)
        return None, files
    except Exception as exception:
        return describe_error(exception), {}


def as_seen_here(work: Work, token: str) -> tuple[Work, bool]:
    """The work as this machine can do it: in place if it sees the output directory, or else in one of its own."""
    if (work.out / f"{TOKEN}{token}").exists():
        return work, True
    return replace(work, out=Path(tempfile.gettempdir()) / f"gatel0rd-{token}"), False


def pack(directory: Path) -> Files:
    """A run's files, to be sent to another machine."""
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def unpack(files: Files, directory: Path) -> None:
    """Write a run's files, its record last: a run with a record is complete."""
    for name in sorted(files, key=lambda name: name == "record.json"):
        write_atomically(directory / name, files[name])
