"""Plans compared with the true world: what they promise, what they keep, which part of a prediction is at fault."""

from __future__ import annotations

import numpy as np
import pytest

from gatel0rd.planning import AuditedPlans, CorrectedForesight, ICEMConfig, PlanAudit, TrueForesight, control
from gatel0rd.worlds.robot_remote_control.task import RemoteControl

SEARCH = ICEMConfig(horizon=7, samples=12, elites=3)
PARTS = {"agent": (0, 1), "robot": (2, 3)}


class Drifting(TrueForesight):
    """The true world, but for a robot that is predicted to drift by 0.01 per step in x, and an agent by 0.02."""

    def predict(self, sequences):
        futures = super().predict(sequences)
        steps = np.arange(1, sequences.shape[2] + 1)
        futures[..., 2] += 0.01 * steps
        futures[..., 0] += 0.02 * steps
        return futures


def audited(foresight_class, *, episodes=5, measure=lambda predicted, real: {}):
    task = RemoteControl()
    foresight = foresight_class(task)
    audit = PlanAudit(task, foresight, episodes=episodes, parts=PARTS, measure=measure)
    done = control(
        task,
        foresight,
        episodes=episodes,
        generator=np.random.default_rng(2),
        config=SEARCH,
        watch=audit.watch,
    )
    return done, audit.plans()


def test_the_true_world_keeps_what_it_promises():
    done, plans = audited(TrueForesight)
    np.testing.assert_array_equal(plans.predicted, plans.real)
    assert plans.blame(np.arange(5)) == {"agent": 0.0, "robot": 0.0}
    assert plans.predicted.shape == (len(done.actions), 5)


def test_there_is_a_plan_for_each_step_of_each_episode():
    done, plans = audited(TrueForesight)
    assert len(set(done.steps)) > 1
    np.testing.assert_array_equal(np.isfinite(plans.real).sum(axis=0), done.steps)


def test_the_part_that_drifts_is_blamed_and_the_one_that_costs_nothing_is_not():
    _, plans = audited(Drifting)
    everyone = np.arange(5)
    assert plans.optimism(everyone) > 0.05  # robots begin left of their goal more often than right of it
    blame = plans.blame(everyone)
    assert blame["robot"] == pytest.approx(plans.optimism(everyone))
    assert blame["agent"] == 0
    assert "robot" in plans.corrected
    np.testing.assert_allclose(plans.corrected["robot"], plans.real)


def test_an_audit_changes_nothing():
    task = RemoteControl()
    alone = control(task, Drifting(task), episodes=5, generator=np.random.default_rng(2), config=SEARCH)
    watched, _ = audited(Drifting)
    np.testing.assert_array_equal(alone.observations, watched.observations)


def test_what_is_measured_is_kept_by_name():
    _, plans = audited(Drifting, measure=lambda predicted, real: {"drift": (predicted - real)[:, -1, 2]})
    assert plans.measured.keys() == {"drift"}
    found = plans.measured["drift"]
    np.testing.assert_allclose(found[np.isfinite(found)], 0.01 * SEARCH.horizon)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(plans.real))


def test_means_are_of_the_chosen_episodes_and_of_plans_that_were_made():
    predicted = np.array([[1.0, 10.0], [3.0, np.nan]])
    plans = AuditedPlans(predicted, predicted + np.array([[1.0, 5.0], [2.0, np.nan]]), {"robot": predicted + 0.5}, {})
    assert plans.optimism(np.array([0])) == 1.5
    assert plans.optimism(np.array([False, True])) == 5
    assert plans.blame(np.array([0, 1])) == {"robot": 0.5}


def test_no_plan_is_an_error():
    task = RemoteControl()
    with pytest.raises(ValueError, match="no plan was watched"):
        PlanAudit(task, TrueForesight(task), episodes=1).plans()


def test_a_model_is_corrected_in_the_chosen_columns_only():
    task = RemoteControl()
    foresight = CorrectedForesight(task, Drifting(task), columns=PARTS["robot"])
    foresight.begin(task.reset(np.random.default_rng(2).spawn(3)))
    sequences = np.random.default_rng(0).uniform(-1, 1, (3, 4, 6, 2))
    np.testing.assert_array_equal(foresight.predict(sequences)[..., 2:], task.simulate(sequences)[..., 2:])
    np.testing.assert_array_equal(foresight.predict(sequences)[..., :2], Drifting(task).predict(sequences)[..., :2])


def test_plans_with_a_corrected_model_are_those_of_the_true_world_if_nothing_else_costs():
    task = RemoteControl()
    right, true = (
        control(task, foresight, episodes=5, generator=np.random.default_rng(2), config=SEARCH)
        for foresight in (CorrectedForesight(task, Drifting(task), columns=PARTS["robot"]), TrueForesight(task))
    )
    np.testing.assert_array_equal(right.observations, true.observations)
    np.testing.assert_array_equal(right.reached, true.reached)
