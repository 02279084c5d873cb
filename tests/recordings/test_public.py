"""Public recordings inside packages, and the measures of the Turing benchmark."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from gatel0rd.recordings.public import PublicSeries, join_parts, read_annotations, turing_series, watch_series
from gatel0rd.recordings.public_benchmark import (
    LEARNERS,
    METHODS,
    PublicScore,
    by_ruptures,
    compare,
    results_table,
    score,
)

SERIES = PublicSeries("g", "n", np.zeros((100, 1), np.float32), ((40,), (), (38, 70)))


def test_the_measures_are_those_of_the_turing_benchmark():
    cover, f1 = score(SERIES, [42])
    # found {0, 42}, all annotators {0, 38, 40, 70}; recalls 2/2, 1/1, 2/3
    precision, recall = 2 / 2, (1 + 1 + 2 / 3) / 3
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
    first = 0.4 * 40 / 42 + 0.6 * 58 / 60
    third = 0.38 * 38 / 42 + 0.32 * 28 / 62 + 0.30 * 30 / 58
    assert cover == pytest.approx((first + 0.58 + third) / 3)


def test_no_boundary_still_finds_the_beginning():
    _, f1 = score(SERIES, [])
    recall = (1 / 2 + 1 + 1 / 3) / 3
    assert f1 == pytest.approx(2 * recall / (1 + recall))


def test_joints_are_boundaries():
    joined = join_parts("g", "n", [np.zeros((5, 2)), np.ones((7, 2)), np.zeros((4, 2))])
    assert joined.annotations == ((5, 12),) and joined.observations.shape == (16, 2)


def test_annotations_are_read_without_running_code(tmp_path):
    (tmp_path / "a.py").write_text('raise SystemExit\nclass A:\n    x = f(annotations={"6": [3, 9], "7": []}, n=2)\n')
    assert read_annotations(tmp_path / "a.py") == ((3, 9), ())
    (tmp_path / "b.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="names no annotations"):
        read_annotations(tmp_path / "b.py")


def test_peers_find_an_obvious_change():
    rows = np.concatenate([np.zeros(40), np.full(40, 5.0)])[:, None] + np.random.default_rng(0).normal(size=(80, 1)) / 9
    for kind in ("pelt", "binseg"):
        assert by_ruptures(kind)(rows.astype(np.float32)) == [40]
    assert LEARNERS["gatel0rd, changes"]([rows.astype(np.float32)])(rows.astype(np.float32)) == [40]
    assert METHODS["no change point"](rows) == [] and METHODS["five even segments"](rows) == [16, 32, 48, 64]


def test_what_learns_is_fitted_to_other_series_once(monkeypatch):
    training = (np.ones((7, 1), np.float32),)
    series = [PublicSeries("g", name, np.zeros((100, 1), np.float32), ((40,),), training) for name in "ab"]
    alone = PublicSeries("g", "c", np.full((100, 1), 2, np.float32), ((40,),))
    seen = []

    def learn(sequences):
        seen.append([float(own[0, 0]) for own in sequences])
        return lambda rows: [40]

    for name in LEARNERS:
        monkeypatch.setitem(LEARNERS, name, learn)
    for name in METHODS:
        monkeypatch.setitem(METHODS, name, lambda rows: [])
    scores = compare([*series, alone])
    assert seen == [[1.0]] * len(LEARNERS) + [[2.0]] * len(LEARNERS)
    assert [entry.f1 for entry in scores if entry.method in LEARNERS] == [1.0] * 3 * len(LEARNERS)


@pytest.mark.skipif(find_spec("seglearn") is None, reason="seglearn brings the recordings")
def test_watch_recordings_are_split_by_subject():
    series = list(watch_series())
    assert len(series) == len(series[0].training) == 4 and all(own.training is series[0].training for own in series)
    judged = [own.observations for own in series]
    assert not any(np.array_equal(own[:50], other[:50]) for own in judged for other in series[0].training)


def test_the_table_has_means_and_what_is_best():
    scores = [PublicScore("g", name, "m", value, value / 2, 3, 0.9, 1.0) for name, value in (("a", 0.2), ("b", 0.4))]
    assert results_table(scores).rows == [["g (2), m", "0.30", "0.15", "3.0", "0.90", "1.00"]]


@pytest.mark.skipif(find_spec("river") is None, reason="river brings the series")
def test_the_turing_series_have_their_lengths():
    lengths = {series.name: series.observations.shape for series in turing_series()}
    assert lengths == {
        "airline passengers": (468, 1),
        "apple": (623, 2),
        "bitcoin": (774, 1),
        "brent crude oil": (500, 1),
        "occupancy": (509, 4),
        "run log": (376, 2),
        "uk coal employment": (105, 1),
    }
    for series in turing_series():
        assert np.isfinite(series.observations).all() and len(series.annotations) == 5
        assert all(0 < cut < len(series.observations) for own in series.annotations for cut in own)
