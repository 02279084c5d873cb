"""The comparison of learned planning with other methods: its cells, its table and its figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import control
from benchmarks.control import TASKS, Outcome, add_outcome, make_task, plan_config, read_outcomes, run_ppo
from benchmarks.control_report import compare_methods, plot_returns, smooth, steps_to
from gatel0rd.planning import LearnConfig


def outcome(**words):
    curve = [(10 * number, float(number)) for number in range(1, 13)]
    plain = {"task": "cartpole", "method": "gru", "seed": 0, "steps": 120, "seconds": 60.0, "curve": curve}
    return Outcome(**plain | {"test_returns": [3.0, 5.0], "test_successes": [True, False]} | words)


def test_learned_is_when_five_episodes_in_a_row_are_good():
    steps, returns = smooth(outcome())
    assert (steps[0], returns[0], steps[-1], returns[-1]) == (50, 3.0, 120, 10.0)
    assert steps_to(outcome(), 4.5) == 70
    assert steps_to(outcome(), 10.5) is None
    assert steps_to(outcome(method="ppo"), 4.5) == 50  # of which each value is a mean already


def test_an_outcome_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "control.json"
    for one in (outcome(seed=1), outcome(), outcome(seconds=7.0)):
        add_outcome(one, path)
    found = read_outcomes(path)
    assert [(one.seed, one.seconds) for one in found] == [(0, 7.0), (1, 60.0)]
    assert steps_to(found[0], 4.5) == 70


def test_the_table_has_all_seeds_and_the_figure_is_drawn(tmp_path):
    outcomes = [outcome(), outcome(seed=1, test_returns=[9.0, 9.0]), outcome(task="pendulum", method="ppo")]
    table = compare_methods(outcomes)
    assert "| planning, GRU | – | 2 of 4 (2) |" in table and "| PPO, GateL0RD | 1 of 2 (1) | – |" in table
    assert "| planning, GRU | 2 | 2 of 4 | 6.5 (4 to 9) | never, never | 120 |" in table
    assert "| PPO, GateL0RD | 1 | 1 of 2 |" in table and "within 10°" in table
    plot_returns(outcomes, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_methods_differ_in_the_model_only():
    assert plan_config(TASKS["pendulum"], "gatel0rd", 3) == LearnConfig(seed=3)
    for task in TASKS.values():
        own, pets = plan_config(task, "gatel0rd", 3), plan_config(task, "pets", 3)
        assert (pets.dynamics.cell, pets.dynamics.models) == ("none", 3)
        assert replace(pets, dynamics=replace(pets.dynamics, cell="gatel0rd", models=1)) == own


@pytest.mark.parametrize("name", list(TASKS))
def test_ppo_runs_in_every_task(name, monkeypatch, tmp_path):
    monkeypatch.setattr(control, "PPO_FRAMES", 1)
    monkeypatch.setattr(control, "PPO_ENVIRONMENTS", 3)
    found = run_ppo(name, 0, tmp_path)
    assert len(found.test_returns) == len(found.test_successes) == 10
    assert not all(found.test_successes)
    env = make_task(TASKS[name])
    seen, _ = env.reset(seed=0)
    hidden = {"pendulum": 1, "cartpole": 2, "reacher": 2}.get(name, 0)
    assert len(seen) == len(env.unwrapped.observation_space.low) - hidden
    assert env.step(env.action_space.sample())[-1]["is_success"] is False


def test_success_is_what_the_tasks_say():
    upright, tilted = np.array([0.99, 0.14]), np.array([0.98, 0.19])
    pendulum, cartpole, swing_up = (TASKS[name].succeeds for name in ("pendulum", "cartpole", "swing-up"))
    assert pendulum(upright, 200, False) and not pendulum(tilted, 200, False)
    assert cartpole(upright, 500, False) and not cartpole(upright, 499, True)
    assert swing_up([0.5, 0.99, 0.14], 100, False) and not swing_up([0.0, 0.98, 0.19], 100, False)
    assert TASKS["rrc"].succeeds(upright, 20, True) and not TASKS["rrc"].succeeds(upright, 50, False)


def test_steps_cost_what_the_papers_tasks_say():
    env = make_task(TASKS["rrc"])
    env.reset(seed=0, options={"agent": [0.5, 0.5], "robot": [-0.5, -0.5]})
    _, reward, terminated, _, info = env.step(np.zeros(2))
    assert reward == pytest.approx(-1.0) and not terminated and not info["is_success"]  # the robot is 1 away
    for _ in range(10):  # the agent has been at the computer
        _, reward, terminated, _, info = env.step(np.array([1.0, 0.0]))
        if terminated:
            break
    assert info["is_success"] and reward == pytest.approx(-0.1)


def test_the_pole_hangs_until_it_is_swung_up():
    env = make_task(TASKS["swing-up"])
    seen, _ = env.reset(seed=0)
    assert seen.shape == (3,) and seen[1] < -0.98
    rest = [env.step(np.zeros(1)) for _ in range(100)]
    assert rest[-1][3] and max(step[0][1] for step in rest) < -0.9  # nothing happens by itself
    assert sum(step[1] for step in rest) < 5 and not rest[-1][4]["is_success"]
    env.reset(seed=0)
    pushed = [env.step(np.ones(1)) for _ in range(40)]
    assert pushed[-1][0][0] == 1.0  # the cart stops at the end of its track
    assert all(np.hypot(*step[0][1:]) == pytest.approx(1) for step in pushed)
    again, _ = env.reset(seed=0)
    np.testing.assert_array_equal(again, seen)
