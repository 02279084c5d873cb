"""The report: contents, scales of an experiment, experience of agents, and aggregates over tasks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gatel0rd.paper.bootstrap import censored_median
from gatel0rd.paper.claims import Finding
from gatel0rd.paper.plan import find, plan_run
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.records import Line, Record
from gatel0rd.paper.report import figures, overall, tables
from gatel0rd.paper.report.build import command_for
from gatel0rd.paper.report.judge import Judged
from gatel0rd.paper.report.make import count_runs
from gatel0rd.paper.report.numbers import numbers_table
from gatel0rd.paper.report.page import ReportSection, group_sections, page
from gatel0rd.paper.report.select import Answer
from gatel0rd.paper.run import Scale
from gatel0rd.worlds.metrics import TEST_ERROR, Curve, FramesToSuccess

INF = float("inf")


def agent(seed: int, success: list[float | None], *, environment: str = "MiniGrid-DoorKey-8x8-v0") -> Record:
    content = {
        "kind": "agent",
        "share_of_paper": None,
        "wall_seconds": 1.0,
        "run": {"seed": seed, "frames": 4_000_000, "environment": environment},
        "curves": {"frames": [1_000_000, 2_000_000, 3_000_000, 4_000_000], "success": success},
        "final": {environment: {"success": success[-1]}},
    }
    return Record(Path(f"{environment}{seed}"), content)


FAST = Line(
    "gatel0rd",
    "GateL0RD",
    "gatel0rd",
    [agent(0, [0.2, 0.95, 1.0, 1.0]), agent(1, [0.96, 0.9, 1.0, 1.0]), agent(2, [None, 0.1, 0.97, 1.0])],
)
SLOW = Line("lstm", "LSTM", "lstm", [agent(0, [0.0, 0.1, 0.2, 0.96]), *(agent(k, [0.0] * 4) for k in (1, 2))])
NONE = Line("none", "no memory", "elman", [agent(0, [0.0, 0.0, 0.0, 0.5])])


def test_frames_to_success_are_censored_where_a_run_never_gets_there():
    metric = FramesToSuccess()
    assert FAST.read(metric) == [2e6, 1e6, 3e6] and SLOW.read(metric) == [4e6, INF, INF]
    assert metric.words == "frames until 95% of the episodes succeed"
    assert tables.frames_table([FAST, SLOW, NONE]).rows == [
        ["GateL0RD", "3 of 3", "2.00 (1.00 to 3.00)", "2.00, 1.00, 3.00"],
        ["LSTM", "1 of 3", "more than 4 (4.00 to more than 4)", "4.00, more than 4, more than 4"],
        ["no memory", "0 of 1", "more than 4", "more than 4"],
    ]


def test_the_median_of_censored_values():
    assert censored_median([3.0, INF]) == (INF, None)
    middle, sure = censored_median([1.0, 2.0, 3.0, INF, INF])
    assert middle == 3.0 and sure == (1.0, INF)
    assert censored_median([INF] * 4) == (INF, (INF, INF))


def test_the_curve_of_agents_shows_every_seed_and_the_agent_without_memory_is_grey():
    figure = figures.curves([FAST, SLOW, NONE], Curve("success"), title="t", ylabel="y", log=False)
    thin = [curve for curve in figure.axes[0].lines if curve.get_linewidth() < 1]
    assert len(thin) == 6 and len(figure.axes[0].lines) == 9
    assert figure.axes[0].lines[-1].get_color() == figures.COLORS["none"]
    figures.close(figure)


def test_untrained_networks_do_not_stretch_the_axis():
    content = {
        "kind": "world model",
        "run": {"seed": 0, "train": {"epochs": 9}},
        "final": {},
        "curves": {"epoch": [0, 5, 9], "test.error": [50.0, 0.3, 0.2]},
    }
    line = Line("gru", "GRU", "gru", [Record(Path("a"), content)])
    figure = figures.curves([line], TEST_ERROR.curve, title="t", ylabel="y")
    assert figure.axes[0].get_ylim() == pytest.approx((0.2 / 1.5, 0.3 * 1.5))
    figures.close(figure)


def test_untrained_networks_do_not_stretch_a_linear_axis_either():
    content = {
        "kind": "world model",
        "run": {"seed": 0, "train": {"epochs": 9}},
        "final": {},
        "curves": {"epoch": [0, 5, 9], "test.open_rate": [0.5, 0.06, 0.01]},
    }
    line = Line("gatel0rd", "GateL0RD", "gatel0rd", [Record(Path("a"), content)])
    figure = figures.curves([line], Curve("open_rate", "test"), title="t", ylabel="y", log=False)
    assert figure.axes[0].get_ylim() == pytest.approx((0.01 - 0.06 * 0.05, 0.06 + 0.06 * 0.05))
    figures.close(figure)


def test_curves_are_told_apart_without_colours():
    lines = [Line(name, name, name, [a_record(name)]) for name in ("gatel0rd", "lstm", "gru", "elman")]
    figure = figures.curves(lines, TEST_ERROR.curve, title="t", ylabel="y")
    assert len({curve.get_marker() for curve in figure.axes[0].lines}) == 4
    assert len({curve.get_markevery() for curve in figure.axes[0].lines}) == 4
    figures.close(figure)


def a_record(name: str) -> Record:
    epochs = list(range(0, 4900, 100))
    content = {
        "kind": "world model",
        "run": {"seed": 0, "train": {"epochs": 4800}},
        "final": {},
        "curves": {"epoch": epochs, "test.error": [0.3 for _ in epochs]},
    }
    return Record(Path(name), content)


def latent_record(seed: int, dimensions: float) -> Record:
    found = {"dimensions": dimensions, "dimensions_near_event": 1.0, "changed_share": 0.02}
    measures = {
        "latents": {"control": {"with": found, "without": {"unchanged": 0.75, "changed_share": 0.0}}},
        "examples": {"control": {"latents": [[0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]}},
    }
    return Record(Path(f"l{seed}"), {"run": {"seed": seed}, "measures": measures})


def test_the_table_of_latent_states_says_what_is_measured_and_shows_the_example_beside_it():
    line = Line("gatel0rd", "GateL0RD", "gatel0rd", [latent_record(0, 1.0), latent_record(1, 3.0)])
    table = tables.latents_table([line], "control", "control")
    assert table.header == [
        "network",
        "with control: dimensions that change (median)",
        "of them within 3 steps of it (median)",
        "with control: share of the state that changes per step",
        "without control: sequences in which nothing changes",
        "without control: share of the state that changes per step",
        "dimensions that change in the example (control)",
    ]
    numbers = [cell.split(" (")[0] for cell in table.rows[0]]
    assert numbers == ["GateL0RD", "2 ± 1.4", "1 ± 0", "0.02 ± 0", "0.75 ± 0", "0 ± 0", "1 ± 0"]
    old = Line("gru", "GRU", "gru", [Record(Path("o"), {"run": {"seed": 0}, "measures": {"examples": {}}})])
    assert tables.latents_table([old], "control", None).rows == [["GRU", "–", "–", "–"]]


def part(anchor: str, *verdicts: str, id: str = "w/one", world: str = "World") -> ReportSection:
    claims = [Judged(world, id, "Fig. 1", "w.", Finding(verdict, "", 3), "3") for verdict in verdicts]
    return ReportSection(id, anchor, "One", "Why?", claims, "S.", "c", [], world=world, size=anchor)


def test_scales_stand_below_one_heading_and_the_one_that_decides_most_is_open():
    sections = [part("w-one-large", "not enough seeds"), part("w-one-small", "holds"), part("b", id="v/b", world="V")]
    worlds = group_sections(sections)
    assert list(worlds) == ["World", "V"]
    assert [section.anchor for section in worlds["World"][0].sections] == ["w-one-small", "w-one-large"]
    text = page("t", [], [], sections, "f")
    assert text.count("<h2>One") == 2 and text.count('<details class="scale">') == 1
    folded = text[text.index('<details class="scale">') :]
    assert 'id="w-one-large"' in folded and 'id="w-one-small"' not in folded
    contents = text[text.index('id="contents"') :].partition("</section>")[0]
    targets = re.findall(r'href="#([^"]+)"', contents)
    assert targets == ["w-one", "v-b"] and all(f'id="{target}"' in text for target in targets)
    assert len(re.findall(r' id="([^"]+)"', text)) == len(set(re.findall(r' id="([^"]+)"', text)))


def agent_answer(name: str, *lines: Line) -> Answer:
    experiment = find(f"minigrid/{name}")
    environment = experiment.environment
    own = [
        Line(
            line.name,
            line.label,
            line.cell,
            [agent(r.seed, r.content["curves"]["success"], environment=environment) for r in line.records],
        )
        for line in lines
    ]
    return Answer(experiment, Scale(profile="paper", length=None, unit="frames", preset="text"), own)


TASKS = ("doorkey", "red-blue-doors", "simple-crossing")


def test_agents_are_aggregated_over_environments_where_there_are_enough(tmp_path):
    answers = [agent_answer(name, FAST, SLOW, NONE) for name in TASKS]
    assert overall.build_overall(answers[:2], tmp_path) == []
    assert overall.build_overall([agent_answer(name, FAST, NONE) for name in TASKS], tmp_path) == []
    (section,) = overall.build_overall([*answers, agent_answer("zero-shot-doorkey", FAST, SLOW)], tmp_path)
    assert section.title == "Agents over 3 environments" and section.world == "All tasks together"
    after, course, profile, experience, tasks = section.blocks
    assert [row[0] for row in after.table.rows] == ["GateL0RD", "LSTM"]  # one seed without memory is not enough
    assert after.table.rows[0][1:] == ["1.00 (1.00 to 1.00)", "–", "9"]
    assert after.table.rows[1][2] == "1.00 (1.00 to 1.00)"
    assert float(course.table.rows[0][1].split()[0]) > float(course.table.rows[1][1].split()[0])
    assert profile.picture.path.exists()
    assert ["DoorKey-8x8, no memory", "0 of 1", "more than 4", "4"] in [list(row) for row in experience.table.rows]
    assert len(tasks.table.rows) == 3 and tasks.table.rows[0][-1] == "1 to 3 seeds, 4 million frames"


def prediction_answer(id: str, errors: dict[str, tuple[float, ...]], length: int | None = None) -> Answer:
    experiment = find(id)
    lines = []
    for variant in experiment.variants:
        if variant.name not in errors:
            continue
        records = [
            Record(
                Path(f"{id}{variant.name}{seed}"),
                {
                    "kind": "world model",
                    "share_of_paper": 0.5,
                    "run": {"seed": seed, "train": {"epochs": 9}},
                    "final": {"test": {"error": error}, "generalization": {"error": 2 * error}},
                },
            )
            for seed, error in enumerate(errors[variant.name])
        ]
        lines.append(Line(variant.name, variant.label, variant.cell.name, records, variant.dashed))
    return Answer(experiment, Scale(profile="paper", length=length, unit="epochs", preset="text"), lines)


def test_prediction_errors_are_normalised_and_aggregated_over_tasks(tmp_path):
    errors = {"gatel0rd": (1.0, 1.0, 1.0), "lstm": (2.0, 2.0, 2.0), "gru": (3.0,) * 3, "elman": (5.0,) * 3}
    answers = [
        prediction_answer("rrc/generalization", errors),
        prediction_answer("billiard/scheduled-sampling", errors),
        prediction_answer("billiard/init", errors, 1000),  # the same training at another length: no task of its own
    ]
    (section,) = overall.build_overall(answers, tmp_path)
    assert section.title == "Prediction errors over 3 tasks"  # test and generalization error of rrc, and billiard
    scores = {row[0]: row[1] for row in section.blocks[0].table.rows}
    assert scores["GateL0RD"] == "1.00 (1.00 to 1.00)" and scores["Elman RNN"] == "0.00 (0.00 to 0.00)"
    assert scores["LSTM"] == "0.75 (0.75 to 0.75)"
    assert section.blocks[0].table.rows[3][2] == "1.00 (1.00 to 1.00)"
    few = errors | {"elman": (5.0, 5.0)}
    assert overall.build_overall([prediction_answer("rrc/generalization", few), *answers[1:]], tmp_path) == []


def test_profiles_are_shares_of_runs(tmp_path):
    figure = figures.profiles(
        {"p": {"gatel0rd": [[0.25, 0.75]], "gru": [[1.0]]}}, {"gatel0rd": "G", "gru": "R"}, xlabel="τ"
    )
    ours, theirs = (np.asarray(curve.get_ydata()) for curve in figure.axes[0].lines)
    assert (ours[0], ours[50], ours[80]) == (1.0, 0.5, 0.0) and theirs[99] == 1.0 and theirs[100] == 0.0
    figures.close(figure)


def test_commands_name_the_agent_without_memory_and_single_variants():
    assert command_for(agent_answer("doorkey", NONE)).endswith("--cells none")
    assert command_for(agent_answer("doorkey", FAST, SLOW, NONE)) == "gatel0rd run minigrid/doorkey --profile paper"
    some = prediction_answer("billiard/sparsity", {"gatel0rd-0.01": (1.0,)})
    assert command_for(some).endswith("--cells gatel0rd-0.01")
    every = prediction_answer("billiard/scheduled-sampling", {"gatel0rd": (1.0,), "gatel0rd-0": (1.0,), "gru": (1.0,)})
    assert command_for(every).endswith("--cells gatel0rd,gru")


def test_the_papers_numbers_are_compared_with_ours():
    experiment = find("rrc/generalization")
    variant = experiment.variants[0]
    run = plan_run(experiment, variant, seed=0, profile=PROFILES["paper"], preset="text")
    content = {
        "kind": "world model",
        "group": run.group,
        "share_of_paper": 1.0,
        "run": {"scenario": "rrc", "seed": 0, "profile": "paper", "length_override": None, "preset": "text"},
        "final": {"test": {"error": 0.0002}},
    }
    rows = numbers_table([experiment], [Record(Path("r"), content)]).rows
    assert ["Table 3", "GateL0RD, test error", "0.00015 ± 0.0001", "0.0002 (1 seed)", "100 % of the steps"] in rows
    assert not any("Elman" in row[1] for row in rows)


def test_the_report_says_how_many_core_hours_its_runs_took():
    trained, planned = agent(0, [1.0]), agent(1, [1.0])
    trained.content["wall_seconds"] = 5400.0
    planned.content.update(wall_seconds=1800.0, planning={"seconds": [1200.0, 600.0]})
    expected = "2 finished runs with up to 2 seeds, 2.5 hours of training and planning on one core each"
    assert count_runs([trained, planned]) == expected
    planned.content.update(wall_seconds=0.2, planning={"seconds": [0.1]})
    assert count_runs([planned]) == "1 finished run with one seed, 0.3 seconds of training and planning on one core"
