"""Aggregates over tasks, against cases that were computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gatel0rd.paper.aggregates import (
    estimate,
    interquartile_mean,
    normalize,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)


def test_the_interquartile_mean_leaves_out_a_quarter_on_either_side():
    assert interquartile_mean([[9.0, 1.0], [3.0, 100.0]]) == pytest.approx((3 + 9) / 2)  # of 1, 3, 9, 100
    assert interquartile_mean([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0, 6.0, 7.0]]) == pytest.approx((2 + 3 + 4 + 5) / 4)


def test_where_a_quarter_is_no_whole_number_edges_count_in_part():
    # of 0, 10, 20, 40, 80 a quarter is 1.25: 10 counts 0.75, 20 counts 1, 40 counts 0.75
    assert interquartile_mean([[0.0, 10.0, 20.0, 40.0, 80.0]]) == pytest.approx((7.5 + 20 + 30) / 2.5)
    assert interquartile_mean([[7.0]]) == 7.0


def test_a_performance_profile_is_the_share_above_each_threshold_task_by_task():
    profile = performance_profile([[0.1, 0.9], [0.5]], np.array([0.0, 0.3, 0.5, 1.0]))
    np.testing.assert_allclose(profile, [1.0, (0.5 + 1) / 2, (0.5 + 0) / 2, 0.0])


def test_the_probability_of_improvement_counts_pairs_and_half_of_the_ties():
    better, worse = [[1.0, 3.0], [5.0]], [[2.0, 3.0], [4.0, 6.0]]
    # first task: 1 < 2, 1 < 3, 3 > 2, 3 = 3: 1.5 of 4; second: 5 > 4, 5 < 6: 1 of 2
    assert probability_of_improvement(better, worse) == pytest.approx((1.5 / 4 + 0.5) / 2)
    assert probability_of_improvement(worse, better) == pytest.approx(1 - (1.5 / 4 + 0.5) / 2)
    with pytest.raises(ValueError, match="1 and 2 tasks"):
        probability_of_improvement([[1.0]], worse)


def test_resamples_stay_within_their_task():
    means = stratified_bootstrap(lambda rows: np.array([np.mean(row) for row in rows]), [[0.0, 1.0], [10.0, 11.0]])
    assert set(np.unique(means[:, 0])) == {0.0, 0.5, 1.0} and set(np.unique(means[:, 1])) == {10.0, 10.5, 11.0}
    assert np.mean(means[:, 0] == 0.5) == pytest.approx(0.5, abs=0.05)


def test_an_estimate_has_an_interval_that_holds_it_and_shrinks_with_seeds():
    rng = np.random.default_rng(0)
    few, many = ([rng.normal(size=count).tolist() for _ in range(3)] for count in (3, 300))
    wide, narrow = estimate(interquartile_mean, few), estimate(interquartile_mean, many)
    assert wide.low <= wide.value <= wide.high
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3
    alike = estimate(probability_of_improvement, many, [rng.normal(size=300).tolist() for _ in range(3)])
    assert alike.low < 0.5 < alike.high


def test_without_scores_there_is_nothing_to_estimate():
    with pytest.raises(ValueError, match="at least one seed of every task"):
        estimate(interquartile_mean, [[1.0], []])


def test_errors_are_normalized_task_by_task():
    scores = normalize({"ours": [[1.0, 3.0], [5.0]], "theirs": [[6.0], [5.0]]})
    assert scores == {"ours": [[1.25, 0.75], [1.0]], "theirs": [[0.0], [1.0]]}
    with pytest.raises(ValueError, match="the same tasks"):
        normalize({"ours": [[1.0]], "theirs": []})
