"""Files of models: what a path holds, and what is said about a wrong one."""

from __future__ import annotations

import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from gatel0rd.files import FileError, load_arrays, read_header, save_arrays
from gatel0rd.models import ActorCritic, WorldModel
from gatel0rd.models.config import ActorCriticConfig, WorldModelConfig
from gatel0rd.models.fitted import wrap_model
from gatel0rd.models.io import (
    ContentKind,
    identify,
    load_agent,
    load_fitted,
    load_model,
    load_sequence_model,
    save_agent,
    save_fitted,
    save_model,
    save_sequence_model,
)
from gatel0rd.models.sequence_model import SequenceModel, SequenceModelConfig
from gatel0rd.nn.config import CellConfig

WORLD = WorldModelConfig(observation_size=3, action_size=2, cell=CellConfig(hidden_size=4))
AGENT = ActorCriticConfig(observation_shape=(5,), actions=2, continuous=True, cell=CellConfig(hidden_size=3), width=7)


@pytest.fixture
def places(tmp_path) -> dict[ContentKind, Path]:
    """A directory of each kind."""
    save_model(tmp_path / "run" / "model.safetensors", WorldModel(WORLD), {"run": {"seed": 4}})
    save_fitted(tmp_path / "fit", wrap_model(WorldModel(WORLD), info={"error": 0.5}))
    save_agent(tmp_path / "agent" / "agent.safetensors", ActorCritic(AGENT), {"run": {"seed": 6}})
    save_arrays(tmp_path / "cut" / "checkpoint.safetensors", {"x": np.ones(2)}, kind="checkpoint", metadata={})
    return {
        ContentKind.WORLD_MODEL: tmp_path / "run",
        ContentKind.FITTED_MODEL: tmp_path / "fit",
        ContentKind.AGENT: tmp_path / "agent",
        ContentKind.CHECKPOINT: tmp_path / "cut",
    }


def test_directories_and_files_say_what_they_hold(places, tmp_path):
    for kind, directory in places.items():
        found = identify(directory)
        assert found.kind is kind and found.file.parent == directory
        of_file = identify(found.file)
        expected = ContentKind.WORLD_MODEL if kind is ContentKind.FITTED_MODEL else kind
        assert of_file.kind is expected and of_file.file == found.file and of_file.metadata == found.metadata
    assert identify(places[ContentKind.WORLD_MODEL]).metadata["run"] == {"seed": 4}
    assert identify(str(places[ContentKind.AGENT])).metadata["config"]["actions"] == 2
    save_arrays(tmp_path / "data.safetensors", {"x": np.ones(2)}, kind="dataset", metadata={"recipe": 1})
    assert identify(tmp_path / "data.safetensors").kind is ContentKind.DATASET


def test_a_finished_model_counts_before_its_checkpoint(places):
    directory = places[ContentKind.FITTED_MODEL]
    save_arrays(directory / "checkpoint.safetensors", {"x": np.ones(2)}, kind="checkpoint", metadata={})
    assert identify(directory).kind is ContentKind.FITTED_MODEL


def test_paths_with_nothing_of_ours_are_errors(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"there is no model\.safetensors or agent\.safetensors in .*; expected a dir"):
        identify(tmp_path / "empty")
    with pytest.raises(FileError, match=r"there is no file .*nowhere"):
        identify(tmp_path / "nowhere")
    save_file({"x": np.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(FileError, match="is a safetensors file of other software; expected one that gatel0rd wrote"):
        identify(tmp_path / "foreign.safetensors")
    save_arrays(tmp_path / "new.safetensors", {"x": np.ones(2)}, kind="dream", metadata={})
    with pytest.raises(FileError, match="is gatel0rd dream, which this version does not know"):
        identify(tmp_path / "new.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "new.safetensors").read_bytes()[:40])
    with pytest.raises(FileError, match="is truncated or not a file of gatel0rd"):
        identify(tmp_path / "cut.safetensors")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"kind": "gatel0rd model", "sha256": "0", "metadata": "{"}, "its metadata cannot be read"),
        ({"kind": "gatel0rd model", "sha256": "0"}, "its metadata cannot be read"),
        ({"kind": "gatel0rd model", "metadata": "{}"}, "it has no checksum"),
    ],
)
def test_damaged_headers_are_errors(header, message, tmp_path):
    save_file({"x": np.ones(2)}, tmp_path / "model.safetensors", metadata=header)
    for read in (read_header, load_model):
        with pytest.raises(FileError, match=message):
            read(tmp_path / "model.safetensors")


def test_each_is_loaded_from_its_directory_or_its_file(places):
    directory = places[ContentKind.WORLD_MODEL]
    for path in (directory, str(directory), directory / "model.safetensors"):
        assert load_model(path).config == WORLD
        assert load_fitted(path).info == {"run": {"seed": 4}}
    directory = places[ContentKind.FITTED_MODEL]
    assert load_fitted(directory).info == {"error": 0.5} and load_model(directory).config == WORLD
    directory = places[ContentKind.AGENT]
    for path in (directory, directory / "agent.safetensors"):
        agent, metadata = load_agent(path)
        assert agent.config == AGENT and not agent.training and metadata["run"] == {"seed": 6}


def test_agents_keep_their_weights(tmp_path):
    agent = ActorCritic(AGENT)
    agent.reset_parameters(torch.Generator().manual_seed(3))
    save_agent(tmp_path / "agent.safetensors", agent)
    loaded, _ = load_agent(tmp_path)
    assert list(loaded.state_dict()) == list(agent.state_dict())
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in agent.state_dict().items())


def test_what_is_there_instead_is_said(places, tmp_path):
    with pytest.raises(
        FileError, match=r"no .*model\.safetensors \(.*agent holds an agent\); expected a directory that"
    ):
        load_fitted(places[ContentKind.AGENT])
    with pytest.raises(FileError, match=r"\(.*cut holds an unfinished training\); expected a directory"):
        load_model(places[ContentKind.CHECKPOINT])
    with pytest.raises(
        FileError, match=r"\(.*fit holds a world model of recordings\); expected the directory of a fin"
    ):
        load_agent(places[ContentKind.FITTED_MODEL])
    with pytest.raises(FileError, match="is gatel0rd agent; expected a gatel0rd model"):
        load_model(places[ContentKind.AGENT] / "agent.safetensors")
    with pytest.raises(FileError, match=r"there is no .*nowhere/agent\.safetensors; expected the directory"):
        load_agent(tmp_path / "nowhere")
    with pytest.raises(FileError, match=r"there is no model file .*nowhere\.safetensors"):
        load_model(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("load", [load_model, load_fitted, load_agent, identify])
def test_no_file_is_ever_executed(load, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    for name in ("model.safetensors", "agent.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileError, match="is truncated or not a"):
        load(tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": {"hidden_size": "8"}}, r"CellConfig\.hidden_size is '8'; expected int"),
        ({"cell": {"hidden_size": True}}, r"CellConfig\.hidden_size is True; expected int"),
        ({"cell": []}, r"CellConfig is \[\]; expected an object"),
        ({"cell": {"gate": "relu"}}, "gate is 'relu'"),
        ({"observation_size": 3.5}, r"observation_size is 3\.5; expected int"),
        ({"observation_size": None}, "observation_size is None"),
        ({"nonsense": 1}, "has no field nonsense"),
    ],
)
def test_configurations_of_another_form_are_errors(tmp_path, change, message):
    plain = {"observation_size": 3, "action_size": 2, "cell": {"hidden_size": 4}}
    arrays = {name: value.numpy() for name, value in WorldModel(WORLD).state_dict().items()}
    save_arrays(tmp_path / "model.safetensors", arrays, kind="model", metadata={"config": {**plain, **change}})
    with pytest.raises(FileError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize("metadata", [{}, {"config": None}, {"config": []}, {"config": {}}])
def test_a_file_without_configuration_is_an_error(tmp_path, metadata):
    for kind, load in (("model", load_model), ("agent", load_agent), ("sequence model", load_sequence_model)):
        file = tmp_path / f"{kind}.safetensors"
        save_arrays(file, {"x": np.ones(2)}, kind=kind, metadata=metadata)
        with pytest.raises(FileError, match="is damaged or of another version"):
            load(file)


def test_weights_that_are_no_numbers_are_an_error(tmp_path):
    model = WorldModel(WORLD)
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = float("nan")
    save_model(tmp_path / "model.safetensors", model)
    with pytest.raises(FileError, match="weights that are NaN or infinite"):
        load_model(tmp_path)


def test_a_changed_description_is_noticed(tmp_path):
    save_fitted(tmp_path, wrap_model(WorldModel(WORLD), info={"error": 0.5}))
    path = tmp_path / "model.json"
    text = path.read_text()
    for changed in (
        text.replace('"x0"', '"x7"'),
        text.replace('"error": 0.5', '"error": 0.4'),
        text.replace("1.0", "2.0", 1),
    ):
        assert changed != text
        path.write_text(changed)
        with pytest.raises(FileError, match="does not match the checksum"):
            load_fitted(tmp_path)
    path.write_text(re.sub(r',\n"sha256": "[0-9a-f]+"', "", text))  # as the first versions wrote it
    assert load_fitted(tmp_path).info == {"error": 0.5}


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("cell", "hidden_size", 2**28),
        ("cell", "num_layers", 0),
        ("cell", "num_layers", 2**31),
        ("cell", "net_layers", 2**31),
        (None, "pre_layers", 2**31),
        (None, "feature_size", 2**40),
        (None, "observation_size", -1),
    ],
)
def test_sizes_that_the_weights_do_not_have_take_no_memory_and_no_time(places, part, name, value):
    path = places[ContentKind.WORLD_MODEL] / "model.safetensors"
    arrays, metadata = load_arrays(path, kind="model")
    (metadata["config"] if part is None else metadata["config"][part])[name] = value
    save_arrays(path, arrays, kind="model", metadata=metadata)
    begin = time.monotonic()
    with pytest.raises(FileError, match=r"model\.safetensors (is damaged|belongs to another model)"):
        load_model(path)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_keep_the_type_of_their_weights(dtype, tmp_path):
    sequences = SequenceModelConfig(input_size=5, output_size=2, cell=CellConfig(hidden_size=3))
    for network, save, load in (
        (WorldModel(WORLD), save_model, load_model),
        (ActorCritic(AGENT), save_agent, lambda path: load_agent(path)[0]),
        (SequenceModel(sequences), save_sequence_model, load_sequence_model),
    ):
        save(tmp_path / "network.safetensors", network.to(dtype))
        loaded = load(tmp_path / "network.safetensors")
        for name, tensor in network.state_dict().items():
            found = loaded.state_dict()[name]
            assert found.dtype == tensor.dtype == dtype and torch.equal(found, tensor)
