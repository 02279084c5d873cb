"""Kill -9 at random moments: no run is lost, none is repeated, and records are those of an undisturbed reproduction."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import children

from gatel0rd.files import read_json

pytestmark = pytest.mark.cluster
KILLS = 10
COMMAND = [sys.executable, "-m", "gatel0rd", "run", "rrc/generalization", "--profile", "smoke", "--epochs", "500"]
COMMAND += ["--resume"]
"""Ten runs of a second or two; what ``reproduce`` does with them is the same."""


def finished(out) -> dict:
    return {path.parent.name: path for path in out.glob("rrc/*/record.json")}


def lasting(path) -> dict:
    """What a record says about a run, without how long it took, and at which commit of a tree that may be edited."""
    record = read_json(path)
    del record["wall_seconds"], record["code"]["commit"]
    return record


def workers_of(coordinator: int) -> list[int]:
    """Processes that the coordinator started, runs and their helpers."""
    found = []
    for process in children(coordinator):
        with contextlib.suppress(OSError):  # it ended in the meantime
            found += [process] if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes() else []
    return found


def wait_for_workers(process: subprocess.Popen, most: float = 300.0) -> None:
    """Return when the coordinator has started workers, or has ended."""
    end = time.monotonic() + most
    while not workers_of(process.pid) and process.poll() is None:
        assert time.monotonic() < end, f"no worker was started within {most:.0f} s"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([*COMMAND, "--out", str(out)], check=True, capture_output=True)
    return {name: lasting(path) for name, path in finished(out).items()}


def test_ten_kills_lose_and_repeat_nothing(tmp_path, undisturbed):
    dice = random.Random(0)
    seen: dict[str, tuple[float, int]] = {}
    kills = {"coordinator": 0, "worker": 0}
    process = None
    try:
        while sum(kills.values()) < KILLS:
            if process is None or process.poll() is not None:
                process = subprocess.Popen([*COMMAND, "--out", str(tmp_path)], stdout=subprocess.DEVNULL)
            wait_for_workers(process)  # on a busy machine all kills would otherwise fall into the start
            time.sleep(dice.uniform(0.0, 1.0))
            for name, path in finished(tmp_path).items():  # a finished run is never written again
                entry = (path.stat().st_mtime, path.stat().st_ino)
                assert seen.setdefault(name, entry) == entry
            workers = workers_of(process.pid)
            if workers and kills["worker"] < KILLS // 2:
                os.kill(dice.choice(workers), signal.SIGKILL)
                kills["worker"] += 1
            elif process.poll() is None:
                process.kill()
                process.wait()
                kills["coordinator"] += 1
    finally:
        process.kill()
        process.wait()
    assert kills["coordinator"] >= KILLS // 2 and kills["worker"] > 0
    assert len(seen) < len(undisturbed), "all was finished before it could be disturbed"
    last = subprocess.run([*COMMAND, "--out", str(tmp_path)], capture_output=True, text=True)
    assert last.returncode == 0, last.stdout
    after = finished(tmp_path)
    for name, (modified, number) in seen.items():
        assert (after[name].stat().st_mtime, after[name].stat().st_ino) == (modified, number)
    assert {name: lasting(path) for name, path in after.items()} == undisturbed
