from __future__ import annotations

import json

import numpy as np
import pytest

from gatel0rd import EventSegmenter
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.events import agreement, segments
from gatel0rd.models.fitted import wrap_model
from gatel0rd.nn.config import CellConfig
from gatel0rd.recordings import RecordingError, from_arrays, read_recordings
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit, load_voters
from gatel0rd.recordings.segmentation import (
    NoGatesError,
    Segmentation,
    count_votes,
    format_time,
    list_stamps,
    segment,
    write_events,
)


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
    config = FitConfig(rounds=120, round_updates=25, window=39, events=1.0, learning_rate=0.005, seed=0)
    return fit(from_arrays(lines[0], lines[1]), config, tmp_path_factory.mktemp("lines"))


def test_the_memory_changes_when_the_button_is_pressed(fitted, lines):
    found = segment(fitted, from_arrays(lines[0], lines[1]))
    result = agreement([entry.boundaries for entry in found], lines[2], 40, 1)
    assert result.recall > 0.9 and result.precision > 0.5
    assert found[0].segments == segments(found[0].boundaries, 40)
    assert fitted.info["events"] == pytest.approx(1, rel=0.25) and fitted.info["held"]  # what was asked for


def test_events_are_written_as_csv_and_json(fitted, lines, tmp_path):
    found = segment(fitted, from_arrays(lines[0], lines[1]))
    write_events(found, tmp_path / "e.csv")
    header, first, *rest = (tmp_path / "e.csv").read_text().splitlines()
    assert header == "sequence,time,duration,dimensions,strengths"
    event = found[0].events[0]
    dimensions, strengths = " ".join(map(str, event.dimensions)), " ".join(f"{s:.6g}" for s in event.strengths)
    assert first == f"0,{event.time},{event.duration},{dimensions},{strengths}"
    assert 1 + len(rest) == sum(len(entry.events) for entry in found)  # a row per event
    write_events(found, tmp_path / "e.json")
    entry = json.loads((tmp_path / "e.json").read_text())[0]
    assert entry["segments"] == [list(pair) for pair in found[0].segments] and entry["length"] == 40
    assert entry["events"][0] == {
        "time": event.time,
        "duration": event.duration,
        "dimensions": list(event.dimensions),
        "strengths": list(event.strengths),
    }


def test_the_segmenter_is_used_like_scikit_learn(lines, tmp_path):
    segmenter = EventSegmenter(rounds=4, window=30, directory=tmp_path)
    with pytest.raises(ValueError, match="has not been fitted"):
        segmenter.predict(lines[0])
    cuts = segmenter.fit(lines[0], actions=lines[1]).predict(np.stack(lines[0][:3]), actions=lines[1][:3])
    assert len(cuts) == 3 and all(entry.dtype == np.int64 for entry in cuts)
    assert segmenter.get_params()["rounds"] == 4 and "model_" not in segmenter.get_params()
    assert segmenter.set_params(rounds=3).rounds == 3
    with pytest.raises(ValueError, match=r"Invalid parameter '?depth"):
        segmenter.set_params(depth=2)
    again = EventSegmenter(**{**segmenter.get_params(), "directory": None})
    assert len(again.fit_predict(lines[0])) == len(lines[0])


def test_answers_line_up_with_what_was_given(fitted, lines):
    segmenter = EventSegmenter()
    segmenter.model_ = fitted
    alone = segmenter.predict(lines[0][0], actions=lines[1][0])  # one sequence, one answer
    assert np.array_equal(alone, segmenter.predict(lines[0][:1], actions=lines[1][:1])[0])
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


def test_stamps_keep_their_digits(tmp_path):
    times = {
        "ms": [f"{1700000000123 + 100 * step}" for step in range(12)],
        "us": [f"{1700000000123456 + 10 * step}" for step in range(12)],
        "s": [f"{1700000000 + step / 100:.2f}".rstrip("0").rstrip(".") for step in range(12)],
        "small": [f"{0.1 * step:.1f}".removesuffix(".0") for step in range(12)],
    }
    for name, stamps in times.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["time,x", *(f"{stamp},{step % 7}" for step, stamp in enumerate(stamps))]))
        assert list_stamps(read_recordings(path)) == [stamps], name
    assert [format_time(time) for time in (0.1 + 0.2, 1e-7, -5.0, 1e22, 1 / 3, 1700000000.123456)] == [
        "0.3",
        "0.0000001",
        "-5",
        "10000000000000000000000",
        "0.3333333333333333",
        "1700000000.123456",
    ]


def test_models_that_do_not_fit_are_errors(fitted):
    other = from_arrays([np.zeros((9, 2), np.float32)], observation_names=["a", "b"])
    with pytest.raises(RecordingError, match="the data has no column x0, a0; it has a, b"):
        segment(fitted, other)
    gru = wrap_model(WorldModel(WorldModelConfig(observation_size=1, action_size=0, cell=CellConfig(name="gru"))))
    with pytest.raises(NoGatesError, match="the model's cell is gru, which has no gates"):
        segment(gru, from_arrays([np.zeros((9, 1), np.float32)]))


def test_several_seeds_vote(lines, tmp_path):
    data = from_arrays(lines[0][:20], lines[1][:20])
    config = FitConfig(rounds=4, round_updates=3, features=4, hidden_size=3, gate_rate=0.3, transitions=1)
    fitted = fit(data, config, tmp_path, seeds=3)
    voters = load_voters(tmp_path)
    assert [voter.info["config"]["seed"] for voter in voters] == [1, 2] and fitted.info["config"]["seed"] == 0
    found = segment(fitted, data, voters=voters)
    others = [segment(voter, data) for voter in voters]
    assert any(entry.boundaries for entry in found)
    for place, entry in enumerate(found):
        for cut, share in zip(entry.boundaries, entry.votes, strict=True):
            near = [any(abs(cut - time) < 3 for time in other[place].boundaries) for other in others]
            assert share == pytest.approx((1 + sum(near)) / 3)
    write_events(found, tmp_path / "e.csv")
    header, *rows = (tmp_path / "e.csv").read_text().splitlines()
    assert header == "sequence,time,duration,dimensions,strengths,probability,votes"
    entry = next(entry for entry in found if entry.boundaries)
    row = next(row.split(",") for row in rows if row.startswith(f"{entry.name},{entry.boundaries[0]},"))
    assert row[-2:] == [f"{entry.probabilities[0]:.4g}", f"{entry.votes[0]:.4g}"]
    write_events(found, tmp_path / "e.json")
    place = found.index(entry)
    assert json.loads((tmp_path / "e.json").read_text())[place]["boundaries"][0]["votes"] == entry.votes[0]
    with pytest.raises(ValueError, match="seeds is 0; expected at least 1"):
        fit(data, config, tmp_path / "none", seeds=0)


def test_votes_are_shares_of_segmentations_with_a_boundary_nearby():
    ours = [Segmentation("a", 50, (), (10, 30)), Segmentation("b", 50, (), ())]
    others = [
        [Segmentation("a", 50, (), (12,)), Segmentation("b", 50, (), (5,))],
        [Segmentation("a", 50, (), (7, 31)), Segmentation("b", 50, (), ())],
        [Segmentation("a", 50, (), ()), Segmentation("b", 50, (), ())],
    ]
    assert [entry.votes for entry in count_votes(ours, others, 3)] == [(0.5, 0.5), ()]
    assert count_votes(ours, [], 3) is ours
