from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import children

from gatel0rd.files import FileError, load_arrays, save_arrays
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.data import generate, obtain
from gatel0rd.worlds.robot_remote_control.data import sample_actions
from gatel0rd.worlds.robot_remote_control.env import RobotRemoteControl

RECIPE = DataRecipe(scenario="rrc", policy="time", split="train", sequences=120, steps=50)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return generate(RECIPE)


@pytest.mark.parametrize("preset", ["text", "reference"])
@pytest.mark.parametrize("policy", ["time", "random"])
def test_half_of_the_sequences_gain_control(policy, preset):
    data = generate(replace(RECIPE, policy=policy, preset=preset))
    controlled, onset = data.labels["controlled"], data.labels["onset"]
    assert controlled.any(axis=1).tolist() == [True] * 60 + [False] * 60
    assert data.strata.tolist() == [0] * 60 + [1] * 60
    assert (onset[:60] >= 1).all() and (onset[60:] == -1).all()
    assert all(not controlled[i, : onset[i]].any() and controlled[i, onset[i] :].all() for i in range(60))
    assert data.observations.shape == (120, 50, 4) and data.actions.shape == (120, 50, 2)
    assert data.observations.dtype == data.actions.dtype == np.float32


@pytest.mark.parametrize("policy", ["time", "random"])
def test_sequences_equal_the_environment_stepped(policy):
    data = generate(replace(RECIPE, policy=policy, sequences=20))
    for index in range(20):
        env = RobotRemoteControl(goal_radius=0)
        start = data.observations[index, 0]
        env.reset(options={"agent": start[:2], "robot": start[2:]})
        for t in range(49):
            observation, _, _, _, info = env.step(data.actions[index, t])
            np.testing.assert_allclose(data.observations[index, t + 1], observation, atol=1e-5)
            assert info["controlled"] == data.labels["controlled"][index, t + 1]


def test_action_magnitudes_grow_with_time_as_the_text_and_the_code_have_it():
    generator = np.random.default_rng(0)
    factor = np.linspace(0.0001, 1, 50)
    text = sample_actions(RECIPE, 4000, generator)
    np.testing.assert_allclose(np.abs(text).max(axis=(0, 2)), factor, rtol=0.01)
    reference = sample_actions(replace(RECIPE, preset="reference"), 100, generator)
    np.testing.assert_allclose(np.linalg.norm(reference, axis=-1), np.tile(factor, (100, 1)), rtol=1e-12)
    uniform = sample_actions(replace(RECIPE, policy="random"), 4000, generator)
    np.testing.assert_allclose(np.abs(uniform).mean(axis=(0, 2)), 0.5, atol=0.03)


def test_the_same_recipe_gives_the_same_bytes_and_others_do_not(data):
    again = generate(RECIPE)
    assert np.array_equal(data.observations, again.observations) and np.array_equal(data.actions, again.actions)
    for change in ({"split": "test"}, {"seed": 1}, {"policy": "random"}, {"preset": "reference"}):
        other = generate(replace(RECIPE, **change))
        assert not np.array_equal(other.observations, data.observations), change


def test_files_keep_data_labels_and_recipe(data, tmp_path):
    path = data.save(tmp_path)
    loaded = Dataset.load(path, scenario="rrc")
    assert loaded.recipe == RECIPE
    assert np.array_equal(loaded.observations, data.observations)
    assert loaded.labels.keys() == data.labels.keys()
    assert all(np.array_equal(loaded.labels[name], data.labels[name]) for name in data.labels)
    stamp = path.stat().st_mtime_ns
    assert np.array_equal(obtain(RECIPE, tmp_path).actions, data.actions)
    assert path.stat().st_mtime_ns == stamp


def test_truncated_damaged_and_foreign_files_are_errors(data, tmp_path):
    path = data.save(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError, match=r"is truncated or not a dataset file .* make it again"):
        Dataset.load(path)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileError, match="does not match the checksum inside"):
        Dataset.load(path)
    path.write_bytes(content)
    with pytest.raises(FileError, match="holds data of scenario 'rrc'; expected 'shepherd'"):
        Dataset.load(path, scenario="shepherd")
    save_arrays(path, {"x": np.zeros(3)}, kind="model", metadata={})
    with pytest.raises(FileError, match="is gatel0rd model; expected a gatel0rd dataset"):
        Dataset.load(path)
    path.write_bytes(b"not a tensor file")
    with pytest.raises(FileError, match="is truncated or not a dataset file"):
        Dataset.load(path)
    with pytest.raises(FileError, match="there is no dataset file"):
        Dataset.load(tmp_path / "nothing.safetensors")


def test_a_file_of_another_recipe_under_this_name_is_an_error(data, tmp_path):
    path = data.save(tmp_path)
    other = replace(RECIPE, split="test")
    path.rename(tmp_path / f"{other.name}.safetensors")
    with pytest.raises(FileError, match="was made by another recipe, rrc-time-train"):
        obtain(other, tmp_path)


def test_arrays_of_the_wrong_shape_are_errors(data):
    with pytest.raises(ValueError, match=r"actions have shape \(120, 50\); the recipe says 120 sequences of 50 steps"):
        replace(data, actions=data.actions[..., 0])
    with pytest.raises(ValueError, match=r"strata have shape \(7,\); expected \(120,\)"):
        replace(data, strata=data.strata[:7])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinite_data_are_errors(data, value):
    observations = data.observations.copy()
    observations[17, 3, 1] = value
    with pytest.raises(ValueError, match="observations of sequence 17 are NaN or infinite"):
        replace(data, observations=observations)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenario": "chess"}, "there is no world 'chess'; there are billiard, rrc"),
        ({"policy": "expert"}, "policy is 'expert'; Robot Remote Control has time and random"),
        ({"sequences": 7}, "7 sequences cannot be balanced; ask for an even number"),
        ({"sequences": 0}, "0 sequences of 50 steps; expected at least 1"),
        ({"steps": 1}, "120 sequences of 1 steps"),
        ({"version": 2}, "is of version 2, this generator of version 1; use the gatel0rd that made it"),
    ],
)
def test_impossible_recipes_are_errors(change, message):
    with pytest.raises(ValueError, match=message):
        generate(replace(RECIPE, **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, metadata: metadata.pop("recipe"), "does not say how it was made"),
        (lambda arrays, metadata: metadata["recipe"].update(seed="0"), "does not say how it was made"),
        (lambda arrays, metadata: arrays.update(actions=arrays["actions"][:, :-1]), "is damaged: actions have shape"),
        (
            lambda arrays, metadata: arrays["observations"].fill(np.nan),
            "observations of sequence 0 are NaN",
        ),
        (lambda arrays, metadata: arrays.update(strata=arrays["strata"] + 0.5), "has strata of float64"),
    ],
)
def test_files_of_another_form_are_named(data, tmp_path, change, message):
    path = data.save(tmp_path)
    arrays, metadata = load_arrays(path, kind="dataset")
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays, metadata)
    save_arrays(path, arrays, kind="dataset", metadata=metadata)
    with pytest.raises(FileError, match=message):
        Dataset.load(path)


def test_parts_that_a_killed_process_left_are_removed(tmp_path):
    obtain(RECIPE, tmp_path)
    left = tmp_path / "parts" / RECIPE.name
    left.mkdir(parents=True)
    (left / "00000.safetensors").write_bytes(b"x")
    obtain(RECIPE, tmp_path)
    assert not left.exists()


SLOW_WORLD = """
import time
from pathlib import Path
from gatel0rd.worlds import register
from gatel0rd.worlds.robot_remote_control import RobotRemoteControlWorld

class Slow(RobotRemoteControlWorld):
    name, title, environment = "slow", "Slow", None

    def part_sizes(self, recipe):
        return [1] * recipe.sequences

    def generate_part(self, recipe, number):
        Path(__file__).with_name(f"began-{number}").touch()
        time.sleep(60)

register(Slow())
"""
MAKE_IT = """
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.parts import generate_in_parts

if __name__ == "__main__":
    recipe = DataRecipe(scenario="slow", policy="time", split="train", sequences=2, steps=8)
    generate_in_parts(recipe, lambda done, total: None, workers=2)
"""


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they outlive it")
def test_processes_that_make_parts_end_with_the_one_that_started_them(tmp_path):
    (tmp_path / "slow_world.py").write_text(SLOW_WORLD)
    (tmp_path / "make.py").write_text(MAKE_IT)
    environment = {**os.environ, "GATEL0RD_WORLDS": str(tmp_path / "slow_world.py")}
    command = [sys.executable, str(tmp_path / "make.py")]
    with subprocess.Popen(command, env=environment) as process:
        while len(list(tmp_path.glob("began-*"))) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        makers = children(process.pid)
        process.kill()
    assert len(makers) >= 2
    end = time.monotonic() + 30
    while any(Path(f"/proc/{maker}").exists() for maker in makers):
        assert time.monotonic() < end, "they wait for work that never comes"
        time.sleep(0.05)
