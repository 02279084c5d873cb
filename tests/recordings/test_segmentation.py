from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatel0rd import EventSegmenter
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.events import (
    Event,
    agreement,
    boundaries,
    covering,
    find_events,
    match_count,
    peaks,
    segments,
)
from gatel0rd.models.fitted import wrap_model
from gatel0rd.nn.config import CellConfig
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.reading import RecordingError, from_arrays
from gatel0rd.recordings.segmenter import NoGatesError, segment, write_events

TIMES = st.lists(st.integers(0, 20), max_size=6, unique=True)


def test_events_are_openings():
    gates = np.array([[0, 0.5], [0.2, 0.9], [0.6, 0], [0, 0.1], [0, 0]])
    assert find_events(gates) == [Event(1, 0, 0.6), Event(3, 1, 0.1)]  # the second gate was open from the start
    assert boundaries(find_events(gates)).tolist() == [1, 3]
    assert boundaries(find_events(gates), apart=3).tolist() == [1]
    assert find_events(np.zeros((4, 2))) == []


def test_segments_lie_between_boundaries():
    assert segments([3, 7], 10) == [(0, 3), (3, 7), (7, 10)]
    assert segments([0, 10], 10) == [(0, 10)]


@given(TIMES, TIMES, st.integers(0, 4))
def test_matching_is_the_largest_possible(found, true, tolerance):
    def largest(found, true):
        if not found:
            return 0
        rest = largest(found[1:], true)
        options = [
            1 + largest(found[1:], [t for t in true if t != time]) for time in true if abs(time - found[0]) <= tolerance
        ]
        return max([rest, *options])

    assert match_count(found, true, tolerance) == largest(sorted(found), true)


@given(TIMES, TIMES)
def test_covering_is_one_for_the_same_cuts_only_and_symmetric_in_order(found, true):
    inside = [cut for cut in true if 0 < cut < 21]
    assert covering(true, true, 21) == pytest.approx(1)
    assert covering(found[::-1], true[::-1], 21) == covering(found, true, 21)
    if sorted(cut for cut in found if 0 < cut < 21) != sorted(inside):
        assert covering(found, true, 21) < 1


def test_agreement_adds_up_over_sequences():
    found, true = [[5, 20], [], [3]], [[6], [9], []]
    result = agreement(found, true, 30, 2)
    assert (result.found, result.true, result.matched) == (3, 2, 1)
    assert (result.precision, result.recall, result.f1) == (1 / 3, 1 / 2, 2 / 5)
    nothing = agreement([[]], [[]], 30, 2)
    assert (nothing.precision, nothing.f1, nothing.covering) == (0, 1, 1)


def test_peaks_are_local_maxima_above_the_threshold():
    signal = np.array([0, 3, 1, 2, 2, 0, 5.0])
    assert peaks(signal, 1.5).tolist() == [1, 3, 6]
    assert peaks(signal, 2.5).tolist() == [1, 6]


def jumping(count: int = 60, steps: int = 40):
    """Lines whose slope turns when a button is pressed: the slope is hidden, and changes once."""
    generator = np.random.default_rng(1)
    found, buttons, cuts = [], [], []
    for _ in range(count):
        cut = int(generator.integers(12, 28))
        slope = generator.choice([-1.0, 1.0])
        times = np.arange(steps)
        moves = np.where(times <= cut, slope, -slope)
        found.append(np.cumsum(0.1 * moves)[:, None].astype(np.float32))
        buttons.append((times == cut)[:, None].astype(np.float32))
        cuts.append([cut])
    return found, buttons, cuts


@pytest.fixture(scope="module")
def lines():
    return jumping()


@pytest.fixture(scope="module")
def fitted(lines, tmp_path_factory):
    config = FitConfig(rounds=120, round_updates=25, window=39, events=1.5, learning_rate=0.005, seed=0)
    return fit(from_arrays(lines[0], lines[1]), config, tmp_path_factory.mktemp("lines"))


def test_the_memory_changes_when_the_button_is_pressed(fitted, lines):
    found = segment(fitted, from_arrays(lines[0], lines[1]), apart=3)
    result = agreement([entry.boundaries for entry in found], lines[2], 40, 1)
    assert result.recall > 0.9 and result.precision > 0.5
    assert found[0].segments == segments(found[0].boundaries, 40)
    assert fitted.info["events"] == pytest.approx(1.5, rel=0.35)  # what was asked for


def test_events_are_written_as_csv_and_json(fitted, lines, tmp_path):
    found = segment(fitted, from_arrays(lines[0], lines[1]))
    write_events(found, tmp_path / "e.csv")
    header, first, *_ = (tmp_path / "e.csv").read_text().splitlines()
    assert header == "sequence,time,dimension,strength"
    event = found[0].events[0]
    assert first == f"0,{event.time},{event.dimension},{event.strength:.6g}"
    write_events(found, tmp_path / "e.json")
    entry = json.loads((tmp_path / "e.json").read_text())[0]
    assert entry["segments"] == [list(pair) for pair in found[0].segments] and entry["length"] == 40


def test_the_segmenter_is_used_like_scikit_learn(lines, tmp_path):
    segmenter = EventSegmenter(rounds=4, window=30, directory=tmp_path)
    with pytest.raises(ValueError, match="has not been fitted"):
        segmenter.predict(lines[0])
    cuts = segmenter.fit(lines[0], actions=lines[1]).predict(np.stack(lines[0][:3]), actions=lines[1][:3])
    assert len(cuts) == 3 and all(entry.dtype == np.int64 for entry in cuts)
    assert segmenter.get_params()["rounds"] == 4 and "model_" not in segmenter.get_params()
    assert segmenter.set_params(rounds=3).rounds == 3
    with pytest.raises(ValueError, match="has no parameter depth"):
        segmenter.set_params(depth=2)
    again = EventSegmenter(**{**segmenter.get_params(), "directory": None})
    assert len(again.fit_predict(lines[0])) == len(lines[0])


def test_answers_line_up_with_what_was_given(fitted, lines):
    segmenter = EventSegmenter()
    segmenter.model_ = fitted
    with pytest.raises(RecordingError, match=r"observations have shape \(40, 1\); expected \[N, T, columns\]"):
        segmenter.predict(lines[0][0])
    short = [*lines[0][:2], lines[0][2][:2]]
    with pytest.raises(ValueError, match="there would not be one answer for each"):
        segmenter.predict(short, actions=[*lines[1][:2], lines[1][2][:2]])
    with pytest.raises(ValueError, match="the sequences have 2 columns; the model was fitted to 1"):
        segmenter.predict([np.zeros((9, 2))], actions=[np.zeros((9, 1))])


def test_times_are_those_of_the_recording(fitted, lines, tmp_path):
    """A gap at the beginning cuts rows off; events keep their place."""
    whole, button = lines[0][0].copy(), lines[1][0]
    whole[:6] = np.nan
    (entry,) = segment(fitted, from_arrays([whole], [button]))
    assert entry.first == 6 and entry.length == 34
    write_events([entry], tmp_path / "e.csv")
    times = [int(row.split(",")[1]) for row in (tmp_path / "e.csv").read_text().splitlines()[1:]]
    assert times == [event.time + 6 for event in entry.events]
    assert any(abs(time - lines[2][0][0]) <= 1 for time in times)


def test_models_that_do_not_fit_are_errors(fitted):
    other = from_arrays([np.zeros((9, 2), np.float32)], observation_names=["a", "b"])
    with pytest.raises(RecordingError, match="the data has no column x0, a0; it has a, b"):
        segment(fitted, other)
    gru = wrap_model(WorldModel(WorldModelConfig(observation_size=1, action_size=0, cell=CellConfig(name="gru"))))
    with pytest.raises(NoGatesError, match="the model's cell is gru, which has no gates"):
        segment(gru, from_arrays([np.zeros((9, 1), np.float32)]))


def test_all_pairs_of_times_match_themselves():
    for pair in combinations(range(5), 2):
        assert match_count(pair, pair, 0) == 2
