"""The pool table: physics checked by hand, and the data made with it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.billiard_ball.data import GROUPS, group_of
from gatel0rd.worlds.billiard_ball.dynamics import (
    DAMPING,
    HALF_SIZE,
    POCKETS,
    RADIUS,
    RESTITUTION,
    SECONDS,
    SPEEDS,
    BilliardTable,
    random_shots,
)
from gatel0rd.worlds.billiard_ball.env import BilliardBall
from gatel0rd.worlds.data import generate

RECIPE = DataRecipe(scenario="billiard", policy="shots", split="train", sequences=64, steps=51)


def shoot(position, velocity, steps):
    """One ball's positions [T+1, 2] in metres, velocities, contacts and pocketed flags."""
    table = BilliardTable(1)
    motions = [table.shoot(np.array([position]), np.array([velocity])), *(table.step() for _ in range(steps))]
    return tuple(np.array([column[0] for column in columns]) for columns in zip(*motions, strict=True))


def test_a_ball_rolls_straight_and_slows_down_by_the_damping():
    positions, velocities, contacts, pocketed = shoot([-0.5, 0.0], [0.9, 0.3], 20)
    expected = np.array([0.9, 0.3]) * DAMPING ** np.arange(21)[:, None]
    np.testing.assert_allclose(velocities, expected, rtol=1e-4)
    np.testing.assert_allclose(np.diff(positions, axis=0), expected[:-1] * SECONDS, atol=1e-5)
    assert not contacts.any() and not pocketed.any()


def test_a_cushion_turns_the_normal_component_around_and_takes_a_tenth_of_it():
    positions, velocities, contacts, _ = shoot([0.52, 0.1], [1.2, 0.2], 20)
    # 0.45 m to go at 0.04 m per step, a little damped: 11.3 steps
    assert np.flatnonzero(contacts).tolist() == [12]
    np.testing.assert_allclose(velocities[12, 0], -RESTITUTION * DAMPING * velocities[11, 0], rtol=1e-3)
    np.testing.assert_allclose(velocities[12, 1], DAMPING * velocities[11, 1], rtol=1e-3)
    assert positions[:, 0].max() <= HALF_SIZE[0] - RADIUS + 0.01


def test_a_ball_that_is_shot_at_a_pocket_drops_and_stays_there():
    target = POCKETS[POCKETS.prod(axis=1).argmax()]
    positions, velocities, _, pocketed = shoot([0.0, 0.0], 1.0 * target / np.linalg.norm(target), 60)
    fell = int(pocketed.argmax())
    assert pocketed[fell:].all() and not pocketed[:fell].any() and 20 < fell < 50
    assert np.linalg.norm(positions[-1] - target) < 0.05
    assert (positions[fell:] == positions[fell]).all() and (velocities[fell:] == 0).all()


def test_the_middle_pockets_and_the_table_between_them_are_where_they_are_drawn():
    assert shoot([0.0, 0.0], [0.0, 0.8], 60)[3][-1]
    assert not shoot([0.3, 0.0], [0.0, 0.8], 60)[3][-1]


def test_a_ball_does_not_notice_the_balls_beside_it():
    position, velocity = random_shots(16, np.random.default_rng(0))
    table = BilliardTable(16)
    together = [table.shoot(position, velocity), *(table.step() for _ in range(100))]
    for ball in (0, 7):
        alone = shoot(position[ball], velocity[ball], 100)[0]
        assert np.array_equal(alone, np.array([motion.position[ball] for motion in together]))


def test_a_table_forgets_its_last_shots():
    position, velocity = random_shots(2, np.random.default_rng(5))
    table = BilliardTable(1)
    runs = []
    for ball in (0, 1, 0):
        table.shoot(position[[ball]], velocity[[ball]])
        runs.append([table.step().position for _ in range(80)])
    assert np.array_equal(runs[0], runs[2]) and not np.array_equal(runs[0], runs[1])


def test_shots_start_away_from_holes_at_all_speeds():
    position, velocity = random_shots(4000, np.random.default_rng(0))
    speed = np.linalg.norm(velocity, axis=1)
    np.testing.assert_allclose([speed.min(), speed.max()], SPEEDS, atol=0.01)
    distance = np.linalg.norm(position[:, None] - POCKETS, axis=-1).min()
    assert distance > 0.08
    np.testing.assert_allclose(velocity.mean(axis=0), 0, atol=0.05)


def test_the_environment_is_the_table_in_scaled_coordinates():
    env = BilliardBall()
    observation, info = env.reset(options={"position": [-0.5, 0.0], "velocity": [0.9, 0.3]})
    positions, velocities, contacts, _ = shoot([-0.5, 0.0], [0.9, 0.3], 60)
    assert observation.tolist() == [-0.5, 0.0] and info["velocity"].tolist() == [0.9, 0.3]
    for t in range(1, 61):
        observation, reward, terminated, truncated, info = env.step(None)
        assert np.array_equal(observation, positions[t] / HALF_SIZE)
        assert np.array_equal(info["velocity"], velocities[t]) and info["cushion"] == contacts[t]
        assert (reward, terminated, truncated) == (0.0, False, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position": [0.99, 0.0]}, r"position is \[0.99, 0.0\]; expected x within ±0.97 and y within ±0.94"),
        ({"position": [0.0]}, "position is"),
        ({"velocity": [9.0, 0.0]}, r"velocity is \[9.0, 0.0\]; expected two numbers, at most 4.0 m/s"),
        ({"velocity": [np.nan, 0.0]}, "velocity is"),
    ],
)
def test_impossible_shots_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        BilliardBall().reset(options=options)


def test_without_the_physics_engine_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "panda3d", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gatel0rd\[billiard\]'"):
        BilliardTable(1)


@pytest.fixture(scope="module")
def data():
    seen = []
    made = generate(RECIPE, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (64, 64) and [done for done, _ in seen] == sorted(done for done, _ in seen)
    return made


def test_sixteen_groups_of_which_four_end_in_a_pocket(data):
    pocketed, window = data.labels["pocketed"], data.labels["window"]
    assert data.observations.shape == (64, 51, 2) and data.actions.shape == (64, 51, 0)
    assert np.bincount(data.strata).tolist() == [4] * GROUPS
    assert (pocketed[:, -1] == (data.strata >= 12)).all()
    assert pocketed[data.strata == 15].all() and not pocketed[data.strata < 15, 0].any()
    for group in range(12):
        members = data.strata == group
        assert (window[members] == group // 4).all()
        low = SPEEDS[0] + group % 4 * 0.4
        assert ((data.labels["speed"][members] >= low) & (data.labels["speed"][members] <= low + 0.4)).all()
    assert [set(window[data.strata == 12 + w].tolist()) for w in range(3)] == [{0}, {1}, {2}]


def test_balls_rest_in_pockets_and_contacts_are_turns_near_cushions(data):
    observations, pocketed, contacts = data.observations, data.labels["pocketed"], data.labels["cushion"]
    moved = np.diff(observations, axis=1) != 0
    assert not moved[pocketed[:, :-1]].any()
    assert not contacts[pocketed].any() and contacts.any() and not contacts[:, 0].any()
    assert (np.abs(observations) > 0.85).any(axis=-1)[contacts].all()


def test_contacts_are_where_paths_turn_around_away_from_pockets(data):
    """Positions alone tell where a ball turned; on tables without a hole nearby these are all contacts."""
    position = data.observations * HALF_SIZE
    far = np.linalg.norm(position[:, :, None] - POCKETS, axis=-1).min(axis=(1, 2)) > 0.12
    assert far.sum() > 15
    steps = np.diff(position[far], axis=1)
    turns = (steps[:, 1:] * steps[:, :-1] < 0).any(axis=-1)  # at observations 1 to T-2
    contacts = data.labels["cushion"][far]
    near_contact = contacts[:, 1:-1] | contacts[:, 2:]  # a ball that touches in mid-step turns one observation earlier
    assert near_contact[turns].all()
    assert turns.sum() > 10 and abs(int(turns.sum()) - int(contacts.sum())) <= 2


def test_the_first_windows_equal_the_environment_stepped():
    generator = np.random.default_rng([0, *b"billiard train"])
    position, velocity = random_shots(64, generator)
    data = generate(replace(RECIPE, sequences=16))
    env = BilliardBall()
    found = 0
    for start, speed in zip(position, velocity, strict=True):
        env.reset(options={"position": start / HALF_SIZE, "velocity": speed})
        path = [start / HALF_SIZE] + [env.step(None)[0] for _ in range(50)]
        found += (np.abs(data.observations - np.array(path)).max(axis=(1, 2)) < 1e-6).sum()
    assert found >= 4  # one of each speed at least


def test_groups_by_hand():
    speed = np.array([0.4, 0.79, 1.99, 2.0], dtype=np.float32)
    never, all_the_time = np.zeros((4, 5), dtype=bool), np.ones((4, 5), dtype=bool)
    at_the_end = never.copy()
    at_the_end[:, -1] = True
    assert group_of(1, never, speed).tolist() == [4, 4, 7, 7]
    assert group_of(2, at_the_end, speed).tolist() == [14] * 4
    assert group_of(2, all_the_time, speed).tolist() == [15] * 4


def test_the_same_recipe_gives_the_same_bytes_and_another_split_does_not(data):
    assert np.array_equal(generate(RECIPE).observations, data.observations)
    for change in ({"split": "test"}, {"seed": 1}):
        assert not np.array_equal(generate(replace(RECIPE, **change)).observations, data.observations)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "random"}, "policy is 'random'; Billiard Ball has shots"),
        ({"sequences": 24}, "24 sequences cannot be balanced; ask for a multiple of 16"),
        ({"sequences": 16, "steps": 3}, "none of 6400 shots over 3 steps fits group 12; ask for more steps"),
    ],
)
def test_impossible_recipes_are_errors(change, message):
    with pytest.raises(ValueError, match=message):
        generate(replace(RECIPE, **change))
