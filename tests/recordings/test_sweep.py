"""How many events, and which method: the rules, in numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gatel0rd.models import WorldModel
from gatel0rd.models.config import FollowingModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.changes import CONDITION
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.family_benchmark import FamilyScore, judge_family, results_table
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.fitter import Fitter
from gatel0rd.recordings.method import measure_gate_evidence
from gatel0rd.recordings.pilots import CANDIDATES, choose_fewest
from gatel0rd.recordings.sweep import (
    BEGIN,
    END,
    HIGHEST,
    LOWEST,
    PATIENCE,
    SweepPoint,
    choose_point,
    describe_curve,
    has_learned,
    price_at,
)
from gatel0rd.recordings.whole import FollowedSequence, follow


def test_the_price_rises_evenly_in_its_logarithm():
    assert price_at(0, 4.0) == price_at(BEGIN, 4.0) == pytest.approx(4 * LOWEST)
    assert price_at(END, 4.0) == price_at(1, 4.0) == pytest.approx(4 * HIGHEST)
    middle = price_at((BEGIN + END) / 2, 1.0)
    assert middle == pytest.approx(np.sqrt(LOWEST * HIGHEST))


def test_the_highest_price_within_one_standard_error_is_taken():
    spread = (0.8, 1.0, 1.2)  # standard error 0.2 / sqrt(3) = 0.115
    points = [
        SweepPoint(1.0, 9.0, tuple(1.05 * value for value in spread)),
        SweepPoint(2.0, 4.0, spread),
        SweepPoint(3.0, 2.0, tuple(1.1 * value for value in spread)),
        SweepPoint(4.0, 0.0, tuple(1.2 * value for value in spread)),
    ]
    assert choose_point(points) == 2
    assert choose_point([*points[:3], SweepPoint(4.0, 0.0, (1.1, 1.1, 1.1))]) == 3  # no events: a possible answer
    single = [SweepPoint(1.0, 3.0, (1.0,)), SweepPoint(2.0, 1.0, (1.009,)), SweepPoint(3.0, 0.0, (1.02,))]
    assert choose_point(single) == 1  # one percent, where there is no standard error
    assert describe_curve(points)[1] == {"price": 2.0, "events": 4.0, "error": pytest.approx(1.0), "open_rate": 0.0}


def test_training_at_the_lowest_price_ends_when_the_error_ceases_to_fall():
    falling = [1 / round for round in range(1, 60)]
    assert not any(has_learned(falling[:count]) for count in range(40))  # by 1/n, more than two percent every time
    level = [1.0] * PATIENCE + [0.985] * PATIENCE
    assert has_learned(level) and not has_learned(level[:-1])
    assert not has_learned([1.0] * PATIENCE + [0.985] * (PATIENCE - 1) + [0.97])


def test_the_fewest_transitions_that_are_about_as_good_are_taken():
    spread = (0.8, 1.0, 1.2)  # standard error 0.115
    assert choose_fewest([tuple(1.1 * value for value in spread), spread]) == 0
    assert choose_fewest([tuple(1.2 * value for value in spread), spread]) == 1
    assert choose_fewest([(3.0,), (2.01,), (2.0,)]) == 1


def test_a_fit_finds_the_transitions_and_ends_early(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    data = from_arrays(rng.normal(size=(12, 30, 1)))
    monkeypatch.setattr("gatel0rd.recordings.pilots.choose_fewest", lambda errors: len(errors) - 1)
    config = FitConfig(rounds=100, round_updates=1, hidden_size=3, features=4)
    rounds = []
    fitted = fit(data, config, tmp_path, on_round=lambda metrics: rounds.append(metrics["rounds"]))
    assert fitted.model.config.transitions == fitted.info["config"]["transitions"] == CANDIDATES[-1]
    monkeypatch.setattr("gatel0rd.recordings.fitter.has_learned", lambda errors: len(errors) == 6)
    rounds.clear()
    fit(data, config, tmp_path / "short", on_round=lambda metrics: rounds.append(metrics["rounds"]))
    assert rounds == [100] * 6 + [20] * 14  # six rounds are three tenths of twenty


def some_sequence(steps: int, seed: int) -> FollowedSequence:
    rng = np.random.default_rng(seed)
    gates = np.zeros((steps, 3), np.float32)
    gates[10, 1] = 0.5
    errors = rng.normal(size=(steps, 2)).astype(np.float32)
    errors[10] *= 10
    return FollowedSequence(errors, gates)


def test_the_evidence_of_gates_is_that_of_normal_errors():
    train, shown = [some_sequence(20, 0), some_sequence(15, 1)], some_sequence(18, 2)
    errors = np.concatenate([entry.errors for entry in train]).astype(float)
    opened = np.concatenate([entry.gates.any(-1) for entry in train])
    variances = [np.square(errors[chosen]).mean(0) for chosen in (~opened, opened)]
    expected = 0.0
    for step in range(CONDITION, 18):
        own = variances[int(step == 10)]
        expected += float((-0.5 * (np.log(2 * np.pi * own) + shown.errors[step].astype(float) ** 2 / own)).sum())
    hazard = 2 / 35
    expected += np.log(hazard) + (18 - CONDITION - 1) * np.log(1 - hazard)
    assert measure_gate_evidence(train, [shown]) == pytest.approx(expected)


def test_whole_recordings_are_followed_as_one_by_one():
    rng = np.random.default_rng(0)
    recordings = from_arrays([rng.normal(size=(length, 2)) for length in (9, 30, 14)])
    config = FollowingModelConfig(observation_size=2, action_size=0, cell=CellConfig(hidden_size=3), feature_size=5)
    model = WorldModel(config).eval()
    rows = torch.from_numpy(recordings.observations), torch.from_numpy(recordings.actions)
    for index, entry in enumerate(follow(model, recordings, *rows)):
        seen = torch.from_numpy(recordings.sequence(index)[0])[:, None]
        rollout = model(seen[:-1], seen[:-1, :, :0])
        assert np.allclose(entry.errors, (rollout.predictions - seen[1:])[:, 0].detach(), atol=1e-6)
        assert np.allclose(entry.gates, rollout.gates[:, 0].detach(), atol=1e-6)
        assert entry.error == pytest.approx(float(np.square(entry.errors).mean()), rel=1e-5)
    assert len(follow(model, recordings, *rows, most=2)) == 2


def test_a_first_opening_is_no_boundary():
    gates = np.zeros((12, 2), np.float32)
    gates[[1, 6], 0] = 1
    assert FollowedSequence(np.zeros((12, 1)), gates).boundaries.tolist() == [6]


def test_a_fit_reports_the_curve_and_keeps_to_its_time(tmp_path):
    rng = np.random.default_rng(0)
    data = from_arrays(np.cumsum(rng.normal(size=(12, 30, 1)), axis=1))
    fitted = fit(data, FitConfig(rounds=10, round_updates=2, hidden_size=3, features=4), tmp_path / "a")
    prices = [point["price"] for point in fitted.info["curve"]]
    assert len(prices) >= 4 and prices == sorted(prices)
    assert fitted.info["sparsity_weight"] in prices and fitted.info["held"]
    assert set(fitted.info["segmentation"]) == {"method", "evidence", "detector"}
    short = Fitter(data, FitConfig(rounds=500, round_updates=2, minutes=1e-6), tmp_path / "b")
    short.run()
    assert short.round == short.total == 6


def test_families_are_judged_beside_even_spacing():
    score = judge_family("level-shift", seed=1, sequences=15, steps=80, rounds=2)
    assert score.method == "changes" and score.f1 > 0.8 > score.even_f1
    quiet = FamilyScore("sine", 0, "changes", 0.0, 0.0, 1.0, 1.0, 1.0, 2.0)
    assert results_table([score, quiet]).rows[1] == ["sine (± 3)", "changes", "", "0.00 (0.00)", "", "", "2"]
