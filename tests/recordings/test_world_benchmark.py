"""The defaults of a fit in the paper's worlds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gatel0rd.recordings.benchmark import SEQUENCES, choose_sequences, true_boundaries
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.world_benchmark import (
    WORLDS,
    WorldScore,
    find_paper_scores,
    find_world_recipes,
    judge_world,
    results_table,
)
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import generate

RESULTS = Path(__file__).parents[2] / "results"


def test_the_data_is_that_of_the_committed_runs():
    names = {world: tuple(recipe.name for recipe in find_world_recipes(world)) for world in WORLDS}
    assert names["rrc"] == ("rrc-time-train-text-6400x50-seed0", "rrc-random-test-text-6400x50-seed0")
    assert names["fetch"] == ("fetch-grasps-train-text-3200x25-seed0", "fetch-grasps-generalization-text-3200x25-seed0")
    for world in WORLDS:
        path = next((RESULTS / world).glob("gatel0rd-*/record.json"))
        run = json.loads(path.read_text())["run"]
        train, test = find_world_recipes(world)
        ours = {(recipe.policy, recipe.split, recipe.steps) for recipe in (train, test)}
        theirs = {
            (data["policy"], data["split"], data["steps"]) for data in (run["train_data"], *run["evaluation_data"])
        }
        assert ours <= theirs


def test_a_world_is_judged_on_the_second_half_of_the_benchmarks_sequences():
    scenario = registry.get("rrc").scenario
    train, test = (
        generate(scenario.recipe(policy, split, preset="text", sequences=count))
        for policy, split, count in (("time", "train", 16), ("random", "test", 12))
    )
    config = FitConfig(rounds=2, round_updates=2, transitions=1, hidden_size=3, features=4)
    score = judge_world("rrc", train, test, config=config)
    rows = choose_sequences(test, SEQUENCES, seed=1)[6:]
    assert score.true == np.mean([len(own) for own in true_boundaries("rrc", test, rows)])
    assert score.training_sequences == 16 and score.seconds > 0
    assert score.f1 == {"gates": score.gates_f1, "changes": score.changes_f1}[score.method]


def test_the_table_compares_with_the_papers_training():
    scores = [
        WorldScore("rrc", seed, "changes", 0.4, 1.0, f1, 0.1, f1, 1.5, 0.5, 9, 60) for seed, f1 in ((0, 0.5), (1, 0.6))
    ]
    record = json.loads((RESULTS / "segmentation" / "segmentation.json").read_text())
    paper = find_paper_scores(record)
    assert set(paper) == set(WORLDS) and paper["rrc"] == pytest.approx(0.39, abs=0.005)
    (row,) = results_table(scores, paper).rows
    assert row == ["Robot Remote Control", "changes", "0.55", "0.40", "1.00", "1.5 (0.5)", "0.10", "0.55", "60", "0.39"]
    assert len(results_table(scores).header) == len(row) - 1
