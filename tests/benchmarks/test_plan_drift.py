"""Drift of what stands still is found where it is, and only there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.plan_drift import WALK, correlate_ranks, measure_cage_drift, measure_robot_drift
from benchmarks.plan_failures import audit_model, average_weights
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.worlds import get


def drifting(size: int, column: int, per_step: float, **sizes: int) -> WorldModel:
    """A model that predicts what it saw, but for one column that moves steadily."""
    model = WorldModel(WorldModelConfig(observation_size=size, residual_scale=0.1, **sizes)).eval()
    (last,) = [module for module in model.post.modules() if isinstance(module, torch.nn.Linear)]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.zero_()
        last.bias[column] = per_step / 0.1
    return model


@torch.no_grad()
def test_drift_of_a_robot():
    robot, agent = (drifting(4, column, 0.003, action_size=2) for column in (2, 0))
    assert measure_robot_drift(robot, sustained=True, steps=7, starts=5) == pytest.approx(7 * 0.003, rel=1e-4)
    assert measure_robot_drift(robot, sustained=False, steps=7, starts=5) == pytest.approx(7 * 0.003, rel=1e-4)
    assert measure_robot_drift(agent, sustained=True, steps=7, starts=5) == 0


@torch.no_grad()
def test_drift_of_a_cage_is_in_units_of_the_meadow():
    model = drifting(7, 2, -0.002, action_size=3, init_steps=2)
    mean, std = measure_cage_drift(model, sustained=True, starts=5)
    assert mean == pytest.approx(-0.004 * WALK, rel=1e-3)
    assert std == pytest.approx(0, abs=1e-4)
    assert measure_cage_drift(drifting(7, 4, -0.002, action_size=3, init_steps=2), sustained=True, starts=5)[0] == 0


def test_rank_correlation_by_hand():
    assert correlate_ranks(np.array([1.0, 2.0, 9.0]), np.array([5.0, 6.0, 7.0])) == pytest.approx(1)
    assert correlate_ranks(np.array([1.0, 2.0, 9.0]), np.array([7.0, 6.0, 5.0])) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4
    expected = 4.5 / np.sqrt(4.5 * 5)
    assert correlate_ranks(np.array([0.0, 3.0, 3.0, 8.0]), np.arange(4.0)) == pytest.approx(expected)


def test_the_mean_of_weights():
    models = [drifting(4, 2, drift, action_size=2) for drift in (0.001, 0.004)]
    expected = [(a + b) / 2 for a, b in zip(*(list(model.parameters()) for model in models), strict=True)]
    expected = [tensor.detach().clone() for tensor in expected]
    for found, wanted in zip(average_weights(models).parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted)


def test_a_model_is_audited(monkeypatch):
    world = get("rrc")
    task = world.make_task("text")
    monkeypatch.setattr(type(task), "limit", 3)
    row = audit_model(world, drifting(4, 2, 0.003, action_size=2), episodes=4, seed=1, horizon=5)
    assert row["horizon"] == 5
    assert len(row["reached"]) == 4
    parts = row["plans"]["failed"]
    assert parts["if_right"]["agent"] == pytest.approx(parts["predicted"], abs=1e-3)
    assert parts["if_right"]["robot"] == pytest.approx(parts["real"], abs=1e-3)
    right = audit_model(world, drifting(4, 2, 0.003, action_size=2), episodes=4, seed=1, horizon=5, right=["robot"])
    assert right["plans"]["failed"]["predicted"] == pytest.approx(right["plans"]["failed"]["real"], abs=1e-3)
