"""Fetch Pick&Place: the simulation is gymnasium-robotics', data are what their labels say, planners know the truth."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from gatel0rd.cli.main import main
from gatel0rd.paper.apex import load_policy
from gatel0rd.paper.report.make import make_report
from gatel0rd.planning import ICEM, ICEMConfig
from gatel0rd.training.dataset import ignore_progress
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds.data import generate, obtain
from gatel0rd.worlds.fetch_pick_and_place import data as experts
from gatel0rd.worlds.fetch_pick_and_place import simulation as fetch_simulation
from gatel0rd.worlds.fetch_pick_and_place.apex import ApexConfig, Guided, LearnedPolicy, mirror, play, regress, train
from gatel0rd.worlds.fetch_pick_and_place.drawing import pose, project
from gatel0rd.worlds.fetch_pick_and_place.env import FetchPickAndPlace
from gatel0rd.worlds.fetch_pick_and_place.events import label_events
from gatel0rd.worlds.fetch_pick_and_place.simulation import Arm, body, import_mujoco, sample_object, to_observation
from gatel0rd.worlds.fetch_pick_and_place.task import FEATURES, Placing, plan_sequences

WINDOWS = DataRecipe(scenario="fetch", policy="grasps", split="generalization", sequences=6, steps=25)
EPISODES = DataRecipe(scenario="fetch-diverse", policy="mixed", split="train", sequences=6, steps=50)


@pytest.fixture(scope="module")
def windows():
    return generate(WINDOWS)


def expert_actions(kind="grasp", seed=0, steps=50):
    generator = np.random.default_rng(seed)
    found = experts.play(Arm(), experts.sample_expert(kind, generator, lifts=True), generator, steps=steps)
    return found.actions.astype(np.float32), found


@pytest.mark.filterwarnings("default")
def test_every_step_equals_gymnasium_robotics():
    env = FetchPickAndPlace()
    original = gymnasium.make("FetchPickAndPlace-v4")
    first, _ = original.reset(seed=4)
    address = body().object_address
    place, goal = original.unwrapped.data.qpos[address : address + 2].copy(), first["desired_goal"]
    observation, info = env.reset(options={"object": place, "goal": goal})
    np.testing.assert_array_equal(observation, first["observation"][:11])
    generator = np.random.default_rng(0)
    course = experts.Play(replace(experts.sample_expert("grasp", generator), goal=goal), generator)
    touched, successes = False, 0
    for _ in range(50):
        action = course.act(observation, info["touching"])
        theirs, reward, _, _, extra = original.step(action)
        observation, own_reward, _, _, info = env.step(action)
        np.testing.assert_array_equal(observation, theirs["observation"][:11])
        assert own_reward == reward and info["is_success"] == bool(extra["is_success"])
        touched |= all(info["touching"])
        successes += info["is_success"]
    assert touched and successes > 5


def test_the_object_starts_away_from_the_gripper():
    generator = np.random.default_rng(0)
    places = np.array([sample_object(generator) for _ in range(200)]) - body().gripper[:2]
    assert np.abs(places).max() <= 0.15 and np.linalg.norm(places, axis=1).min() >= 0.1


def test_grasps_are_where_the_windows_say(windows):
    labels, seen = windows.labels, windows.observations
    assert set(labels["grasp"]) <= set(range(6, 11)) and (labels["kind"] == 0).all()
    for window in range(6):
        at = labels["grasp"][window]
        held, relative, thing = labels["grasped"][window], seen[window, :, 6:9], seen[window, :, 3:6]
        assert not held[:at].any() and held[at]
        assert np.abs(relative[at, :2]).max() < 0.0005 and abs(relative[at, 2]) < 0.15
        assert np.abs(thing[:at] - thing[0]).max() < 0.0005
        assert thing[-1, 2] - thing[0, 2] > 0.03
        assert labels["moves"][window, at:].any() and not labels["moves"][window, : at - 1].any()
        carried = labels["moves"][window, -2]
        assert label_events(windows)["object rests"][window, -1] == 0 or not carried  # the end is not a rest
    assert not labels["fell"].any() and (labels["tried"] == 1 + labels["rejected"].sum(axis=1)).all()
    test = generate(replace(WINDOWS, split="test", sequences=2))
    assert (test.labels["grasp"] == 5).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda seen: seen[5, 6:9].__setitem__(0, 0.001), "not centred"),
        (lambda seen: seen[3, 3:6].__setitem__(1, seen[3, 4] + 0.01), "moved before the grasp"),
        (lambda seen: seen[12:, 6:9].__setitem__((slice(None), 2), 0.2), "moved outside the gripper"),
        (lambda seen: seen[6:, 3:6].__setitem__(slice(None), seen[5, 3:6]), "not lifted"),
        (lambda seen: None, None),
    ],
)
def test_the_papers_filters(change, reason):
    _, episode = expert_actions()
    first = experts.first_true(experts.is_grasped(episode.observations, episode.touching)) - 5
    window = experts.Episode(*(part.copy() for part in episode.cut(first, 25)))
    change(window.observations)
    assert experts.why_rejected(window, 5) == reason


@pytest.mark.parametrize("kind", experts.KINDS[:-1])
def test_experts_move_the_object_their_way(kind):
    moved, held, after = [], [], []
    for seed in range(3):
        _, episode = expert_actions(kind, seed)
        thing = episode.observations[:, 3:6]
        moved.append(np.linalg.norm(thing[-1] - thing[0]))
        held.append(experts.is_grasped(episode.observations, episode.touching).any())
        touches = episode.touching.any(axis=1)
        steps = np.linalg.norm(np.diff(thing, axis=0), axis=1)
        after.append((steps[~touches[1:]] > 0.002).any())
        assert np.abs(episode.actions).max() <= 1
    assert np.mean(moved) > 0.05 and all(held) == (kind == "grasp") == any(held)
    assert any(after) or kind in ("grasp", "push")  # what slides or was flicked moves on without being touched


@pytest.mark.slow
def test_parts_are_the_same_on_any_number_of_processes_and_after_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr(experts, "PART", 2)
    from gatel0rd.worlds.parts import generate_in_parts

    recipe = replace(EPISODES, sequences=5, steps=6)
    whole = generate_in_parts(recipe, ignore_progress, workers=1)
    assert len(set(whole.labels["kind"])) > 1

    def stop(done, total):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate_in_parts(recipe, stop, tmp_path, workers=1)
    kept = sorted((tmp_path / "parts" / recipe.name).iterdir())
    assert [path.name for path in kept] == ["00000.safetensors", "00001.safetensors"]
    kept[1].write_bytes(kept[1].read_bytes()[:-20])  # a damaged one is made again
    counts = []
    rest = generate_in_parts(recipe, lambda done, total: counts.append(done), tmp_path, workers=1)
    assert counts == [2, 4, 5]
    for name in ("observations", "actions"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(rest, name))
    for name, values in whole.labels.items():
        np.testing.assert_array_equal(values, rest.labels[name])
    monkeypatch.undo()
    larger = replace(recipe, sequences=experts.PART + 2, steps=2)
    together = obtain(larger, tmp_path)
    assert not (tmp_path / "parts" / larger.name).exists()
    alone = generate_in_parts(larger, ignore_progress, workers=1)
    np.testing.assert_array_equal(together.observations, alone.observations)


def test_planned_sequences_bring_the_object_to_their_goals():
    search = ICEMConfig(horizon=6, samples=6, elites=3, iterations=1)
    sequences = plan_sequences(2, 4, np.random.default_rng(0), search)
    again = plan_sequences(2, 4, np.random.default_rng(0), search)
    for (seen, actions, touching), repeated in zip(sequences, again, strict=True):
        assert seen.shape == (4, 11) and actions.shape == (4, 4) and touching.shape == (4, 2)
        np.testing.assert_array_equal(seen, repeated[0])
        arm = Arm()
        arm.reset(seen[0, 3:5])  # the object stands where it is seen
        for t in range(3):
            arm.step(actions[t].astype(np.float32))
            np.testing.assert_allclose(arm.observe(), seen[t + 1], atol=1e-5)
    assert (sequences[0][1] != sequences[1][1]).any()


def test_one_part_of_mixed_episodes_is_planned(monkeypatch):
    monkeypatch.setattr(experts, "PLANNED_PART", 0)
    monkeypatch.setattr(experts, "PLANNED", 2)
    monkeypatch.setattr(
        "gatel0rd.worlds.fetch_pick_and_place.task.SMALL_BUDGET",
        ICEMConfig(horizon=2, samples=4, elites=2, iterations=1),
    )
    part = experts.generate_part(replace(EPISODES, sequences=3, steps=3), 0)
    assert (part["label.kind"] == experts.KINDS.index("planned")).tolist() == [True, True, False]
    for count in (12_800, 6_400):  # every split has some
        assert len(experts.part_sizes(replace(EPISODES, sequences=count))) >= experts.PLANNED_EVERY


def test_impossible_recipes_are_errors():
    for change, message in (
        ({"policy": "time"}, "policy is 'time'; Fetch Pick&Place has grasps and mixed"),
        ({"split": "all"}, "split is 'all'; expected train, validation, test, generalization"),
        ({"steps": 9}, "steps is 9; the object is grasped at 10, expected more steps"),
    ):
        with pytest.raises(ValueError, match=message):
            generate(replace(WINDOWS, **change))
    env = FetchPickAndPlace()
    with pytest.raises(ValueError, match=r"goal is .*; expected 3 finite numbers, in metres"):
        env.reset(options={"goal": [1.0, np.nan, 0.5]})


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(fetch_simulation.importlib.metadata, "version", lambda name: "3.12.1")
    with pytest.raises(
        ModuleNotFoundError, match=r"mujoco 3.12.1 is installed, .* needs >=3.3,<3.12; pip install 'mujoco"
    ):
        import_mujoco()
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs MuJoCo and gymnasium-robotics; pip install 'gatel0rd\[fetch\]'"
    ):
        import_mujoco()


def test_the_arm_is_posed_as_observed(windows):
    for observation in windows.observations[0, [0, 12, 24]].astype(float):
        data = pose(observation)
        np.testing.assert_allclose(data.site_xpos[body().gripper_site], observation[:3], atol=0.002)
        np.testing.assert_allclose(data.site_xpos[body().object_site], observation[3:6], atol=1e-6)
    pixels, depth = project(np.array([[1.34, 0.75, 0.6], [1.34, 0.75, 0.5]]), 100)
    assert pixels[0, 1] < pixels[1, 1] and (depth > 0).all()  # what is higher is drawn higher


def test_the_task_foretells_itself():
    task = Placing(threads=1)
    task.reset(np.random.default_rng(0).spawn(3))
    actions, _ = expert_actions(steps=5)
    sequences = np.tile(actions.astype(float), (3, 2, 1, 1))
    futures = task.simulate(sequences)
    assert task.simulated == 3 * 2 * 5
    task.keep(np.array([0, 2]))
    for t in range(5):
        seen, _ = task.step(sequences[[0, 2], 0, t])
        np.testing.assert_allclose(futures[[0, 2], 1, t], seen, atol=1e-9)
    alone = Arm()
    generator = np.random.default_rng(0).spawn(3)[2]
    alone.reset(sample_object(generator))
    for action in actions:
        alone.step(action)
    np.testing.assert_allclose(seen[1], alone.observe(), atol=0.005)


def test_costs_and_goals_of_placing():
    task = Placing(threads=1)
    task.reset(np.random.default_rng(0).spawn(2))
    futures = np.zeros((2, 1, 1, 11))
    futures[..., 3:6] = task.goals[:, None, None] + [0.3, 0.0, 0.4]
    futures[..., :3] = futures[..., 3:6] + [0.0, 0.2, 0.0]
    np.testing.assert_allclose(task.cost(futures, futures), 0.5 + 0.5 * 0.2)
    task.goals = task.seen[:, 3:6].copy()
    for step in range(5):
        if step == 2:
            task.goals[1] += 1.0  # away, and back: the count begins anew
        _, reached = task.step(np.zeros((2, 4)))
        if step == 2:
            task.goals[1] -= 1.0
        assert reached.tolist() == [step == 4, False]
    for held in (3, 4, 5):
        _, reached = task.step(np.zeros((2, 4)))
        assert reached.tolist() == [True, held == 5]
    assert task.features(task.seen).shape == (2, FEATURES)


def test_suggestions_are_tried_and_searches_begin_where_they_are_told():
    target = np.random.default_rng(0).uniform(-1, 1, (1, 7, 2))
    chosen = ICEM(
        -np.ones(2), np.ones(2), ICEMConfig(horizon=7, samples=8, elites=4), generator=np.random.default_rng(0)
    )

    def objective(sequences):
        return np.square(sequences - target[:, None]).sum(axis=(2, 3))

    action = chosen.plan(objective, suggestions=target[:, None])
    assert np.array_equal(chosen.planned, target) and np.array_equal(action, target[:, 0])
    asked = []
    fresh = ICEM(-np.ones(2), np.ones(2), ICEMConfig(horizon=7, iterations=1), generator=np.random.default_rng(0))
    fresh.plan(lambda sequences: asked.append(sequences) or objective(sequences), start=target)
    assert np.array_equal(asked[0][:, 0], target)  # the mean, which is tried too


def test_disagreement_with_the_policy_varies_as_the_cost_does():
    task = Placing(threads=1)
    task.reset(np.random.default_rng(0).spawn(2))
    policy = LearnedPolicy(torch.Generator().manual_seed(0))
    sequences = np.random.default_rng(1).uniform(-1, 1, (2, 6, 3, 4))
    plain = task.cost(task.simulate(sequences), sequences)
    extra = Guided(task, policy, guidance=0.5)(sequences) - plain
    np.testing.assert_allclose(extra.std(axis=1), 0.5 * plain.std(axis=1), rtol=1e-6)
    own = task.follow(policy.act, np.zeros((2, 1, 3, 4)))
    np.testing.assert_allclose(
        Guided(task, policy, guidance=0.5)(own), task.cost(task.simulate(own), own), atol=1e-9
    )  # who does what the policy would do does not disagree


TINY = ApexConfig(
    planner=ICEMConfig(horizon=3, samples=4, elites=2, iterations=1), rounds=2, episodes=4, rollouts=1, gradient_steps=2
)


def test_apex_learns_from_what_succeeded_and_where_the_policy_acted(monkeypatch):
    def first_succeeds_at_last(task):
        task.steps_so_far = getattr(task, "steps_so_far", 0) + 1
        return (np.arange(len(task.goals)) == 0) & (task.steps_so_far % 3 == 0)

    monkeypatch.setattr(Placing, "limit", 3)
    monkeypatch.setattr(Placing, "near", first_succeeds_at_last)
    monkeypatch.setattr("gatel0rd.worlds.fetch_pick_and_place.task.HELD", 1)
    task, seen = Placing(threads=1), []
    policy, rounds, tracks = train(task, TINY, seed=0, tests=2, on_round=seen.append)
    assert seen == rounds and len(rounds) == 2 and all(len(track.moments) == 3 for track in tracks)
    assert [track.reached.tolist() for track in tracks] == [[3, -1, -1, -1]] * 2
    assert rounds[0].examples == 3  # of the episode that succeeded
    assert rounds[1].examples == 3 + 3 + 2 * 3  # and of those in which the policy acted
    later = tracks[1].moments[0]
    np.testing.assert_array_equal(later.taken[:2], later.advice[:2])
    assert not np.array_equal(later.taken[2:], later.advice[2:])  # there the policy acted
    guided = play(task, policy, TINY, episodes=2, generator=np.random.default_rng(0))
    unguided = play(task, None, TINY, episodes=2, generator=np.random.default_rng(0))
    assert guided.simulated <= unguided.simulated <= 1.2 * guided.simulated
    np.testing.assert_array_equal(guided.moments[0].features, unguided.moments[0].features)  # the same starts


def test_regression_fits_examples():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(200, FEATURES))
    targets = np.tanh(inputs[:, :4] - 0.5 * inputs[:, 4:8])
    config = replace(TINY, gradient_steps=500, batch_size=50, blur=0.0, learning_rate=0.005)
    policy, error = regress(inputs, targets, config, torch.Generator().manual_seed(0))
    assert error == pytest.approx(np.square(policy.act(inputs) - targets).mean(), rel=1e-4)
    assert error < np.square(targets).mean() / 10
    _, nothing = regress(inputs[:0], targets[:0], TINY, torch.Generator())
    assert nothing is None


def test_mirror_images_are_what_the_simulator_would_show():
    task = Placing(threads=1)
    task.reset(np.random.default_rng(0).spawn(1))
    middle = task.seen[0, :3].copy()
    actions = np.random.default_rng(1).uniform(-1, 1, (4, 4))
    features = []
    for axis in (None, 0, 1):
        task.states, task.seen = task.arms.begin(np.array([[middle[0] + 0.1, middle[1] - 0.12]]))
        task.goals = middle[None] + [[0.05, 0.08, 0.1]]
        flip = np.ones(3)
        if axis is not None:
            flip[axis] = -1
            task.states, task.seen = task.arms.begin((middle[:2] + flip[:2] * [0.1, -0.12])[None])
            task.goals = middle[None] + flip * [[0.05, 0.08, 0.1]]
        for action in actions:
            task.step(np.append(flip * action[:3], action[3])[None])
        features.append(task.features(task.seen)[0])
    inputs, targets = mirror(features[0][None], actions[-1:])
    assert inputs.shape == (4, FEATURES) and targets.shape == (4, 4)
    np.testing.assert_allclose(inputs[1], features[1], atol=0.05)
    np.testing.assert_allclose(inputs[2], features[2], atol=0.05)
    np.testing.assert_array_equal(targets[3], actions[-1] * [-1, -1, 1, 1])


def test_a_candidate_that_breaks_the_simulator_loses_alone(monkeypatch):
    task = Placing(threads=1)
    task.reset(np.random.default_rng(0).spawn(1))
    policy = LearnedPolicy(torch.Generator().manual_seed(0))
    sequences = np.random.default_rng(1).uniform(-1, 1, (1, 5, 3, 4))
    futures = task.look_ahead(sequences)
    futures[0, 2] = np.nan
    monkeypatch.setattr(task, "look_ahead", lambda sequences: futures)
    costs = Guided(task, policy, guidance=0.5)(sequences)
    assert np.isnan(costs[0]).tolist() == [False, False, True, False, False]


def test_apex_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Placing, "limit", 2)
    budgets = {"tiny": ICEMConfig(horizon=2, samples=4, elites=4, iterations=1)}
    monkeypatch.setattr("gatel0rd.paper.apex.BUDGETS", budgets)
    monkeypatch.setattr("gatel0rd.paper.apex.ApexConfig", lambda **own: replace(TINY, **own))
    words = ["--rounds", "1", "--episodes", "2", "--tests", "2", "--out", str(tmp_path / "apex")]
    main(["apex", *words])
    shown = capsys.readouterr().out
    assert "tiny budget, guided: 0%" in shown and "tiny budget, unguided: 0%" in shown and "policy alone: 0%" in shown
    record = json.loads((tmp_path / "apex" / "apex.json").read_text())
    assert record["rounds"][0]["error"] is None and record["planned"]["tiny"]["guided"]["reached"] == [-1, -1]
    text = make_report([tmp_path], tmp_path / "report").read_text()
    assert "Guided against unguided" in text and "tiny, guided" in text and "gatel0rd apex --rounds 1" in text
    policy = load_policy(tmp_path / "apex" / "policy.safetensors")
    assert policy.act(np.zeros((3, FEATURES))).shape == (3, 4)
    with pytest.raises(SystemExit):
        main(["apex", "--episodes", "1"])
    assert "episodes is 1; expected at least 2" in capsys.readouterr().err


def test_observed_is_what_the_environment_shows():
    arm = Arm()
    arm.reset(body().gripper[:2] + 0.1)
    for _ in range(3):
        np.testing.assert_array_equal(to_observation(arm.take()[1]), arm.observe())
        arm.step(np.array([0.5, 0.0, -0.2, 1.0]))
