"""A user's own wrapped environment, from a file outside the package: trained, tried out and filmed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from gatel0rd.cli.main import main
from gatel0rd.files import FileError, read_json
from gatel0rd.models.io import load_agent
from gatel0rd.paper.agent_trials import evaluate_agent, plan_own_agent
from gatel0rd.training import PPOConfig, make_vector_env
from gatel0rd.training.ppo import AgentTrainer, fitting_agent

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "agents.md"
SMALL = PPOConfig(environments=3, steps=16, chunk=8, batch_size=16, epochs=1)


@pytest.fixture
def blind(tmp_path):
    """The file of the guide, in a directory of its own."""
    gymnasium.registry.pop("BlindPendulum-v0", None)  # the test of the guides may have run its code
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if "BlindPen" in block)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "blind.py").write_text(code)
    return tmp_path / "envs"


def command(*words, directory, path=None):
    """The command line as its console script runs: Python does not look into the working directory by itself."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "" if path is None else str(path)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gatel0rd", *words], cwd=directory, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_an_environment_from_a_file_is_trained_in_tried_out_and_filmed(blind, tmp_path):
    from PIL import Image

    status, said = command("rl", "train", "blind:BlindPendulum-v0", "--frames", "2048", directory=blind)
    run = blind / "runs" / "rl" / "blind-BlindPendulum-v0-gatel0rd-seed0"
    assert status == 0 and f"rl eval {run.relative_to(blind)} --env blind:BlindPendulum-v0" in said, said
    record = json.loads((run / "record.json").read_text())
    (final,) = record["final"].values()
    assert list(record["final"]) == ["blind:BlindPendulum-v0"] and final["criterion"] == "is_success"
    assert 0 <= final["success"] <= 1 and final["episodes"] == 100 and final["length"] == 200
    words = ["rl", "eval", str(run), "--episodes", "2", "--render", "blind.gif", "--json", "outcome.json"]
    status, said = command(*words, directory=tmp_path, path=blind)
    assert status != 0 and "which imports a module; if you trust it, name it" in said, said
    words += ["--env", "blind:BlindPendulum-v0"]
    status, said = command(*words, directory=tmp_path, path=blind)  # from elsewhere, by PYTHONPATH
    assert status == 0 and "of 2 episodes succeeded (is_success of the environment)" in said, said
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["success"] in (0.0, 0.5, 1.0) and len(outcome["confidence"]) == 2
    with Image.open(tmp_path / "blind.gif") as film:
        assert film.n_frames == 201
    status, said = command(*words, directory=tmp_path)
    assert status == 2 and "there is no module 'blind'" in said and "PYTHONPATH" in said


@pytest.mark.slow
def test_an_environment_from_a_file_is_learned_and_filmed(blind):
    from PIL import Image

    words = ["control", "blind:BlindPendulum-v0", "--steps", "400", "--random-steps", "200", "--updates", "4"]
    words += ["--tests", "1", "--film", "film.gif", "--json", "outcome.json"]
    status, said = command(*words, directory=blind)
    assert status == 0 and "of them a success" in said, said
    outcome = json.loads((blind / "outcome.json").read_text())
    run = blind / "runs" / "control" / "blind-BlindPendulum-v0-gatel0rd-seed0"
    assert outcome == read_json(run / "control.json") and (run / "control.html").exists()
    assert (outcome["observation_size"], outcome["limit"], outcome["environment_steps"]) == (2, 200, 400)
    last = outcome["episodes"][-1]
    assert outcome["test_success"] == last["success"] == (last["last_observation"][0] > np.cos(np.radians(10)))
    with Image.open(blind / "film.gif") as film:
        assert 100 < film.n_frames <= 201  # frames that do not change are one


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("blind:Nothing-v0", "the module blind registers no environment 'Nothing-v0'"),
        ("nowhere_at_all:Nothing-v0", "there is no module 'nowhere_at_all'"),
        ("envs/blind.py:BlindPendulum-v0", r"expected MODULE:ID, with the module as `import` takes it"),
        (":BlindPendulum-v0", "expected MODULE:ID"),
    ],
)
def test_modules_that_register_nothing_are_errors(blind, monkeypatch, id, message):
    monkeypatch.syspath_prepend(blind)
    with pytest.raises(ValueError, match=message):
        make_vector_env(id, 1)
    sys.modules.pop("blind", None)
    gymnasium.registry.pop("BlindPendulum-v0", None)


def test_errors_inside_a_module_are_its_own(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import nothing_like_this\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nothing_like_this"):
        make_vector_env("needs_more:X-v0", 1)


def test_an_agent_trained_from_python_is_tried_out_by_the_command_line(tmp_path, capsys):
    with make_vector_env("CartPole-v1", 1) as envs:
        config = replace(fitting_agent(envs), width=9)
    AgentTrainer("CartPole-v1", config, SMALL, frames=96, seed=0, directory=str(tmp_path)).run()
    agent, metadata = load_agent(tmp_path)
    assert agent.config == config and (metadata["environment"], metadata["frames"]) == ("CartPole-v1", 96)
    main(["rl", "eval", str(tmp_path), "--episodes", "4", "--json", str(tmp_path / "outcome.json")])
    assert "CartPole-v1, gatel0rd: 0% of 4 episodes had a return of at least 475" in capsys.readouterr().out
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["criterion"], outcome["threshold"], outcome["success"]) == ("return", 475.0, 0.0)
    least = float(np.median(outcome["returns"]))
    again = evaluate_agent(tmp_path, environment=None, episodes=4, seed=0, success_return=least)
    assert again["success"] == np.mean(np.array(outcome["returns"]) >= least) >= 0.5


def test_without_a_notion_of_success_the_mean_return_is_stated(tmp_path, capsys):
    with make_vector_env("Pendulum-v1", 1) as envs:
        config = replace(fitting_agent(envs), width=9)
    trainer = AgentTrainer(
        "Pendulum-v1", config, SMALL, frames=48, seed=0, directory=tmp_path, evaluations=["Pendulum-v1"], trials=2
    )
    trainer.run()
    evaluation = trainer.history[-1]["evaluation"]["Pendulum-v1"]
    assert evaluation["success"] is None and evaluation["criterion"] == "none" and evaluation["return"] < 0
    main(["rl", "eval", str(tmp_path), "--episodes", "1"])
    said = " ".join(capsys.readouterr().out.split())
    assert "1 episode; the environment does not say what success is" in said and "mean return -" in said


def test_an_agent_of_a_vector_environment_without_an_id_asks_for_one(tmp_path):
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    envs.spec = None
    with make_vector_env(envs, 3) as wrapped:
        config = fitting_agent(wrapped)
    AgentTrainer(envs, config, SMALL, frames=48, seed=0, directory=tmp_path).run()
    with pytest.raises(FileError, match="say with --env where the agent should be tried out"):
        evaluate_agent(tmp_path, environment=None, episodes=1, seed=0)
    assert evaluate_agent(tmp_path, environment="CartPole-v1", episodes=1, seed=0)["memory"] == "gatel0rd"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": None}, "cell is None; expected gatel0rd, lstm, gru, elman, or none for no memory"),
        ({"cell": "transformer"}, "cell is 'transformer'; expected gatel0rd"),
        ({"frames": 0.5}, r"frames is 0\.5; expected a whole number of at least 1"),
        ({"hidden_size": 0}, "hidden_size is 0; expected a whole number of at least 1"),
        ({"seed": -1}, "seed is -1; expected a whole number of at least 0"),
        ({"preset": "fast"}, "preset is 'fast'; expected text, reference, tuned"),
        ({"environment": None}, "the environment is None; expected an id"),
    ],
)
def test_odd_arguments_get_clear_errors(options, message):
    with pytest.raises(ValueError, match=message):
        plan_own_agent(**{"environment": "CartPole-v1", "cell": "gru", "frames": 48, "seed": 0, **options})
