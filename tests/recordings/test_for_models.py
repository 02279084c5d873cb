"""Recordings for several models: the union of their columns, read as in their fits."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import small_model

from gatel0rd.recordings import RecordingError
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
