"""Learning to control an environment: collect, fit, plan, again."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from gatel0rd.cli.main import main
from gatel0rd.files import FileError, read_json
from gatel0rd.paper.report.control import settings_table
from gatel0rd.planning import DynamicsConfig, HideColumns, ICEMConfig, LearnConfig, learn, learning
from gatel0rd.planning.diagnosis import Diagnosis, Neighbourhood, combine
from gatel0rd.planning.dynamics import Dynamics, Forecaster, error_weights, sampling_probability
from gatel0rd.planning.environment import time_limit
from gatel0rd.planning.experience import ActionCoding, RecordedEpisode, load_episodes
from gatel0rd.planning.units import CLOSENESS, END, REWARD, RewardScale, add_outcomes, find_units, read_units

LIMIT = 12


class Cart(gymnasium.Env):
    """A cart that slides; only its place is seen, the reward is for being near 0, and too far out it ends."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.velocity = float(self.np_random.uniform(-1, 1)), 0.0
        return self._see(), {}

    def step(self, action):
        self.velocity = 0.5 * self.velocity + 0.3 * float(np.asarray(action).item())
        self.place += self.velocity
        return self._see(), -(self.place**2), abs(self.place) > 3, False, {}

    def render(self):
        picture = np.full((20, 40, 3), 255, dtype=np.uint8)
        column = int(np.clip(20 + 5 * self.place, 0, 39))
        picture[:, column] = 0
        return picture

    def _see(self):
        return np.array([self.place, self.velocity])


class Switch(Cart):
    """The same with three choices, numbered from 5 on."""

    action_space = gymnasium.spaces.Discrete(3, start=5)

    def step(self, action):
        assert isinstance(action, int) and action in (5, 6, 7)
        return super().step(np.array([action - 6]))


for name, kind in (("LearnedCart-v0", Cart), ("LearnedSwitch-v0", Switch)):
    gymnasium.register(name, entry_point=kind, max_episode_steps=LIMIT)


def make(name="LearnedCart-v0", hide=(1,), **words):
    return HideColumns(gymnasium.make(name, disable_env_checker=True, **words), hide)


def settings(**words):
    dynamics = DynamicsConfig(
        hidden_size=6, features=12, window=8, warm_up=2, first_updates=300, updates=40, **words.pop("dynamics", {})
    )
    search = ICEMConfig(horizon=4, samples=24, elites=4, iterations=2, noise_exponent=1.0, initial_std=0.7)
    return LearnConfig(
        **{"steps": 240, "random_steps": 180, "tests": 4, "search": search, "dynamics": dynamics} | words
    )


QUICK = settings(
    steps=40, random_steps=20, tests=1, dynamics={"batch_size": 8}, search=ICEMConfig(horizon=3, samples=8, elites=2)
)
QUICK = replace(QUICK, dynamics=replace(QUICK.dynamics, first_updates=8, updates=5))


@pytest.mark.parametrize("name", ["LearnedCart-v0", "LearnedSwitch-v0"])
def test_a_few_hundred_steps_teach_it(name, tmp_path):
    record = learn(make(name), tmp_path, settings())
    random, tests = (
        np.mean([episode["return"] for episode in record["episodes"] if episode["kind"] == kind])
        for kind in ("random", "test")
    )
    assert tests > 0.5 * random  # costs are halved at least
    assert 240 <= record["environment_steps"] < 240 + LIMIT
    assert record["environment_steps"] == record["episodes"][-1]["environment_steps"]
    assert record == read_json(tmp_path / "control.json")
    diagnosis = record["diagnosis"]
    assert len(diagnosis["error"]) == len(diagnosis["away"]) == 4
    assert 0 <= diagnosis["open_rate"] <= 1
    assert record["summary"] == Diagnosis(**diagnosis).describe()


def trajectories(directory):
    return [(episode.kind, episode.observations, episode.actions) for episode in load_episodes(directory)]


@pytest.mark.parametrize("place", ["episode", "fit"])
def test_whatever_kills_it_the_same_call_resumes(place, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    learn(make(), whole, QUICK)
    told = 0

    def interrupt(progress):
        nonlocal told
        if (progress.doing == "fitting") == (place == "fit") and progress.doing != "random episode":
            told += 1
            if told == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(make(), killed, QUICK, on_progress=interrupt)
    assert len(load_episodes(killed)) < len(load_episodes(whole))
    record = learn(make(), killed, QUICK)
    for ours, theirs in zip(trajectories(killed), trajectories(whole), strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_array_equal(ours[1], theirs[1])
        np.testing.assert_array_equal(ours[2], theirs[2])
    before = [path.stat().st_mtime_ns for path in sorted((killed / "episodes").iterdir())]
    assert learn(make(), killed, QUICK) == record  # nothing is left to do
    assert [path.stat().st_mtime_ns for path in sorted((killed / "episodes").iterdir())] == before


def test_more_steps_continue(tmp_path):
    first = learn(make(), tmp_path, QUICK)
    before = trajectories(tmp_path)
    more = learn(make(), tmp_path, replace(QUICK, steps=60, tests=2))
    for ours, theirs in zip(trajectories(tmp_path), before, strict=False):
        np.testing.assert_array_equal(ours[1], theirs[1])
    kinds = [episode["kind"] for episode in more["episodes"]]
    assert kinds[: len(before)] == [kind for kind, *_ in before]
    assert kinds[-3:] == ["planned", "test", "test"] and len(more["test_returns"]) == 2
    assert first["environment_steps"] < 60 <= more["environment_steps"]
    assert more["test_returns"] == [episode["return"] for episode in more["episodes"][-2:]]


def test_lost_episodes_are_noticed(tmp_path):
    """Else the others would be overwritten by those of another course."""
    learn(make(), tmp_path, QUICK)
    *_, before, last = paths = sorted((tmp_path / "episodes").iterdir())
    content = {path: path.read_bytes() for path in paths}
    before.unlink()
    with pytest.raises(FileError, match=f"{before.name} is missing, but {last.name} is there"):
        learn(make(), tmp_path, QUICK)
    assert last.read_bytes() == content[last]
    for path in paths[1:]:
        path.unlink(missing_ok=True)
    with pytest.raises(FileError, match=r"has a model of \d+ episodes, but 1 of them; restore the others"):
        learn(make(), tmp_path, QUICK)
    for path in paths:
        path.write_bytes(content[path])
    learn(make(), tmp_path, QUICK)
    assert {path: path.read_bytes() for path in paths} == content


def test_no_episode_is_missing_where_numbers_get_longer(tmp_path, monkeypatch):
    monkeypatch.setattr("gatel0rd.planning.experience.RecordedEpisode.load", lambda path: path)
    for number in range(12):
        path = tmp_path / "episodes" / f"{number}.safetensors"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.setattr(
        "gatel0rd.planning.experience.episode_path",
        lambda directory, number: directory / "episodes" / f"{number}.safetensors",
    )
    assert len(load_episodes(tmp_path)) == 12


def test_another_seed_or_setting_needs_another_directory(tmp_path):
    learn(make(), tmp_path, replace(QUICK, steps=20, tests=0))
    with pytest.raises(FileError, match=r"other settings \(settings\); use another directory"):
        learn(make(), tmp_path, replace(QUICK, seed=1))
    with pytest.raises(FileError, match="observation_size"):
        learn(make(hide=()), tmp_path, replace(QUICK, steps=20, tests=0))
    with pytest.raises(FileError, match="shown"):
        learn(make(hide=(0,)), tmp_path, replace(QUICK, steps=20, tests=0))


@pytest.mark.parametrize("cell", ["gru", "lstm", "none"])
def test_other_cells_and_several_models(cell, tmp_path):
    config = replace(QUICK, caution=0.5, dynamics=replace(QUICK.dynamics, cell=cell, models=2))
    record = learn(make(), tmp_path, config)
    assert record["diagnosis"]["open_rate"] is None
    assert record["diagnosis"]["disagreement"] > 0


def test_a_given_cost_takes_the_place_of_the_reward(tmp_path):
    def cost(observations, actions):
        return np.square(observations[..., 0] - 1.5)

    record = learn(make(), tmp_path, settings(), cost=cost)
    ends = [episode["last_observation"][0] for episode in record["episodes"] if episode["kind"] == "test"]
    assert np.mean(np.abs(np.array(ends) - 1.5)) < 0.5
    with pytest.raises(ValueError, match=r"the cost function returned shape \(1, 8\).*a cost for each step"):
        learn(make(), tmp_path / "wrong", QUICK, cost=lambda observations, actions: np.zeros(observations.shape[:-2]))


def episode(steps=7, seed=0, terminated=True):
    rng = np.random.default_rng(seed)
    return RecordedEpisode(
        observations=rng.normal(size=(steps + 1, 3)),
        actions=rng.uniform(-1, 1, (steps, 1)),
        rewards=rng.normal(size=steps),
        terminated=terminated,
        kind="random",
    )


def test_an_episode_survives_the_disk(tmp_path):
    one = episode()
    one.save(tmp_path / "one.safetensors")
    other = RecordedEpisode.load(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(one.observations, other.observations)
    assert (other.kind, other.terminated, other.steps) == ("random", True, 7)


def test_a_row_has_the_outcomes_that_came_with_it():
    one, scale = episode(), RewardScale(best=2.5, softness=0.01)
    rows = add_outcomes(one, scale)
    assert rows.shape == (8, 6)
    np.testing.assert_array_equal(rows[:, :3], one.observations)
    np.testing.assert_array_equal(rows[1:, REWARD], scale.transform(one.rewards))
    assert rows[:, END].tolist() == [0.0] * 7 + [1.0]
    np.testing.assert_allclose(rows[[7, 6, 2, 0], CLOSENESS], [1, 10 / 11, 2 / 3, 10 / 17])
    assert not add_outcomes(episode(terminated=False), scale)[:, END:].any()  # a time limit is no end
    cut = replace(episode(terminated=False), last_closeness=0.5)  # as if there were 10 more steps
    np.testing.assert_allclose(add_outcomes(cut, scale)[[7, 0], CLOSENESS], [1 / 2, 10 / 27])


def test_rewards_near_the_best_are_spread_out():
    scale = RewardScale(best=-0.5, softness=0.004)
    rewards = np.array([-17.0, -0.57, -0.5, -0.4])
    np.testing.assert_allclose(scale.inverse_transform(scale.transform(rewards)), rewards, rtol=1e-12)
    far, near, best, above = scale.transform(rewards)
    assert best == 0 < above and np.isclose(far, -4, atol=0.1)
    assert near / far > 0.05 > 10 * 0.07 / 16.5  # as rewards, these two are 0.4 % apart


def test_units_make_changes_and_rewards_equally_large():
    episodes = [episode(40, seed) for seed in range(5)]
    units = find_units(episodes)
    rows = [units.transform(one) for one in episodes]
    changes = np.concatenate([np.diff(row[:, :3], axis=0) for row in rows])
    np.testing.assert_allclose(changes.std(axis=0), units.change, rtol=1e-4)
    np.testing.assert_allclose(np.concatenate([row[1:, REWARD] for row in rows]).std(), units.change, rtol=1e-4)
    plain = units.inverse_transform(rows[0].astype(np.float64))
    np.testing.assert_allclose(plain[:, :3], episodes[0].observations, atol=1e-5)
    np.testing.assert_allclose(plain[1:, REWARD], episodes[0].rewards, atol=1e-5)
    np.testing.assert_allclose(units.transform_observation(episodes[0].observations[4])[:3], rows[0][4, :3], atol=1e-6)
    assert read_units(json.loads(json.dumps(units.describe()))) == units


def test_units_are_outgrown_when_observations_spread():
    episodes = [episode(40, seed) for seed in range(5)]
    units = find_units(episodes)
    wider = [replace(one, observations=one.observations * [1, 2.1, 1]) for one in episodes]
    assert units.are_outgrown_by(find_units(wider)) and not units.are_outgrown_by(units)
    assert not find_units(wider).are_outgrown_by(units)  # narrower is no harm
    rewarded = [replace(one, rewards=10 * one.rewards) for one in episodes]
    assert not units.are_outgrown_by(find_units(rewarded))


def test_what_no_memory_can_know_hardly_counts_in_training():
    weights = error_weights(6).tolist()
    assert weights[:2] == pytest.approx([0.01, 0.01])
    np.testing.assert_allclose(weights[2:], 0.95 ** np.arange(2, 6), rtol=1e-6)
    given = [sampling_probability(progress, 0.2) for progress in (0.0, 0.4, 0.55, 0.7, 1.0)]
    np.testing.assert_allclose(given, [1, 1, 0.6, 0.2, 0.2])


def make_forecaster(**words):
    episodes = [episode(20, seed) for seed in range(3)]
    config = DynamicsConfig(hidden_size=4, features=6, warm_up=1, window=5, **words)
    coding = ActionCoding(gymnasium.spaces.Box(-2, 2, (1,)))
    forecaster = Forecaster(Dynamics(coding, 3, find_units(episodes), config, seed=0))
    return forecaster, episodes[0]


@pytest.mark.parametrize("cell", ["gatel0rd", "gru"])
def test_a_replay_is_what_was_predicted_on_the_way(cell):
    forecaster, one = make_forecaster(cell=cell, models=2)
    forecaster.begin(one.observations[0])
    expected = []
    for step in range(one.steps):
        if 1 <= step <= one.steps - 5:
            expected.append(forecaster.predict(one.actions[None, step : step + 5]).costs[:, 0])
        forecaster.advance(one.actions[step], one.observations[step + 1])
    replayed = forecaster.replay(one.actions, 5).costs
    assert replayed.shape == (2, 15, 5)
    np.testing.assert_allclose(replayed, np.stack(expected, axis=1), atol=1e-4)


def test_after_the_end_nothing_costs_but_the_end_itself():
    forecaster, one = make_forecaster()
    forecaster.begin(one.observations[0])
    (model,) = forecaster.dynamics.models
    bias = model.post[-1].bias.data
    model.post[-1].weight.data.zero_()
    units = forecaster.dynamics.units
    bias[END] = 1 / units.columns.scale[END] / model.config.residual_scale  # every step ends it
    bias[REWARD], bias[CLOSENESS] = 0.0, 0.25 / units.columns.scale[CLOSENESS] / model.config.residual_scale
    sequences = np.zeros((2, 4, 1))
    cost = -units.rewards.inverse_transform(np.array(units.columns.offset[REWARD]))
    futures = forecaster.predict(sequences)
    np.testing.assert_allclose(futures.costs, cost, rtol=1e-4)
    np.testing.assert_array_equal(futures.closeness, 0)
    forecaster.dynamics.ends = True
    futures = forecaster.predict(sequences)
    np.testing.assert_allclose(futures.costs[..., 0], cost, rtol=1e-4)
    np.testing.assert_array_equal(futures.costs[..., 1:], 0)
    np.testing.assert_allclose(futures.closeness[..., 0], 0.25, rtol=1e-4)
    np.testing.assert_array_equal(futures.closeness[..., 1:], 1)


def diagnosis(**words):
    steps = 20
    plain = {
        "planned": [1.0] * steps,
        "real": [1.0] * steps,
        "replayed": [1.0] * steps,
        "error": [0.1] * steps,
        "away": [0.0] * steps,
        "cost_std": 1.0,
        "open_rate": 0.2,
        "disagreement": 0.0,
    }
    return Diagnosis(**plain | words)


def test_one_sentence_says_what_is_wrong():
    assert diagnosis().describe() == "predictions and plans hold over all 20 steps"
    hopeful = diagnosis(real=[1.0] * 12 + [3.0] * 8)
    assert hopeful.describe() == "plans are optimistic by 3.0x beyond step 12: collect planned episodes"
    wrong = diagnosis(error=[0.1] * 5 + [2.0] * 15, real=[1.0] * 12 + [3.0] * 8)
    assert "beyond step 5, even for the actions that were taken: train longer" in wrong.describe()
    blind = diagnosis(error=[0.1] * 2 + [2.0] * 18)
    assert "beyond step 2, even for the actions that were taken: something that matters is hidden" in blind.describe()
    constant = diagnosis(error=[1e-4] * 20, real=[-1.0] * 20, planned=[-1.0] * 20, cost_std=0.0)
    assert constant.describe() == "predictions and plans hold over all 20 steps"
    assert "leave what was seen beyond step 7" in diagnosis(away=[0.0] * 7 + [1.0] * 13).describe()
    assert "65% of the gates are open per step, as they have to be" in diagnosis(open_rate=0.65).describe_gates()
    assert diagnosis(open_rate=0.2).describe_gates() == "20% of the gates are open per step"
    assert diagnosis(open_rate=None).describe_gates() is None
    below = diagnosis(planned=[-1.0] * 20, real=[-1.0] * 10 + [1.0] * 10)
    assert "optimistic by 2 beyond step 10" in below.describe()


def test_diagnoses_are_combined():
    both = combine([diagnosis(error=[3.0] * 20), diagnosis(error=[4.0] * 20, real=[2.0] * 20, open_rate=0.4)])
    np.testing.assert_allclose(both.error, np.sqrt(12.5))
    np.testing.assert_allclose([both.real[0], both.open_rate], [1.5, 0.3])
    short = diagnosis(**{name: [5.0] for name in ("planned", "real", "replayed", "error", "away")})
    assert combine([short, diagnosis()]).real == [3.0] + [1.0] * 19  # farther ahead only the longer one looks


def test_episodes_that_are_shorter_than_the_horizon_are_diagnosed(tmp_path):
    far = replace(QUICK.search, horizon=2 * LIMIT)
    record = learn(make(), tmp_path, replace(QUICK, search=far))
    ahead = record["episodes"][-1]["length"] // 2
    assert len(record["diagnosis"]["real"]) == ahead
    assert record["diagnosis"]["horizon"] == 2 * LIMIT
    assert diagnosis(horizon=20).describe() == diagnosis().describe() == "predictions and plans hold over all 20 steps"
    assert "hold over the first 20 of 50 steps; episodes are too short" in diagnosis(horizon=50).describe()


def test_points_far_from_the_data_are_away():
    rng = np.random.default_rng(0)
    near = Neighbourhood(rng.normal(size=(900, 2)), rng)
    assert near.is_away(np.array([[[0.0, 0.1], [9.0, 9.0]]])).tolist() == [[0.0, 1.0]]
    assert near.is_away(rng.normal(size=(500, 2))).mean() < 0.1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"steps": 0}, "steps is 0; expected at least 1"),
        ({"random_steps": 300}, "random_steps is 300 of 240 steps"),
        ({"exploration": -1.0}, "exploration is -1.0"),
        ({"tests": -1}, "tests is -1"),
    ],
)
def test_settings_that_make_no_sense(words, message):
    with pytest.raises(ValueError, match=message):
        settings(**words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"models": 0}, "models is 0"),
        ({"window": 3}, "more than the 3 of the warm-up"),
        ({"sparsity": -1.0}, "sparsity"),
    ],
)
def test_models_that_make_no_sense(words, message):
    with pytest.raises(ValueError, match=message):
        DynamicsConfig(**words)


def test_columns_that_cannot_be_hidden():
    env = gymnasium.make("LearnedCart-v0", disable_env_checker=True)
    assert HideColumns(env, [-1]).shown == [0]
    with pytest.raises(ValueError, match="there are 2, numbered from 0 to 1"):
        HideColumns(env, [2])
    with pytest.raises(ValueError, match="leave at least one"):
        HideColumns(env, [0, 1])


def test_environments_that_cannot_be_learned(tmp_path):
    with pytest.raises(ValueError, match="no time limit"):
        learn(Cart(), tmp_path, QUICK)
    assert time_limit(HideColumns(gymnasium.wrappers.TimeLimit(Cart(), 7), [0])) == 7

    class Broken(Cart):
        def step(self, action):
            seen, _, *rest = super().step(action)
            return seen, float("nan"), *rest

    gymnasium.register("LearnedBroken-v0", entry_point=Broken, max_episode_steps=LIMIT)
    with pytest.raises(ValueError, match=r"step 1 of episode 0 gave .* the reward nan"):
        learn(make("LearnedBroken-v0"), tmp_path, QUICK)


def test_the_command_has_the_defaults_of_python(tmp_path, monkeypatch):
    given = []

    def stop(env, directory, config, **words):
        given.append(config)
        raise ValueError("that is enough")

    monkeypatch.setattr(learning, "learn", stop)
    with pytest.raises(SystemExit):
        main(["control", "LearnedCart-v0", "--out", str(tmp_path)])
    assert given == [LearnConfig()]


def test_the_command_learns_films_and_says_what_is_wrong(tmp_path, monkeypatch, capsys):
    film, record = tmp_path / "film.gif", tmp_path / "record.json"
    words = ["--steps", "40", "--random-steps", "20", "--tests", "2", "--horizon", "4", "--updates", "3"]
    words += ["--hide", "1", "--out", str(tmp_path / "out"), "--film", str(film), "--json", str(record)]
    main(["control", "LearnedCart-v0", *words])
    shown = " ".join(capsys.readouterr().out.split())
    assert "mean return of 2 test episodes" in shown and "diagnosis: " in shown and "of the gates are open" in shown
    assert film.stat().st_size > 100
    page = (tmp_path / "out" / "control.html").read_text()
    assert page.count("data:image/svg+xml") == 2 and "LearnedCart-v0, learned by planning" in page
    outcome = read_json(tmp_path / "out" / "control.json")
    assert f"Mean return of 2 test episodes: {outcome['test_return']:.4g} (" in page and "dynamics.hidden_size" in page
    assert page.count("<tr><td>") == 2 + len(settings_table(outcome).rows)  # two tests
    assert json.loads(record.read_text())["settings"]["dynamics"]["cell"] == "gatel0rd"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    main(["control", "LearnedCart-v0", *words[:-4]])  # all is done, and there is nothing to draw with
    assert "no page with figures: matplotlib is missing; pip install" in " ".join(capsys.readouterr().out.split())
    for wrong, message in (
        ("NoSuchEnvironment-v0", "Gymnasium knows no environment"),
        ("LearnedCart-v0 --hide 7", "numbered from"),
    ):
        with pytest.raises(SystemExit):
            main(["control", *wrong.split(), "--out", str(tmp_path / "other")])
        assert message in " ".join(capsys.readouterr().err.split())


class Jammed(Cart):
    """The same with a second action that cannot be chosen, and no picture of it."""

    action_space = gymnasium.spaces.Box(np.array([-1, 2], np.float32), np.array([1, 2], np.float32))

    def __init__(self):
        super().__init__()

    def step(self, action):
        assert action[1] == 2
        return super().step(action[:1])


class Undrawn(Cart):
    """Takes a render_mode, and gives no picture."""

    def render(self):
        return None


for name, kind in (("LearnedJam-v0", Jammed), ("LearnedUndrawn-v0", Undrawn)):
    gymnasium.register(name, entry_point=kind, max_episode_steps=LIMIT)


def test_actions_that_cannot_be_chosen_are_planned_with(tmp_path):
    coding = ActionCoding(Jammed.action_space)
    assert coding.transform(np.array([[0.5, 2.0]])).tolist() == [[0.5, 0.0]]
    record = learn(make("LearnedJam-v0"), tmp_path, QUICK)
    assert np.isfinite(record["test_return"])
    actions = np.concatenate([episode.actions for episode in load_episodes(tmp_path)])
    assert (actions[:, 1] == 2).all() and actions[:, 0].std() > 0.1


@pytest.mark.parametrize(
    ("environment", "film", "message"),
    [
        ("LearnedJam-v0", "film.gif", "cannot be made with render_mode='rgb_array' (Jammed"),
        ("LearnedUndrawn-v0", "film.gif", "gave no picture but NoneType; let its render()"),
        ("LearnedCart-v0", "film.doc", "film.doc"),
    ],
)
def test_what_stands_against_a_film_is_said_before_learning(tmp_path, capsys, environment, film, message):
    words = ["--steps", "40", "--random-steps", "20", "--tests", "1", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        main(["control", environment, *words, "--film", str(tmp_path / film)])
    assert stop.value.code == 2 and not (tmp_path / "out").exists()
    assert message in " ".join(capsys.readouterr().err.split())
