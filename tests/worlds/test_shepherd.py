from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.shepherd import ShepherdWorld
from gatel0rd.worlds.shepherd import data as shepherd
from gatel0rd.worlds.shepherd.data import generate, sample_actions
from gatel0rd.worlds.shepherd.dynamics import RULES, ShepherdState, observe, start, transition
from gatel0rd.worlds.shepherd.env import Shepherd

RECIPE = DataRecipe(scenario="shepherd", policy="random", split="train", sequences=48, steps=100)
MASK = (-1.0, -1.0)
FLAGS = ("hidden", "gate_open", "carried", "caught")


def world(
    agent=(1.0, -0.5),
    cage=(1.0, -0.5),
    sheep=(2.0, 0.95),
    velocity=0.03,
    wall=0.5,
    gate_open=False,
    carried=False,
    caught=False,
) -> ShepherdState:
    numbers = (np.array(value, dtype=float) for value in (agent, cage, sheep, velocity, wall))
    return ShepherdState(*numbers, *(np.array(value) for value in (gate_open, carried, caught)))


def act(state: ShepherdState, *action: float, **radii: float) -> ShepherdState:
    return transition(state, np.array(action), **radii)


def test_a_carried_cage_moves_with_the_agent_and_stays_where_it_is_dropped():
    state = act(world(carried=True), 1.0, -0.5, 0.4)
    assert state.carried
    np.testing.assert_allclose(state.agent, [1.1, -0.55])
    np.testing.assert_allclose(state.cage, [1.1, -0.55])
    state = act(state, -1.0, 1.0, 0.0)  # 0 is no grasp
    assert not state.carried
    np.testing.assert_allclose(state.agent, [1.0, -0.45])
    np.testing.assert_allclose(state.cage, [1.1, -0.55])


def test_the_cage_is_grasped_within_the_radius_before_the_move_and_keeps_its_offset():
    near = act(world(agent=(1.0, -0.5), cage=(1.06, -0.57)), 0.5, 0.0, 0.01)  # 0.0922 away
    assert near.carried
    np.testing.assert_allclose(near.agent, [1.05, -0.5])
    np.testing.assert_allclose(near.cage, [1.11, -0.57])
    assert not act(world(cage=(1.06, -0.57)), 0.5, 0.0, -0.01).carried
    far = act(world(agent=(1.0, -0.5), cage=(1.08, -0.57)), 0.8, -0.7, 1.0)  # 0.1063 away, 0 after the move
    assert not far.carried
    np.testing.assert_allclose(far.agent, far.cage)
    assert act(far, 1.0, 0.0, 1.0).carried
    leaves = act(world(agent=(1.0, -0.5), cage=(1.09, -0.5)), -1.0, 0.0, 1.0)  # near before, far after the move
    assert leaves.carried
    np.testing.assert_allclose(leaves.cage, [0.99, -0.5])


def test_the_grasp_radius_is_an_argument_and_exclusive():
    state = world(agent=(1.0, -0.5), cage=(1.125, -0.5))
    assert not act(state, 0.0, 0.0, 1.0, cage_radius=0.125).carried
    assert act(state, 0.0, 0.0, 1.0, cage_radius=0.1251).carried


def test_a_cage_that_is_carried_at_a_distance_stays_carried():
    state = world(agent=(1.0, -0.5), cage=(1.3, -0.5), carried=True)
    state = act(state, 0.0, 1.0, 1.0)
    assert state.carried
    np.testing.assert_allclose(state.cage, [1.3, -0.4])
    assert not act(act(state, 0.0, 0.0, -1.0), 0.0, 0.0, 1.0).carried


@pytest.mark.parametrize(
    ("agent", "action", "moved"),
    [
        ((2.9, -0.9), (1.0, -1.0), (2.95, -0.95)),
        ((-0.9, -0.1), (-1.0, 1.0), (-0.95, -0.05)),
    ],
)
def test_borders_stop_the_agent_and_the_cage_moves_as_far_as_the_agent(agent, action, moved):
    cage = np.array(agent) * 0.98 - [0.0, 0.01]
    state = act(world(agent=agent, cage=cage, carried=True), *action, 1.0)
    np.testing.assert_allclose(state.agent, moved)
    np.testing.assert_allclose(state.cage, cage + np.array(moved) - agent)


def test_borders_stop_the_cage_itself():
    state = act(world(agent=(2.8, -0.85), cage=(2.89, -0.9), carried=True), 1.0, -0.8, 1.0)
    np.testing.assert_allclose(state.agent, [2.9, -0.93])
    np.testing.assert_allclose(state.cage, [2.95, -0.95])
    state = act(world(agent=(-0.8, -0.15), cage=(-0.89, -0.1), carried=True), -1.0, 0.8, 1.0)
    np.testing.assert_allclose(state.agent, [-0.9, -0.07])
    np.testing.assert_allclose(state.cage, [-0.95, -0.05])


def test_the_lever_opens_the_gate_for_good_within_its_radius_after_the_move():
    assert not act(world(agent=(-0.85, -0.2)), 0.0, -0.001, 0.0).gate_open
    assert not act(world(agent=(-0.85, -0.19)), 0.0, -1.0, 0.0).gate_open  # near before the move only
    assert not act(world(agent=(-0.85, -0.25)), 0.0, 0.0, 0.0, lever_radius=0.25).gate_open  # exclusive
    assert act(world(agent=(-0.85, -0.25)), 0.0, 0.0, 0.0, lever_radius=0.2501).gate_open
    assert act(world(agent=(-0.65, -0.15)), -0.7, 0.1, 0.0).gate_open  # to (-0.72, -0.14): 0.191
    assert not act(world(agent=(-0.65, -0.15)), -0.5, 0.1, 0.0).gate_open  # to (-0.70, -0.14): 0.205
    state = act(world(agent=(-0.85, -0.28)), 0.0, 0.9, 0.0)
    assert state.gate_open
    assert act(state, 1.0, -1.0, 0.0).gate_open


def test_the_sheep_walks_down_is_hidden_below_the_wall_and_waits():
    state, seen = world(sheep=(2.2, 0.56), velocity=0.025, wall=0.5), []
    for _ in range(5):
        state = act(state, 0.0, 0.0, 0.0)
        seen.append((round(float(state.sheep[1]), 9), bool(state.hidden), observe(state, MASK)[4:].round(9).tolist()))
    assert seen == [
        (0.535, False, [0.2, 0.535, 0.5]),
        (0.51, False, [0.2, 0.51, 0.5]),
        (0.0, True, [-1.0, -1.0, 0.5]),
        (0.0, True, [-1.0, -1.0, 0.5]),
        (0.0, True, [-1.0, -1.0, 0.5]),
    ]
    np.testing.assert_allclose(state.sheep, [2.2, 0.0])


def test_a_sheep_just_at_the_walls_height_is_visible():
    state = act(world(sheep=(2.2, 0.75), velocity=0.25, wall=0.5), 0.0, 0.0, 0.0)
    assert not state.hidden and state.sheep[1] == 0.5


def test_the_sheep_reappears_in_the_step_that_opens_the_gate_and_moves_on_in_the_next():
    state = world(agent=(-0.85, -0.28), sheep=(2.2, 0.0), velocity=0.025)
    assert state.hidden
    state = act(state, 0.0, 0.9, 0.0)
    assert state.gate_open and not state.hidden
    np.testing.assert_allclose(observe(state, MASK)[4:], [0.2, 0.0, 0.5])
    state = act(state, 1.0, -1.0, 0.0)
    np.testing.assert_allclose(observe(state, MASK)[4:], [0.2, -0.025, 0.5])
    state = act(state, 1.0, -1.0, 0.0)
    np.testing.assert_allclose(state.sheep, [2.2, -0.05])


def test_a_sheep_that_reaches_the_wall_at_an_open_gate_goes_on_below_it_and_is_never_hidden():
    state, heights = world(sheep=(2.0, 0.55), velocity=0.03, wall=0.5, gate_open=True), []
    for _ in range(4):
        state = act(state, 0.0, 0.0, 1.0)
        assert not state.hidden
        heights.append(round(float(state.sheep[1]), 9))
    assert heights == [0.52, 0.0, -0.03, -0.06]
    arrives = act(world(agent=(-0.85, -0.28), sheep=(2.0, 0.51)), 0.0, 0.9, 0.0)  # while the gate opens
    assert not arrives.hidden and arrives.sheep[1] == 0.0
    walks = act(world(agent=(-0.85, -0.28), sheep=(2.0, 0.8)), 0.0, 0.9, 0.0)
    np.testing.assert_allclose(walks.sheep, [2.0, 0.77])


def test_the_sheep_stops_at_the_lower_border():
    state, heights = world(sheep=(2.0, -0.9), velocity=0.03, gate_open=True), []
    for _ in range(3):
        state = act(state, 0.0, 0.0, 0.0)
        heights.append(round(float(state.sheep[1]), 9))
    assert heights == [-0.93, -0.95, -0.95]
    assert not state.caught


def test_the_sheep_is_caught_by_a_near_cage_that_is_not_carried_and_stays():
    state = world(agent=(1.0, -0.5), cage=(2.05, -0.3), sheep=(2.0, -0.15), velocity=0.03, gate_open=True)
    state = act(state, 0.0, 0.0, -1.0)  # 0.05 and 0.12: 0.13 away
    assert not state.caught
    state = act(state, 0.0, 0.0, -1.0)  # 0.05 and 0.09: 0.103
    assert not state.caught
    state = act(state, 0.0, 0.0, -1.0)  # 0.05 and 0.06: 0.078
    assert state.caught
    np.testing.assert_allclose(state.sheep, [2.0, -0.24])
    state = act(state, 0.0, 0.0, -1.0)
    np.testing.assert_allclose(state.sheep, [2.0, -0.24])
    taken = act(state._replace(agent=np.array([2.05, -0.3])), 1.0, 0.0, 1.0)
    np.testing.assert_allclose(taken.cage, [2.15, -0.3])
    assert taken.carried and taken.caught
    np.testing.assert_allclose(taken.sheep, [2.0, -0.24])


def test_the_sheep_is_not_caught_by_a_carried_cage_until_it_is_dropped():
    state = world(agent=(2.0, -0.2), cage=(2.0, -0.2), sheep=(2.0, -0.17), gate_open=True, carried=True)
    state = act(state, 0.0, 0.0, 1.0)
    assert not state.caught
    state = act(state, 0.0, 0.0, -1.0)
    assert state.caught
    np.testing.assert_allclose(state.sheep, [2.0, -0.23])


def test_a_hidden_sheep_and_one_above_the_wall_are_not_caught():
    hidden = world(cage=(2.0, -0.05), sheep=(2.0, 0.0))
    assert not act(hidden, 0.0, 0.0, -1.0).caught
    appears = act(hidden._replace(agent=np.array([-0.85, -0.15])), 0.0, 0.0, -1.0)
    assert appears.gate_open and appears.caught  # in the step in which it reappears: 0.05 away
    above = world(cage=(2.0, -0.05), sheep=(2.0, 0.08), wall=0.05, velocity=0.01, gate_open=True)
    assert not act(above, 0.0, 0.0, -1.0, cage_radius=0.15).caught  # 0.12 away
    assert act(above._replace(sheep=np.array([2.0, 0.0])), 0.0, 0.0, -1.0, cage_radius=0.15).caught


def test_the_catch_radius_is_an_argument():
    state = world(cage=(2.0, -0.35), sheep=(2.0, -0.2), gate_open=True)
    assert not act(state, 0.0, 0.0, 0.0).caught  # 0.12 away
    assert act(state, 0.0, 0.0, 0.0, cage_radius=0.15).caught


def test_observations_are_shifted_and_scaled():
    state = world(agent=(2.95, -0.05), cage=(-0.95, -0.95), sheep=(1.5, 0.8), wall=0.4)
    np.testing.assert_allclose(observe(state, MASK), [0.975, 0.225, -0.975, -0.225, -0.5, 0.8, 0.4])
    assert len(ShepherdWorld.observation_names) == 7 and len(ShepherdWorld.action_names) == 3
    hidden = world(sheep=(1.5, 0.0))
    assert observe(hidden, RULES["text"].mask)[4:6].tolist() == [-1.0, -1.0]
    assert observe(hidden, RULES["reference"].mask)[4:6].tolist() == [0.0, 0.0]


def test_many_worlds_equal_one_by_one_and_one_world_spreads_over_many_actions():
    generator = np.random.default_rng(0)
    agents = generator.uniform((-0.95, -0.95), (-0.3, -0.05), (5, 3, 2))
    sheep_x, wall, velocity = (generator.uniform(low, high, (5, 3)) for low, high in ((1.5, 2.5), (0.7, 0.9), (0, 0.1)))
    many = start(agents, sheep_x, wall, velocity)
    single = {index: start(agents[index], sheep_x[index], wall[index], velocity[index]) for index in np.ndindex(5, 3)}
    one, copies = world(agent=(-0.6, -0.3)), start(np.tile([-0.6, -0.3], (5, 3, 1)), *np.full((3, 5, 3), 0.5))
    copies = copies._replace(**{name: np.broadcast_to(getattr(one, name), (5, 3, 2)) for name in ("cage", "sheep")})
    copies = copies._replace(velocity=np.full((5, 3), 0.03), carried=np.zeros((5, 3), dtype=bool))
    for _ in range(30):
        actions = generator.uniform(-1, 1, (5, 3, 3))
        many, one, copies = (transition(state, actions) for state in (many, one, copies))
        for index in np.ndindex(5, 3):
            single[index] = transition(single[index], actions[index])
            for whole, part in zip(many, single[index], strict=True):
                assert np.array_equal(whole[index], part)
            assert np.array_equal(observe(many, MASK)[index], observe(single[index], MASK))
        assert observe(many, MASK).shape == (5, 3, 7)
        assert np.array_equal(observe(one, MASK), observe(copies, MASK))
    assert 0 < many.gate_open.sum() < 15 and 0 < many.hidden.sum() < 15


def test_an_episode_by_hand():
    """Drop the cage, open the gate, wait until the sheep is in the cage."""
    env = Shepherd(cage_radius=0.15)
    options = {"agent": [-0.5, -0.3], "cage": [2.05, -0.3], "sheep_x": 2.0, "wall": 0.6, "velocity": 0.1}
    observation, info = env.reset(options=options)
    np.testing.assert_allclose(observation, [-0.75, 0.1, 0.525, 0.1, 0.0, 0.95, 0.6])
    assert info == {"hidden": False, "gate_open": False, "carried": False, "caught": False}
    steps = [
        ((0.0, 0.0), (-0.5, -0.3), (0.0, 0.85), "visible"),
        ((0.0, 0.0), (-0.5, -0.3), (0.0, 0.75), "visible"),
        ((0.0, 0.0), (-0.5, -0.3), (0.0, 0.65), "visible"),
        ((-1.0, 1.0), (-0.6, -0.2), (-1.0, -1.0), "hidden"),
        ((-1.0, 1.0), (-0.7, -0.1), (0.0, 0.0), "open"),
        ((0.0, 0.0), (-0.7, -0.1), (0.0, -0.1), "open"),
        ((0.0, 0.0), (-0.7, -0.1), (0.0, -0.2), "caught"),  # 0.112 away, within the wider radius only
    ]
    for moves, (x, y), sheep, what in steps:
        observation, reward, terminated, truncated, info = env.step(np.array([*moves, -1.0]))
        np.testing.assert_allclose(
            observation, [(x - 1) / 2, (y + 0.5) / 2, 0.525, 0.1, *sheep, 0.6], rtol=0, atol=1e-12
        )
        caught, is_open = what == "caught", what in ("open", "caught")
        assert info == {"hidden": what == "hidden", "gate_open": is_open, "carried": False, "caught": caught}
        assert (reward, terminated, truncated) == (float(caught), caught, False)


def test_episodes_start_at_the_right_carrying_the_cage():
    env = Shepherd()
    starts = np.array([env.reset(seed=seed)[0] for seed in range(200)])
    assert np.allclose(starts[:, 0], 0.95) and np.array_equal(starts[:, :2], starts[:, 2:4])
    assert starts[:, 1].min() < -0.2 and starts[:, 1].max() > 0.2 and np.abs(starts[:, 1]).max() <= 0.225
    assert -0.5 <= starts[:, 4].min() < -0.45 and 0.45 < starts[:, 4].max() <= 0.5
    assert (starts[:, 5] == 0.95).all()
    assert 0.35 <= starts[:, 6].min() < 0.37 and 0.63 < starts[:, 6].max() <= 0.65
    assert env.reset()[1]["carried"]
    assert env.reset(options={"agent": [1.0, -0.5], "cage": [1.05, -0.5]})[1]["carried"]
    assert not env.reset(options={"agent": [1.0, -0.5], "cage": [1.15, -0.5]})[1]["carried"]


def test_presets_differ_in_velocity_and_mask():
    still = np.array([0.0, 0.0, 1.0])
    for preset, low, high, mask in (("text", 0.02, 0.03, [-1, -1]), ("reference", 0.025, 0.025, [0, 0])):
        env = Shepherd(preset=preset)
        velocities = []
        for seed in range(50):
            env.reset(seed=seed)
            velocities.append(0.95 - env.step(still)[0][5])
        assert low - 1e-12 <= min(velocities) <= low + 0.001 and high - 0.001 <= max(velocities) <= high + 1e-12
        for _ in range(29):
            observation, _, _, _, info = env.step(still)
        assert info["hidden"] and observation[4:6].tolist() == mask


def test_the_world_can_be_planned_from_without_touching_the_environment():
    env = Shepherd(lever_radius=0.3)
    env.reset(options={"agent": [-0.7, -0.3]})
    before = env.state
    imagined = transition(before, np.array([[-1.0, 1.0, 1.0], [1.0, 1.0, -1.0]]), env.lever_radius, env.cage_radius)
    assert env.state is before and imagined.gate_open.tolist() == [True, False]
    observation = env.step(np.array([-1.0, 1.0, 1.0]))[0]
    assert np.array_equal(observation, observe(imagined, MASK)[0])
    assert env.state.gate_open  # 0.206 away, within the wider radius only


def test_actions_beyond_the_range_are_clipped():
    env = Shepherd()
    env.reset(options={"agent": [1.0, -0.5]})
    np.testing.assert_allclose(env.step(np.array([5.0, -7.0, 1.0]))[0][:2], [0.05, -0.05])


def test_pictures_show_what_happens():
    env = Shepherd(render_mode="rgb_array")
    env.reset(seed=0, options={"sheep_x": 2.0, "velocity": 0.03, "agent": [2.0, -0.3]})
    pictures = [env.render()]
    assert pictures[0].dtype == np.uint8 and pictures[0].shape == (320, 640, 3)
    assert len(np.unique(pictures[0].reshape(-1, 3), axis=0)) > 500
    closed = env.state._replace(sheep=np.array([2.0, 0.0]))
    scenes = [closed, closed._replace(gate_open=np.array(True)), closed._replace(carried=np.array(False))]
    scenes.append(scenes[1]._replace(caught=np.array(True)))
    for scene in scenes:
        env._state = scene
        pictures.append(env.render())
    start_, ghost, appeared, dropped, caught = (picture.astype(int) for picture in pictures)

    def differs(first, second, x, y, half=0.1):
        """Whether pictures differ around a place of the world; 320 pixels are 2.2 units."""
        row, column, half = (round(value * 320 / 2.2) for value in (1.1 - y, x + 1.2, half))
        area = (slice(row - half, row + half), slice(column - half, column + half))
        return bool((np.abs(first - second)[area] > 60).any())

    assert differs(start_, ghost, 2.0, 0.95) and differs(start_, ghost, 2.0, 0.0)
    assert (
        differs(ghost, appeared, 2.0, 0.0) and differs(ghost, appeared, 1.5, 0.1) and differs(ghost, appeared, -0.85, 0)
    )
    assert np.array_equal(ghost, dropped)  # that the cage is carried shows in its place only
    assert differs(appeared, caught, 2.0, -0.3) and not differs(appeared, caught, 0.5, -0.5)


def test_human_rendering_opens_and_closes_a_window():
    env = Shepherd(render_mode="human", render_size=80)
    env.reset(seed=0)
    env.step(np.zeros(3))
    assert env._window is not None and env.render() is None
    env.close()
    assert env._window is None


def test_bad_arguments_and_actions_are_errors():
    with pytest.raises(ValueError, match=r"^render_mode is 'ansi'; expected human or rgb_array$"):
        Shepherd(render_mode="ansi")
    with pytest.raises(ValueError, match=r"^preset is 'code'; expected text or reference$"):
        Shepherd(preset="code")
    env = Shepherd()
    env.reset(seed=0)
    for action in ([np.nan, 0.0, 0.0], [0.0, np.inf, 0.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match=r"^action is \[.*\]; expected three finite numbers in \[-1, 1\]$"):
            env.step(np.array(action))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent": [3.0, -0.5]}, "agent is [3.0, -0.5]; expected a position in [-0.95, 2.95] × [-0.95, -0.05]"),
        ({"agent": [0.0]}, "agent is [0.0]; expected a position in [-0.95, 2.95] × [-0.95, -0.05]"),
        ({"cage": [0.0, 0.0]}, "cage is [0.0, 0.0]; expected a position in [-0.95, 2.95] × [-0.95, -0.05]"),
        ({"cage": [np.nan, -0.5]}, "cage is [nan, -0.5]; expected a position in [-0.95, 2.95] × [-0.95, -0.05]"),
        ({"sheep_x": 1.0}, "sheep_x is 1.0; expected a number in [1.05, 2.95]"),
        ({"wall": 0.96}, "wall is 0.96; expected a number in [0.05, 0.95]"),
        ({"velocity": -0.01}, "velocity is -0.01; expected a number in [0, 0.1]"),
        ({"velocity": [0.01, 0.02]}, "velocity is [0.01, 0.02]; expected a number in [0, 0.1]"),
        ({"sheep": 2.0}, "there is no option sheep; there are agent, cage, sheep_x, wall, velocity"),
    ],
)
def test_bad_options_are_errors(options, message):
    with pytest.raises(ValueError) as error:
        Shepherd().reset(options=options)
    assert str(error.value) == message


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(shepherd, "ROLLOUTS_AT_ONCE", 512)


@pytest.fixture(scope="module", params=["text", "reference"])
def data(request) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shepherd, "ROLLOUTS_AT_ONCE", 512)
        return generate(replace(RECIPE, preset=request.param))


def test_quarters_are_balanced_and_events_are_as_promised(data):
    hidden, gate_open, _, caught = (data.labels[name] for name in FLAGS)
    assert data.strata.tolist() == [0] * 12 + [1] * 12 + [2] * 12 + [3] * 12
    assert not gate_open[:12].any()
    assert not gate_open[12:, 30].any() and gate_open[12:, 70].all()
    assert hidden[:, 30].all()
    start_x = 2 * data.observations[:, 0, 0] + 1
    assert (start_x[12:24] <= 1).all() and (start_x[24:] >= 1).all()
    assert start_x[:12].min() < 1 < start_x[:12].max()
    assert not caught[:12].any() and not caught[24:36].any() and caught[36:, -1].all()
    assert data.observations.shape == (48, 100, 7) and data.actions.shape == (48, 100, 3)
    assert data.observations.dtype == data.actions.dtype == data.labels["velocity"].dtype == np.float32
    assert all(data.labels[name].shape == (48, 100) and data.labels[name].dtype == bool for name in FLAGS)
    assert set(data.labels) == {*FLAGS, "reappearance", "velocity"}
    assert np.abs(data.actions).max() <= 1 and np.abs(data.observations).max() <= 1


def test_the_label_reappearance_is_the_first_sight_after_hiding(data):
    reappearance, hidden = data.labels["reappearance"], data.labels["hidden"]
    assert (reappearance[:12] == -1).all()
    for index in range(12, 48):
        t = reappearance[index]
        assert 31 <= t <= 70 and t == data.labels["gate_open"][index].argmax()
        assert hidden[index, t - 1] and not hidden[index, t:].any()
        assert data.observations[index, t, 5] == 0
        np.testing.assert_allclose(data.observations[index, t, 4], data.observations[index, 0, 4])


def test_masks_and_velocities_follow_the_preset(data):
    mask, slowest, fastest = RULES[data.recipe.preset]
    masked = (data.observations[..., 4:6] == np.array(mask, dtype=np.float32)).all(axis=-1)
    if data.recipe.preset == "text":
        assert np.array_equal(masked, data.labels["hidden"])
        assert len(np.unique(data.labels["velocity"])) == 48
    assert masked[data.labels["hidden"]].all()
    velocity = data.labels["velocity"]
    assert (velocity >= np.float32(slowest)).all() and (velocity <= np.float32(fastest)).all()
    np.testing.assert_allclose(0.95 - data.observations[:, 1, 5], velocity, atol=1e-6)


def test_sequences_equal_the_environment_stepped(data):
    for index in range(0, 48, 6):
        env = Shepherd(preset=data.recipe.preset)
        first = data.observations[index, 0].astype(float)
        observation, info = env.reset(
            options={
                "agent": 2 * first[:2] + [1, -0.5],
                "sheep_x": first[4] + 2,
                "wall": first[6],
                "velocity": data.labels["velocity"][index],
            }
        )
        for t in range(100):
            np.testing.assert_allclose(data.observations[index, t], observation, atol=1e-5)
            assert info == {name: data.labels[name][index, t] for name in FLAGS}
            observation, _, _, _, info = env.step(data.actions[index, t])


def test_actions_favour_left_and_up_as_asked_and_grasps_come_in_runs():
    generator = np.random.default_rng(0)
    for favoured in (0.0, 0.4, 0.75):
        actions = sample_actions(4000, 50, favoured, generator)
        assert actions.dtype == np.float32 and np.abs(actions).max() <= 1
        np.testing.assert_allclose((actions[..., 0] < 0).mean(), 0.5 + favoured / 2, atol=0.006)
        np.testing.assert_allclose((actions[..., 1] > 0).mean(), 0.5 + favoured / 2, atol=0.006)
        np.testing.assert_allclose(np.abs(actions[..., :2]).mean(axis=(0, 1)), 0.5, atol=0.005)
        both = ((actions[..., 0] < 0) & (actions[..., 1] > 0)).mean()
        np.testing.assert_allclose(both, (0.5 + favoured / 2) ** 2, atol=0.006)  # components on their own
        grasp = actions[..., 2]
        assert (grasp[:, 0] >= 0).all()
        np.testing.assert_allclose((grasp[:, 1:] * grasp[:, :-1] < 0).mean(), 0.1, atol=0.005)
        np.testing.assert_allclose(np.abs(grasp).mean(), 0.5, atol=0.005)


def test_the_same_recipe_gives_the_same_bytes_and_others_do_not():
    recipe = replace(RECIPE, sequences=4)
    first, again = generate(recipe), generate(recipe)
    assert np.array_equal(first.observations, again.observations) and np.array_equal(first.actions, again.actions)
    assert all(np.array_equal(first.labels[name], again.labels[name]) for name in first.labels)
    for change in ({"split": "test"}, {"seed": 1}, {"preset": "reference"}):
        other = generate(replace(recipe, **change))
        assert not np.array_equal(other.actions, first.actions), change


def test_other_lengths_scale_the_moments_at_which_the_gate_opens_and_the_favoured_moves(monkeypatch):
    shares = []

    def spy(count, steps, favoured, generator):
        shares.append(favoured)
        return sample_actions(count, steps, favoured, generator)

    monkeypatch.setattr(shepherd, "sample_actions", spy)
    data = generate(replace(RECIPE, sequences=4, steps=75))
    np.testing.assert_allclose(sorted(set(shares)), [0.0, 0.4 / 0.75, 1.0])
    gate_open = data.labels["gate_open"]
    assert gate_open.shape == (4, 75)
    assert not gate_open[1:, 22].any() and gate_open[1:, 52].all()  # round(22.5), round(52.5)


def test_progress_is_told_after_each_batch():
    calls: list[tuple[int, int]] = []
    generate(RECIPE, progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (12, 48) and calls[1] == (24, 48) and calls[-1] == (48, 48)
    assert all(total == 48 for _, total in calls) and calls == sorted(calls)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "time"}, "policy is 'time'; Shepherd has random"),
        ({"sequences": 6}, "6 sequences cannot be balanced; ask for a multiple of 4"),
        ({"preset": "code"}, "preset is 'code'; expected text or reference"),
        ({"steps": 20}, "none of 10240 rollouts of 20 steps fits quarter 2; ask for more steps"),
    ],
)
def test_impossible_recipes_are_errors(change, message):
    with pytest.raises(ValueError) as error:
        generate(replace(RECIPE, **change))
    assert str(error.value) == message


def test_files_keep_the_data(data, tmp_path):
    loaded = Dataset.load(data.save(tmp_path), scenario="shepherd")
    assert loaded.recipe == data.recipe and loaded.labels.keys() == data.labels.keys()
    assert all(np.array_equal(loaded.labels[name], data.labels[name]) for name in data.labels)
