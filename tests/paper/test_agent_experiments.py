"""Experiments with agents: planned, smoke-run, reported; and agents from the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gatel0rd.cli.main import main
from gatel0rd.config import from_json, to_json
from gatel0rd.files import FileError
from gatel0rd.models.io import load_agent
from gatel0rd.paper.agent_run import AgentRun, learning_curves
from gatel0rd.paper.agent_trials import evaluate_agent, plan_own_agent
from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.executors.config import ExecutorConfig
from gatel0rd.paper.executors.coordinator import run_all
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.report.make import make_report
from gatel0rd.worlds.minigrid.experiments import EXPERIMENTS

pytest.importorskip("minigrid")

TRAIN = ["rl", "train", "MiniGrid-Empty-5x5-v0", "--frames", "2048", "--backend", "gymnasium"]


class Silent:
    """A display that keeps what it is told."""

    def __init__(self):
        self.updates, self.ends = [], {}

    def started(self, index, run):
        pass

    def progressed(self, index, metrics):
        self.updates.append(metrics)

    def ended(self, index, error):
        self.ends[index] = error


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment_id", "preset"),
    [
        *((experiment.id, "text") for experiment in EXPERIMENTS),
        ("minigrid/lava-crossing", "reference"),
        ("minigrid/lava-crossing", "tuned"),
    ],
)
def test_every_experiment_runs_and_reports(experiment_id, preset, out, monkeypatch):
    experiment = find(experiment_id)
    monkeypatch.setattr("gatel0rd.training.ppo.evaluation.ENVIRONMENTS_AT_ONCE", 2)
    runs = plan(experiment, profile="smoke", seeds=[0], preset=preset)
    work, display = Work(out=out), Silent()
    missing = [run for run in runs if work.remaining_seconds(run) > 0]
    assert run_all(missing, work, executor=ExecutorConfig(workers=1), display=display) == []
    assert all(error is None for error in display.ends.values())
    assert not any(work.remaining_seconds(run) for run in runs)
    for run in runs:
        directory = out / run.directory_name
        record = json.loads((directory / "record.json").read_text())
        assert from_json(AgentRun, record["run"]) == run
        assert record["curves"]["frames"] == [2048] and record["share_of_paper"] is None
        assert set(record["final"]) == {run.environment, *run.transfers}
        assert all(trial["episodes"] == 2 for trial in record["final"].values())
        agent, _ = load_agent(directory / "agent.safetensors")
        assert agent.config == run.agent
    text = make_report([out], out / "report", [experiment.id]).read_text()
    assert experiment.title in text and "million frames per run" in text
    assert text.count("<figure>") + text.count("<table>") >= len(experiment.views)


def test_presets_differ_in_what_the_authors_did_otherwise():
    experiment = find("minigrid/doorkey")
    (text, *_), (reference, *_) = (
        plan(experiment, profile="quick", seeds=[0], preset=p) for p in ("text", "reference")
    )
    assert (text.agent.normalized_rows, text.ppo.gate_noise, text.ppo.bootstrap_timeouts) == ("heads", "kept", True)
    assert (reference.agent.normalized_rows, reference.ppo.gate_noise) == ("all", "fresh")
    assert not reference.ppo.bootstrap_timeouts and (text.ppo.epsilon, reference.ppo.epsilon) == (1e-4, 1e-8)
    assert text.group != reference.group


def test_zero_shot_experiments_share_the_runs_of_the_small_environments():
    for small, larger in (("doorkey", "zero-shot-doorkey"), ("memory", "zero-shot-memory")):
        groups = [
            {run.group for run in plan(find(f"minigrid/{n}"), profile="paper", seeds=[0])} for n in (small, larger)
        ]
        assert groups[0] == groups[1]


def test_frames_and_epochs_are_not_mixed_up():
    runs = plan(find("minigrid/doorkey"), profile="quick", seeds=[3], frames=5000, cells=["lstm"])
    assert [(run.frames, run.length, run.scale.words) for run in runs] == [(5000, 6144, "quick, 5000 frames")]
    with pytest.raises(ValueError, match="minigrid/doorkey is not counted in epochs; give the number of frames"):
        plan(find("minigrid/doorkey"), profile="quick", seeds=[0], epochs=5)
    with pytest.raises(ValueError, match="rrc/gating is not counted in frames; give the number of epochs"):
        plan(find("rrc/gating"), profile="quick", seeds=[0], frames=5)
    with pytest.raises(ValueError, match="frames is 0; expected at least 1"):
        plan(find("minigrid/doorkey"), profile="quick", seeds=[0], frames=0)


def test_learning_curves_are_means_over_episodes():
    history = [
        {"frames": 10, "episodes": 1, "rewarded": 1.0, "return": 0.5, "length": 4.0},
        {"frames": 20, "episodes": 3, "rewarded": 0.0, "return": 0.1, "length": 8.0},
        {
            "frames": 30,
            "episodes": 0,
            "rewarded": None,
            "return": None,
            "length": None,
            "evaluation": {"X": {"success": 0.5}},
        },
    ]
    for entry in history:
        entry |= {"entropy": 1.0, "open_rate": 0.0, "value": 0.0, "clipped": 0.0}
    whole = learning_curves(history)
    assert whole["frames"] == [10, 20, 30] and whole["success"] == [1.0, 0.0, None]
    assert whole["X.success"] == [None, None, 0.5]
    longer = learning_curves(history[:2] * 100)
    assert len(longer["frames"]) == 100 and longer["success"][0] == pytest.approx(0.25)
    assert longer["return"][0] == pytest.approx(0.2) and longer["episodes"][0] == 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("agents") / "run"
    main(
        ["rl", "train", "MiniGrid-Empty-5x5-v0", "--frames", "2048", "--backend", "gymnasium", "--out", str(directory)]
    )
    return directory


@pytest.mark.slow
def test_an_agent_from_the_command_line(trained, tmp_path, capsys):
    main(["rl", "eval", str(trained), "--episodes", "3", "--json", str(tmp_path / "o.json"), "--backend", "gymnasium"])
    outcome = json.loads((tmp_path / "o.json").read_text())
    assert outcome["environment"] == "MiniGrid-Empty-5x5-v0" and outcome["episodes"] == 3 == len(outcome["returns"])
    assert outcome["confidence"][0] <= outcome["success"] <= outcome["confidence"][1]
    assert "of 3 episodes ended with a reward" in capsys.readouterr().out
    again = evaluate_agent(trained, environment=None, episodes=3, seed=0, backend="gymnasium")
    assert again["returns"] == outcome["returns"]
    elsewhere = evaluate_agent(
        trained, environment="MiniGrid-Empty-8x8-v0", episodes=2, seed=0, greedy=True, backend="gymnasium"
    )
    assert elsewhere["environment"] == "MiniGrid-Empty-8x8-v0"


@pytest.mark.slow
def test_a_film_shows_world_view_memory_and_gates(trained, tmp_path):
    from PIL import Image

    path = tmp_path / "agent.gif"
    main(["rl", "eval", str(trained), "--episodes", "1", "--render", str(path), "--backend", "gymnasium"])
    with Image.open(path) as film:
        assert film.n_frames > 1 and film.width == 450 and film.height == 26 + 220 + 26 + 128


def test_training_again_keeps_what_is_finished_and_refuses_what_differs(trained, tmp_path):
    words = [
        "rl",
        "train",
        "MiniGrid-Empty-5x5-v0",
        "--frames",
        "2048",
        "--backend",
        "gymnasium",
        "--out",
        str(trained),
    ]
    before = (trained / "record.json").stat().st_mtime_ns
    main(words)
    assert (trained / "record.json").stat().st_mtime_ns == before
    with pytest.raises(SystemExit):
        main([*words, "--seed", "1"])
    run = plan_own_agent("MiniGrid-Empty-5x5-v0", "none", frames=2048, seed=0, backend="gymnasium")
    assert run.network == "none" and run.ppo.sparsity_weight == 0
    (tmp_path / "half").mkdir()
    written = json.dumps(to_json(replace(run, seed=3)))
    (tmp_path / "half" / "config.json").write_text(written)
    with pytest.raises(FileError, match="unfinished run; continue it with --resume"):
        run.execute(tmp_path, directory=tmp_path / "half")
    with pytest.raises(FileError, match="unfinished run with another seed; give the same"):
        run.execute(tmp_path, directory=tmp_path / "half", resume=True)
    assert (tmp_path / "half" / "config.json").read_text() == written


@pytest.mark.slow
def test_continuous_agents_are_filmed_and_what_is_not_drawn_is_refused_at_once(tmp_path):
    run = plan_own_agent("Pendulum-v1", "gru", frames=2048, seed=0)
    directory = run.execute(tmp_path, directory=tmp_path / "pendulum")
    film = tmp_path / "pendulum.webp"
    outcome = evaluate_agent(directory, environment=None, episodes=1, seed=0, film=film)
    assert film.exists() and outcome["length"] == 200
    recall = plan_own_agent("gatel0rd/Recall-v0", "gru", frames=2048, seed=0).execute(tmp_path)
    with pytest.raises(ValueError, match="does not draw itself; leave out the film"):
        evaluate_agent(recall, environment=None, episodes=10**9, seed=0, film=film)


def test_curves_of_seeds_that_share_no_point_are_drawn(tmp_path):
    from gatel0rd.paper.records import Line, Record
    from gatel0rd.paper.report.figures import close, curves
    from gatel0rd.worlds.metrics import Curve

    records = [
        Record(
            tmp_path,
            {"kind": "agent", "run": {"frames": 9, "seed": k}, "curves": {"frames": [1, 2], "success": values}},
        )
        for k, values in enumerate(([0.5, None], [None, 0.7]))
    ]
    line = Line("a", "A", "gru", records)
    assert line.curve(Curve("success"))[0] == [1, 2] and line.curve(Curve("nothing")) is None
    close(curves([line], Curve("success"), title="", ylabel="", log=False))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rl", "eval", "nowhere"], "there is no nowhere/agent.safetensors"),
        (["rl", "train", "MiniGrid-Nowhere-v0"], "Gymnasium knows no environment"),
        (["rl", "train", "CartPole-v1", "--frames", "0"], "frames is 0"),
    ],
)
def test_bad_words_get_an_answer(words, message, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert message in capsys.readouterr().err


def test_an_agent_for_images_is_refused_elsewhere(trained):
    with pytest.raises(ValueError, match="CartPole-v1 has observation_shape"):
        evaluate_agent(trained, environment="CartPole-v1", episodes=1, seed=0)
    with pytest.raises(ValueError, match="episodes is 0"):
        evaluate_agent(trained, environment=None, episodes=0, seed=0)


def test_trials_count_every_environments_share(trained):
    from gatel0rd.training.ppo import play_episodes
    from gatel0rd.training.vector_env import make_vector_env

    agent, _ = load_agent(trained / "agent.safetensors")
    ended = []
    with make_vector_env("MiniGrid-Empty-5x5-v0", 3, backend="gymnasium") as envs:
        played = play_episodes(agent, envs, episodes=7, seed=1, on_step=ended.append)
    assert len(played.returns) == len(played.lengths) == 7 == ended[-1]
    assert np.array_equal(np.array(played.returns) > 0, played.rewarded)
    assert torch.is_grad_enabled() and replace(agent.config) == agent.config
