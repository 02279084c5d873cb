"""The registry: every experiment is loaded, planned and smoke-run, and its report is made."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from gatel0rd.config import from_json, to_json
from gatel0rd.files import FileError, read_json
from gatel0rd.models import load_model
from gatel0rd.paper.catalogue import catalogue
from gatel0rd.paper.execute import measure_again, round_numbers
from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.executors.coordinator import run_all
from gatel0rd.paper.plan import experiments, find, plan
from gatel0rd.paper.planning import plan_over_training
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.report.make import make_report
from gatel0rd.paper.world_model_run import WorldModelRun, curves_of
from gatel0rd.worlds.experiments import Experiment

IDS = [id for id, experiment in experiments().items() if isinstance(experiment, Experiment)]


class Silent:
    def __init__(self):
        self.ends, self.data, self.plans, self.retries = {}, {}, {}, []

    def generated(self, recipe, done, total):
        self.data[recipe.name] = (done, total)

    def started(self, index, run): ...

    def progressed(self, index, metrics): ...

    def planned(self, index, done, total):
        self.plans[index] = (done, total)

    def retried(self, index, reason):
        self.retries.append((index, reason))

    def ended(self, index, error):
        self.ends[index] = error


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def small_run(experiment_id="rrc/gating", seed=0) -> WorldModelRun:
    (run, *_) = plan(find(experiment_id), profile="smoke", seeds=[seed], cells=["gatel0rd"])
    return run


@pytest.mark.slow
@pytest.mark.parametrize("experiment_id", IDS)
def test_every_experiment_runs_and_reports(experiment_id, out, monkeypatch):
    experiment = find(experiment_id)
    runs = plan(experiment, profile="smoke", seeds=[0])
    display = Silent()
    monkeypatch.setattr("gatel0rd.planning.icem.ICEMConfig.sample_counts", [12, 10])
    work = Work(out=out, planning=PROFILES["smoke"] if experiment.plans else None)
    missing = [run for run in runs if work.remaining_seconds(run) > 0]
    assert run_all(missing, work, executor=ExecutorConfig(workers=1), display=display) == []
    assert not any(work.remaining_seconds(run) for run in runs)
    assert all(error is None for error in display.ends.values())
    for run in runs:
        directory = out / run.directory_name
        record = json.loads((directory / "record.json").read_text())
        assert from_json(WorldModelRun, record["run"]) == run
        assert record["curves"]["epoch"] == [0, 1, 2, 3, 4]
        assert record["code"]["version"] and record["wall_seconds"] >= 0
        assert 0 < record["share_of_paper"] < 1e-3
        assert ("test.reappearance" in record["curves"]) == (run.scenario == "shepherd")
        assert (record["measures"]["gating"] is None) == (run.model.cell.name != "gatel0rd")
        assert load_model(directory / "model.safetensors").config == run.model
        if experiment.plans:
            assert record["planning"]["epochs"] == [1, 2, 3, 4] and record["planning"]["episodes"] == [1, 1, 1, 2]
            assert [len(steps) for steps in record["planning"]["reached"]] == [1, 1, 1, 2]
            assert record["planning"]["planner"]["samples"] == 256 and record["group"] == run.group
    page = make_report([out], out / "report", [experiment_id])
    text = page.read_text()
    assert experiment.title in text
    for artefact in experiment.artefacts:
        assert artefact in text
    assert text.count("<figure>") + text.count("<table>") == len(experiment.views)
    own = f"{len(runs)} finished run{'s' * (len(runs) > 1)} with one seed"  # of those in the same directory
    assert own in text and "; 1 experiment. Every figure" in text


@pytest.mark.slow
def test_planning_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr("gatel0rd.planning.icem.ICEMConfig.sample_counts", [12, 10])
    run, profile = small_run("rrc/planning"), replace(PROFILES["smoke"], episodes=3, course_episodes=2)
    directory, twin = run.execute(tmp_path / "whole"), run.execute(tmp_path / "parts")
    whole = plan_over_training(directory, episodes=3, course_episodes=2)

    def stop_in_the_third(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan_over_training(twin, episodes=3, course_episodes=2, on_step=stop_in_the_third)
    assert json.loads((twin / "record.json").read_text())["planning"]["epochs"] == [1, run.length]  # the last one first
    assert not run.is_planned(tmp_path / "parts", profile)
    steps = []
    parts = plan_over_training(twin, episodes=3, course_episodes=2, on_step=lambda done, total: steps.append(done))
    assert min(steps) > 100  # the first two models are not planned with again
    ends = [json.loads(path.read_text())["planning"] for path in (parts, whole)]
    assert ends[0] == ends[1] | {"seconds": ends[0]["seconds"]}
    assert run.is_planned(tmp_path / "parts", profile)
    assert not run.is_planned(tmp_path / "parts", replace(profile, episodes=4))
    with pytest.raises(KeyboardInterrupt):  # more episodes in the course of training: the end is not lost
        plan_over_training(twin, episodes=3, course_episodes=4, on_step=stop_in_the_third)
    grown = json.loads(parts.read_text())["planning"]
    assert grown["episodes"] == [4, 2, 2, 3] and grown["reached"][1:] == ends[0]["reached"][1:]
    assert grown["reached"][0][:2] == ends[0]["reached"][0]  # the first of many episodes are those of few
    assert not run.is_planned(tmp_path / "parts", replace(profile, course_episodes=4))
    monkeypatch.setattr("gatel0rd.worlds.robot_remote_control.task.RemoteControl.enlarged", 1.4)
    changed = json.loads(plan_over_training(twin, episodes=1, course_episodes=1).read_text())["planning"]
    assert changed["episodes"] == [1] * 4  # what was planned by other rules does not count
    with pytest.raises(FileError, match="only with finished runs can be planned"):
        plan_over_training(tmp_path / "nowhere", episodes=3, course_episodes=2)


def test_planning_is_part_of_what_an_experiment_costs():
    costs = {entry["id"]: entry["core_seconds_per_seed"]["quick"] for entry in catalogue()}
    assert costs["rrc/planning"] == costs["rrc/random"] + round(4 * 0.2 * (9 * 30 + 100))


def test_the_papers_settings_are_in_the_plan():
    runs = {run.model.cell.name: run for run in plan(find("rrc/generalization"), profile="paper", seeds=[0])}
    gatel0rd = runs["gatel0rd"]
    assert gatel0rd.train.epochs == 5000 and runs["clockwork"].train.epochs == 20000
    assert gatel0rd.train.learning_rate == 0.005 and runs["clockwork"].train.learning_rate == 0.001
    assert gatel0rd.train.sparsity_weight == 0.001 and gatel0rd.train.evaluate_every == 100
    assert gatel0rd.train.sampling_decay == 0.998 and gatel0rd.train.sampling_minimum == 0.02
    assert (gatel0rd.train.batch_size, gatel0rd.train.clip_norm, gatel0rd.train.epsilon) == (128, 0.1, 1e-4)
    assert gatel0rd.train_data.sequences == 6400 and gatel0rd.train_data.steps == 50
    assert gatel0rd.gradient_steps == 250_000 and gatel0rd.share == 1.0
    assert runs["clockwork"].train.evaluate_every == 100
    assert {run.model.cell.hidden_size for run in runs.values()} == {8}


def test_billiards_settings_are_in_the_plan():
    runs = plan(find("billiard/scheduled-sampling"), profile="paper", seeds=[0])
    assert [run.train.sparsity_weight for run in runs] == [0.001, 0, 0, 0, 0]
    assert {run.train.learning_rate for run in runs} == {0.0005}
    for run in runs:
        cell = run.model.cell
        assert (cell.net_layers, cell.num_layers) == ((3, 1) if cell.name == "gatel0rd" else (1, 3))
        assert (run.model.feature_size, run.model.init_steps, run.train.sampling_minimum) == (16, 2, 0.0)
        assert (run.train_data.sequences, run.train_data.steps, run.evaluation_data[0].sequences) == (12800, 51, 3200)
        assert run.gradient_steps == 500_000
    rates = [
        [
            run.train.learning_rate
            for run in plan(find("billiard/teacher-forcing"), profile="paper", seeds=[0], preset=p)
        ]
        for p in ("text", "reference")
    ]
    assert rates == [[0.001] * 4 + [0.00005], [0.001] * 4 + [0.0005]]
    assert all(run.train.teacher_forcing for run in plan(find("billiard/teacher-forcing"), profile="paper", seeds=[0]))
    without = plan(find("billiard/init"), profile="paper", seeds=[0])[1::2]
    assert [run.model.init_layers for run in without] == [0] * 4


def test_shepherds_settings_are_in_the_plan():
    runs = plan(find("shepherd/prediction"), profile="paper", seeds=[0])
    assert [run.train.sparsity_weight for run in runs] == [0.0001, 0, 0, 0]
    for run in runs:
        assert (run.train.learning_rate, run.train.sampling_minimum, run.train.epochs) == (0.001, 0.05, 10_000)
        sizes = [data.sequences for data in (run.train_data, *run.evaluation_data, *run.validation_data)]
        assert sizes == [12800, 12800, 6400] and run.train_data.steps == 100


def test_shorter_profiles_compress_the_sampling_schedule():
    for name in ("rrc/gating", "billiard/sparsity", "shepherd/gating"):
        paper = plan(find(name), profile="paper", seeds=[0])[0].train.epochs
        for profile in PROFILES:
            run = plan(find(name), profile=profile, seeds=[0])[0]
            assert run.train.sampling_decay**run.train.epochs == pytest.approx(0.998**paper, rel=1e-9)


def test_a_quick_run_takes_minutes_in_every_world():
    for entry in (entry for entry in catalogue() if entry["of_paper"]):
        run_seconds = entry["core_seconds_per_seed"]["quick"] / len(entry["variants"])
        assert 60 < run_seconds < (1100 if entry["id"].startswith("minigrid/") else 900), entry["id"]


def test_the_reference_preset_is_the_authors_code():
    text, reference = (
        {run.penalty_name: run for run in map(_named, plan(find("rrc/l1-l2"), profile="paper", seeds=[0], preset=p))}
        for p in ("text", "reference")
    )
    assert set(text) == {"l0", "l1", "l2"} and set(reference) == {"l0", "l1", "squared_mean"}
    assert reference["l0"].run.train.epochs == 10_000
    assert reference["l0"].run.train_data.preset == "reference"


def _named(run):
    from types import SimpleNamespace

    return SimpleNamespace(penalty_name=run.train.penalty, run=run)


def test_runs_shared_by_experiments_are_the_same_run():
    (gating,) = plan(find("rrc/gating"), profile="smoke", seeds=[0])
    generalization = plan(find("rrc/generalization"), profile="smoke", seeds=[0], cells=["gatel0rd"])
    assert [gating] == generalization
    assert gating.directory_name != replace(gating, seed=1).directory_name
    assert (
        gating.group == replace(gating, seed=1).group == replace(gating, profile="other name", length_override=3).group
    )


def test_run_configurations_survive_json():
    run = small_run()
    assert from_json(WorldModelRun, json.loads(json.dumps(to_json(run)))) == run
    with pytest.raises(ValueError, match="WorldModelRun has no field colour"):
        from_json(WorldModelRun, {**to_json(run), "colour": "red"})


@pytest.mark.slow
def test_a_run_in_parts_leaves_the_record_of_a_whole_run(tmp_path):
    run = small_run()
    run.execute(tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(metrics):
        raise Stop

    with pytest.raises(Stop):
        run.execute(tmp_path / "parts", on_metrics=stop)
    with pytest.raises(FileError, match="holds an unfinished run; continue it with --resume"):
        run.execute(tmp_path / "parts")
    run.execute(tmp_path / "parts", resume=True)
    records = [read_json(tmp_path / part / run.directory_name / "record.json") for part in ("whole", "parts")]
    for record in records:
        record.pop("wall_seconds")
    assert records[0] == records[1]


@pytest.mark.slow
def test_workers_give_the_records_of_one_process_and_survive_a_bad_run(out, tmp_path):
    good = small_run()
    bad = replace(good, train=replace(good.train, learning_rate=1e30, clip_norm=1e30))
    display = Silent()
    failures = run_all([bad, good], Work(out=tmp_path), executor=ExecutorConfig(workers=2), display=display)
    assert [failure.run for failure in failures] == [bad]
    assert "the loss became" in failures[0].error
    assert display.ends[1] is None
    good.execute(out)
    alone, side_by_side = (
        json.loads((place / good.directory_name / "record.json").read_text()) for place in (out, tmp_path)
    )
    assert alone["curves"] == side_by_side["curves"] and alone["final"] == side_by_side["final"]


@pytest.mark.slow
def test_measuring_again_changes_the_measures_only(tmp_path):
    directory = small_run("billiard/gating").execute(tmp_path)
    path = directory / "record.json"
    before = read_json(path)
    path.write_text(json.dumps(before | {"measures": {}}))
    assert measure_again(directory) == path
    after = read_json(path)
    assert after["code"].pop("measured") == before["code"]["commit"]
    assert after == before
    with pytest.raises(FileError, match="only finished runs can be measured again"):
        measure_again(tmp_path)


def test_a_plan_can_be_cut_down_to_cells_or_variants():
    def weights(cells):
        return [
            run.train.sparsity_weight for run in plan(find("billiard/gating"), profile="smoke", seeds=[0], cells=cells)
        ]

    assert weights(["gatel0rd-0.01"]) == [0.01]
    # the variant that is named like its cell cannot be had alone: the cell's name means all of them
    assert weights(["gatel0rd"]) == weights(None) == [0.01, 0.001, 0]


def test_unknown_ids_cells_and_profiles_are_errors():
    with pytest.raises(ValueError, match=r"no experiment 'rrc/generalisation'; did you mean 'rrc/generalization'\?"):
        find("rrc/generalisation")
    with pytest.raises(ValueError, match="rrc/gating has no cell or variant gru; it has gatel0rd"):
        plan(find("rrc/gating"), profile="smoke", seeds=[0], cells=["gru"])
    with pytest.raises(ValueError, match="no cells or variants were given; rrc/gating has gatel0rd"):
        plan(find("rrc/gating"), profile="smoke", seeds=[0], cells=[])
    with pytest.raises(ValueError, match="there is no profile 'huge'; there are smoke"):
        plan(find("rrc/gating"), profile="huge", seeds=[0])


def test_the_catalogue_names_question_artefact_and_cost():
    entries = catalogue()
    assert [entry["id"] for entry in entries] == list(experiments())
    for entry in entries:
        assert entry["question"].endswith("?") and bool(entry["claim"] and entry["artefacts"]) == entry["of_paper"]
        seconds = entry["core_seconds_per_seed"]
        ordered = seconds["smoke"] < seconds["quick"] < seconds["paper"]
        assert ordered == entry["of_paper"] or entry["id"] in ("memory/chain", "memory/t-maze")


def test_curves_average_losses_between_evaluations():
    history = [
        {"epoch": 0, "evaluation": {"test": {"error": 4.0}}},
        {"epoch": 1, "loss": 3.0},
        {"epoch": 2, "loss": 1.0, "evaluation": {"test": {"error": 2.0}}},
    ]
    assert curves_of(history) == {"epoch": [0, 2], "train.loss": [None, 2.0], "test.error": [4.0, 2.0]}
    history[1]["skipped"] = 0.5
    history += [{"epoch": 3, "loss": 1.0, "evaluation": {"test": {"error": 1.0}}}]
    assert curves_of(history)["train.skipped"] == [None, 0.25, 0.0]


def test_records_are_rounded_but_configurations_are_not():
    content = {"run": {"decay": 0.12345678}, "final": [0.12345678, 1, None, "x", {"a": 2.0}]}
    assert round_numbers(content) == {"run": {"decay": 0.12345678}, "final": [0.123457, 1, None, "x", {"a": 2.0}]}


def test_children_compute_on_one_thread():
    from gatel0rd.paper.executors.local import single_threaded_children

    before = os.environ.get("OMP_NUM_THREADS")
    with single_threaded_children():
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ.get("OMP_NUM_THREADS") == before
