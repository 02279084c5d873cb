"""Names of the zoo instead of paths."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gatel0rd
from gatel0rd.files import FileError
from gatel0rd.models.io import ContentKind, identify, load_agent, load_model
from gatel0rd.models.zoo import ZOO, default_output, resolve, zoo_name, zoo_names


def test_names_are_directories_of_the_package():
    names = zoo_names()
    assert {"rrc/gatel0rd", "rrc/gru", "doorkey/gatel0rd"} <= set(names) and names == sorted(names)
    for name in names:
        assert resolve(f"zoo:{name}") == resolve(Path(f"zoo:{name}")) == ZOO / name
        assert identify(f"zoo:{name}").file.parent == ZOO / name


@pytest.mark.parametrize("path", ["runs/rrc/gatel0rd", "zoo/rrc", "/zoo:rrc/gru", "."])
def test_paths_stay_what_they_are(path):
    assert zoo_name(path) is None and resolve(path) == resolve(Path(path)) == Path(path)


def test_a_wrong_name_lists_the_nearest():
    with pytest.raises(
        FileError, match=r"there is no zoo:rcr/gatelord; the nearest are .*zoo:rrc/gatel0rd.*`gatel0rd zoo`"
    ):
        resolve("zoo:rcr/gatelord")
    with pytest.raises(FileError, match=r"there is no zoo:; the nearest are zoo:"):
        gatel0rd.load("zoo:")


def test_models_and_agents_are_loaded_by_name():
    fitted = gatel0rd.load("zoo:rrc/gatel0rd")
    assert fitted.info["run"]["scenario"] == "rrc" and fitted.cell == "gatel0rd"
    for name, tensor in load_model(ZOO / "rrc" / "gatel0rd").state_dict().items():
        assert torch.equal(tensor, fitted.model.state_dict()[name])
    agent, metadata = load_agent("zoo:doorkey/gatel0rd")
    assert metadata["run"]["environment"] == "MiniGrid-DoorKey-8x8-v0" and not agent.training
    assert identify("zoo:doorkey/gatel0rd").kind is ContentKind.AGENT
    with pytest.raises(FileError, match=r"holds an agent"):
        gatel0rd.load("zoo:doorkey/gatel0rd")


def test_nothing_is_written_into_the_package():
    assert default_output(Path("zoo:rrc/gru"), "animation.gif", named=".gif") == Path("rrc-gru.gif")
    assert default_output(Path("runs/a"), "animation.gif", named=".gif") == Path("runs/a/animation.gif")
