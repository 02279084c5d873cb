"""The campaign's list of runs: every line is a command that exists, and decides something when it is done."""

from __future__ import annotations

import argparse
import os
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import children

from gatel0rd.cli.options import parse_numbers
from gatel0rd.files import read_json, write_sealed_json
from gatel0rd.models.io import MODEL_FILE
from gatel0rd.paper.bootstrap import FEWEST_SEEDS
from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.plan import experiments, find, plan, plan_run
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.records import Record, load_records
from gatel0rd.paper.run import Run, Scale
from gatel0rd.training import TrainingLoop
from gatel0rd.worlds.claims import Claim
from gatel0rd.worlds.experiments import Question
from gatel0rd.worlds.metrics import PlanningSuccess

ROOT = Path(__file__).parents[2]
LINES = [
    tuple(part.strip() for part in line.split("|"))
    for line in (ROOT / "results" / "campaign.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
"""Group, hours, words for `gatel0rd run`, purpose."""


def plan_line(words: str) -> tuple[Question, list[Run]]:
    """What `gatel0rd run` would do."""
    parser = argparse.ArgumentParser()
    parser.add_argument("id")
    for name in ("profile", "seeds", "cells", "preset"):
        parser.add_argument(f"--{name}")
    for name in ("epochs", "frames"):
        parser.add_argument(f"--{name}", type=int)
    given = vars(parser.parse_args(shlex.split(words)))
    experiment = find(given.pop("id"))
    options = {name: value for name, value in given.items() if value is not None}
    options["seeds"] = parse_numbers(options["seeds"])
    if "cells" in options:
        options["cells"] = options["cells"].split(",")
    return experiment, plan(experiment, **options)


class Finished:
    """Which seeds there are of which runs, and with which models was planned."""

    def __init__(self) -> None:
        self.seeds: dict[str, set[int]] = {}
        self.planned: dict[str, set[int]] = {}
        self.scales: dict[str, set[Scale]] = {}

    def add(self, source: Run | Record, scenario: str, planned: bool) -> None:
        self.seeds.setdefault(source.group, set()).add(source.seed)
        self.scales.setdefault(scenario, set()).add(source.scale)
        if planned:
            self.planned.setdefault(source.group, set()).add(source.seed)

    def seeds_of(self, claim: Claim, experiment: Question, scale: Scale) -> dict[str, int]:
        """Runs that the claim is about -> how many seeds there are of them at a scale."""
        found = {}
        for number in (number for test in claim.tests for number in test.numbers):
            asked = experiment if number.experiment is None else find(number.experiment)
            variant = next(variant for variant in asked.variants if variant.name == number.variant)
            profile = PROFILES[scale.profile]
            run = plan_run(asked, variant, seed=0, profile=profile, preset=scale.preset, length=scale.length)
            source = self.planned if isinstance(number.metric, PlanningSuccess) else self.seeds
            found[run.group] = len(source.get(run.group, ()))
        return found

    def decidable(self) -> Iterator[tuple[Question, Claim, Scale, dict[str, int]]]:
        """Every claim and scale with enough seeds for a verdict, and the runs behind it with their number of seeds."""
        for experiment in experiments().values():
            for scale in self.scales.get(experiment.scenario.name, ()):
                for claim in experiment.claims if scale.preset in experiment.presets else ():
                    seeds = self.seeds_of(claim, experiment, scale)
                    if min(seeds.values()) >= min(FEWEST_SEEDS, experiment.seeds):
                        yield experiment, claim, scale, seeds


def finished(lines: Iterable[str]) -> Finished:
    """The committed records, and what these lines of the list would add to them."""
    found = Finished()
    for record in load_records([ROOT / "results"]):
        found.add(record, record.run["scenario"], "planning" in record.content)
    for words in lines:
        experiment, runs = plan_line(words)
        for run in runs:
            found.add(run, run.scenario, experiment.plans)
    return found


@pytest.fixture(scope="module")
def deciding():
    """The runs behind all verdicts that there can be when the whole list is done."""
    whole = finished(words for _, _, words, _ in LINES)
    return {group for _, _, _, seeds in whole.decidable() for group in seeds}


@pytest.mark.parametrize("words", [words for _, _, words, _ in LINES])
def test_every_line_is_a_command_that_helps_to_decide_a_claim(words, deciding):
    _, runs = plan_line(words)
    # what decides nothing by itself: the row without memory, and a single seed at full length for comparison
    alone = len({run.seed for run in runs}) == 1 and all((run.share or 0) >= 1 for run in runs)
    assert {run.group for run in runs} & deciding or alone or words.endswith("--cells none")


def test_the_groups_a_to_f_give_most_claims_enough_seeds():
    done = finished(words for group, _, words, _ in LINES if group in "abcdef")
    counts: dict[tuple[str, str, str], int] = {}
    for experiment, claim, scale, seeds in done.decidable():
        key = (experiment.id, claim.words, scale.preset)
        counts[key] = max(min(seeds.values()), counts.get(key, 0))
    assert len(counts) >= 80 and sum(seeds >= FEWEST_SEEDS for seeds in counts.values()) >= 79
    for key in (
        ("rrc/generalization", "GateL0RD has the lowest test error.", "reference"),
        ("shepherd/planning", "Only GateL0RD solves the task with a mean success rate above 50 %.", "text"),
        ("billiard/sparsity", "λ = 0.001 has the lowest error.", "text"),
        ("rrc/latents", "GRU and LSTM change their latent states all the time", "text"),
    ):
        assert max(seeds for found, seeds in counts.items() if all(map(str.startswith, found, key))) >= FEWEST_SEEDS


def load_campaign() -> dict[str, Any]:
    """The functions of the script."""
    return runpy.run_path(str(ROOT / "scripts" / "campaign"))


def test_another_machine_continues_with_the_committed_records(tmp_path):
    bring = load_campaign()["bring_records"]
    results, runs = tmp_path / "results", tmp_path / "runs"
    for world, name in (("rrc", "gru-seed0-0123456789"), ("billiard", "lstm-seed1-abcdef0123")):
        (results / world / name).mkdir(parents=True)
        (results / world / name / "record.json").write_text(name)
    own = runs / "rrc" / "gru-seed0-0123456789" / "record.json"
    own.parent.mkdir(parents=True)
    own.write_text("of this machine")
    assert bring(results, runs) == 1 and bring(results, runs) == 0
    assert own.read_text() == "of this machine"
    assert (runs / "billiard" / "lstm-seed1-abcdef0123" / "record.json").read_text() == "lstm-seed1-abcdef0123"


@pytest.mark.parametrize("interrupted", ["progressed", "planned"])
def test_another_machine_resumes_kept_runs(interrupted, tmp_path, monkeypatch, capsys):
    campaign = load_campaign()
    (run,) = plan(find("rrc/planning"), profile="smoke", seeds=[0], cells=["gru"])
    works = {name: Work(out=tmp_path / name, planning=PROFILES["smoke"], resume=True) for name in ("whole", "a", "b")}
    works["whole"].do(run, lambda topic, content: None)

    def interrupt(topic: str, content: tuple[Any, ...]) -> None:
        if topic == interrupted and (topic == "planned" or content[0]["epoch"] == 3):
            raise KeyboardInterrupt

    open_directory = TrainingLoop.open_directory
    always = lambda *args, **named: open_directory(*args, **named | {"checkpoint_seconds": 0.0})  # noqa: E731
    monkeypatch.setattr(TrainingLoop, "open_directory", always)
    with pytest.raises(KeyboardInterrupt):
        works["a"].do(run, interrupt)
    assert (works["a"].out / run.directory_name / "record.json").exists() == (interrupted == "planned")

    scope = campaign["keep"].__globals__
    scope["read_list"] = lambda: [{"words": "begun"}, {"words": "not begun"}]
    scope["runs_left"] = lambda words, runs: [run.directory_name] * (works["a"].remaining_seconds(run) > 0)
    (works["a"].out / "campaign.json").write_text('{"begun": {"state": "running"}}')
    kept = tmp_path / "kept"
    archive = kept / f"{run.directory_name}.tar.xz"
    campaign["keep"](works["a"].out, kept)
    assert archive.exists() and "1 unfinished run is kept" in capsys.readouterr().out
    assert campaign["bring_unfinished"](kept, works["b"].out) == 1
    assert campaign["bring_unfinished"](kept, works["b"].out) == 0  # what is there already is left alone

    resumed_at: list[Any] = []
    for name in ("b", "a"):
        works[name].do(
            run, lambda topic, content: resumed_at.append(content[0].get("epoch") if topic == "progressed" else None)
        )
    assert resumed_at[0] == (3 if interrupted == "progressed" else None)
    records = [read_json(work.out / run.directory_name / "record.json") for work in works.values()]
    for record in records:
        for content in (record, record["planning"], record["code"]):  # of a tree that may be edited meanwhile
            for name in ("wall_seconds", "seconds", "sha256", "commit", "commits"):
                content.pop(name, None)
    assert records[0] == records[1] == records[2]
    campaign["keep"](works["a"].out, kept)
    assert not archive.exists() and "0 unfinished runs are kept" in capsys.readouterr().out


STUB = f"""#!{sys.executable}
import pathlib, sys, time
(pathlib.Path("runs") / f"began-{{sys.argv[2]}}").touch()
try:
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(130)
"""
"""In place of `gatel0rd`."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a campaign of three lines, whose commands take a minute."""
    for place in ("scripts", "results", ".venv/bin"):
        (tmp_path / place).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "campaign", tmp_path / "scripts" / "campaign")
    lines = [f"a | 1 | {name} --seeds 0 | for a test" for name in ("one", "two", "three")]
    (tmp_path / "results" / "campaign.txt").write_text("\n".join(lines))
    stub = tmp_path / ".venv" / "bin" / "gatel0rd"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return tmp_path


def start_campaign(clone: Path) -> subprocess.Popen[str]:
    """Two lanes, each with a command under way."""
    command = [sys.executable, clone / "scripts" / "campaign", "work", "--lanes", "2"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # nohup makes the tests ignore it
    )
    while len(list(clone.glob("runs/began-*"))) < 2 and process.poll() is None:
        time.sleep(0.05)
    return process


@pytest.mark.cluster
def test_an_interrupt_ends_a_campaign_and_nothing_counts_as_failed(clone):
    process = start_campaign(clone)
    second = subprocess.run([sys.executable, clone / "scripts" / "campaign", "work"], capture_output=True, text=True)
    assert second.returncode == 1 and "another campaign works in" in second.stderr
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and "interrupted" in said and "Traceback" not in said
    states = read_json(clone / "runs" / "campaign.json")
    assert {words: own["state"] for words, own in states.items()} == dict.fromkeys(
        ("one --seeds 0", "two --seeds 0"), "running"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("recorded", [False, True])
def test_no_other_process_is_paused_in_place_of_a_campaign_that_ended(recorded, clone):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (clone / "runs").mkdir()
        if recorded:
            (clone / "runs" / "campaign.pid").write_text(str(other.pid))
        command = [sys.executable, clone / "scripts" / "campaign", "pause"]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 1 and "no campaign works in" in result.stderr
        assert "T (stopped)" not in Path(f"/proc/{other.pid}/status").read_text()
        other.kill()


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_campaign_is_paused_and_continued(clone, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")  # to which `ps` cuts
    process = start_campaign(clone)
    (command, _) = children(process.pid)
    for action, stopped in (("pause", True), ("continue", False)):
        subprocess.run([sys.executable, clone / "scripts" / "campaign", action], check=True)
        end = time.monotonic() + 30
        for one in (process.pid, command):
            while ("T (stopped)" in Path(f"/proc/{one}/status").read_text()) != stopped:
                assert time.monotonic() < end
                time.sleep(0.05)
    process.kill()
    process.communicate()


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere commands outlive it")
def test_commands_end_with_a_campaign_that_is_killed(clone):
    process = start_campaign(clone)
    commands = children(process.pid)
    assert len(commands) == 2
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{command}").exists() for command in commands):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_is_kept_whole_while_its_files_are_replaced(tmp_path, monkeypatch):
    campaign = load_campaign()
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"short")
    gettarinfo = tarfile.TarFile.gettarinfo

    def replace_meanwhile(*arguments: Any, **options: Any) -> tarfile.TarInfo:
        found = gettarinfo(*arguments, **options)
        checkpoint.write_bytes(b"longer than before")
        return found

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", replace_meanwhile)
    campaign["pack"](tmp_path / "run", tmp_path / "run.tar.xz")
    assert campaign["unpack"](tmp_path / "run.tar.xz", tmp_path / "there")
    assert (tmp_path / "there" / "checkpoint.safetensors").read_bytes() in (b"short", b"longer than before")


@pytest.mark.parametrize("size", [0, 100, 500])
def test_a_damaged_archive_is_named(size, tmp_path):
    campaign = load_campaign()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(os.urandom(2000))
    archive = tmp_path / "run.tar.xz"
    campaign["pack"](tmp_path / "run", archive)
    archive.write_bytes(archive.read_bytes()[:size])
    with pytest.raises(SystemExit, match=r"run\.tar\.xz is damaged .*; restore it, or delete it"):
        campaign["unpack"](archive, tmp_path / "there")
    assert not (tmp_path / "there").exists() and not list(tmp_path.glob("*.part"))


def test_a_run_whose_models_are_gone_is_trained_again_to_plan_with_them(tmp_path):
    experiment = find("rrc/planning")
    (run,) = plan(experiment, profile="smoke", seeds=[0], cells=["gru"])
    work = Work(out=tmp_path, planning=PROFILES["smoke"])
    work.do(run, lambda topic, content: None)
    directory = tmp_path / run.directory_name
    complete = read_json(directory / "record.json")
    shutil.rmtree(directory)  # on another machine there is the record alone
    directory.mkdir()
    write_sealed_json(directory / "record.json", complete)
    assert work.remaining_seconds(run) == 0
    work.do(run, lambda topic, content: None)
    assert read_json(directory / "record.json") == complete and not (directory / MODEL_FILE).exists()
    write_sealed_json(directory / "record.json", {name: part for name, part in complete.items() if name != "planning"})
    assert work.remaining_seconds(run) > run.estimate_seconds()
    work.do(run, lambda topic, content: None)
    again = read_json(directory / "record.json")
    assert again["planning"]["success"] == complete["planning"]["success"] and again["final"] == complete["final"]
