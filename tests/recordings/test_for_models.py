"""Recordings for several models: the union of their columns, read as in their fits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_models import small_model

from gatel0rd.cli.main import main
from gatel0rd.config import to_json
from gatel0rd.models.io import save_fitted
from gatel0rd.recordings import Layout, RecordingError, read_for_model, read_recordings
from gatel0rd.recordings.for_models import read_for_models

ROWS = np.random.default_rng(4).normal(size=(11, 4)).astype(np.float32)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    lines = [
        f"{'s' if i < 6 else 'r'},{i},hello,{a!r},{b!r},{c!r},{d!r}" for i, (a, b, c, d) in enumerate(ROWS.tolist())
    ]
    path.write_text("\n".join(["who,tick,note,a,b,c,d", *lines]))
    return str(path)


def test_all_columns_that_any_model_needs_are_read(table):
    models = [
        ("first", small_model(observed=("c", "a"), acted=("b",), layout={"sequence": "who", "time": "tick"})),
        ("second", small_model(observed=("b", "a"), acted=("d",), layout={"sequence": "who"})),
    ]
    recordings = read_for_models(models, table)
    assert (recordings.observation_names, recordings.action_names) == (("c", "a", "b"), ("d",))
    assert recordings.names == ("s", "r") and recordings.lengths.tolist() == [6, 5]
    np.testing.assert_array_equal(recordings.observations, ROWS[:, [2, 0, 1]])
    np.testing.assert_array_equal(recordings.actions, ROWS[:, [3]])


def test_of_one_model_its_columns_are_read(table):
    model = small_model(observed=("d", "b"), acted=("a",))
    recordings = read_for_models([("only", model)], table, sequence="who", time="tick")
    assert (recordings.observation_names, recordings.action_names) == (("d", "b"), ("a",))
    np.testing.assert_array_equal(recordings.sequence(1)[0], ROWS[6:][:, [3, 1]])


@pytest.mark.parametrize("kind", ["observed", "acted"])
def test_a_model_with_more_columns_than_the_data_is_named(table, kind):
    columns = {"observed": ("a", "b"), "acted": ("c",)}
    large = small_model(**{**columns, kind: (*columns[kind], "height")})
    with pytest.raises(
        RecordingError,
        match=r"no column 'height' for the .*; it has who, .*; model large was trained on a, b, .*height",
    ) as caught:
        read_for_models([("small", small_model(**columns)), ("large", large)], table)
    assert "small" not in str(caught.value)


def test_arrays_without_a_column_are_named_too(tmp_path):
    np.savez(tmp_path / "data.npz", observations=ROWS[None, :, :3], observation_names=["a", "b", "c"])
    small, large = (small_model(observed=names, acted=()) for names in (("a", "b"), ("a", "b", "d")))
    path = str(tmp_path / "data.npz")
    assert read_for_models([("small", small)], path).observation_names == ("a", "b")
    with pytest.raises(RecordingError, match=r"no column 'd'.* model large was trained on a, b, d$"):
        read_for_models([("small", small), ("large", large)], path)


def test_models_of_wide_tables_share_a_table(tmp_path):
    cube = np.random.default_rng(1).normal(size=(3, 12, 2)).astype(np.float32)
    header = [f"{name}_{step}" for step in range(12) for name in "xy"]
    lines = [",".join(map(repr, sequence.ravel().tolist())) for sequence in cube]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(header), *lines]))
    models = [(name, small_model(observed=(*name,), acted=(), layout={"wide": True})) for name in ("x", "yx")]
    recordings = read_for_models(models, str(path))
    assert recordings.observation_names == ("x", "y") and len(recordings) == 3
    np.testing.assert_array_equal(recordings.sequence(2)[0], cube[2])
    with pytest.raises(RecordingError, match="no column z; it has x, y, and model z was trained on z"):
        read_for_models([*models, ("z", small_model(observed=("z",), acted=(), layout={"wide": True}))], str(path))


def test_different_columns_for_the_sequence_have_to_be_chosen(table):
    models = [(name, small_model(observed=("a",), acted=(), layout={"sequence": name})) for name in ("who", "note")]
    with pytest.raises(RecordingError, match=r"sequence \(who for who, note for note\); choose one with --sequence"):
        read_for_models(models, table)
    assert read_for_models(models, table, sequence="who").names == ("s", "r")


def uneven(tmp_path, name="time"):
    """300 rows whose times are 1, 1 and 4 apart: as steps of time they are 597 rows."""
    times = np.cumsum(np.tile([4, 1, 1], 100))
    path = tmp_path / "uneven.csv"
    path.write_text("\n".join([f"{name},level", *(f"{time},{row % 7}" for row, time in enumerate(times.tolist()))]))
    return str(path)


@pytest.mark.parametrize("role", ["time", "id"])
def test_what_the_fit_ignored_is_ignored_again(tmp_path, role):
    path = uneven(tmp_path, role)
    fitted_to = read_recordings(path, Layout(ignored=(role,)))
    model = small_model(observed=("level",), acted=(), layout=to_json(fitted_to.layout))
    again = read_for_model(model, path)
    assert again.lengths.tolist() == fitted_to.lengths.tolist() == [300]
    np.testing.assert_array_equal(again.observations, fitted_to.observations)
    later = small_model(observed=("level",), acted=(), layout=to_json(again.layout))
    assert read_for_model(later, path).lengths.tolist() == [300]  # also of what was read like this


@pytest.mark.parametrize("role", ["time", "sequence"])
def test_what_one_fit_ignored_and_another_did_not_is_an_error(tmp_path, role):
    column = {"time": "time", "sequence": "id"}[role]
    path = str(tmp_path / "d.csv")
    Path(path).write_text("\n".join([f"{column},level", *(f"{row // 10 * 2},{row % 7}" for row in range(60))]))
    layouts = [to_json(read_recordings(path, Layout(ignored=ignored)).layout) for ignored in ((column,), ())]
    models = [
        (name, small_model(observed=("level",), acted=(), layout=layout))
        for name, layout in zip("ab", layouts, strict=True)
    ]
    for order in (models, models[::-1]):
        with pytest.raises(RecordingError, match=rf"'{column}' was left out for a, but is the {role} for b; .*--"):
            read_for_models(order, path)
    given = read_for_models(models, path, **{role: column})
    assert given.lengths.tolist() == read_for_model(models[1][1], path).lengths.tolist()


def test_ignored_columns_may_be_missing_or_needed(tmp_path):
    path = uneven(tmp_path)
    careless = small_model(observed=("level",), acted=(), layout={"ignored": ["time", "note", "level"]})
    assert read_for_model(careless, path).observation_names == ("level",)
    assert len(read_for_model(careless, path, time="time").observations) == 597  # asked for: resampled
    timed = small_model(observed=("level",), acted=(), layout={"time": "time"})
    with pytest.raises(
        RecordingError, match=r"'time' is the time for b and was left out for a; look at one.*--time time"
    ):
        read_for_models([("a", careless), ("b", timed)], path)
    wide = tmp_path / "wide.csv"
    rows = [",".join(map(str, [row // 2, *range(row, row + 11), 5])) for row in range(4)]  # ids that repeat
    wide.write_text("\n".join([",".join(["id", *(f"x_{step}" for step in range(11)), "weight"]), *rows]))
    layout = to_json(read_recordings(wide, Layout(ignored=("id", "weight"))).layout)
    assert layout["wide"]
    assert len(read_for_model(small_model(observed=("x",), acted=(), layout=layout), str(wide))) == 4


def test_models_from_before_ignored_nothing(tmp_path):
    model = small_model(observed=("level",), acted=(), layout={"wide": False})
    recordings = read_for_model(model, uneven(tmp_path))
    assert len(recordings.observations) == 597 and any("resampled" in note for note in recordings.notes)


def test_segment_says_what_was_done_to_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_fitted(Path("careful"), small_model(observed=("level",), acted=(), layout={"ignored": ["time"]}))
    save_fitted(Path("plain"), small_model(observed=("level",), acted=(), layout={"wide": False}))
    path = uneven(tmp_path)
    main(["segment", "careful", path, "--out", "careful.json"])
    said = capsys.readouterr().out.replace("\n", " ")
    assert "note: no column names a sequence" in said and "resampled" not in said
    main(["segment", "plain", path, "--out", "plain.json"])
    assert "resampled every 1, 597 rows instead of 300" in capsys.readouterr().out.replace("\n", " ")
    lengths = [json.loads(Path(name).read_text())[0]["length"] for name in ("careful.json", "plain.json")]
    assert lengths == [300, 597]
    with pytest.raises(SystemExit):
        main(["fit", path, "--cell", "gru", "--gate-rate", "0.1", "--out", "gru"])
    assert "--gate-rate is about gates, which the cell gru does not have" in capsys.readouterr().err.replace("\n", " ")
    assert not Path("gru").exists()
