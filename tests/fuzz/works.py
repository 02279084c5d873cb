"""Small pieces of resumable work, each in a process of its own that can be killed at any moment."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz.driver import BrokenPromiseError, Target

from gatel0rd.files import Arrays, FileError, checksum, load_arrays, read_header
from gatel0rd.paper.agent_trials import plan_own_agent
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.records import load_records
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.training import DataRecipe, Dataset
from gatel0rd.training.loop import TrainingLoop
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import obtain
from gatel0rd.worlds.robot_remote_control import RobotRemoteControlWorld

TIMES = {"seconds", "wall_seconds", "commit", "commits", "sha256", "minutes"}
"""What two runs of the same work may differ in: how long it took, and checksums over that."""
LONGEST = 120.0
"""Seconds that undisturbed work may take."""
IN_USE = 3
"""Exit code of a process that refused to work because another one did."""
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
"""What a process is killed at, right before it happens."""


class InParts(RobotRemoteControlWorld):
    """A world whose data is made in parts."""

    name, title, environment = "in-parts", "Made in parts", None

    def part_sizes(self, recipe: DataRecipe) -> list[int]:
        return [4] * (recipe.sequences // 4)

    def generate_part(self, recipe: DataRecipe, number: int) -> Arrays:
        own = replace(recipe, scenario="rrc", sequences=4, seed=recipe.seed * 1000 + number)
        data: Dataset = registry.get("rrc").generate(own, lambda done, total: None)
        labels = {f"label.{name}": array for name, array in data.labels.items()}
        return {"observations": data.observations, "actions": data.actions, "strata": data.strata, **labels}


def run_experiment(out: Path) -> None:
    (run,) = plan(find("rrc/gating"), profile="smoke", seeds=[0], cells=["gatel0rd"], epochs=12)
    run.execute(out, resume=True)


def run_memory(out: Path) -> None:
    (run,) = plan(find("memory/length"), profile="smoke", seeds=[0], cells=["symbol-gatel0rd"], epochs=3)
    run = replace(run, lengths=(50,), sequences=(20,))  # type: ignore[type-var]
    run.execute(out, resume=True)


def fit_model(out: Path) -> None:
    rng = np.random.default_rng(0)
    recordings = from_arrays([np.cumsum(rng.normal(size=(30, 2)), axis=0) for _ in range(6)])
    config = FitConfig(hidden_size=3, features=4, rounds=6, round_updates=3, window=20)
    fit(recordings, config, out / "model", seeds=2)


def train_agent(out: Path) -> None:
    run = plan_own_agent("CartPole-v1", "gru", frames=160, seed=0, hidden_size=4, backend="gymnasium")
    ppo = replace(run.ppo, environments=2, steps=16, batch_size=32, chunk=8, epochs=1)
    replace(run, ppo=ppo, trials=2).execute(out, resume=True, backend="gymnasium")


def make_data(out: Path) -> None:
    with contextlib.suppress(ValueError):  # it is known already
        registry.register(InParts())
    recipe = DataRecipe(scenario="in-parts", policy="time", split="train", sequences=40, steps=8)
    obtain(recipe, out / "data")


def read_reports(out: Path) -> None:
    """Read all records there are, as a report does, again and again."""
    for _ in range(200):
        load_records([out])


WORKS: dict[str, Callable[[Path], None]] = {
    "run": run_experiment,
    "memory": run_memory,
    "fit": fit_model,
    "agent": train_agent,
    "data": make_data,
}


def _work(work: Callable[[Path], None], out: Path, kill_at: int | None, log: Path) -> None:
    """What the process does. Checkpoints are written as often as possible."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    torch.set_num_threads(1)
    os.cpu_count = lambda: 1  # parts of data in this process
    opened = TrainingLoop.open_directory

    def open_eagerly(self: TrainingLoop, *args: Any, **options: Any) -> None:
        opened(self, *args, **{**options, "checkpoint_seconds": 0.0})

    TrainingLoop.open_directory = open_eagerly  # type: ignore[method-assign]
    if kill_at is not None:
        sys.addaudithook(functools.partial(_count_down, str(out), [kill_at]))
    try:
        work(out)
    except FileError as error:
        print(error, flush=True)
        os._exit(IN_USE if "in use by another process" in str(error) else 1)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _count_down(place: str, left: list[int], event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and arguments and str(arguments[0]).startswith(place):
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def start_work(name: str, out: Path, *, kill_at: int | None = None, log: Path) -> BaseProcess:
    """Begin a piece of work, or continue it, in a process of its own.

    Args:
        kill_at: the number of the change of a file below ``out`` right before which it is killed.
        log: file for what it prints.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fuzz.works"])
    work = read_reports if name == "read" else WORKS[name]
    process = context.Process(target=_work, args=(work, out, kill_at, log))
    process.start()
    return process


def describe_directory(out: Path) -> dict[str, str]:
    """Everything below a directory but locks and times."""
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and not path.name.endswith("lock")]
    return {str(path.relative_to(out)): describe_file(path) for path in files}


def describe_file(path: Path) -> str:
    if path.suffix == ".json":
        return json.dumps(without_times(json.loads(path.read_text())))
    if path.suffix == ".jsonl":
        return json.dumps([without_times(json.loads(line)) for line in path.read_text().splitlines()])
    if path.suffix == ".safetensors":
        kind, metadata = read_header(path)
        return f"{kind} {checksum(load_arrays(path, kind=kind)[0])} {json.dumps(without_times(metadata))}"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: without_times(value) for name, value in content.items() if name not in TIMES}
    return [without_times(value) for value in content] if isinstance(content, list) else content


class WorkTarget(Target):
    """Work whose end is compared with that of undisturbed work."""

    seconds = 900.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.expected: dict[str, dict[str, str]] = {}
        self.takes: dict[str, float] = {}

    def prepare(self, work: str) -> None:
        """Do a piece of work undisturbed, once."""
        if work in self.expected:
            return
        out = self.place / work
        out.mkdir()
        began = time.monotonic()
        finish_work(work, out, self.place / f"{work}.log")
        self.takes[work] = time.monotonic() - began
        self.expected[work] = describe_directory(out)

    def compare(self, work: str, place: Path) -> None:
        """Finish what is in ``place/out``, and compare it."""
        finish_work(work, place / "out", place / "log.txt")
        found, expected = describe_directory(place / "out"), self.expected[work]
        names = [name for name in found.keys() | expected if found.get(name) != expected.get(name)]
        if names:
            shutil.copytree(self.place / work, place / "expected")
            raise BrokenPromiseError(f"{work} ended otherwise: {', '.join(sorted(names)[:5])}")


def finish_work(work: str, out: Path, log: Path) -> None:
    """Do what is left of a piece of work."""
    process = start_work(work, out, log=log)
    process.join(LONGEST)
    if process.exitcode != 0:
        process.kill()
        process.join()
        raise BrokenPromiseError(f"{work} does not end: {log.read_text()[-300:]}")
