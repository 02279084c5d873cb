from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import gatel0rd.worlds  # noqa: F401  # registers ours
from gatel0rd.planning import ICEMConfig, TrueForesight, control
from gatel0rd.planning.environment import (
    GymnasiumTask,
    Snapshots,
    action_bounds,
    control_environment,
    reward_objective,
)

SMALL = ICEMConfig(horizon=15, samples=16, elites=4, iterations=2)


def test_an_environment_goes_back_to_an_earlier_state():
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    snapshots = Snapshots(env)
    state = snapshots.take()

    def future():
        return [env.unwrapped.step(np.array([torque], dtype=np.float32))[0] for torque in (2.0, -1.0, 0.5)]

    first = future()
    snapshots.put_back(state)
    np.testing.assert_array_equal(first, future())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["InvertedDoublePendulum-v5", "Hopper-v5", "Reacher-v5"])
def test_a_simulation_goes_back_exactly(name, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    env = gymnasium.make(name)
    env.reset(seed=0)
    for _ in range(8):
        env.unwrapped.step(np.full(env.action_space.shape, 0.3, dtype=np.float32))
    snapshots = Snapshots(env)
    state = snapshots.take()

    def future():
        torques = np.random.default_rng(1).uniform(-1, 1, (12, *env.action_space.shape)).astype(np.float32)
        return np.array([env.unwrapped.step(torque)[0] for torque in torques])

    first = future()
    for _ in range(2):
        snapshots.put_back(state)
        np.testing.assert_array_equal(first, future())


class Body:
    def __init__(self, env):
        self.env = env

    def push(self, force):
        self.env.place += force


class Entangled(gymnasium.Env):
    """Its parts point back to it, it keeps one of its methods, and some of its state comes only with the first step."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    observation_space = gymnasium.spaces.Box(-9, 9, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.body, self.reward = 0.0, Body(self), self.own_place
        return np.array([self.place]), {}

    def own_place(self):
        return self.place

    def step(self, action):
        self.body.push(float(action[0]))
        self.count = getattr(self, "count", 0) + 1
        return np.array([self.place]), self.reward() + 10 * self.count, False, False, {}


def test_environments_that_point_to_themselves_are_simulated_and_put_back():
    env = gymnasium.wrappers.TimeLimit(Entangled(), 9)
    env.reset(seed=0)
    sequences = np.array([[[[1.0], [1.0]], [[1.0], [1.0]], [[-1.0], [0.0]]]])
    assert reward_objective(env)(sequences).tolist() == [[-33.0, -33.0, -28.0]]
    assert not hasattr(env.unwrapped, "count") and env.unwrapped.body.env is env.unwrapped
    observation, reward, *_ = env.step(np.array([1.0]))
    assert observation == 1.0 and reward == 11.0


class Coin(gymnasium.Env):
    """Who calls the side of a fair coin wins 1, else loses 1."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        side = 1 if self.np_random.random() < 0.5 else -1
        return np.zeros(1), 1.0 if side * action[0] > 0 else -1.0, False, False, {}


def test_the_planner_does_not_know_the_random_numbers_to_come():
    gymnasium.register("Coin-v0", entry_point=Coin, max_episode_steps=60)
    env = gymnasium.make("Coin-v0")
    total, _ = control_environment(env, seed=0, config=ICEMConfig(horizon=1, samples=8, elites=2, iterations=1))
    assert abs(total) < 30  # with the coins known in advance it would be 60
    env.reset(seed=0)
    foreknown = reward_objective(env)(np.array([[[[1.0]], [[-1.0]]]]))
    assert sorted(foreknown[0].tolist()) == [-1.0, 1.0]


@pytest.mark.parametrize("name", ["RobotRemoteControl", "Shepherd"])
def test_our_environments_foretell_themselves(name):
    task = GymnasiumTask(gymnasium.make(f"gatel0rd/{name}-v0"), lambda o, a: np.zeros(o.shape[:-2]), horizon=3)
    task.reset([np.random.default_rng(0)])
    actions = np.random.default_rng(1).uniform(-1, 1, (5, task.action_size))
    futures = task.simulate(np.stack([0 * actions, actions])[None])
    for t in range(5):
        observation, _ = task.step(actions[[t]])
        np.testing.assert_array_equal(observation[0], futures[0, 1, t])


def test_costs_are_rewards_and_looking_ahead_changes_nothing():
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=1)
    before = env.unwrapped.state.copy()
    sequences = np.random.default_rng(0).uniform(-2, 2, (1, 3, 5, 1))
    costs = reward_objective(env)(sequences)
    np.testing.assert_array_equal(env.unwrapped.state, before)
    twin = gymnasium.make("Pendulum-v1")
    for index in range(3):
        twin.reset(seed=1)
        rewards = [twin.step(action.astype(np.float32))[1] for action in sequences[0, index]]
        assert costs[0, index] == pytest.approx(-sum(rewards))


def test_a_pendulum_is_swung_up():
    """Falling freely costs about 8 per step; a pendulum that is held up costs nothing."""
    env = gymnasium.make("Pendulum-v1", max_episode_steps=60)
    seen = []
    total, steps = control_environment(env, seed=2, config=SMALL, on_step=lambda step, so_far: seen.append(so_far))
    assert steps == 60 and seen[-1] == total
    last = np.diff(seen)[-10:]
    assert last.mean() > -0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("name", "least"), [("InvertedPendulum-v5", 30), ("Reacher-v5", -12)])
def test_mujoco_tasks_are_solved(name, least, monkeypatch):
    """Random actions drop the pendulum after a few steps, and reach -20 or less."""
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    env = gymnasium.make(name, max_episode_steps=30)
    total, _ = control_environment(env, seed=0, config=ICEMConfig(horizon=10, samples=24, elites=5, iterations=2))
    assert total >= least


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (gymnasium.spaces.Discrete(3), r"the action space is Discrete\(3\); iCEM plans vectors of real numbers"),
        (gymnasium.spaces.Box(-1, 1, (2, 2)), "a Box of shape"),
    ],
)
def test_other_actions_are_errors(space, message):
    with pytest.raises(ValueError, match=message):
        action_bounds(space)


def test_unbounded_actions_are_errors():
    class Endless(gymnasium.Env):
        action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
        observation_space = gymnasium.spaces.Box(-1, 1, (1,))

    with pytest.raises(ValueError, match="iCEM needs finite bounds: wrap the environment"):
        control_environment(Endless(), seed=0)
    advised = gymnasium.wrappers.TransformAction(Endless(), lambda action: action, gymnasium.spaces.Box(-3, 3, (1,)))
    low, high = action_bounds(advised.action_space)
    assert (low, high) == (-3, 3)
    with pytest.raises(ValueError, match="the environment has no time limit"):
        control_environment(advised, seed=0)


def upright(observations, actions):
    return (1 - observations[..., 0]).sum(axis=-1)


def test_an_environment_as_a_task_foretells_itself():
    task = GymnasiumTask(gymnasium.make("Pendulum-v1"), upright, horizon=5)
    low, high = task.bounds()
    assert (low, high) == (-2, 2) and task.limit == 200 and task.idle == (0.0,)
    task.reset([np.random.default_rng(0)])
    actions = np.random.default_rng(1).uniform(-2, 2, (4, 1))
    futures = TrueForesight(task).predict(np.stack([actions, 0 * actions])[None])
    assert futures.shape == (1, 2, 4, 3) and not np.array_equal(futures[0, 0], futures[0, 1])
    for t in range(4):
        observation, reached = task.step(actions[[t]])
        np.testing.assert_array_equal(observation[0], futures[0, 0, t])
        assert reached.tolist() == [False]


def test_a_task_says_when_its_goal_is_reached():
    task = GymnasiumTask(
        gymnasium.make("Pendulum-v1", max_episode_steps=50), upright, horizon=15, reached=lambda seen: seen[0] > 0.9
    )
    episodes = control(task, TrueForesight(task), episodes=1, generator=np.random.default_rng(4), config=SMALL)
    (reached,) = episodes.reached
    assert 0 < reached <= 50 and episodes.observations[reached, 0, 0] > 0.9
    assert (episodes.observations[:reached, 0, 0] <= 0.9).all()


def test_wrappers_are_simulated_and_put_back():
    env = gymnasium.make("Pendulum-v1", max_episode_steps=9)
    env = gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
    env.reset(seed=1)
    sequences = np.random.default_rng(0).uniform(-1, 1, (1, 2, 5, 1))
    costs = reward_objective(env)(sequences)
    rewards = [env.step(action.astype(np.float32)) for action in sequences[0, 1]]
    assert costs[0, 1] == pytest.approx(-sum(reward for _, reward, *_ in rewards))
    assert not any(truncated for *_, truncated, _ in rewards)  # looking ahead took none of the nine steps


def test_an_episode_that_ends_without_its_goal_has_failed(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    task = GymnasiumTask(gymnasium.make("InvertedPendulum-v5"), lambda o, a: np.zeros(o.shape[:-2]), horizon=2)
    episodes = control(task, TrueForesight(task), episodes=1, generator=np.random.default_rng(0), config=SMALL)
    assert episodes.reached.tolist() == [-1] and len(episodes.actions) < 200


def test_environments_that_cannot_be_copied_are_errors():
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    env.unwrapped.screen = (line for line in ())  # as a window would be
    with pytest.raises(ValueError, match=r"cannot be copied .*; make the environment without render_mode"):
        Snapshots(env).take()


def test_impossible_tasks_are_errors():
    with pytest.raises(ValueError, match="the environment has no time limit"):
        GymnasiumTask(gymnasium.make("Pendulum-v1").unwrapped, upright, horizon=5)
    task = GymnasiumTask(gymnasium.make("Pendulum-v1"), upright, horizon=5)
    with pytest.raises(ValueError, match="there are 2 episodes; a Gymnasium environment runs one at a time"):
        task.reset(np.random.default_rng(0).spawn(2))


class Reusing(gymnasium.Env):
    """Adds up the actions, of which the second is always 3, in the one array that it ever returns."""

    observation_space = gymnasium.spaces.Box(-99, 99, (2,), np.float64)
    action_space = gymnasium.spaces.Box(np.array([-1, 3], np.float32), np.array([1, 3], np.float32))

    def __init__(self):
        self.seen = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen[:] = 0
        return self.seen, {}

    def step(self, action):
        self.seen += action
        return self.seen, float(self.seen[0]), False, False, {}


@pytest.mark.filterwarnings("ignore:.*maximum and minimum values are equal")
def test_environments_may_write_into_what_they_returned():
    env = gymnasium.wrappers.TimeLimit(Reusing(), 6)
    task = GymnasiumTask(env, lambda observations, actions: -observations[..., 0].sum(axis=-1), horizon=4)
    task.reset([np.random.default_rng(0)])
    futures = task.simulate(np.array([[[[0.5, 3]] * 3, [[-1, 3]] * 3]]))
    assert futures[0, :, :, 0].tolist() == [[0.5, 1.0, 1.5], [-1, -2, -3]]
    assert futures[0, 0, :, 1].tolist() == [3, 6, 9]
    episodes = control(task, TrueForesight(task), episodes=1, generator=np.random.default_rng(0), config=SMALL)
    assert episodes.observations[:, 0, 1].tolist() == [0, 3, 6, 9, 12, 15, 18]
    assert (episodes.actions[..., 1] == 3).all() and episodes.observations[-1, 0, 0] > 3  # as the first may be chosen
    np.testing.assert_allclose(np.diff(episodes.observations[:, 0, 0]), episodes.actions[:, 0, 0], atol=1e-6)
