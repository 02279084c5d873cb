"""The benchmark of boundaries: what it reads from a run, and that it judges events as they are defined."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gatel0rd.models.events import find_events
from gatel0rd.recordings import benchmark as module
from gatel0rd.recordings.benchmark import benchmark, find_recipes, find_runs, gate_cuts

TRAINED = Path(__file__).parents[1] / "data" / "rrc-gatel0rd"


def test_boundaries_are_events_that_are_not_too_close():
    gates = np.zeros((12, 2))
    gates[[2, 4, 7], 0] = 0.5
    gates[8, 1] = 0.5  # one gate takes over from the other: no new event
    assert [event.time for event in find_events(gates)] == [2, 4, 7]
    assert [cuts.tolist() for cuts in gate_cuts([gates, gates[:4]])] == [[2, 7], [2]]


def test_a_runs_data_is_read_from_its_model_file():
    train, evaluation = find_recipes(TRAINED)
    assert (train.scenario, train.split) == ("rrc", "train") and evaluation.scenario == "rrc"
    assert evaluation.split == "test" and evaluation != train


@pytest.mark.slow
def test_the_benchmark_compares_all_methods(tmp_path, monkeypatch):
    pytest.importorskip("ruptures")
    monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(module, "SEQUENCES", 12)
    monkeypatch.setattr(module, "PENALTIES", (1.0, 10.0))
    shutil.copytree(TRAINED, tmp_path / "runs" / "rrc" / "gatel0rd-seed0")
    assert find_runs(tmp_path / "runs") == {"rrc": {"gatel0rd": tmp_path / "runs" / "rrc" / "gatel0rd-seed0"}}
    rows, table = benchmark(tmp_path / "runs", tmp_path / "out")
    assert [row["method"].partition(",")[0] for row in rows] == [
        "GateL0RD",
        "GateL0RD",
        "PELT (ruptures)",
        "BinSeg (ruptures)",
        "a boundary every 7 steps",
    ]
    assert all(0 <= row[name] <= 1 for row in rows for name in ("precision", "recall", "f1", "covering"))
    assert json.loads((tmp_path / "out" / "segmentation.json").read_text()) == json.loads(json.dumps(rows))
    assert "Robot Remote Control, GateL0RD, as in the paper" in table.markdown()
