"""Rows, their files, and the command that measures them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.__main__ import GROUPS, main
from benchmarks.measure import Comparison, Row, choose, describe_machine, read_results, write_results
from gatel0rd.engine import native

ROOT = Path(__file__).parents[2]


@pytest.fixture
def one_turn_each(monkeypatch):
    """Candidates run once instead of for a second: 2 ms of ours, 7 ms of the peer."""

    def run_once(candidates):
        for run in candidates.values():
            run()
        return {"ours": 2.0, "peer": 7.0}

    monkeypatch.setattr(measure, "medians", run_once)


def test_medians_are_those_of_many_turns():
    calls = []
    found = measure.medians({"a": lambda: calls.append("a"), "b": lambda: time.sleep(0.005)}, seconds=0.02, warmup=3)
    assert calls[:3] == ["a"] * 3 and len(calls) > 8
    assert 0 < found["a"] < 1 < 5 <= found["b"]


def test_rows_say_what_was_compared_and_how_fast(tmp_path, capsys, one_turn_each):
    main(only="layer/gatel0rd-8", json=tmp_path / "rows.json", plot=tmp_path / "rows.png")
    found = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["name"], row["peer"], row["threads"]) for row in found["rows"]] == [
        ("layer/gatel0rd-8", peer, threads) for threads in (1, 2) for peer in ("nn.GRU", "nn.LSTM")
    ]
    for row in found["rows"]:
        assert set(row) == {"name", "threads", "ours_ms", "peer", "peer_ms", "ratio", "instruction_set"}
        assert (row["ours_ms"], row["peer_ms"], row["ratio"]) == (2.0, 7.0, 3.5)
    assert found["machine"] == describe_machine()
    assert (tmp_path / "rows.png").read_bytes()[:4] == b"\x89PNG"
    assert "nn.LSTM" in capsys.readouterr().out


def test_one_row_can_be_measured_alone(capsys, one_turn_each):
    main(only="planning/256")
    shown = capsys.readouterr().out
    assert shown.count("torch path") == 2 and "rrc-step" not in shown


def test_work_of_different_amounts_is_compared_per_unit(one_turn_each):
    comparison = Comparison("a/b", lambda: int, "c", lambda: int, units=(0.5, 14.0))
    row = comparison.measure(3)
    assert (row.name, row.threads, row.ours_ms, row.peer_ms, row.ratio) == ("a/b", 3, 4.0, 0.5, 0.125)


def test_what_is_not_installed_is_left_out_and_said(capsys, monkeypatch, one_turn_each):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "benchmarks.jax_peer", raising=False)
    monkeypatch.delattr("benchmarks.jax_peer", raising=False)
    main(only="jax/rrc")
    (_, line) = capsys.readouterr().out.splitlines()
    assert line.startswith("jax/rrc") and "left out: import of jax" in line


def test_an_unknown_benchmark_is_an_error_that_names_the_others():
    with pytest.raises(ValueError, match=r"no benchmark 'chess'; there are step, cells, threads.*agent"):
        main(only="chess")
    with pytest.raises(ValueError, match="the name of no row starts with 'layer/none'; there are layer/"):
        main(only="layer/none")


def test_groups_have_distinct_names():
    names = [group.name for group in GROUPS]
    assert len(set(names)) == len(names)
    assert choose(GROUPS, None) == list(GROUPS)
    assert [group.name for group in choose(GROUPS, "layer/gatel0rd-8")] == ["layer"]


def test_the_machine_is_described_by_what_numbers_depend_on():
    machine = describe_machine()
    assert machine["engine"] == "native" and machine["instruction_set"] and machine["cores"] >= 1
    assert set(machine["packages"]) >= {"torch", "numpy"} and machine["packages"]["torch"].startswith("2.")
    json.dumps(machine)


def test_results_are_read_as_they_were_written(tmp_path):
    rows = (
        Row(name="step/a", threads=1, ours_ms=2.0, peer="b", peer_ms=7.0),
        Row(name="agent/c", threads=2, ours_ms=3.0, peer="d", peer_ms=1.5, ours_fps=5, peer_fps=4, shares={"x": 1.0}),
    )
    write_results(tmp_path / "rows.json", {"processor": "p"}, rows)
    found = read_results(tmp_path / "rows.json")
    assert found.rows == rows and found.machine == {"processor": "p"}
    assert [row.ratio for row in found.rows] == [3.5, 0.5]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "cpus").glob("*.json")), ids=lambda path: path.stem)
def test_the_committed_results_are_read(path):
    found, plain = read_results(path), json.loads(path.read_text())
    assert len(found.rows) == len(plain["rows"]) > 50 and found.machine["processor"]
    known = {group.name for group in GROUPS}
    for row, written in zip(found.rows, plain["rows"], strict=True):
        assert row.ratio == pytest.approx(written["ratio"], rel=0.01, abs=0.001)
        assert row.name.partition("/")[0] in known and row.instruction_set in native.INSTRUCTION_SETS


def test_an_instruction_set_is_measured_in_a_process_of_its_own(tmp_path, capfd):
    used = native.module().available()[0]
    main(only="threads/layer-8", isa=used, json=tmp_path / "rows.json")
    found = read_results(tmp_path / "rows.json")
    assert [row.instruction_set for row in found.rows] == [used] * len(found.rows) and found.rows
    with pytest.raises(ValueError, match="is 'mmx'; expected one of"):
        main(only="threads/layer-8", isa="mmx")
