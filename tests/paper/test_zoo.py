"""The zoo's entries: each is a run's weights with its own record, and commands take their names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatel0rd.cli.main import main
from gatel0rd.files import FileError
from gatel0rd.models import zoo as places
from gatel0rd.models.io import load_agent, load_model
from gatel0rd.models.zoo import EXAMPLES, zoo_names
from gatel0rd.paper import zoo
from gatel0rd.paper.agent_run import AgentRun
from gatel0rd.paper.measures import gating
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.schema import read_run
from gatel0rd.paper.world_model_run import WorldModelRun
from gatel0rd.paper.zoo import LARGEST, add_entry, list_entries, name_run, read_entry
from gatel0rd.training import evaluate, time_first
from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds.data import generate, obtain_examples, shorten_recipe


@pytest.fixture
def own_zoo(tmp_path, monkeypatch):
    """An empty zoo."""
    for module in (places, zoo):
        monkeypatch.setattr(module, "ZOO", tmp_path / "zoo")
    return tmp_path / "zoo"


@pytest.mark.parametrize("name", zoo_names())
def test_an_entry_is_the_run_that_its_record_describes(name):
    entry = read_entry(name)
    kind, load = (AgentRun, load_agent) if isinstance(entry.run, AgentRun) else (WorldModelRun, load_model)
    loaded = load(f"zoo:{name}")
    model = loaded[0] if kind is AgentRun else loaded
    assert sum(parameter.numel() for parameter in model.parameters()) == entry.record.content["parameters"]
    assert read_run(entry.record.content, entry.record.path, kind) == entry.run
    assert entry.record.group == entry.run.group and entry.size <= LARGEST
    assert name.endswith(f"/{entry.run.network}") and name == name_run(entry.run)
    assert entry.numbers and all(np.isfinite(value) for value in entry.numbers.values())


@pytest.mark.parametrize("name", [entry.name for entry in list_entries() if isinstance(entry.run, WorldModelRun)])
def test_weights_have_the_error_of_their_record(name):
    """On the few sequences that come along, or that are generated at once."""
    run = read_entry(name).run
    data = obtain_examples(run.evaluation_data[0])
    error = evaluate(load_model(f"zoo:{name}"), *time_first(data, run.model))["error"]
    assert error == pytest.approx(read_entry(name).numbers["test error"], rel=0.7)


def test_gates_of_robot_remote_control_are_clean():
    run = read_entry("rrc/gatel0rd").run
    data = generate(shorten_recipe(run.evaluation_data[1]))
    found = gating(load_model("zoo:rrc/gatel0rd"), data, run.world.events(data)["control"])
    assert found["hits"] > 0.85 and found["false_alarms"] < 0.15
    numbers = read_entry("rrc/gatel0rd").numbers
    assert numbers["hits"] > 0.9 and numbers["false alarms"] < 0.15


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.safetensors")), ids=lambda path: path.stem)
def test_packaged_sequences_are_found_by_their_recipe(path):
    data = Dataset.load(path)
    assert path.stem == data.recipe.name and shorten_recipe(data.recipe) == data.recipe
    found = obtain_examples(data.recipe)
    np.testing.assert_array_equal(found.observations, data.observations)


def test_worlds_without_packaged_sequences_generate_them():
    run = read_entry("rrc/gatel0rd").run
    found, expected = obtain_examples(run.evaluation_data[0]), generate(shorten_recipe(run.evaluation_data[0]))
    assert found.recipe.sequences == 64
    np.testing.assert_array_equal(found.observations, expected.observations)


def test_a_finished_run_becomes_an_entry(own_zoo, tmp_path):
    (run,) = plan(find("rrc/generalization"), profile="smoke", seeds=[3], cells=["elman"], epochs=1)
    directory = run.execute(tmp_path / "runs")
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    entry = add_entry(directory)
    assert entry.name == "rrc/elman" and entry.run == run and entry.file == own_zoo / "rrc/elman/model.safetensors"
    assert "curves" not in entry.record.content and "examples" not in entry.record.content["measures"]
    record = json.loads((directory / "record.json").read_text())
    assert entry.numbers["test error"] == record["final"]["test"]["error"] and "hits" not in entry.numbers
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    written = entry.file.stat().st_mtime_ns
    assert add_entry(directory).file.stat().st_mtime_ns == written  # what is there already is not written again
    assert add_entry(directory, "rrc/other").name == "rrc/other"
    with pytest.raises(ValueError, match=r"the name is 'other'; expected a place and a network"):
        add_entry(directory, "other")
    with pytest.raises(FileError, match="expected the directory of a finished run"):
        add_entry(tmp_path)


def test_planning_in_the_course_of_training_is_not_the_models_own():
    content = {"final": {"test": {"error": 0.5}}, "run": {"train": {"epochs": 30}}}
    planned = {"epochs": [10, 20], "success": [0.25, 0.5]}
    assert dict(zoo.read_model_numbers({**content, "planning": planned})) == {"test error": 0.5}
    planned = {"epochs": [10, 30], "success": [0.25, 0.75]}
    assert dict(zoo.read_model_numbers({**content, "planning": planned}))["planning success"] == 0.75


def test_the_command_lists_every_entry(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["zoo"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in zoo_names())
    main(["zoo", "--json", str(tmp_path / "zoo.json")])
    listed = json.loads((tmp_path / "zoo.json").read_text())
    assert [entry["name"] for entry in listed] == [f"zoo:{name}" for name in zoo_names()]
    first = next(entry for entry in listed if entry["name"] == "zoo:rrc/gatel0rd")
    assert first["cell"] == "gatel0rd" and first["share_of_paper"] == 1.0 and first["bytes"] < LARGEST
    assert first["numbers"] == read_entry("rrc/gatel0rd").numbers


@pytest.mark.slow
def test_commands_take_names_of_the_zoo(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["plan", "rrc", "--model", "zoo:rrc/gatel0rd", "--episodes", "2", "--json", "plan.json"])
    assert json.loads(Path("plan.json").read_text())["model"] == "zoo:rrc/gatel0rd"
    main(["animate", "zoo:rrc/gatel0rd"])
    with Image.open("rrc-gatel0rd.gif") as film:
        assert film.is_animated
    main(["rl", "eval", "zoo:doorkey/gatel0rd", "--episodes", "5", "--json", "agent.json"])
    assert json.loads(Path("agent.json").read_text())["success"] >= 0.8
    main(["explore", "zoo:rrc/gatel0rd", "zoo:rrc/gru", "--save", "page.html"])
    assert Path("page.html").stat().st_size > 1e6
    assert {path.name for path in tmp_path.iterdir()} == {"plan.json", "rrc-gatel0rd.gif", "agent.json", "page.html"}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_models_of_the_zoo_are_exported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["export", "zoo:rrc/gatel0rd"])
    assert (tmp_path / "rrc-gatel0rd-onnx" / "sequence.onnx").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["animate", "zoo:rrc/gatelord"],
        ["plan", "rrc", "--model", "zoo:rrc/gatelord"],
        ["explore", "zoo:rrc/gru", "zoo:rrc/gatelord"],
        ["export", "zoo:rrc/gatelord"],
        ["rl", "eval", "zoo:rrc/gatelord"],
        ["segment", "zoo:rrc/gatelord", "data.csv"],
    ],
    ids=lambda words: words[0],
)
def test_a_wrong_name_is_an_error_with_the_nearest(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "there is no zoo:rrc/gatelord; the nearest are zoo:rrc/gatel0rd" in said
