"""World models and agents are one kind of run: the same questions have answers for both."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gatel0rd.engine import status
from gatel0rd.files import FileError, write_atomically
from gatel0rd.models.io import MODEL_FILE
from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.plan import PLANNERS, experiments, find, plan, plan_run
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.run import Outcome, Reading, Run, Scale
from gatel0rd.paper.schema import KINDS, describe_run, parse_run
from gatel0rd.paper.world_model_run import WorldModelRun, find_snapshots
from gatel0rd.worlds.experiments import View


def every_kind():
    return [plan(find(id), profile="quick", seeds=[5])[0] for id in ("rrc/planning", "minigrid/memory")]


def test_every_experiment_has_runs_that_offer_what_a_run_offers(tmp_path):
    titles = {}
    for experiment in experiments().values():
        for run in plan(experiment, profile="quick", seeds=[5]):
            assert isinstance(run, Run) and run.unit == experiment.unit and run.kind in KINDS
            assert run.seed == 5 and f"seed {run.seed}" in run.title and run.network_title
            assert run.directory_name.startswith(f"{experiment.scenario.name}/{run.network}-seed5-")
            assert run.estimate_seconds() > 0 and run.length > 0
            assert not run.is_finished(tmp_path)
            assert all(recipe.scenario == run.scenario for recipe in run.recipes)
            assert 0 < run.share < 1 if run.kind == "world model" else run.share is None
            assert parse_run(describe_run(run), tmp_path, type(run)) == run
            titles[run.directory_name] = run.title
    assert len(set(titles.values())) > 0.9 * len(titles)  # a title tells a run from its neighbours


def test_planning_costs_only_where_there_is_something_to_plan(tmp_path):
    model, agent = every_kind()
    profile = PROFILES["quick"]
    assert model.estimate_planning_seconds(profile) == pytest.approx((9 * 30 + 100) * 0.2)
    assert agent.estimate_planning_seconds(profile) == 0 and agent.is_planned(tmp_path, profile)
    work = Work(out=tmp_path, planning=profile, planned=frozenset({model.directory_name}))
    for run in (model, agent):
        expected = run.estimate_seconds() + run.estimate_planning_seconds(profile)
        assert work.remaining_seconds(run) == pytest.approx(expected)
    unplanned = Work(out=tmp_path, planning=profile, planned=frozenset())
    assert unplanned.remaining_seconds(model) == model.estimate_seconds()


def test_one_writer_makes_the_records_of_both_kinds(tmp_path, monkeypatch):
    for run in every_kind():
        outcome = Outcome(
            parameters=7,
            seconds=1.23456,
            curves={"frames" if run.kind == "agent" else "epoch": [1]},
            final={"test": {"error": 0.12345678}},
            machine={"environments": "none"},
        )
        monkeypatch.setattr(type(run), "train_network", lambda self, directory, outcome=outcome, **how: outcome)
        directory = run.execute(tmp_path)
        record = json.loads((directory / "record.json").read_text())
        assert list(record)[:5] == ["schema", "kind", "run", "group", "share_of_paper"]
        assert record["group"] == run.group and record["share_of_paper"] == (run.share and round(run.share, 6))
        assert (record["parameters"], record["wall_seconds"], record["final"]) == (
            7,
            1.23,
            {"test": {"error": 0.123457}},
        )
        assert record["machine"]["environments"] == "none" and record["code"]["version"]
        assert record["machine"].get("instruction_set") == status().get("instruction_set")
        assert "measures" not in record and parse_run(record, directory, type(run)) == run
        assert run.is_finished(tmp_path) and run.execute(tmp_path) == directory


@pytest.mark.parametrize("damage", ["cut off", "a digit changed", "of another seed"])
def test_a_run_with_a_damaged_record_is_not_finished(damage, tmp_path, monkeypatch):
    run, _ = every_kind()
    outcome = Outcome(parameters=7, seconds=1.0, curves={"epoch": [1]}, final={"test": {"error": 0.25}})
    monkeypatch.setattr(WorldModelRun, "train_network", lambda self, directory, **how: outcome)
    directory = run.execute(tmp_path)
    path = directory / "record.json"
    text = path.read_text()
    if damage == "of another seed":
        path.write_bytes((replace(run, seed=6).execute(tmp_path) / "record.json").read_bytes())
    else:
        path.write_text(text[:200] if damage == "cut off" else text.replace("0.25", "0.26"))
    damaged = path.read_bytes()
    assert not run.is_finished(tmp_path) and Work(out=tmp_path).remaining_seconds(run) > 0
    with pytest.raises(FileError, match=r"record\.json is not a record|holds another finished run"):
        run.execute(tmp_path, resume=True)
    assert path.read_bytes() == damaged
    path.unlink()
    run.execute(tmp_path, resume=True)
    assert run.is_finished(tmp_path)


def test_a_record_stays_until_there_is_a_new_one(tmp_path, monkeypatch):
    """Its models are gone, and are to be planned with."""
    (run,) = plan(find("rrc/planning"), profile="smoke", seeds=[0], cells=["gru"])
    directory = run.execute(tmp_path)
    (directory / MODEL_FILE).unlink()
    record = (directory / "record.json").read_bytes()
    work = Work(out=tmp_path, planning=PROFILES["smoke"])
    with pytest.raises(FileError, match="a finished run whose models are gone; make them again with --resume"):
        work.do(run, lambda topic, content: None)
    monkeypatch.setattr(WorldModelRun, "train_network", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace(work, resume=True).do(run, lambda topic, content: None)
    assert (directory / "record.json").read_bytes() == record


def test_other_files_among_the_models_are_left_alone(tmp_path):
    for name in ("000100", "000020", "000020 (copy)", "._000040"):
        write_atomically(tmp_path / "snapshots" / f"{name}.safetensors", "")
    assert [(epoch, path.stem) for epoch, path in find_snapshots(tmp_path).items()] == [(20, "000020"), (100, "000100")]


def test_a_damaged_configuration_may_be_deleted(tmp_path):
    (run,) = plan(find("rrc/gating"), profile="smoke", seeds=[0], cells=["gatel0rd"], epochs=2)
    directory = run.execute(tmp_path)
    (directory / "record.json").unlink()
    (directory / "config.json").write_text("")
    with pytest.raises(FileError, match=r"config.json is damaged: .*; or delete it"):
        run.execute(tmp_path, resume=True)
    (directory / "config.json").unlink()
    epochs = []
    run.execute(tmp_path, on_metrics=lambda metrics: epochs.append(metrics["epoch"]))
    assert epochs == [] and run.is_finished(tmp_path)


def interrupt(*args, **options):
    raise KeyboardInterrupt


def test_scales_are_data():
    plain = Scale(profile="quick", length=None, unit="epochs", preset="text")
    longer = Scale(profile="quick", length=1_500_000, unit="frames", preset="tuned")
    assert (plain.words, plain.slug) == ("quick", "quick-text")
    assert (longer.words, longer.slug) == ("quick, 1500000 frames", "quick-1500000-frames-tuned")
    (run, *_) = plan(find("minigrid/doorkey"), profile="quick", seeds=[0], frames=1_500_000, preset="tuned")
    assert run.scale == longer and run.profile == "quick" and run.length_override == 1_500_000


def test_metrics_are_read_for_people():
    model, agent = (run.follow() for run in every_kind())
    evaluated = {"epoch": 2, "loss": 0.5, "open_rate": 0.25, "evaluation": {"test": {"error": 0.125}}}
    assert model.read({"epoch": 1, "loss": 1.0}) == Reading(1, "loss 1.00e+00")
    words = "loss 5.00e-01  error 1.25e-01  gates 25.0%"
    assert model.read(evaluated) == Reading(2, words, "epoch 2, loss 5.00e-01, error 1.25e-01, gates 25.0%")
    assert model.read({"epoch": 3, "loss": 0.5}).words == "loss 5.00e-01  error 1.25e-01"  # the last one measured
    update = {
        "update": 49,
        "frames": 600,
        "seconds": 2.0,
        "open_rate": 0,
        "episodes": 0,
        "rewarded": None,
        "return": None,
    }
    assert agent.read(update) == Reading(600, "300 frames/s")
    agent.read(update | {"episodes": 1, "rewarded": 1.0, "return": 0.5})
    reading = agent.read(update | {"update": 50, "episodes": 3, "rewarded": 0.0, "return": 0.1})
    assert reading == Reading(
        600, "success 25%  reward 0.20  300 frames/s", "600 frames, success 25%, reward 0.20, 300 frames/s"
    )


def test_presets_belong_to_experiments():
    for experiment in experiments().values():
        assert type(experiment) in PLANNERS
    gating = find("rrc/gating")
    with pytest.raises(ValueError, match="there is no preset tuned for rrc/gating; it has text, reference"):
        plan_run(gating, gating.variants[0], seed=0, profile=PROFILES["smoke"], preset="tuned")


@pytest.mark.parametrize(("kind", "needs"), [("curves", "curve"), ("grid_table", "values"), ("latents", "example")])
def test_a_view_has_what_its_kind_shows(kind, needs):
    with pytest.raises(ValueError, match=f"the view 'T' is of the kind {kind}; expected {needs} to be given"):
        View(kind=kind, title="T", artefact="Fig. 1")
