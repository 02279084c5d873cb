"""A short part of every fuzzer, always the same; and that a fuzzer tells what it finds. ``make fuzz`` takes longer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fuzz.__main__ import TARGETS, find_target
from fuzz.driver import BrokenPromiseError, Target, run_target
from fuzz.mutations import ODD_VALUES, damage_bytes, damage_json, list_places
from fuzz.soak import MOST_GROWTH, Load, judge, soak

TESTS = Path(__file__).parent


def fuzz_shortly(name: str, tries: int, place: Path) -> dict[str, int]:
    """Outcomes of some tries of a target, none of which may be a finding."""
    (place / "shared").mkdir()
    target = find_target(name)(place / "shared")
    try:
        summary = run_target(target, seconds=300, tries=tries, seed=1, keep=place / "keep")
    finally:
        target.close()
    assert not summary.findings, "\n".join(summary.describe())
    assert summary.tries == tries
    return dict(summary.outcomes)


@pytest.mark.slow
def test_tables(tmp_path):
    outcomes = fuzz_shortly("tables", 300, tmp_path)
    assert outcomes["spelled: the same numbers"] > 20 and outcomes["damaged: refused"] > 50


@pytest.mark.slow
def test_files(tmp_path):
    outcomes = fuzz_shortly("files", 250, tmp_path)
    assert sum(count for outcome, count in outcomes.items() if "damaged: refused" in outcome) > 80
    assert sum(count for outcome, count in outcomes.items() if "something else that is whole" in outcome) > 5


@pytest.mark.slow
def test_requests(tmp_path):
    outcomes = fuzz_shortly("explorer", 150, tmp_path)
    assert outcomes["own: 200"] > 20 and outcomes["own: 400"] > 20 and outcomes["foreign: 403"] > 10


@pytest.mark.slow
def test_arguments(tmp_path):
    outcomes = fuzz_shortly("arguments", 30, tmp_path)
    assert outcomes["exit code 0"] > 0 and outcomes["exit code 2"] > 5


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["kills", "processes"])
def test_disturbed_work(name, tmp_path):
    seed = "22"  # data and an agent, which take a second each, and five kills
    command = [sys.executable, "-m", "fuzz", name, "--tries", "2", "--seed", seed, "--keep", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "2 tries" in done.stdout, done.stdout + done.stderr[-1000:]


class Fragile(Target):
    """Breaks at some of its tries."""

    name = "fragile"
    seconds = 0.2

    def attempt(self, rng: random.Random, place: Path) -> str:
        number = rng.randrange(8)
        (place / "input.txt").write_text(str(number))
        if number == 3:
            raise ZeroDivisionError("three")
        if number == 5:
            raise BrokenPromiseError("five: of eight")
        if number == 6:
            time.sleep(10)
        return "even" if number % 2 == 0 else "odd"


def test_findings_are_counted_kept_and_repeated(tmp_path):
    summary = run_target(Fragile(tmp_path), seconds=60, tries=60, seed=4, keep=tmp_path)
    kinds = {found.kind.split(" at ")[0] for found in summary.findings}
    assert kinds == {"ZeroDivisionError", "BrokenPromiseError", "TookTooLongError"} and summary.tries == 60
    assert set(summary.outcomes) == {"even", "odd"}
    for found in summary.findings:
        assert (found.place / "input.txt").read_text() in "356"
        assert "Traceback" in (found.place / "finding.txt").read_text()
        again = run_target(Fragile(tmp_path), seconds=60, tries=9, seed=0, keep=tmp_path, only=found.number)
        assert [entry.kind for entry in again.findings] == [found.kind] and again.tries == 1
    assert f"FOUND {summary.repeated[summary.findings[0].kind]} times" in "\n".join(summary.describe())


def test_the_time_ends_it(tmp_path):
    begin = time.monotonic()
    summary = run_target(Fragile(tmp_path), seconds=0.5, tries=10**6, seed=2, keep=tmp_path)
    assert summary.tries > 1 and time.monotonic() - begin < 20


def test_unknown_targets_are_refused():
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-m", "fuzz", "x"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and all(name in done.stderr for name in TARGETS)


def test_damage_is_done():
    rng = random.Random(0)
    data, content = bytes(range(200)), {"a": [1, {"b": 2.5}], "c": "x"}
    assert list_places(content) == [("a",), ("a", 0), ("a", 1), ("a", 1, "b"), ("c",)]
    assert sum(damage_bytes(rng, data) != data for _ in range(100)) > 90
    changed = [damage_json(rng, content) for _ in range(100)]
    assert sum(entry != content for entry in changed) > 90 and content == {"a": [1, {"b": 2.5}], "c": "x"}


def test_damage_stays_in_its_own_data():
    """What one try changes inside an odd value would otherwise be in all later ones."""
    before = repr(ODD_VALUES)
    for seed in range(2000):
        damage_json(random.Random(seed), {"a": [1, {"b": 2}]})
    assert repr(ODD_VALUES) == before


def test_the_soak_sees_what_grows_and_what_fails():
    steady = Load([0.1] * 9, [], [400 * 2**20] * 300)
    assert judge(steady, "") == []
    growing = Load([0.1] * 9, [], [400 * 2**20 + number * MOST_GROWTH // 50 for number in range(300)])
    assert "memory keeps growing" in judge(growing, "")[0]
    assert "1 requests failed" in judge(Load([0.1], ["/: 500"], steady.memory), "")[0]
    assert "Traceback" in judge(steady, "Traceback")[0]


@pytest.mark.slow
def test_the_explorer_works_under_load(tmp_path):
    load, said = soak(4.0, tmp_path)
    assert said == "" and load.failures == [] and len(load.latencies) > 5 and len(load.memory) > 5
