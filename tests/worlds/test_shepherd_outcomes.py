"""How planned episodes of Shepherd end: found by carrying them out again, with actions written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gatel0rd.planning.mpc import Episodes
from gatel0rd.worlds.shepherd.outcomes import HerdingEnd, describe_ends, measure_plans
from gatel0rd.worlds.shepherd.task import Herding


def carry_out(policy, *, seed, count):
    """Episodes in which ``policy(state, step)`` acts, and the generators that they began with."""
    task = Herding()
    observations, actions, flags = [task.reset(np.random.default_rng(seed).spawn(count))], [], []
    for step in range(task.limit):
        actions.append(policy(task.state, step))
        seen, caught = task.step(actions[-1])
        observations.append(seen)
        flags.append(caught.copy())
    flags = np.stack(flags)
    reached = np.where(flags.any(axis=0), flags.argmax(axis=0) + 1, -1)
    steps = np.where(reached >= 0, reached, task.limit)
    done = Episodes(np.stack(observations), np.stack(actions), reached, steps)
    return describe_ends(task, done, np.random.default_rng(seed).spawn(count)), done


def herd(offset, *, height=-0.2, opens=True):
    """Carry the cage to where the sheep will be, a little off; then go to the lever."""

    def policy(state, step):
        target = np.stack([state.sheep[:, 0] + offset, np.full(len(state.sheep), height)], axis=-1)
        away = (target - state.cage) / 0.1
        placed = (np.abs(away) < 1e-9).all(axis=-1) | ~state.carried
        move = np.where(placed[:, None], to_lever(state) if opens else np.zeros_like(away), away)
        grasp = np.where(placed, -1.0, 1.0)
        return np.concatenate([np.clip(move, -1, 1), grasp[:, None]], axis=-1)

    return policy


def to_lever(state):
    return (np.array([-0.85, -0.05]) - state.agent) / 0.1


def never_let_go(state, step):
    return np.concatenate([np.clip(to_lever(state), -1, 1), np.ones((len(state.agent), 1))], axis=-1)


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        (herd(0.0), HerdingEnd.CAUGHT),
        (herd(0.14), HerdingEnd.CAUGHT),
        (herd(0.2), HerdingEnd.MISSED),
        (herd(0.0, opens=False), HerdingEnd.CLOSED),
        (never_let_go, HerdingEnd.CARRIED),
        (herd(0.0, height=-0.9), HerdingEnd.LATE),
    ],
)
def test_outcomes_of_written_episodes(policy, outcome):
    ends, _ = carry_out(policy, seed=3, count=4)
    assert ends.outcomes == [outcome] * 4


def test_when_the_gate_opened_and_where_the_cage_stood():
    ends, done = carry_out(herd(0.14), seed=3, count=4)
    np.testing.assert_allclose(ends.offset, 0.14, atol=1e-9)
    lever = np.linalg.norm(done.observations[..., :2] / 0.5 + [1.0, -0.5] - [-0.85, 0.0], axis=-1)
    np.testing.assert_array_equal(ends.opened, (lever < 0.3).argmax(axis=0))
    closed, _ = carry_out(herd(0.14, opens=False), seed=3, count=4)
    assert (closed.opened == -1).all()
    assert np.isnan(closed.offset).all()


def test_errors_of_plans_are_measured():
    steps = 9
    real = np.zeros((3, steps, 7))
    real[:, :4, 2] = np.arange(4) * -0.05  # carried for four steps by 0.1, then left
    real[:, 4:, 2] = real[:, 3:4, 2]
    real[:, :, 4:6] = -1  # hidden
    real[0, 5:, 4:6] = 0.3, -0.4  # comes out in the first future
    predicted = real.copy()
    predicted[:, 4:, 2] -= 0.01 * np.arange(1, 6)  # 0.02 per step after it was left
    predicted[0, 5:, 4] += 0.07
    predicted[1, 6:, 4:6] = 0.1, -0.2  # comes out in the prediction only
    predicted[2, 6:, 4:6] = -0.7, -0.7  # between a sheep and the mask: neither
    found = measure_plans(predicted, real)
    np.testing.assert_allclose(found["cage_drift"], 0.1)
    np.testing.assert_allclose(found["sheep_error"], [0.07, np.nan, np.nan])
    np.testing.assert_array_equal(found["phantom"], [0, 1, 0])
    always = real.copy()
    always[..., 2] = np.arange(steps) * -0.05  # carried to the end: there is no drift to speak of
    assert np.isnan(measure_plans(always, always)["cage_drift"]).all()
    still = np.zeros_like(real)
    np.testing.assert_array_equal(measure_plans(still, still)["cage_drift"], 0)
