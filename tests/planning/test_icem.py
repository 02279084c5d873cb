from __future__ import annotations

from dataclasses import replace

import colorednoise
import numpy as np
import pytest

from gatel0rd.planning import ICEM, ICEMConfig, colored_noise, plain_cem, random_shooting

SMALL = ICEMConfig(horizon=7, samples=40, elites=5)


def planner(config=SMALL, *, actions=2, episodes=1, seed=0):
    generators = np.random.default_rng(seed).spawn(episodes)
    return ICEM(-np.ones(actions), np.ones(actions), config, generator=generators)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5, 3.0])
@pytest.mark.parametrize("steps", [2, 7, 30, 50])
def test_noise_equals_the_colorednoise_package(exponent, steps):
    ours = colored_noise(exponent, (3, 2, steps), np.random.default_rng(5))
    theirs = colorednoise.powerlaw_psd_gaussian(exponent, (3, 2, steps), random_state=np.random.default_rng(5))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_noise_has_unit_variance_and_the_slope_of_its_exponent():
    for exponent in (0.0, 2.0):
        noise = colored_noise(exponent, (4000, 64), np.random.default_rng(0))
        assert noise.var(axis=-1).mean() == pytest.approx(1, abs=0.03)
        power = (np.abs(np.fft.rfft(noise)) ** 2).mean(axis=0)[1:-1]
        slope = np.polyfit(np.log(np.arange(1, len(power) + 1)), np.log(power), 1)[0]
        assert slope == pytest.approx(-exponent, abs=0.05)


def test_impossible_noise_is_an_error():
    with pytest.raises(ValueError, match="the last entry is the number of steps"):
        colored_noise(1.0, (3, 0), np.random.default_rng(0))
    with pytest.raises(ValueError, match="initial_std is inf; expected a finite number above 0"):
        ICEMConfig(initial_std=np.inf)
    with pytest.raises(ValueError, match="there is no generator; expected one for every episode"):
        ICEM(-np.ones(2), np.ones(2), generator=[])
    with pytest.raises(ValueError, match="exponent is -1; expected a finite number of at least 0"):
        colored_noise(-1, (3, 5), np.random.default_rng(0))


def test_populations_shrink_as_published():
    assert ICEMConfig().sample_counts == [256, 204, 163]
    assert ICEMConfig(samples=24, iterations=4).sample_counts == [24, 20, 20, 20]
    assert ICEMConfig(decay=1.0).sample_counts == [256] * 3
    assert plain_cem(ICEMConfig()).sample_counts == [207] * 3
    assert random_shooting(ICEMConfig()).sample_counts == [623]


def seen_by(config, steps=1, **options):
    """Everything the objective was asked about."""
    asked = []

    def objective(sequences):
        asked.append(sequences.copy())
        return np.square(sequences - 0.3).sum(axis=(2, 3))

    chosen = planner(config, **options)
    actions = [chosen.plan(objective) for _ in range(steps)]
    return asked, actions, chosen


def test_elites_are_kept_shifted_and_not_evaluated_twice_in_a_step():
    asked, _, _ = seen_by(SMALL, steps=2)
    assert [part.shape for part in asked[:3]] == [(1, 40, 7, 2), (1, 32, 7, 2), (1, 25, 7, 2)]
    assert asked[3].shape == (1, 41, 7, 2)  # one elite of the step before: int(0.3 * 5)
    everything = np.concatenate(asked[:3], axis=1)[0]
    best = everything[np.square(everything - 0.3).sum(axis=(1, 2)).argmin()]
    assert np.array_equal(asked[3][0, -1, :-1], best[1:])
    assert not np.array_equal(asked[3][0, -1, -1], best[-1])


def test_the_mean_is_tried_last_and_moves_with_momentum():
    asked, _, chosen = seen_by(replace(SMALL, iterations=1, momentum=0.25))
    samples = asked[0][0]
    assert (samples[0] == 0).all()  # the first mean lies in the middle of the action range
    elites = samples[np.square(samples - 0.3).sum(axis=(1, 2)).argsort()[:5]]
    expected = 0.75 * elites.mean(axis=0)
    np.testing.assert_allclose(chosen.mean[0, :-1], expected[1:])
    np.testing.assert_allclose(chosen.mean[0, -1], expected[-1])
    np.testing.assert_allclose(chosen.std, 0.5)


def test_the_first_action_of_the_best_sequence_is_executed():
    asked, actions, chosen = seen_by(SMALL)
    everything = np.concatenate(asked, axis=1)[0]
    best = everything[np.square(everything - 0.3).sum(axis=(1, 2)).argmin()]
    assert np.array_equal(actions[0][0], best[0]) and np.array_equal(chosen.planned[0], best)


def test_plain_cem_and_random_shooting():
    asked, actions, chosen = seen_by(plain_cem(SMALL), steps=2)
    assert [part.shape[1] for part in asked] == [32] * 6
    assert not any((part[:, 0] == 0).all() for part in asked)
    assert np.array_equal(actions[-1], chosen.planned[:, 0])
    assert not np.array_equal(chosen.planned[:, 0], chosen.elites[:, 0, 0])  # the mean is executed, not the best
    asked, actions, chosen = seen_by(random_shooting(SMALL), steps=3)
    assert [part.shape[1] for part in asked] == [97] * 3
    assert (chosen.mean == 0).all() and (chosen.std == 0.5).all()  # nothing is learned from step to step
    assert np.array_equal(actions[-1], chosen.elites[:, 0, 0])


def test_elites_can_be_kept_and_shifted_apart():
    def counts(**switches):
        asked, _, _ = seen_by(replace(SMALL, reuse=0.6, **switches), steps=2)
        return [part.shape[1] for part in asked]

    assert counts() == [40, 32, 25, 43, 32, 25]
    assert counts(keep_elites=False) == [40, 32, 25, 43, 32, 25]  # kept ones are not evaluated again
    assert counts(shift_elites=False) == [40, 32, 25, 40, 32, 25]

    def best(keep):
        costs = []

        def objective(sequences):
            found = np.square(sequences - 0.3).sum(axis=(2, 3))
            costs.append(found.min())
            return found

        chosen = planner(replace(SMALL, keep_elites=keep, noise_exponent=0.0, momentum=1.0, try_mean=False))
        chosen.plan(objective)
        return costs, chosen.elite_costs[0, 0]

    costs, last = best(keep=True)
    assert last == min(costs)
    costs, last = best(keep=False)
    assert last == costs[-1] > min(costs)


def test_more_search_finds_lower_costs():
    goal = np.sin(np.arange(7) / 2)[:, None] * [0.8, -0.8]

    def cost_of(config, seed):
        chosen = planner(config, seed=seed)
        chosen.plan(lambda sequences: np.square(sequences - goal).sum(axis=(2, 3)))
        return np.square(chosen.planned[0] - goal).sum()

    def average(config):
        return np.mean([cost_of(config, seed) for seed in range(10)])

    improved, plain, shots = (average(config) for config in (SMALL, plain_cem(SMALL), random_shooting(SMALL)))
    assert improved < plain < shots


def test_episodes_are_searched_apart():
    goals = np.array([-0.7, 0.0, 0.7])
    chosen = planner(replace(SMALL, samples=80), episodes=3, actions=1)
    for _ in range(3):
        actions = chosen.plan(lambda sequences: np.square(sequences - goals[:, None, None, None]).sum(axis=(2, 3)))
    np.testing.assert_allclose(actions[:, 0], goals, atol=0.15)


def test_the_same_generator_gives_the_same_plan_and_a_reset_forgets():
    def objective(sequences):
        return np.square(sequences - 0.5).sum(axis=(2, 3))

    first, second = planner(seed=3), planner(seed=3)
    assert np.array_equal(first.plan(objective), second.plan(objective))
    first.reset()
    assert first.elites.shape[1] == 0 and (first.mean == 0).all() and (first.std == 0.5).all()


def test_nan_and_infinite_costs_lose():
    def objective(sequences):
        costs = np.square(sequences + 0.5).sum(axis=(2, 3))
        costs[sequences[:, :, 0, 0] > 0] = np.nan
        costs[sequences[:, :, 0, 1] > 0] = np.inf
        return costs

    chosen = planner()
    for _ in range(3):
        action = chosen.plan(objective)
        assert (action <= 0).all() and np.isfinite(chosen.mean).all()
        assert np.isfinite(chosen.elite_costs[:, 0]).all()


def test_when_everything_is_hopeless_the_plan_is_still_an_action():
    widths = []

    def objective(sequences):
        widths.append(sequences.std())
        return np.full(sequences.shape[:2], np.nan)

    chosen = planner()
    action = chosen.plan(objective)
    assert action.shape == (1, 2) and (np.abs(action) <= 1).all()
    assert (chosen.mean == 0).all() and min(widths) > 0.8 * max(widths)  # and the search does not narrow down


def test_elites_of_earlier_iterations_compete_with_their_stored_costs():
    """Only the first iteration finds anything good; the second must not lose it, nor ask for it again."""
    asked = []

    def objective(sequences):
        asked.append(len(sequences[0]))
        return np.arange(sequences.shape[1])[None] + 1000.0 * (len(asked) > 1)

    chosen = planner(replace(SMALL, iterations=2, reuse=1.0, try_mean=False))
    chosen.plan(objective)
    assert asked == [40, 32] and chosen.elite_costs.tolist() == [[0, 1, 2, 3, 4]]


def test_samples_stay_within_asymmetric_bounds():
    low, high = np.array([-2.0, 1.0]), np.array([0.0, 5.0])
    chosen = ICEM(low, high, replace(SMALL, initial_std=2.0), generator=np.random.default_rng(0))

    def objective(sequences):
        assert (sequences >= low).all() and (sequences <= high).all()
        return sequences.sum(axis=(2, 3))

    for _ in range(2):
        chosen.plan(objective)
    np.testing.assert_allclose(chosen.mean[0].mean(axis=0), low, atol=0.3)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (lambda sequences: np.zeros(3), r"costs of shape \(3,\); expected \(1, 40\), one per sequence"),
        (lambda sequences: np.full(sequences.shape[:2], -np.inf), "a cost of minus infinity"),
    ],
)
def test_bad_objectives_are_errors(costs, message):
    with pytest.raises(ValueError, match=message):
        planner().plan(costs)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([-np.inf], [1.0], "iCEM needs finite ones: rescale the actions"),
        ([1.0], [-1.0], "expected none of low above high"),
        ([-1.0, -1.0], [1.0], r"bounds have shapes \(2,\) and \(1,\)"),
    ],
)
def test_bad_bounds_are_errors(low, high, message):
    with pytest.raises(ValueError, match=message):
        ICEM(low, high, generator=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon is 0; expected at least 1"),
        ({"elites": 50}, "50 elites of 40 samples"),
        ({"momentum": 1.5}, "momentum is 1.5; expected 0 to 1"),
        ({"decay": 0.5}, "decay is 0.5; expected 1 to inf"),
        ({"noise_exponent": -1.0}, "noise_exponent is -1.0; expected a finite number"),
        ({"initial_std": 0.0}, "initial_std is 0.0; expected a finite number"),
    ],
)
def test_bad_configurations_are_errors(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)
