from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from gatel0rd.models.events import agreement, keep_apart
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.changes import CONDITION, Partition, Prior, Statistics, partition
from gatel0rd.recordings.detector import ChangeDetector, OnlineChanges
from gatel0rd.recordings.explanations import Design, Explanation, build_design, find_busy, propose_explanations
from gatel0rd.recordings.families import FAMILIES, make_family
from gatel0rd.recordings.method import choose_method, measure_gate_evidence
from gatel0rd.recordings.whole import FollowedSequence


def some_design(steps: int = 11, channels: int = 3, size: int = 2, seed: int = 0) -> Design:
    rng = np.random.default_rng(seed)
    features = np.concatenate([np.ones((steps, channels, 1)), rng.normal(size=(steps, channels, size - 1))], axis=-1)
    targets = rng.normal(size=(steps, channels)) + 4 * (np.arange(steps) >= 6)[:, None]
    return Design(targets, features)


def some_prior(channels: int = 3, size: int = 2, memory: int = 0) -> Prior:
    rng = np.random.default_rng(1)
    return Prior(
        rng.normal(size=(channels, size)),
        rng.uniform(0.5, 4, size=(channels, size)),
        1.7,
        rng.uniform(0.5, 2, size=channels),
        0.05,
        None,
        memory,
    )


def test_densities_step_by_step_multiply_to_that_of_the_segment():
    design, prior = some_design(), some_prior()
    state = Partition(prior, 1, 4)
    state.begin()
    for targets, features in zip(*design, strict=True):
        state.observe(targets[None], features[None])
    assert state.scores[0, 0] == pytest.approx(Statistics.of(design, 0, 11).evidence(prior).sum(), rel=1e-9)


def test_statistics_of_parts_add_up():
    design, prior = some_design(), some_prior()
    parts = Statistics.of(design, 0, 4) + Statistics.of(design, 4, 11)
    assert parts.evidence(prior) == pytest.approx(Statistics.of(design, 0, 11).evidence(prior))


def test_boundaries_are_the_best_of_all():
    design, prior = some_design(), some_prior()
    steps = len(design.targets)

    def score(cuts: tuple[int, ...]) -> float:
        edges = [0, *cuts, steps]
        found = sum(Statistics.of(design, a, b).evidence(prior).sum() for a, b in pairwise(edges))
        return float(found) - len(cuts) * prior.penalty

    every = [cuts for count in range(4) for cuts in combinations(range(1, steps), count)]
    best = max(every, key=score)
    assert partition([design], prior)[0] == [list(best)] and best == (6,)


def test_the_evidence_is_that_of_all_partitions():
    design, prior = some_design(steps=6), some_prior()
    state = Partition(prior, 1, 6)
    for targets, features in zip(*design, strict=True):
        state.begin()
        state.observe(targets[None], features[None])
    total = 0.0
    for count in range(6):
        for cuts in combinations(range(1, 6), count):
            parts = sum(Statistics.of(design, a, b).evidence(prior).sum() for a, b in pairwise([0, *cuts, 6]))
            total += float(np.exp(parts)) * prior.hazard**count * (1 - prior.hazard) ** (5 - count)
    assert state.total_evidence()[0] == pytest.approx(np.log(total))


def test_sequences_of_different_lengths_do_not_disturb_each_other():
    prior, designs = some_prior(memory=1), [some_design(steps, seed=steps) for steps in (13, 125, 18)]
    together, evidence = partition(designs, prior)
    for design, cuts, value in zip(designs, together, evidence, strict=True):
        alone, (own,) = partition([design], prior)
        assert alone == [cuts] and own == pytest.approx(value)
    assert min(len(design.targets) for design in designs) > CONDITION


@pytest.mark.parametrize("steps", [3, CONDITION - 1, CONDITION])
def test_nothing_is_left_of_sequences_that_are_taken_as_given(steps):
    prior, short, long = some_prior(), some_design(steps, seed=4), some_design(120, seed=5)
    assert partition([short], prior)[1].tolist() == [0]
    (value,) = partition([long], prior)[1]
    assert partition([short, long], prior)[1] == pytest.approx([0, value])
    state = Partition(prior, 1, steps)
    for targets, features in zip(*short, strict=True):
        state.begin()
        state.observe(targets[None], features[None])
    assert partition([short], prior, condition=0)[1] == pytest.approx(state.total_evidence())


def test_methods_are_compared_on_all_steps_if_no_sequence_has_many():
    rng = np.random.default_rng(2)
    data = from_arrays([np.cumsum(rng.normal(size=(3 + number % 5, 2)), axis=0) for number in range(21)])
    train, validation = data.take(range(14)), data.take(range(14, 21))
    followed = tuple(
        [
            FollowedSequence(rng.normal(size=(length - 1, 2)), rng.choice([0.0, 0.5], size=(length - 1, 3)))
            for length in part.lengths.tolist()
        ]
        for part in (train, validation)
    )
    choice = choose_method(train, validation, followed)
    steps = int((validation.lengths - 1).sum())
    assert len(set(choice.detector.evidence.values())) > 2
    assert choice.evidence["changes"] == pytest.approx(choice.detector.measure_evidence(validation, 0) / steps)
    assert choice.evidence["gates"] == pytest.approx(measure_gate_evidence(*followed, 0) / steps)
    assert all(value < -0.5 for value in choice.evidence.values())
    # one longer sequence, and what the short ones begin with no longer counts
    longer = from_arrays([*(validation.sequence(index)[0] for index in range(7)), rng.normal(size=(CONDITION + 6, 2))])
    extra = FollowedSequence(rng.normal(size=(CONDITION + 5, 2)), np.zeros((CONDITION + 5, 3)))
    followed = (followed[0], [*followed[1], extra])
    choice = choose_method(train, longer, followed)
    assert choice.evidence["gates"] == pytest.approx(measure_gate_evidence(followed[0], [extra]) / 5)
    assert choice.evidence["changes"] == pytest.approx(choice.detector.measure_evidence(longer.take([7])) / 5)


def test_designs_look_back_and_never_ahead():
    observations, actions = np.arange(14.0).reshape(7, 2) ** 2, np.arange(7.0)[:, None]
    explanation = Explanation(level=True, lags=2, actions="row", given=(0,), others=(0, 1))
    targets, features = build_design(explanation, observations, actions)
    changes = np.diff(observations, axis=0)
    assert np.array_equal(targets, changes)
    assert np.array_equal(features[4, 1], [1, observations[4, 1], changes[3, 1], changes[2, 1], 4, *observations[4]])
    assert np.array_equal(features[0, 0, 2:4], [0, 0])  # nothing is known from before the beginning
    late = build_design(Explanation(actions="next", given=(0,)), observations, actions).features
    assert late[3, 0].tolist() == [1, 4]
    assert explanation.memory == 3 and Explanation().memory == 0
    assert "all channels" not in propose_explanations(observations[:, :1], actions)
    assert {"actions", "all channels"} <= set(propose_explanations(observations, actions))


def test_what_hardly_ever_happens_explains_nothing():
    pressed = (np.arange(50) % 25 == 3).astype(float)[:, None]
    moving = np.random.default_rng(0).normal(size=(50, 1))
    assert find_busy(np.concatenate([pressed, moving], axis=1)) == (1,)
    assert not any(entry.actions for entry in propose_explanations(moving, pressed).values())


def test_a_single_press_is_an_event():
    """One in every sequence, without noise: a coefficient of its own would explain it away."""
    rng = np.random.default_rng(0)
    found, pressed, cuts = [], [], []
    for _ in range(30):
        cut, steps = int(rng.integers(12, 28)), np.arange(40)
        speed = 0.1 * rng.choice([-1, 1]) * np.where(steps < cut, 1, -1)
        found.append((rng.normal() + np.concatenate([[0], np.cumsum(speed)[:-1]]))[:, None])
        pressed.append((steps == cut)[:, None])
        cuts.append([cut])
    recordings = from_arrays(found, pressed)
    changes = ChangeDetector.learn(recordings).find(recordings, apart=3)
    assert agreement([[change.time for change in own] for own in changes], cuts, 40, 1).f1 > 0.95


@pytest.mark.parametrize("name", FAMILIES)
def test_changes_are_found_in_every_family(name):
    family = FAMILIES[name]
    data = make_family(name, seed=7, sequences=30, steps=90)
    detector = ChangeDetector.learn(data.recordings)
    found = [[change.time for change in own] for own in detector.find(data.recordings, apart=3)]
    if family.wanted is None:
        assert sum(map(len, found)) <= 0.1 * len(found)
    else:
        assert data.agree(found).f1 >= family.wanted


def test_what_changed_and_what_recurs():
    data = make_family("hidden-gain", seed=3, sequences=20, steps=120)
    rng = np.random.default_rng(0)
    rows = np.concatenate([data.recordings.observations, rng.normal(size=(2400, 1))], axis=1).astype(np.float32)
    recordings = from_arrays(list(rows.reshape(20, 120, 2)), list(data.recordings.actions.reshape(20, 120, 1)))
    detector = ChangeDetector.from_json(ChangeDetector.learn(recordings).to_json())
    changes = detector.find(recordings, apart=3)
    times = [[change.time for change in own] for own in changes]
    assert data.agree(times).f1 > 0.9
    assert all(change.variables[0] > change.variables[1] for own in changes for change in own)  # noise did not change
    assert np.mean([change.probability for own in changes for change in own]) > 0.9
    statistics = [
        detector.segment_statistics(detector.design(*recordings.sequence(index)), own)
        for index, own in enumerate(times)
    ]
    labels = detector.label_segments(statistics)
    assert {label for own in labels for label in own[:2]} == {0, 1}  # strong and weak
    assert all(a != b for own in labels for a, b in pairwise(own))


def test_rows_one_by_one_give_the_same_boundaries():
    data = make_family("level-shift", seed=2, sequences=15, steps=120)
    detector = ChangeDetector.learn(data.recordings)
    observations, actions = data.recordings.sequence(4)
    online, found = OnlineChanges(detector), []
    for row, given in zip(observations, actions, strict=True):
        begun = online.update(row, given)
        if begun is not None:
            found.append(begun)
    offline = [change.time for change in detector.find(data.recordings, apart=3)[4]]
    assert len(offline) >= 2 and keep_apart(found, 3).tolist() == offline
    online.reset()
    assert online.update(observations[0]) is None and online.time == 0


@pytest.mark.parametrize(
    "rows", [np.ones((30, 1)), np.arange(30.0)[:, None], np.arange(30.0)[:, None] % 2, 1e9 * np.ones((30, 2))]
)
def test_plain_rows_have_no_changes(rows):
    recordings = from_arrays([rows, rows[:20], rows[:3]])
    assert ChangeDetector.learn(recordings).find(recordings, apart=3) == [[], [], []]
