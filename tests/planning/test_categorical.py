"""iCEM over choices."""

from __future__ import annotations

import numpy as np
import pytest

from gatel0rd.planning import CategoricalICEM, ICEMConfig, colored_noise
from gatel0rd.planning.noise import marginal_std


@pytest.mark.parametrize(("exponent", "steps"), [(0.0, 7), (3.0, 8), (1.0, 30), (2.0, 1)])
def test_the_spread_of_colored_noise_is_known(exponent, steps):
    noise = colored_noise(exponent, (20000, steps), np.random.default_rng(0))
    assert abs(noise.std() - marginal_std(exponent, steps)) < 0.02


@pytest.mark.parametrize("exponent", [0.0, 3.0])
def test_choices_follow_the_probabilities(exponent):
    config = ICEMConfig(horizon=6, samples=20000, noise_exponent=exponent)
    planner = CategoricalICEM(3, config, generator=np.random.default_rng(0))
    planner.mean[:] = [0.2, 0.7, 0.1]
    samples = planner._sample(20000)
    assert samples.shape == (1, 20000, 6, 3) and (samples.sum(axis=-1) == 1).all()
    np.testing.assert_allclose(samples.mean(axis=(0, 1, 2)), [0.2, 0.7, 0.1], atol=0.03)


def test_slow_noise_repeats_choices():
    def repeats(exponent):
        planner = CategoricalICEM(
            2, ICEMConfig(horizon=20, noise_exponent=exponent), generator=np.random.default_rng(0)
        )
        chosen = planner._sample(500).argmax(axis=-1)
        return (chosen[..., 1:] == chosen[..., :-1]).mean()

    assert abs(repeats(0.0) - 0.5) < 0.05
    assert repeats(3.0) > 0.75


def test_the_best_sequence_of_choices_is_found():
    target = np.array([0, 2, 1, 1, 0])

    def objective(actions):
        return (actions.argmax(axis=-1) != target).sum(axis=-1).astype(float)

    config = ICEMConfig(horizon=5, samples=100, iterations=5, noise_exponent=0.0)
    planner = CategoricalICEM(3, config, generator=np.random.default_rng(0))
    action = planner.plan(objective)
    assert action.tolist() == [[1.0, 0.0, 0.0]]
    assert planner.planned[0].argmax(axis=-1).tolist() == target.tolist()
    np.testing.assert_allclose(planner.mean.sum(axis=-1), 1)
    assert planner.mean.min() >= 0.5 / 3 - 1e-9  # wide again


def test_there_must_be_something_to_choose_from():
    with pytest.raises(ValueError, match="expected at least 2"):
        CategoricalICEM(1, generator=np.random.default_rng(0))
