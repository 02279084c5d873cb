"""The one training loop, with all three kinds of training that plug into it: power cuts, kills, and other surprises."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import gatel0rd.worlds  # noqa: F401  # registers Recall
from gatel0rd.files import FileError, load_arrays, save_arrays
from gatel0rd.models.config import ActorCriticConfig, WorldModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.recordings import fitter as fitting
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fitter import Fitter
from gatel0rd.training import Trainer, TrainingLoop
from gatel0rd.training.config import PPOConfig, TrainConfig
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.loop import derive_seed
from gatel0rd.training.ppo import AgentTrainer
from gatel0rd.training.recipe import DataRecipe

UNITS, PAUSE = 7, 3
"""Units of training altogether, and between checkpoints."""
START_OVER = r"delete .*checkpoint\.safetensors to train again from the beginning"


def world_model(directory: Path) -> Trainer:
    generator = np.random.default_rng(0)
    data = Dataset(
        recipe=DataRecipe(scenario="walk", policy="none", split="train", sequences=6, steps=9),
        observations=generator.normal(size=(6, 9, 3)).cumsum(axis=1).astype(np.float32),
        actions=generator.normal(size=(6, 9, 2)).astype(np.float32),
        strata=np.zeros(6, dtype=np.int64),
        labels={},
    )
    model = WorldModelConfig(observation_size=3, action_size=2, cell=CellConfig(hidden_size=4))
    config = TrainConfig(epochs=UNITS, batch_size=4, evaluate_every=2)
    return Trainer(model, config, data, {"test": data}, seed=1, directory=directory, snapshots=2)


def recordings(directory: Path) -> Fitter:
    generator = np.random.default_rng(1)
    data = from_arrays([generator.normal(size=(12 + k, 2)).cumsum(axis=0).astype(np.float32) for k in range(7)])
    return Fitter(data, FitConfig(rounds=UNITS, round_updates=3, window=5, features=6, hidden_size=3), directory)


def agent(directory: Path) -> AgentTrainer:
    config = ActorCriticConfig(
        observation_shape=(4,), actions=2, cell=CellConfig(name="gatel0rd", hidden_size=3), width=5
    )
    ppo = PPOConfig(environments=2, steps=8, chunk=4, batch_size=8, epochs=2)
    return AgentTrainer("gatel0rd/Recall-v0", config, ppo, frames=16 * UNITS, seed=3, directory=directory)


KINDS: dict[str, Callable[[Path], TrainingLoop]] = {
    "world model": world_model,
    "recordings": recordings,
    "agent": agent,
}


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """A checkpoint after every third unit of each kind."""
    monkeypatch.setattr(fitting, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("gatel0rd.training.ppo.trainer.SEGMENT_STEPS", 1)
    monkeypatch.setattr("gatel0rd.training.ppo.trainer.SEGMENT", PAUSE)
    for kind in (Trainer, Fitter):
        monkeypatch.setattr(kind, "can_pause", property(lambda self: self.completed % PAUSE == 0))
    prepare = Trainer.open_directory
    monkeypatch.setattr(
        Trainer,
        "open_directory",
        lambda self, *given, **named: prepare(self, *given, **named | {"checkpoint_seconds": 0.0}),
    )


@dataclass(frozen=True)
class Outcome:
    """All that a finished training leaves, without the time it took."""

    metrics: list[dict[str, object]]
    files: dict[str, tuple[dict[str, bytes], object]]  # arrays and metadata


def finish(loop: TrainingLoop) -> Outcome:
    loop.run()
    directory = loop.directory
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert lines == loop.history
    for line in lines:
        line.pop("seconds")
    files = {}
    for path in sorted(directory.rglob("*.safetensors")):
        kind = path.stem if path.stem in ("agent", "checkpoint", "variants") else "model"
        arrays, metadata = load_arrays(path, kind=kind)
        content = {name: array.tobytes() for name, array in arrays.items()}
        files[str(path.relative_to(directory))] = (content, metadata)
    return Outcome(lines, files)


class PowerCut(Exception):
    pass


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    """A kind of training, its undisturbed end, and a directory in which it was cut off: after a checkpoint, and two
    units that are logged but not in it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        pauses.__wrapped__(monkeypatch)
        make, place = KINDS[request.param], tmp_path_factory.mktemp("loop")
        whole = finish(make(place / "whole"))
        stopped = make(place / "stopped")

        def stop(metrics):
            if stopped.completed == PAUSE + 2:
                raise PowerCut

        with pytest.raises(PowerCut):
            stopped.run(stop)
    return make, whole, place / "stopped"


def test_nothing_is_lost_but_what_came_after_the_checkpoint(trained, tmp_path):
    make, whole, stopped = trained
    directory = shutil.copytree(stopped, tmp_path / "run")
    resumed = make(directory)
    assert resumed.completed == PAUSE and not resumed.finished
    assert len(resumed.history) == len((directory / "metrics.jsonl").read_text().splitlines())
    assert resumed.seconds == resumed.history[-1]["seconds"]
    assert finish(resumed) == whole
    assert len(whole.metrics) == UNITS + make(directory).assesses_start
    assert finish(make(directory)) == whole  # a finished run has nothing left to do


def cuts(size: int, borders: list[int]) -> list[int]:
    """Places at which a file may end: near its borders, and everywhere between."""
    near = {border + offset for border in (0, *borders, size) for offset in (-2, -1, 0, 1)}
    return sorted(place for place in {*near, *range(0, size, max(1, size // 23))} if 0 <= place < size)


@pytest.mark.parametrize("zeros", [False, True], ids=["cut short", "filled with zeros"])
def test_metrics_that_a_power_cut_shortened(zeros, trained, tmp_path):
    make, whole, stopped = trained
    content = (stopped / "metrics.jsonl").read_bytes()
    borders = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    needed = borders[PAUSE - 1 + make(shutil.copytree(stopped, tmp_path / "look")).assesses_start]
    spare = 0 if zeros else 1  # a line that lacks nothing but its end is whole
    outcomes = {"resumed": 0, "refused": 0}
    for number, cut in enumerate(cuts(len(content), borders)):
        directory = shutil.copytree(stopped, tmp_path / str(number))
        rest = bytes(len(content) - cut) if zeros else b""
        (directory / "metrics.jsonl").write_bytes(content[:cut] + rest)
        if cut + spare >= needed:
            loop = make(directory)
            assert loop.completed == PAUSE
            if cut in (needed - 1, needed, needed + 1, borders[-2] + 5):
                assert finish(loop) == whole
            outcomes["resumed"] += 1
        else:
            lines = sum(border <= cut + spare for border in borders)
            with pytest.raises(FileError, match=rf"has {lines} whole lines; .*{START_OVER}"):
                make(directory)
            assert (directory / "metrics.jsonl").read_bytes() == content[:cut] + rest  # left for a closer look
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 5


def test_a_checkpoint_that_a_power_cut_shortened(trained, tmp_path):
    make, whole, stopped = trained
    content = (stopped / "checkpoint.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    directory = shutil.copytree(stopped, tmp_path / "run")
    path = directory / "checkpoint.safetensors"
    for cut in cuts(len(content), [8, header]):
        for rest in (b"", bytes(len(content) - cut)):
            path.write_bytes(content[:cut] + rest)
            if content[:cut] + rest == content:
                continue  # it ended in zeros
            with pytest.raises(FileError, match=START_OVER):
                make(directory)
    path.unlink()  # as the error advises
    again = make(directory)
    assert again.completed == 0 and not again.metrics_path.exists()
    assert finish(again) == whole


@pytest.mark.parametrize("line", ["[]", "7", '{"seconds": 1}', '{"epoch": 9, "round": 9, "update": 9, "seconds": 1}'])
def test_a_line_that_is_not_the_one_it_should_be(line, trained, tmp_path):
    make, _, stopped = trained
    directory = shutil.copytree(stopped, tmp_path / "run")
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    lines[1] = line
    (directory / "metrics.jsonl").write_text("\n".join(lines))
    with pytest.raises(FileError, match=rf"has 1 whole lines; its checkpoint was written after .*{START_OVER}"):
        make(directory)


def test_a_changed_number_is_noticed(trained, tmp_path):
    make, _, stopped = trained
    directory = shutil.copytree(stopped, tmp_path / "run")
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    name = next(name for name, value in lines[1].items() if isinstance(value, float) and name != "seconds")
    lines[1][name] += 0.25
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(FileError, match=rf"metrics\.jsonl is damaged: .*{START_OVER}"):
        make(directory)


@pytest.mark.parametrize(
    "change",
    [
        {"completed": "3"},
        {"completed": -1},
        {"optimizer_steps": None},
        {"optimizer_steps": [1]},
        {"history": 3},
        {"identity": ["x"]},
    ],
    ids=str,
)
def test_checkpoints_of_another_form(change, trained, tmp_path):
    make, _, stopped = trained
    directory = shutil.copytree(stopped, tmp_path / "run")
    path = directory / "checkpoint.safetensors"
    arrays, metadata = load_arrays(path, kind="checkpoint")
    save_arrays(path, arrays, kind="checkpoint", metadata=metadata | change)
    with pytest.raises(FileError, match=r"(checkpoint\.safetensors|metrics\.jsonl) (is damaged|was written by)"):
        make(directory)


def test_arrays_of_another_form(trained, tmp_path):
    make, _, stopped = trained
    path = stopped / "checkpoint.safetensors"
    arrays, metadata = load_arrays(path, kind="checkpoint")
    name = next(name for name in arrays if name.startswith("exp_avg."))
    weights = next(name for name in arrays if name.startswith("model.") and arrays[name].dtype.kind == "f")
    for number, changed in enumerate(
        (
            {**arrays, "elsewhere.x": arrays[name]},
            {**arrays, f"{name}2": arrays[name]},
            {**arrays, weights: np.full_like(arrays[weights], np.nan)},
        )
    ):
        directory = shutil.copytree(stopped, tmp_path / str(number))
        save_arrays(directory / "checkpoint.safetensors", changed, kind="checkpoint", metadata=metadata)
        with pytest.raises(FileError, match=r"checkpoint\.safetensors (is damaged|has weights that are NaN)"):
            make(directory)


def test_checkpoints_of_other_versions_and_runs(trained, tmp_path):
    make, _, stopped = trained
    directory = shutil.copytree(stopped, tmp_path / "run")
    path = directory / "checkpoint.safetensors"
    arrays, metadata = load_arrays(path, kind="checkpoint")
    save_arrays(path, arrays, kind="checkpoint", metadata={"epoch": 3, "step": 9, "identity": metadata["identity"]})
    with pytest.raises(FileError, match=f"has format 1, expected 2: .* another version of gatel0rd; {START_OVER}"):
        make(directory)
    save_arrays(path, arrays, kind="checkpoint", metadata=metadata | {"identity": "of another"})
    with pytest.raises(FileError, match=r"was written by a run with another .* use another directory"):
        make(directory)
    (directory / "metrics.jsonl").unlink()
    save_arrays(path, arrays, kind="checkpoint", metadata=metadata)
    with pytest.raises(FileError, match=f"is missing, but its checkpoint is there; {START_OVER}"):
        make(directory)


def test_metrics_are_on_the_disk_before_a_checkpoint_refers_to_them(tmp_path, monkeypatch):
    """Of everything that is written only what was synced survives; a checkpoint must find all of its lines there."""
    for name, make in KINDS.items():
        loop = make(tmp_path / name)
        synced: dict[int, int] = {}  # inode -> bytes that are safe
        found: list[tuple[int, int]] = []  # lines that are safe, and lines that a checkpoint needs, at each checkpoint
        sync, replace = os.fsync, os.replace

        def record_sync(handle, synced=synced, sync=sync):
            sync(handle)
            status = os.fstat(handle)
            synced[status.st_ino] = status.st_size

        def record_replace(source, target, loop=loop, synced=synced, found=found, replace=replace):
            assert os.stat(source).st_size == synced[os.stat(source).st_ino]
            if Path(target) == loop.checkpoint_path:
                safe = synced.get(loop.metrics_path.stat().st_ino, 0)
                lines = loop.metrics_path.read_bytes()[:safe].count(b"\n")
                found.append((lines, loop.completed + loop.assesses_start))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", record_sync)
        monkeypatch.setattr(os, "replace", record_replace)
        loop.run()
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "replace", replace)
        assert [needed for _, needed in found] == [unit + loop.assesses_start for unit in (3, 6, 7)]
        assert all(safe >= needed for safe, needed in found)


KILLED = """
import os, pathlib, sys
import pytest
from test_loop import KINDS, pauses
pauses.__wrapped__(pytest.MonkeyPatch())
loop = KINDS[sys.argv[1]](pathlib.Path(sys.argv[2]))
loop.run(lambda metrics: loop.completed == 5 and os.kill(os.getpid(), 9))
"""


def test_killed_for_real(trained, tmp_path):
    make, whole, _ = trained
    name = next(name for name, other in KINDS.items() if other is make)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, name, str(tmp_path / "run")],
        cwd=Path(__file__).parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert killed.returncode == -9
    resumed = make(tmp_path / "run")
    assert resumed.completed == PAUSE
    assert finish(resumed) == whole


def test_a_checkpoint_before_any_training(tmp_path):
    for name, make in KINDS.items():
        if name == "world model":
            continue  # its first line comes before any training
        make(tmp_path / name).save_checkpoint()
        loop = make(tmp_path / name)
        assert loop.completed == 0 and loop.history == [] and loop.seconds == 0.0
        expected = finish(make(tmp_path / f"{name} whole"))
        assert finish(loop) == expected


def test_seeds_of_neighbours_share_nothing():
    places = [derive_seed(seed, place) for seed in range(20) for place in range(-1, 20)]
    assert len(set(places)) == len(places)
    assert all(0 <= place < 2**63 for place in places)
    torch.Generator().manual_seed(max(places))
