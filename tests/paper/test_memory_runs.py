"""Runs that train networks to remember: planned, executed, recorded, reported."""

from __future__ import annotations

import json

import pytest

from gatel0rd.config import from_json
from gatel0rd.models.io import load_sequence_model
from gatel0rd.paper.memory_run import MemoryRun
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.records import load_records
from gatel0rd.paper.report import figures
from gatel0rd.paper.report.length_figures import compare_tasks, lengths, lengths_table
from gatel0rd.paper.report.make import make_report
from gatel0rd.paper.report.select import select_answers
from gatel0rd.worlds.memory.experiments import LENGTH, WEIGHT

CELLS = ("gatel0rd", "lstm", "gru", "elman", "clockwork")


def test_every_cell_meets_every_task_and_gates_with_a_bias_are_among_them():
    runs = plan(LENGTH, profile="quick", seeds=[0, 1])
    assert len(runs) == 2 * 3 * 7 and len({run.directory_name for run in runs}) == len(runs)
    for task in ("symbol", "bits", "number"):
        own = [run for run in runs if run.task == task and run.seed == 0]
        assert {run.network for run in own} == set(CELLS)
        assert [run.network for run in own if run.model.chrono_steps == 50] == ["lstm", "gru"]
        assert all((run.train.sparsity_weight > 0) == (run.network == "gatel0rd") for run in own)
    assert runs[0].lengths == (100, 1000, 10**4, 10**5, 10**6) and runs[0].train.steps == 50
    assert runs[0].group == plan(LENGTH, profile="paper", seeds=[0])[0].group  # there is one scale only


def test_what_lambda_does_is_asked_of_the_same_runs():
    length, weight = (
        {run.directory_name for run in plan(experiment, profile="quick", seeds=[3])} for experiment in (LENGTH, WEIGHT)
    )
    assert len(weight) == 8 and len(weight & length) == 2


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Two networks per task, trained for a moment."""
    directory = tmp_path_factory.mktemp("memory")
    for run in plan(LENGTH, profile="smoke", seeds=[0], cells=["gatel0rd", "gru"], epochs=1):
        run.execute(directory)
    return directory


def test_a_run_leaves_its_network_and_a_record(out):
    (run, *_) = plan(LENGTH, profile="smoke", seeds=[0], cells=["symbol-gatel0rd"], epochs=1)
    directory = out / run.directory_name
    record = json.loads((directory / "record.json").read_text())
    assert record["kind"] == "memory" and from_json(MemoryRun, record["run"]) == run
    assert list(record["final"]) == ["50", "100", "1000"] and record["share_of_paper"] is None
    assert [entry["sequences"] for entry in record["final"].values()] == [1000, 256, 128]
    assert all(0 <= entry["open_times"] <= 1 for entry in record["final"].values())
    assert record["curves"]["epoch"] == [1] and record["curves"]["train.open_rate"][0] > 0
    assert load_sequence_model(directory).config == run.model
    before = (directory / "record.json").stat().st_mtime_ns
    run.execute(out)
    assert (directory / "record.json").stat().st_mtime_ns == before


def test_the_report_shows_right_answers_over_lengths(out, tmp_path):
    told: list[tuple[int, int]] = []
    page = make_report([out], tmp_path, ["memory/length"], on_section=lambda *so_far: told.append(so_far)).read_text()
    assert told == [(0, 1)]
    assert "1 of 5 seeds, 1 epoch per run" in page and "of the paper, ours" not in page
    assert "<h3>Right answers after many steps</h3>" in page
    assert 'href="#claims"' not in page and "do not hold" not in page  # there are none
    assert page.count("<figure>") == 1 and page.count("<table>") == 1
    assert "gatel0rd run memory/length --profile smoke --epochs 1" in page


def test_the_figure_has_a_panel_per_task_and_the_tables_a_row_per_network(out):
    (answer,) = select_answers([find("memory/length")], load_records([out]), named=True)
    figure = lengths(answer.lines, title="Memory")
    assert len(figure.axes) == 3
    for axes in figure.axes:
        assert len(axes.lines) == 4 and axes.get_xscale() == "log"  # three networks and chance
        assert list(axes.lines[0].get_xdata()) == [50, 100, 1000]  # ours is wide, and below the others
        assert axes.lines[0].get_color() == figures.COLORS["gatel0rd"]
        assert axes.lines[0].get_linewidth() > axes.lines[1].get_linewidth()
    figures.close(figure)
    table = lengths_table(answer.lines, [50])
    assert len(table.rows) == 9 and table.header[2] == "right after 50 steps"
    assert table.header[-1] == "memory changes, of 1,000 steps" and table.rows[1][1] == "–"
    assert float(table.rows[1][-1].replace(",", "")) == pytest.approx(1000, abs=1)  # a GRU's changes all the time
    short = compare_tasks(answer.lines, [50, 1000])
    assert [row[0] for row in short.rows] == ["GateL0RD", "GRU", "GRU, chrono initialisation"]
    assert all(cell.endswith("% (1 seed)") for row in short.rows for cell in row[1:])
