"""What holds the share of open gates, or the number of events, at a target."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.events import find_events
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.gate_rate import HIGHEST, LOWEST, SparsityWeight
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.gate_control import CONTROL_RATE, GateActivity, GateTarget, measure_gates
from gatel0rd.recordings.windows import windows

STEPS = 40.0


def adjust(target, weight, activity):
    """The next λ of a fit."""
    held = SparsityWeight(weight, speed=CONTROL_RATE, dtype=torch.float64)
    held.adjust(target.ratio(activity))
    return float(held.weight)


def test_the_target_is_the_share_or_the_events():
    assert GateTarget.of(FitConfig(gate_rate=0.1), STEPS) == GateTarget("open_rate", 0.1, STEPS)
    assert GateTarget.of(FitConfig(gate_rate=0.1, events=2.0), STEPS) == GateTarget("events", 2.0, STEPS)
    assert GateTarget.of(FitConfig(gate_rate=None), STEPS) is None


@pytest.mark.parametrize(
    ("events", "open_steps", "rises"),
    [
        (4.0, 4.0, True),  # too many
        (1.0, 1.0, False),  # too few
        (0.0, 0.0, False),  # none, because gates never open
        (0.0, 40.0, True),  # none, because gates never close
        (1.0, 30.0, True),  # few and long
        (1.0, 5.0, False),  # few and short
    ],
)
def test_the_price_of_open_gates_follows_events(events, open_steps, rises):
    target = GateTarget("events", 2.0, STEPS)
    weight = adjust(target, 0.01, GateActivity(open_rate=0.1, events=events, open_steps=open_steps))
    assert (weight > 0.01) == rises and weight != 0.01


def test_gates_that_never_close_raise_the_price_of_any_feasible_target():
    for value in (0.1, 1.0, 5.0, 19.0):  # 40 steps have at most 20 events
        assert adjust(GateTarget("events", value, STEPS), 0.01, GateActivity(1.0, 0.0, STEPS)) > 0.01


def test_the_price_follows_the_share_and_stays_within_limits():
    target = GateTarget("open_rate", 0.1, STEPS)
    assert adjust(target, 0.01, GateActivity(0.2, 0.0, 0.0)) > 0.01 > adjust(target, 0.01, GateActivity(0.05, 0.0, 0.0))
    assert adjust(target, 0.01, GateActivity(0.1, 9.0, 9.0)) == pytest.approx(0.01, rel=1e-3)
    assert adjust(target, HIGHEST, GateActivity(1.0, 0.0, 0.0)) == HIGHEST
    assert adjust(target, LOWEST, GateActivity(0.0, 0.0, 0.0)) == LOWEST
    assert target.distance(GateActivity(0.12, 7.0, 7.0)) == pytest.approx(0.2)
    assert GateTarget("events", 2.0, STEPS).distance(GateActivity(0.12, 7.0, 7.0)) == pytest.approx(2.5)


def test_what_is_measured_is_what_the_events_say():
    torch.manual_seed(0)
    cell = CellConfig(name="gatel0rd", hidden_size=3)
    model = WorldModel(WorldModelConfig(observation_size=2, action_size=1, cell=cell)).eval()
    rng = np.random.default_rng(0)
    data = from_arrays([rng.normal(size=(12, 2)) for _ in range(7)], [rng.normal(size=(12, 1)) for _ in range(7)])
    observations, actions = torch.from_numpy(data.observations), torch.from_numpy(data.actions)
    found = measure_gates(model, observations, actions, windows(data, 11), 11.0)
    with torch.no_grad():
        parts = [
            model(torch.from_numpy(seen[:-1, None]), torch.from_numpy(acted[:-1, None])).gates[:, 0].numpy()
            for seen, acted in map(data.sequence, range(7))
        ]
    assert found.open_rate == pytest.approx(np.mean([(gates > 0).mean() for gates in parts]))
    assert found.open_steps == pytest.approx(np.mean([(gates > 0).any(axis=1).sum() for gates in parts]))
    assert found.events == pytest.approx(np.mean([len(find_events(gates)) for gates in parts]))
    assert 0 < found.events < found.open_steps
