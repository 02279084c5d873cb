"""A world that is defined here, and registered with one call: every command knows it, and no other file was touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image

import gatel0rd
from gatel0rd.cli.main import main
from gatel0rd.explore import make_app
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.planning import ControlTask, ICEMConfig
from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds import EnvironmentSpec, Thing, World, registry
from gatel0rd.worlds.events import onsets
from gatel0rd.worlds.experiments import Experiment, Scenario, Variant, View
from gatel0rd.worlds.metrics import TEST_ERROR
from gatel0rd.worlds.steering import Steering

with warnings.catch_warnings():  # it would rather have httpx2, and says so when it is imported
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

ROOT = Path(__file__).parents[2]
SETS = {"train": 64, "validation": 16, "test": 32}


def move(x, pressed, opened, push):
    """A corridor with a hidden button at its right end, which unlocks the door at its left end."""
    x = np.clip(x + 0.25 * np.clip(push, -1, 1), -1, 1)
    pressed = pressed | (x > 0.8)
    return x, pressed, opened | (pressed & (x < -0.8))


def paint(x, opened, height):
    picture = np.full((height, 2 * height, 3), 240, dtype=np.uint8)
    picture[:, : height // 10] = (60, 160, 90) if opened else (90, 60, 40)
    left = int((x + 1) / 2 * 1.8 * height)
    picture[height // 2 :, left : left + height // 5] = (192, 57, 43)
    return picture


class Corridor(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, *, render_mode=None, render_size=320):
        self.render_mode, self.render_size = render_mode, render_size
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = (options or {}).get("x", self.np_random.uniform(-0.5, 0.5)), False, False
        return self.look()

    def step(self, action):
        self.state = move(*self.state, float(action[0]))
        observation, info = self.look()
        return observation, float(info["opened"]), info["opened"], False, info

    def look(self):
        x, pressed, opened = self.state
        return np.array([x, float(opened)]), {"pressed": bool(pressed), "opened": bool(opened)}

    def render(self):
        return paint(self.state[0], self.state[2], self.render_size)


class Escape(ControlTask):
    name = "corridor"
    horizon, limit, idle = 16, 24, (0.0,)

    @property
    def search(self):
        return ICEMConfig(horizon=self.horizon, samples=64, iterations=2)

    def reset(self, generators):
        x = np.array([generator.uniform(-0.5, 0.5) for generator in generators])
        self.state = x, np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
        return self.look(self.state)

    def step(self, actions):
        self.state = move(*self.state, actions[:, 0])
        return self.look(self.state), self.state[2]

    def keep(self, rows):
        self.state = tuple(part[rows] for part in self.state)

    def simulate(self, sequences):
        state = tuple(np.repeat(part[:, None], sequences.shape[1], axis=1) for part in self.state)
        seen = []
        for t in range(sequences.shape[2]):
            state = move(*state, sequences[:, :, t, 0])
            seen.append(self.look(state))
        return np.stack(seen, axis=2)

    def cost(self, observations, actions):
        return (1 - observations[..., 1]).sum(axis=-1)

    @staticmethod
    def look(state):
        return np.stack([state[0], state[2].astype(float)], axis=-1)


SCENARIO = Scenario(
    name="corridor",
    title="Corridor",
    model=WorldModelConfig(observation_size=2, action_size=1, feature_size=6, init_steps=2),
    steps=21,
    splits=SETS,
    evaluations={"strolls": {"test": ("strolls", "test")}},
    validations={"strolls": {"validation": ("strolls", "validation")}},
    episode_seconds=0.1,
    epoch_shares={"demo": 0.03},
    sequence_limits={"smoke": 48},
)
QUESTION = Experiment(
    id="corridor/doors",
    title="Doors",
    question="Which network remembers the button?",
    claims=(),
    scenario=SCENARIO,
    policy="strolls",
    variants=tuple(
        Variant(
            name=cell,
            label=cell,
            cell=CellConfig(name=cell, hidden_size=4),
            learning_rate=0.01,
            sparsity_weight=0.001 if cell == "gatel0rd" else 0.0,
            paper_epochs=100,
        )
        for cell in ("gatel0rd", "gru")
    ),
    views=(
        View(kind="curves", title="Test error", artefact="Ours", curve=TEST_ERROR.curve),
        View(kind="latents", title="Button pressed", artefact="Ours", example="pressed"),
        View(kind="events_table", title="Gates", artefact="Ours"),
        View(kind="planning", title="Success", artefact="Ours"),
    ),
)


class CorridorWorld(World):
    name, title = "corridor", "Corridor"
    environment = EnvironmentSpec(id="toy/Corridor-v0", entry_point=Corridor, time_limit=24)
    observation_names, action_names = ("x", "door"), ("push",)
    things = (Thing("walker", (0,)), Thing("door", (1,)))
    boundaries = ("button pressed",)
    steering = Steering(
        help="← and → walk.",
        waiting="The walker waits.",
        keys={"ArrowLeft": (-1.0,), "ArrowRight": (1.0,)},
        messages={"pressed": ("the button is pressed", None)},
        ended="the door is open",
    )
    scenario = SCENARIO

    def experiments(self):
        return (QUESTION,)

    def generate(self, recipe, progress):
        rng = np.random.default_rng([recipe.seed, *recipe.split.encode()])
        turns = np.where(rng.random((recipe.sequences, recipe.steps)) < 0.15, -1, 1).cumprod(axis=1)
        actions = (turns * rng.uniform(0.5, 1, turns.shape)).astype(np.float32)[..., None]
        state = rng.uniform(-0.5, 0.5, len(turns)), np.zeros(len(turns), dtype=bool), np.zeros(len(turns), dtype=bool)
        seen, pressed = [], []
        for t in range(recipe.steps):
            seen.append(Escape.look(state))
            pressed.append(state[1])
            state = move(*state, actions[:, t, 0].astype(np.float64))
        progress(recipe.sequences, recipe.sequences)
        return Dataset(
            recipe=recipe,
            observations=np.stack(seen, axis=1).astype(np.float32),
            actions=actions,
            strata=np.zeros(recipe.sequences, dtype=np.int64),
            labels={"pressed": np.stack(pressed, axis=1)},
        )

    def describe_data(self, data):
        return f"the button is pressed in {data.labels['pressed'].any(axis=1).sum()} sequences"

    def events(self, data):
        return {"button pressed": onsets(data.labels["pressed"])}

    def examples(self, data):
        return {"pressed": int(data.labels["pressed"].any(axis=1).argmax())}

    def measure_in_training(self, model, data):
        return {"sequences": float(len(data.observations))}

    def make_task(self, preset="text"):
        return Escape()

    def draw(self, history, height, *, enlarged=1.0, trail_from=0):
        return paint(history[-1, 0], history[-1, 1] > 0.5, height)


@pytest.fixture(scope="module")
def corridor():
    world = registry.register(CorridorWorld())
    yield world
    registry.unregister("corridor")


@pytest.fixture(scope="module")
def out(corridor, tmp_path_factory):
    """Both networks trained and planned with, from the command line."""
    directory = tmp_path_factory.mktemp("toy")
    main(["run", "corridor/doors", "--profile", "smoke", "--seeds", "0", "--workers", "1", "--out", str(directory)])
    return directory


@pytest.fixture
def runs(out):
    """Cell -> directory of its run."""
    return {path.name.partition("-")[0]: path for path in (out / "corridor").iterdir()}


def test_it_is_listed_with_its_experiment_and_made_by_gymnasium(corridor, capsys):
    assert registry.names()[-1] == "corridor" and registry.get("corridor") is corridor
    main(["list"])
    shown = capsys.readouterr().out.replace("\n", " ")
    assert (
        "corridor/doors" in shown
        and "Worlds: billiard, rrc, shepherd, fetch, fetch-diverse, minigrid, memory, corridor" in shown
    )
    env = gymnasium.make("toy/Corridor-v0")
    assert env.spec.max_episode_steps == 24 and isinstance(env.unwrapped, Corridor)
    assert isinstance(corridor.make_environment(render_mode="rgb_array", render_size=50), Corridor)


def test_its_data_is_made(corridor, tmp_path, capsys):
    main(["data", "make", "corridor", "--out", str(tmp_path)])
    shown = capsys.readouterr().out.replace("\n", " ")
    for split, count in SETS.items():
        path = tmp_path / f"corridor-strolls-{split}-text-{count}x21-seed0.safetensors"
        data = Dataset.load(path, scenario="corridor")
        assert data.observations.shape == (count, 21, 2) and f"{count} sequences" in shown
        assert f"the button is pressed in {data.labels['pressed'].any(axis=1).sum()} sequences" in shown
    with pytest.raises(SystemExit):
        main(["data", "make", "corridor/races"])
    assert "corridor has no policy 'races'; it has strolls" in capsys.readouterr().err


def test_a_run_is_recorded_with_what_the_world_measures(runs):
    records = {cell: json.loads((path / "record.json").read_text()) for cell, path in runs.items()}
    assert sorted(records) == ["gatel0rd", "gru"]
    record = records["gatel0rd"]
    assert record["run"]["train_data"]["sequences"] == 48  # the world's own limit in this profile, not the profile's
    assert record["curves"]["test.sequences"] == [32.0] * 5
    assert set(record["final"]) == {"test", "validation"}
    assert record["measures"]["gating"]["real inputs"]["events"]["button pressed"]["count"] > 0
    assert list(record["measures"]["examples"]["pressed"]["events"]) == ["button pressed"]
    assert record["planning"]["planner"]["horizon"] == 16 and record["planning"]["epochs"][-1] == 4
    assert records["gru"]["measures"]["gating"] is None


@pytest.mark.slow
def test_the_report_shows_it(out, capsys):
    main(["report", "corridor/doors", "--out", str(out)])
    text = (out / "report.md").read_text()
    assert "Corridor: Doors (smoke" in text and "button pressed" in text
    assert len(list((out / "figures").glob("corridor-doors-*.png"))) == 3


def test_it_is_filmed(runs, tmp_path):
    main(["animate", str(runs["gatel0rd"]), "--out", str(tmp_path / "film.gif")])
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 21 and film.width == 2 * 2 * 220 + 10


@pytest.mark.parametrize("model", ["ground-truth", "learned"])
def test_it_is_planned_in(model, runs, tmp_path):
    which = str(runs["gatel0rd"]) if model == "learned" else model
    outcome, film = tmp_path / "plan.json", tmp_path / "plan.gif"
    main(["plan", "corridor", "--model", which, "--episodes", "2", "--json", str(outcome), "--render", str(film)])
    found = json.loads(outcome.read_text())
    assert found["scenario"] == "corridor" and len(found["reached"]) == 2 and film.exists()
    if model == "ground-truth":  # eleven steps at least: to the button and back
        assert all(8 <= steps <= 24 for steps in found["reached"])


def test_it_is_driven_live(runs):
    client = TestClient(make_app([("ours", gatel0rd.load(runs["gatel0rd"]))], None), base_url="http://127.0.0.1:8765")
    content = client.get("/api/overview").json()
    assert [entry["name"] for entry in content["variables"]] == ["x", "door", "push"]
    assert [entry["scenario"] for entry in content["drives"]] == ["corridor"]
    answer = client.post("/api/drive/start", json={"scenario": "corridor", "start": {"x": 0.4}}).json()
    assert answer["observation"] == pytest.approx([0.4, 0.0])
    session, said = answer["session"], {}
    for action in [1, 1, *[-1] * 8]:
        answer = client.post("/api/drive/step", json={"session": session, "action": [action]}).json()
        if answer["messages"]:
            said[answer["step"]] = answer["messages"]
    assert said == {2: ["the button is pressed"], 9: ["the door is open"]}


@pytest.mark.slow
def test_boundaries_are_compared_with_its_labels(out, tmp_path, monkeypatch):
    monkeypatch.setattr("gatel0rd.recordings.benchmark.ROUNDS", 2)
    main(["segment-benchmark", str(out), "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "segmentation.json").read_text())
    assert {row["scenario"] for row in rows} == {"corridor"}
    assert {"GateL0RD, as in the paper", "GRU, surprise", "PELT (ruptures)"} <= {row["method"] for row in rows}
    assert all(0 < row["true_per_sequence"] <= 1 for row in rows)
    assert "Corridor, PELT (ruptures)" in (tmp_path / "segmentation.md").read_text()


@pytest.fixture
def guide_module(tmp_path):
    """The world of the guide, in a file as a user would have it."""
    text = (ROOT / "docs" / "guides" / "worlds.md").read_text().partition("## A world of your own")[2]
    (code, *_) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "mirror_world.py"
    path.write_text(code)
    return path


@pytest.mark.slow
def test_processes_find_a_world_by_the_environment_variable(guide_module, tmp_path):
    variables = {**os.environ, registry.VARIABLE: str(guide_module), "OMP_NUM_THREADS": "1"}

    command = [sys.executable, "-m", "gatel0rd", "run", "mirror/memory", "--profile", "smoke", "--seeds", "0"]
    done = subprocess.run([*command, "--workers", "2"], env=variables, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "runs" / "mirror").glob("*/record.json"))) == 2
    command = [sys.executable, "-m", "gatel0rd", "report", "mirror/memory"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "2 finished runs with one seed" in page and "paper" not in page.partition("<body>")[2]
