from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gatel0rd.worlds import all_worlds
from gatel0rd.worlds.robot_remote_control.dynamics import transition
from gatel0rd.worlds.robot_remote_control.env import RobotRemoteControl

WORLDS = {world.environment.id: world for world in reversed(all_worlds()) if world.environment is not None}
"""By the environment's id; of those that share one, the first."""
IDS = sorted(WORLDS)
LENGTHS = (16, 64, 256, 1024)
FETCH = "gatel0rd/FetchPickAndPlace-v0"


def test_the_contract_covers_every_registered_environment():
    registered = [name for name in gymnasium.registry if name.startswith("gatel0rd/")]
    memory = [f"gatel0rd/{kind}{length}-v0" for kind in ("MemoryChain", "TMaze") for length in LENGTHS]
    assert sorted(registered) == sorted([*IDS, "gatel0rd/Recall-v0", *memory]) and len(IDS) == 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*IDS, "gatel0rd/MemoryChain16-v0", "gatel0rd/TMaze16-v0"])
def test_gymnasiums_checker_is_content(name):
    options = {"render_mode": "rgb_array"} if name in IDS else {}  # the others draw nothing
    check_env(gymnasium.make(name, **options).unwrapped)


def episode(env, seed):
    """Observations of one episode with random actions, up to its end."""
    observations = [env.reset(seed=seed)[0]]
    env.action_space.seed(4)
    ended = False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert isinstance(reward, float) and isinstance(info, dict)
        observations.append(observation)
        ended = terminated or truncated
    return np.array(observations)


@pytest.mark.parametrize("name", IDS)
def test_the_same_seed_and_actions_give_the_same_episode_and_another_seed_does_not(name):
    env = gymnasium.make(name)
    first = episode(env, 3)
    assert np.array_equal(first, episode(env, 3)) and np.array_equal(first, episode(gymnasium.make(name), 3))
    assert not np.array_equal(first[0], episode(env, 5)[0])
    assert first.min() >= -1 and first.max() <= (2 if name == FETCH else 1)
    assert len(first) <= env.spec.max_episode_steps + 1


@pytest.mark.parametrize("name", IDS)
def test_observations_have_names_and_are_new_arrays(name):
    env = gymnasium.make(name)
    before, _ = env.reset(seed=0)
    kept = before.copy()
    after = env.step(env.action_space.sample())[0]
    assert after is not before and np.array_equal(before, kept)
    assert len(WORLDS[name].observation_names) == len(before)
    assert len(WORLDS[name].action_names) == env.action_space.shape[0]


@pytest.mark.parametrize("name", IDS)
def test_pictures_show_the_scene_and_change_with_it(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for _ in range(3):
        env.step(env.action_space.sample())
    after = env.render()
    assert before.dtype == np.uint8 and before.shape[0] == 320 and 430 < before.shape[1] <= 640
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 50
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("name", IDS)
def test_a_history_of_observations_gives_the_picture_of_the_environment(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    history = [env.reset(seed=1)[0]]
    env.action_space.seed(1)
    for _ in range(12):
        history.append(env.step(env.action_space.sample())[0])
    drawn = WORLDS[name].draw(np.array(history), 320).astype(int)
    difference = np.abs(drawn - env.render()).max(axis=-1)
    # rounding of coordinates may move an edge; the arm's elbow is not observed, nor are paths and the goal the same
    assert (difference > 40).mean() < (0.03 if name == FETCH else 0.002)


@pytest.mark.parametrize("name", IDS)
def test_human_rendering_opens_and_closes_a_window(name):
    env = gymnasium.make(name, render_mode="human")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert env.unwrapped._window is not None
    env.close()
    assert env.unwrapped._window is None
    with pytest.raises(ValueError, match="render_mode is 'ansi'; expected human or rgb_array"):
        type(env.unwrapped)(render_mode="ansi")


@pytest.mark.parametrize("name", IDS)
def test_unknown_options_are_errors(name):
    with pytest.raises(ValueError, match="there is no option colour; there are"):
        gymnasium.make(name).reset(options={"colour": "red"})


@pytest.mark.parametrize("name", IDS)
def test_bad_actions_are_errors(name):
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    size = env.action_space.shape[0]
    bad = [np.zeros(size + 1)] + [np.full(size, value) for value in (np.nan, np.inf) if size]
    for action in bad:
        with pytest.raises(ValueError, match=r"expected (no|two|three|four) finite numbers in \[-1, 1\]"):
            env.step(action)


def test_robot_remote_control_by_hand():
    """Walk onto the computer; the robot follows from the next step on, stops at walls, and reaches the goal."""
    env = RobotRemoteControl()
    observation, info = env.reset(options={"agent": [0.35, 0.5], "robot": [0.5, -0.25]})
    assert observation.tolist() == [0.35, 0.5, 0.5, -0.25]
    assert info == {"controlled": False}
    observation, reward, terminated, truncated, info = env.step(np.array([0.6, 0.0]))
    np.testing.assert_allclose(observation, [0.41, 0.5, 0.5, -0.25])  # 0.09 from the computer, robot still
    assert info["controlled"] and reward == 0 and not terminated and not truncated
    observation, _, terminated, _, _ = env.step(np.array([0.0, -1.0]))
    np.testing.assert_allclose(observation, [0.41, 0.4, 0.5, -0.35])
    assert not terminated  # 0.15 from the goal
    observation, reward, terminated, _, info = env.step(np.array([-1.0, -0.9]))
    np.testing.assert_allclose(observation, [0.31, 0.31, 0.4, -0.44])
    assert info["controlled"] and not terminated
    observation, reward, terminated, _, _ = env.step(np.array([0.5, -0.5]))
    np.testing.assert_allclose(observation, [0.36, 0.26, 0.45, -0.49])
    assert reward == 1.0 and terminated


def test_control_needs_less_than_the_radius_after_the_move():
    still, off = np.zeros(2), np.array(False)
    assert not transition(np.array([0.4, 0.5]), still, off, np.array([-0.001, 0.0]))[2]
    assert transition(np.array([0.45, 0.5]), still, off, still)[2]
    assert not transition(np.array([0.45, 0.5]), still, off, np.array([-1.0, 0.0]))[2]
    assert transition(np.array([0.38, 0.5]), still, off, still, control_radius=0.15)[2]


def test_walls_stop_agent_and_robot():
    on = np.array(True)
    agent, robot, _ = transition(np.array([0.9, -0.94]), np.array([-0.93, 0.9]), on, np.array([-1.0, -1.0]))
    np.testing.assert_allclose(agent, [0.8, -0.95])
    np.testing.assert_allclose(robot, [-0.95, 0.8])


def test_starts_outside_the_rooms_are_errors():
    with pytest.raises(ValueError, match=r"agent is .*; expected a position in"):
        RobotRemoteControl().reset(options={"agent": [1.2, 0.0]})
