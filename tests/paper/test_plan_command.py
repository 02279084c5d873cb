from __future__ import annotations

import json

import pytest
from PIL import Image

from gatel0rd.cli.main import main
from gatel0rd.files import FileError
from gatel0rd.models import WorldModel, save_model
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.paper.execute import find_run
from gatel0rd.paper.plan import find, plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["rrc/latents", "shepherd/latents"])
def run_directory(request, tmp_path_factory):
    (run, *_) = plan(find(request.param), profile="smoke", seeds=[0], cells=["gatel0rd"])
    return run.execute(tmp_path_factory.mktemp("runs"))


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
    assert f"wrote {outcome}" in shown.replace("\n", "")
    with Image.open(film) as frames:
        steps = found["reached"][0] if found["reached"][0] >= 0 else {"rrc": 50, "shepherd": 60}[scenario]
        waits = {"rrc": 0, "shepherd": 1}[scenario]  # steps until the model has seen enough
        assert frames.n_frames == steps - waits + 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["billiard"], "there is nothing to plan in 'billiard'; there is rrc, shepherd, fetch, fetch-diverse"),
        (["rrc", "--model", "nowhere"], "give the directory of a finished run, or ground-truth"),
        (["rrc", "--episodes", "0"], "episodes is 0; expected at least 1"),
        (["rrc", "--seed", "-1"], "seed is -1; expected at least 0"),
        (["rrc", "--episodes", "2", "--filmed", "2"], "there is no episode 2; there are 2, counted from 0"),
        (["rrc", "--only", "1,3", "--filmed", "2"], "episode 2 is to be filmed; only 1, 3 will be planned"),
        (["rrc", "--only", "one"], "episodes are 'one'; expected numbers and ranges"),
        (["rrc", "--json", "."], ". is a directory; expected the name of a file"),
        (["rrc", "--render", "film.mp4"], "films are written as .gif or .webp"),
    ],
)
def test_impossible_plans_are_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plan", *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_any_episode_of_the_true_world_is_filmed(tmp_path, monkeypatch):
    monkeypatch.setattr("gatel0rd.planning.icem.ICEMConfig.sample_counts", [64, 40])
    film, outcome = tmp_path / "plan.webp", tmp_path / "plan.json"
    main(["plan", "rrc", "--episodes", "3", "--render", str(film), "--filmed", "2", "--json", str(outcome)])
    reached = json.loads(outcome.read_text())["reached"]
    with Image.open(film) as frames:
        assert frames.n_frames == (reached[2] if reached[2] >= 0 else 50) + 1
        assert frames.height < 260  # there is no memory to be drawn below the scenes
    monkeypatch.setattr("gatel0rd.paper.planning.SIDE_BY_SIDE", 1)
    main(["plan", "rrc", "--episodes", "3", "--only", "1-2", "--json", str(outcome)])
    alone = json.loads(outcome.read_text())
    assert alone["reached"] == reached[1:] and alone["episodes"] == 2 and alone["only"] == [1, 2]
    assert alone["planner"]["horizon"] == 50 and alone["planner"]["enlarged"] == 1.5


def test_a_model_file_without_its_run_is_an_error(tmp_path):
    save_model(tmp_path / "model.safetensors", WorldModel(WorldModelConfig(observation_size=4, action_size=2)))
    with pytest.raises(FileError, match="does not say which run it is from"):
        find_run(tmp_path / "model.safetensors")


def test_a_model_of_another_world_is_an_error(run_directory, capsys):
    other = {"rrc": "shepherd", "shepherd": "rrc"}[run_directory.parent.name]
    with pytest.raises(SystemExit):
        main(["plan", other, "--model", str(run_directory)])
    assert f"is a model of {run_directory.parent.name}" in capsys.readouterr().err.replace("\n", " ")
