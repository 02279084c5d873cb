"""The same plan on a Ray cluster and on SLURM's stand-in, with nodes and jobs that die."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import replace

import pytest
from processes import children

from gatel0rd.files import FileError, read_json, write_atomically
from gatel0rd.paper.executors import base, ray, slurm
from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.executors.coordinator import run_all
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.profiles import PROFILES

EPOCHS = 1500
"""So many take some seconds."""


class Watch:
    """A display that remembers, and lets a test act when a run has come far enough."""

    def __init__(self, runs=(), acts=None):
        self.runs, self.acts = runs, acts
        self.starts, self.retries, self.ends = [], [], {}

    def generated(self, recipe, done, total): ...

    def started(self, index, run):
        self.starts.append(index)

    def progressed(self, index, metrics):
        if self.acts is not None:
            self.acts(index, metrics)

    def planned(self, index, done, total): ...

    def retried(self, index, reason):
        self.retries.append((index, reason))

    def ended(self, index, error):
        self.ends[index] = error


def small_runs(epochs: int, seeds=(0, 1)):
    runs = plan(find("rrc/generalization"), profile="smoke", seeds=seeds, cells=["gatel0rd"], epochs=epochs)
    return [replace(run, train=replace(run.train, evaluate_every=epochs)) for run in runs]


def lasting(record: dict) -> dict:
    """What a record says about a run, without how long it took, and at which commit of a tree that may be edited."""
    code = {name: value for name, value in record["code"].items() if name != "commit"}
    return {name: value for name, value in record.items() if name != "wall_seconds"} | {"code": code}


def record_of(run, out):
    return lasting(read_json(out / run.directory_name / "record.json"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Records of the same runs, done one by one on this machine."""
    out = tmp_path_factory.mktemp("alone")
    runs = small_runs(EPOCHS)
    for run in runs:
        run.execute(out)
    return [record_of(run, out) for run in runs]


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_ray_cluster_of_two_nodes_loses_one(tmp_path, alone, monkeypatch):
    ray_package = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(base, "TELL_SECONDS", 0.1)
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray's 15 is minutes of waiting for the tests in the next process
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 10**8}
    )
    ray_package.init(
        address=nodes.address, log_to_driver=False, configure_logging=False
    )  # on the head: it has to survive
    second = nodes.add_node(num_cpus=1, object_store_memory=10**8)
    nodes.wait_for_nodes()
    try:
        seen = set()

        def kill_one_when_both_work(index, metrics):
            seen.add(index)
            if len(seen) == 2 and second in nodes.worker_nodes:
                nodes.remove_node(second, allow_graceful=False)

        runs = small_runs(EPOCHS)
        watch = Watch(runs, kill_one_when_both_work)
        failures = run_all(runs, Work(out=tmp_path), executor=ExecutorConfig(kind="ray"), display=watch)
    finally:
        ray_package.shutdown()
        nodes.shutdown()
    assert failures == [] and watch.ends == {0: None, 1: None}
    assert second not in nodes.worker_nodes, "no node was killed"
    assert watch.retries == [(watch.retries[0][0], "its node or process died")]
    assert [record_of(run, tmp_path) for run in runs] == alone
    assert not list(tmp_path.glob(f"{ray.TOKEN}*"))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nobody.invalid:6379", "nonsense"])
def test_a_ray_cluster_that_is_not_there_is_an_error_at_once(tmp_path, address):
    pytest.importorskip("ray")
    watch, began = Watch(), time.monotonic()
    executor = ExecutorConfig(kind="ray", address=address)
    with pytest.raises(ValueError, match=f"there is no Ray cluster at '{address}' .*start one with `ray start --head`"):
        run_all(small_runs(2), Work(out=tmp_path), executor=executor, display=watch)
    assert time.monotonic() - began < 20
    assert watch.starts == [] and not list(tmp_path.rglob("*"))  # no data is made, and no token is left


def test_an_address_that_never_answers_is_an_error_within_20_seconds(tmp_path):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and says nothing
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ValueError, match=r"there is no Ray cluster at .*no answer within 10 s"):
            run_all(
                small_runs(2), Work(out=tmp_path), executor=ExecutorConfig(kind="ray", address=address), display=Watch()
            )
    assert time.monotonic() - began < 20
    assert not list(tmp_path.rglob("*"))


def test_machines_without_the_directory_send_files_back(tmp_path, monkeypatch):
    class Put:
        def remote(self, event):
            told.append(event)

    class Mailbox:
        put = Put()

    told: list = []
    here, there, back = (tmp_path / name for name in ("here", "there", "back"))
    monkeypatch.setattr("tempfile.tempdir", str(there))
    there.mkdir()
    (run,) = small_runs(2, seeds=(0,))
    run.execute(here)
    work = Work(out=here, resume=True)
    write_atomically(here / f"{ray.TOKEN}others", "")
    error, files = ray.do_on_node(run, work, 0, Mailbox(), "mine", ray.pack(here / run.directory_name))
    assert error is None and told[0] == base.Started(0)
    assert (there / "gatel0rd-mine").exists() and not (there / "gatel0rd-mine" / run.directory_name).exists()
    assert "record.json" in files and "model.safetensors" in files and "lock" not in files
    ray.unpack(files, back / run.directory_name)
    assert record_of(run, back) == record_of(run, here)
    write_atomically(here / f"{ray.TOKEN}mine", "")
    assert ray.do_on_node(run, work, 0, Mailbox(), "mine", {}) == (None, {})
    broken = replace(run, train=replace(run.train, learning_rate=1e30, clip_norm=1e30))
    error, files = ray.do_on_node(broken, work, 0, Mailbox(), "mine", {})
    assert "the loss became" in error and files == {}


@pytest.mark.cluster
def test_a_job_that_is_killed_is_submitted_again(tmp_path, alone, monkeypatch):
    monkeypatch.setattr(slurm, "CLUSTER_PATIENCE", 20.0)
    killed = []

    def kill_the_first(index, metrics):
        ledger = tmp_path / "slurm" / "jobs.json"
        if not killed and metrics["epoch"] > 10:
            killed.append(index)
            job = json.loads(ledger.read_text())[runs[index].directory_name]
            for child in children(int(job)):
                os.kill(child, signal.SIGKILL)

    runs = small_runs(EPOCHS)
    watch = Watch(runs, kill_the_first)
    executor = ExecutorConfig(kind="slurm", slurm={"cluster": "local"})
    failures = run_all(runs, Work(out=tmp_path), executor=executor, display=watch)
    assert failures == [] and watch.ends == {0: None, 1: None}
    assert [index for index, _ in watch.retries] == killed
    assert [record_of(run, tmp_path) for run in runs] == alone
    assert read_json(tmp_path / "slurm" / "jobs.json") == {}


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_new_coordinator_does_not_repeat_the_jobs_of_the_old_one(tmp_path):
    class Gone(Exception):
        pass

    def go_away(index, metrics):
        raise Gone

    (run,) = small_runs(EPOCHS, seeds=(0,))
    executor = ExecutorConfig(kind="slurm", slurm={"cluster": "local"})
    with pytest.raises(Gone):
        run_all([run], Work(out=tmp_path), executor=executor, display=Watch([run], go_away))
    watch = Watch([run])
    assert run_all([run], Work(out=tmp_path), executor=executor, display=watch) == []
    assert watch.ends == {0: None} and watch.retries == []
    # the second job waited for the first one and found nothing left to do
    results = sorted((tmp_path / "slurm").glob("*_result.pkl"), key=lambda path: path.stat().st_mtime)
    assert len(results) == 2
    assert (tmp_path / run.directory_name / "record.json").stat().st_mtime < results[0].stat().st_mtime


@pytest.mark.cluster
def test_a_job_says_what_went_wrong(tmp_path):
    (run,) = small_runs(2, seeds=(0,))
    broken = replace(run, train=replace(run.train, learning_rate=1e30, clip_norm=1e30))
    watch = Watch([broken])
    executor = ExecutorConfig(kind="slurm", slurm={"cluster": "local"})
    (failure,) = run_all([broken], Work(out=tmp_path), executor=executor, display=watch)
    assert "the loss became" in failure.error == watch.ends[0]
    job = slurm.SlurmJob(run, Work(out=tmp_path), tmp_path / "progress.json")
    assert job.checkpoint().function is job  # preempted, it is submitted again as it is


def test_only_the_latest_is_told():
    told = []
    throttle = base.Throttle(lambda topic, content: told.append(content))
    for number in range(100):
        throttle("progressed", number)
    assert told == [0]
    throttle.last -= base.TELL_SECONDS
    throttle("progressed", 100)
    assert told == [0, 100]


class FakeJob:
    """A job of a SLURM without accounting: its state is never known."""

    state = "UNKNOWN"

    def __init__(self, folder, job_id, result=False):
        self.job_id = job_id
        self.paths = type("Paths", (), {"result_pickle": folder / f"{job_id}_result"})
        if result:
            self.paths.result_pickle.touch()


def test_jobs_that_slurm_forgot_are_told_from_those_it_cannot_be_asked_about(tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 11\necho 12\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert slurm.queued_jobs() == {"11", "12"}
    assert not slurm.has_vanished(FakeJob(tmp_path, "11"), {"11", "12"})
    assert slurm.has_vanished(FakeJob(tmp_path, "13"), {"11", "12"})
    assert not slurm.has_vanished(FakeJob(tmp_path, "14", result=True), {"11", "12"})
    squeue.write_text("#!/bin/sh\necho unable to contact the controller >&2\nexit 1\n")
    assert slurm.queued_jobs() is None


@pytest.mark.parametrize(
    ("name", "text"), [("time", "04:00:00"), ("mem_gb", "4G"), ("time", "inf"), ("mem_gb", "nan"), ("time", "0")]
)
def test_slurm_options_that_are_no_numbers_are_errors(name, text):
    with pytest.raises(ValueError, match=f"{name} for SLURM is '{text}'; expected a number"):
        ExecutorConfig(kind="slurm", slurm={name: text})


@pytest.mark.parametrize(
    ("options", "kind"), [({"slurm": {"partition": "cpu"}}, "slurm"), ({"kind": "slurm", "address": "auto"}, "ray")]
)
def test_options_of_another_executor_are_errors(options, kind):
    """Without `--executor slurm` all would be done on the login node."""
    with pytest.raises(ValueError, match=f"options of {kind} are given, but the executor is .*; add --executor {kind}"):
        ExecutorConfig(**options)


@pytest.mark.parametrize("content", [None, "", "{", '["progressed", [{"epoch": 1}]]'])
def test_the_progress_of_a_job_is_shown_if_it_can_be_read(content, tmp_path):
    pytest.importorskip("submitit")
    (run,) = small_runs(2, seeds=(0,))
    executor = slurm.SlurmExecutor([run], Work(out=tmp_path), ExecutorConfig(kind="slurm", slurm={"cluster": "local"}))
    path = executor._progress_path(0)
    if content is not None:
        write_atomically(path, content)
    told = []
    executor._tell_progress(0, told.append)
    executor._tell_progress(0, told.append)
    assert told == ([base.Told(0, "progressed", [{"epoch": 1}])] if content and "epoch" in content else [])


def test_a_damaged_ledger_says_what_to_do(tmp_path):
    (tmp_path / "jobs.json").write_text("{")
    with pytest.raises(FileError, match="or delete it if none of its jobs is left"):
        slurm.Ledger(tmp_path / "jobs.json")


def test_what_a_job_of_an_earlier_command_left_is_done_after_it(tmp_path):
    pytest.importorskip("submitit")
    (run,) = plan(find("rrc/planning"), profile="smoke", seeds=[0], cells=["gru"])
    run.execute(tmp_path)  # as an earlier command did, which did not plan
    job = FakeJob(tmp_path, "11")
    job.result = lambda: None
    for planning, expected in ((PROFILES["smoke"], base.Died), (None, base.Ended)):
        work = Work(out=tmp_path, planning=planning)
        executor = slurm.SlurmExecutor([run], work, ExecutorConfig(kind="slurm", slurm={"cluster": "local"}))
        executor.recovered = {0}
        assert isinstance(executor._result(0, job), expected)
        assert isinstance(executor._result(0, job), base.Ended)  # once is enough
