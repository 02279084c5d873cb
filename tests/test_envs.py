from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import gatel0rd.envs  # noqa: F401
from gatel0rd.envs.robot_remote_control import RobotRemoteControl, transition

IDS = ["gatel0rd/RobotRemoteControl-v0"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_is_content(name):
    check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_same_seed_and_actions_give_the_same_episode(name):
    def episode():
        env = gymnasium.make(name)
        observations = [env.reset(seed=3)[0]]
        env.action_space.seed(4)
        for _ in range(50):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            observations.append(observation)
        assert truncated or terminated
        return np.array(observations)

    first = episode()
    assert np.array_equal(first, episode())
    assert first.min() >= -1 and first.max() <= 1


@pytest.mark.parametrize("name", IDS)
def test_pictures_show_the_scene_and_change_with_it(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(np.array([1.0, -1.0]))
    after = env.render()
    assert before.dtype == np.uint8 and before.shape == (320, 640, 3)
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 50
    assert not np.array_equal(before, after)


def test_human_rendering_opens_and_closes_a_window():
    env = gymnasium.make(IDS[0], render_mode="human")
    env.reset(seed=0)
    env.step(np.zeros(2))
    assert env.unwrapped._window is not None
    env.close()
    assert env.unwrapped._window is None
    with pytest.raises(ValueError, match="render_mode is 'ansi'; expected human or rgb_array"):
        RobotRemoteControl(render_mode="ansi")


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


def test_bad_actions_are_errors():
    env = RobotRemoteControl()
    env.reset(seed=0)
    for action in ([np.nan, 0.0], [0.0, np.inf], [0.0]):
        with pytest.raises(ValueError, match="expected two finite numbers"):
            env.step(np.array(action))
