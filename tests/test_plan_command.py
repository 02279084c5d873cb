from __future__ import annotations

import json

import pytest
from PIL import Image

from gatel0rd.cli import main
from gatel0rd.experiments.execute import execute
from gatel0rd.experiments.registry import find, plan


@pytest.fixture(scope="module", params=["rrc/latents", "shepherd/latents"])
def run_directory(request, tmp_path_factory):
    (run, *_) = plan(find(request.param), profile="smoke", seeds=[0], cells=["gatel0rd"])
    return execute(run, tmp_path_factory.mktemp("runs"))


def test_a_run_plans_and_is_filmed(run_directory, tmp_path, capsys, monkeypatch):
    scenario = run_directory.parent.name
    monkeypatch.setattr("gatel0rd.planning.icem.ICEMConfig.sample_counts", [12, 10])
    film, outcome = tmp_path / "plan.gif", tmp_path / "plan.json"
    words = ["--model", str(run_directory), "--episodes", "2", "--render", str(film), "--json", str(outcome)]
    main(["plan", scenario, *words])
    shown = capsys.readouterr().out
    assert "of 2 episodes succeeded (95 % interval" in shown and "control steps per second" in shown
    found = json.loads(outcome.read_text())
    assert found["episodes"] == len(found["reached"]) == 2
    assert found["success_rate"] == sum(step >= 0 for step in found["reached"]) / 2
    with Image.open(film) as frames:
        assert frames.is_animated and frames.n_frames > 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["billiard"], "there is nothing to plan in 'billiard'; there is rrc, shepherd"),
        (["rrc", "--model", "nowhere"], "give the directory of a finished run, or ground-truth"),
        (["rrc", "--episodes", "0"], "episodes is 0; expected at least 1"),
        (["rrc", "--render", "film.mp4"], "films are written as .gif or .webp"),
    ],
)
def test_impossible_plans_are_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plan", *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().out.replace("\n", " ")


def test_a_model_of_another_world_is_an_error(run_directory, capsys):
    other = {"rrc": "shepherd", "shepherd": "rrc"}[run_directory.parent.name]
    with pytest.raises(SystemExit):
        main(["plan", other, "--model", str(run_directory)])
    assert f"is a model of {run_directory.parent.name}" in capsys.readouterr().out.replace("\n", " ")
