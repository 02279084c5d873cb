"""People's own recordings: the same sequences from every format, the rules for gaps, and what is refused."""

from __future__ import annotations

import csv
import os
import re
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatel0rd.recordings import Layout, RecordingError, Recordings, from_arrays, read_recordings

LENGTHS = (7, 4, 5)
NAMES = ("b", "a", "c 1")
ROLES = Layout(actions=("u",))


def made_up(lengths: Sequence[int] = LENGTHS) -> tuple[list[Any], list[Any]]:
    """Observations [T, 2] and actions [T, 1] that float32 and text keep exactly."""
    rng = np.random.default_rng(0)
    numbers = [rng.integers(-999, 999, size=(length, 3)) / 8 for length in lengths]
    return [part[:, :2] for part in numbers], [part[:, 2:] for part in numbers]


SEEN, ACTED = made_up()


def same(found: Recordings, seen: Sequence[Any] = SEEN, acted: Sequence[Any] | None = ACTED) -> None:
    assert found.lengths.tolist() == [len(part) for part in seen]
    assert found.observations.dtype == found.actions.dtype == np.float32
    for index, part in enumerate(seen):
        observations, actions = found.sequence(index)
        np.testing.assert_array_equal(observations, part)
        np.testing.assert_array_equal(actions, np.zeros((len(part), 0)) if acted is None else acted[index])


def rows(names: Sequence[str] = NAMES) -> list[list[Any]]:
    """A row per step: sequence, time, p, v, u."""
    return [
        [name, step, *SEEN[index][step].tolist(), *ACTED[index][step].tolist()]
        for index, name in enumerate(names)
        for step in range(LENGTHS[index])
    ]


def written(path: Path, header: Sequence[str], lines: Sequence[Sequence[Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *lines])
    return path


def text(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def column(values: Sequence[Any], tmp_path: Path, **options: Any) -> Recordings:
    """Read back one sequence 'a' of a column p."""
    return read_recordings(
        written(tmp_path / "a.csv", ["sequence", "p"], [["a", value] for value in values]), **options
    )


# NumPy


def test_npz_in_three_dimensions(tmp_path: Path) -> None:
    seen, acted = made_up((6, 6))
    np.savez(tmp_path / "d.npz", observations=np.stack(seen), actions=np.stack(acted))
    found = read_recordings(tmp_path / "d.npz")
    same(found, seen, acted)
    assert found.names == ("0", "1")
    assert found.observation_names == ("x0", "x1") and found.action_names == ("a0",)
    np.savez(tmp_path / "f.npz", observations=np.stack(seen), actions=np.stack(acted)[:, :, 0], sequence=["k", "l"])
    found = read_recordings(tmp_path / "f.npz")
    same(found, seen, acted)
    assert found.names == ("k", "l")


def test_npz_padded_with_lengths(tmp_path: Path) -> None:
    padded = np.full((3, 9, 2), 7.0)
    for row, part in zip(padded, SEEN, strict=True):
        row[: len(part)] = part
    np.savez(tmp_path / "d.npz", observations=padded, lengths=LENGTHS)
    same(read_recordings(tmp_path / "d.npz"), SEEN, None)


def test_npz_in_two_dimensions(tmp_path: Path) -> None:
    whole = {"observations": np.concatenate(SEEN), "actions": np.concatenate(ACTED)}
    columns = {"observation_names": ["p", "v"], "action_names": ["u"]}
    np.savez(tmp_path / "d.npz", **whole, **columns, lengths=LENGTHS, rewards=np.zeros(16))
    found = read_recordings(tmp_path / "d.npz")
    same(found)
    assert found.observation_names == ("p", "v") and found.action_names == ("u",)
    assert found.notes == ("arrays left out: rewards",)
    labels = np.repeat(NAMES, LENGTHS)
    for key in ("sequence", "who"):
        np.savez(tmp_path / "e.npz", **whole, **{key: labels})
        found = read_recordings(tmp_path / "e.npz", Layout(sequence=None if key == "sequence" else key))
        same(found)
        assert found.names == NAMES
    np.savez(tmp_path / "f.npz", observations=whole["observations"])
    found = read_recordings(tmp_path / "f.npz")
    same(found, [np.concatenate(SEEN)], None)
    assert found.names == ("f",)


def test_npz_sequences_that_are_interleaved(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", observations=np.arange(8.0), sequence=list("abababab"))
    found = read_recordings(tmp_path / "d.npz")
    assert found.names == ("a", "b")
    assert found.observations[:, 0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_npz_with_an_array_per_sequence(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **dict(zip(NAMES, SEEN, strict=True)))
    found = read_recordings(tmp_path / "d.npz")
    same(found, SEEN, None)
    assert found.names == NAMES


def test_roles_in_npz(tmp_path: Path) -> None:
    parts = [np.concatenate([o, a, np.full((len(o), 1), np.nan)], axis=1) for o, a in zip(SEEN, ACTED, strict=True)]
    np.savez(tmp_path / "d.npz", observations=np.concatenate(parts), lengths=LENGTHS)
    same(read_recordings(tmp_path / "d.npz", Layout(actions=("x2",), ignored=("x3",))))


# tables


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["episode", "Trial", " id "])
def test_csv_long(tmp_path: Path, delimiter: str, name: str) -> None:
    lines = rows()
    np.random.default_rng(1).shuffle(lines)
    lines.sort(key=lambda row: NAMES.index(row[0]))  # sequences keep the order in which they appear
    found = read_recordings(written(tmp_path / "d.csv", [name, "t", "p", "v", "u"], lines, delimiter), ROLES)
    same(found)
    assert found.names == NAMES
    assert found.observation_names == ("p", "v") and found.action_names == ("u",)
    assert found.notes[:2] == (
        f"column {name.strip()!r} names the sequence (--sequence COLUMN)",
        "column 't' orders rows",
    )
    assert "rows moved to the order of column 't', the first is row" in found.notes[2] and len(found.notes) == 3


def test_csv_with_names_that_are_given(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", ["id", "tick", "p", "v", "u"], [[9, -row[1], *row[2:]] for row in rows()[:7]])
    found = read_recordings(path, Layout(sequence="id", time="tick", actions=("u",)))
    same(found, [SEEN[0][::-1]], [ACTED[0][::-1]])
    assert found.names == ("9",) and found.notes == (
        "column 'id' names the sequence",
        "column 'tick' orders rows",
        "6 rows moved to the order of column 'tick', the first is row 1 of sequence '9' (-1.0)",
    )
    found = read_recordings(path, Layout(ignored=("id", "tick"), actions=("u",)))
    same(found, [SEEN[0]], [ACTED[0]])
    assert found.names == ("d",)
    assert found.notes == ("no column names a sequence, all rows of a file are one (--sequence COLUMN)",)


def test_csv_ordered_by_dates(tmp_path: Path) -> None:
    dates = ["2024-03-01", "2023-12-31 23:59:59.5", "2024-03-01T00:00:01Z", "2024-03-01T00:00:01.5+02:00"]
    found = read_recordings(written(tmp_path / "d.csv", ["timestamp", "p"], list(zip(dates, range(4), strict=True))))
    assert found.observations[:, 0].tolist() == [1, 3, 0, 2]


def test_csv_from_other_programs(tmp_path: Path) -> None:
    content = "\ufeff\r\nsequence,p\r\na,1\r\n\r\na, 2 \r\na,True\r\n  \r\n"
    assert read_recordings(text(tmp_path / "d.csv", content)).observations[:, 0].tolist() == [1, 2, 1]
    found = read_recordings(text(tmp_path / "d.csv", ",p,time\n0,5,2\n1,6,1\n2,7,3\n"))  # the index of pandas
    assert found.observation_names == ("p",) and found.observations[:, 0].tolist() == [6, 5, 7]
    assert read_recordings(text(tmp_path / "d.csv", "p;q;\n1;2;\n3;4;\n5;6;\n")).observation_names == ("p", "q")
    assert read_recordings(text(tmp_path / "d.csv", 'p\n1\n""\n3\n')).observations[:, 0].tolist() == [1, 2, 3]


def test_times_that_repeat(tmp_path: Path) -> None:
    coarse = [[0, 1], [0, 2], [1, 3], [1, 4]]
    assert read_recordings(written(tmp_path / "d.csv", ["t", "p"], coarse)).observations[:, 0].tolist() == [1, 2, 3, 4]
    path = written(tmp_path / "d.csv", ["t", "p"], [[0, 1], [1, 2], [0, 3], [1, 4]])
    with pytest.raises(RecordingError, match=r"column 't' has 0.0 more than once in sequence 'd'.*\(--sequence\)"):
        read_recordings(path)
    assert read_recordings(path, Layout(ignored=("t",))).observations[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("style", ["{}_{}", "{}.{}", "{}[{}]"])
def test_csv_wide(tmp_path: Path, style: str) -> None:
    header = ["id", *(style.format(name, step + 1) for step in range(7) for name in ("p", "v"))]
    lines = [[name, *part.ravel(), *[""] * (14 - part.size)] for name, part in zip(NAMES, SEEN, strict=True)]
    found = read_recordings(written(tmp_path / "d.csv", header, lines))
    same(found, SEEN, None)
    assert found.names == NAMES and found.observation_names == ("p", "v")
    assert found.notes == (
        "read as wide, a row per sequence",
        "10 missing values: 0 interpolated (gaps of at most 5 steps), 10 cut off with their rows",
    )


def test_wide_or_long(tmp_path: Path) -> None:
    values = np.arange(36.0).reshape(3, 12)
    wide = written(tmp_path / "d.csv", [str(step) for step in range(12)], values.tolist())
    same(read_recordings(wide), list(values[:, :, None]), None)
    joints = [f"joint_{number}" for number in range(7)]  # few: variables, not steps
    same(read_recordings(written(tmp_path / "d.csv", joints, values[:, :7].tolist())), [values[:, :7]], None)
    many = [f"joint_{number}" for number in range(12)]
    path = written(tmp_path / "d.csv", many, values.tolist())
    assert read_recordings(path).observation_names == ("joint",)
    same(read_recordings(path, Layout(observations=tuple(many))), [values], None)
    path = written(tmp_path / "d.csv", ["run", *many], [["a", *row] for row in values.tolist()])
    same(read_recordings(path), [values], None)


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names, steps, *numbers = map(list, zip(*rows()[::-1], strict=True))
    table = {"t": steps, "p": numbers[0], "v": numbers[1], "u": numbers[2]}
    table = {"trial": pyarrow.array(names).dictionary_encode(), **table, "note": ["text", "7"] * 8}
    parquet.write_table(pyarrow.table(table), tmp_path / "d.parquet")
    found = read_recordings(tmp_path / "d.parquet", Layout(actions=("u",), ignored=("note",)))
    same(found, SEEN[::-1], ACTED[::-1])
    assert found.names == NAMES[::-1]
    with pytest.raises(RecordingError, match=r"row 1 of .*: 'text' in column 'note' is not a number"):
        read_recordings(tmp_path / "d.parquet")
    when = pyarrow.array([3, 1, 2], pyarrow.timestamp("ms", "UTC"))
    kinds = {"time": when, "b": [True, None, False], "i": pyarrow.array([1, 2, 3], pyarrow.uint8())}
    parquet.write_table(pyarrow.table(kinds), tmp_path / "e.parquet")
    found = read_recordings(tmp_path / "e.parquet", Layout(observations=("i",)))
    assert found.observations[:, 0].tolist() == [2, 3, 1]
    with pytest.raises(RecordingError, match="no sequence has 3 steps or more"):
        read_recordings(tmp_path / "e.parquet")
    parquet.write_table(pyarrow.table({"p": [[1.0], [2.0], [3.0]]}), tmp_path / "f.parquet")
    with pytest.raises(RecordingError, match=r"row 1 of .*: '\[1\.\]' in column 'p' is not a number"):
        read_recordings(tmp_path / "f.parquet")
    with pytest.raises(RecordingError, match="is not a Parquet file that can be read"):
        read_recordings(text(tmp_path / "g.parquet", "nonsense"))


def test_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    space = spaces.Dict({"p": spaces.Box(-999, 999, (1,)), "v": spaces.Box(-999, 999, ())})
    buffers = [
        EpisodeBuffer(
            id=index,
            observations={"p": list(part[:, :1].astype(np.float32)), "v": list(part[:, 1].astype(np.float32))},
            actions=[step % 3 for step in range(len(part) - 1)],
            rewards=[0.0] * (len(part) - 1),
            terminations=[False] * (len(part) - 1),
            truncations=[step == len(part) - 2 for step in range(len(part) - 1)],
        )
        for index, part in enumerate(SEEN)
    ]
    options = {"action_space": spaces.Discrete(3), "observation_space": space, "data_format": "arrow"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no author, no code
        minari.create_dataset_from_buffers("own/test-v0", buffers, **options)
    found = read_recordings("minari:own/test-v0")
    hot = [np.eye(3)[[*(step % 3 for step in range(len(part) - 1)), (len(part) - 2) % 3]] for part in SEEN]
    same(found, SEEN, hot)
    assert found.names == ("0", "1", "2") and found.action_names == ("a0", "a1", "a2")
    fewer = read_recordings("minari:own/test-v0", Layout(observations=("x1",), ignored=("a2",)))
    same(fewer, [part[:, 1:] for part in SEEN], [part[:, :2] for part in hot])
    with pytest.raises(RecordingError, match=r"no Minari data set 'own/other-v0' on this machine .*minari download"):
        read_recordings("minari:own/other-v0")
    with pytest.raises(RecordingError, match=r"has no column 'episode' for the sequence"):
        read_recordings("minari:own/test-v0", Layout(sequence="episode"))


# roles


def test_roles_of_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", ["run", "t", "p", "v", "u"], rows())
    found = read_recordings(path, Layout(observations=("v", "p"), actions=("u",)))
    same(found, [part[:, ::-1] for part in SEEN])
    assert found.observation_names == ("v", "p")
    found = read_recordings(path, Layout(ignored=("v", "u")))
    same(found, [part[:, :1] for part in SEEN], None)
    found = read_recordings(path, Layout(actions=("u", "v")))
    same(found, [part[:, :1] for part in SEEN], [np.c_[a, o[:, 1]] for o, a in zip(SEEN, ACTED, strict=True)])
    with pytest.raises(RecordingError, match=r"has no column 'w' for the actions; it has run, t, p, v, u"):
        read_recordings(path, Layout(actions=("w",)))
    with pytest.raises(RecordingError, match=r"has no column 'who' for the sequence; it has run, t, p, v, u"):
        read_recordings(path, Layout(sequence="who"))
    with pytest.raises(RecordingError, match=r"column p is given twice"):
        read_recordings(path, Layout(actions=("p",), ignored=("p",)))
    with pytest.raises(RecordingError, match=r"has no column to predict; its columns are run, t, p, v, u"):
        read_recordings(path, Layout(actions=("p", "v", "u")))


# rules


@pytest.mark.parametrize("missing", ["", "NA", "nan", " NaN ", "null"])
def test_short_gaps_are_interpolated(tmp_path: Path, missing: str) -> None:
    found = column([" 1 ", missing, missing, "4", *[missing] * 5, "-2"], tmp_path)
    assert found.observations[:, 0].tolist() == [1, 2, 3, 4, 3, 2, 1, 0, -1, -2]
    assert found.names == ("a",)
    assert found.notes[1:] == ("7 missing values: 7 interpolated (gaps of at most 5 steps)",)


def test_long_gaps_split_and_edges_are_cut(tmp_path: Path) -> None:
    found = column(["", 1, 2, 3, *[""] * 6, 4, 5, "", 7, "", ""], tmp_path)
    assert found.names == ("a/0", "a/1") and found.lengths.tolist() == [3, 4]
    assert found.observations[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    note = "10 missing values: 1 interpolated (gaps of at most 5 steps), 9 cut off with their rows; "
    assert found.notes[1:] == (note + "1 sequence split at longer gaps",)


def test_gaps_in_actions_and_other_sequences() -> None:
    seen = [np.arange(9.0), np.arange(4.0), np.arange(5.0)]
    acted = [np.ones(9), np.full(4, np.nan), np.array([0, 1, np.nan, 3, 4])]
    acted[0][1:8] = np.nan
    found = from_arrays(seen, acted, names=["a", "b", "c"])
    assert found.names == ("c",)  # one step before and after the gap of the first, none of the second
    assert found.actions[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert found.notes[1] == "3 sequences with fewer than 3 steps left out"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=25), min_size=1, max_size=4))
def test_whatever_is_missing(holes: list[list[bool]]) -> None:
    """Of a straight line, only rows of long gaps, edges and short pieces disappear, and the rest is the line."""
    arrays = [np.where(hole, np.nan, np.arange(len(hole))) for hole in holes]
    expected: list[list[int]] = []
    for hole in holes:
        pattern = "".join("01"[not value] for value in hole).strip("0")
        offset = "".join("01"[not value] for value in hole).find("1")
        for piece in re.finditer(r"1(?:1|0{1,5}(?=1))*", pattern):
            if piece.end() - piece.start() >= 3:
                expected.append(list(range(offset + piece.start(), offset + piece.end())))
    if not expected:
        with pytest.raises(RecordingError, match=r"missing|no sequence has 3"):
            from_arrays(arrays)
        return
    found = from_arrays(arrays)
    assert [found.sequence(index)[0][:, 0].tolist() for index in range(len(found))] == expected
    assert len(set(found.names)) == len(found)


def test_constant_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", ["id", "t", "k", "p", "v", "u", "w"], [[*r[:2], 3, *r[2:], 0] for r in rows()])
    layout = Layout(actions=("u", "w"))
    found = read_recordings(path, layout)
    same(found)
    assert found.observation_names == ("p", "v") and found.notes[-1] == "constant columns left out: k, w"
    kept = read_recordings(path, layout, keep_constant=True)
    assert kept.observation_names == ("k", "p", "v") and kept.action_names == ("u", "w")
    assert (kept.observations[:, 0] == 3).all() and (kept.actions[:, 1] == 0).all()
    same(replace(kept.select_columns(("p", "v"), ("u",), "it"), notes=()))


def test_short_sequences(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", ["id", "p"], [["a", 1], ["b", 2], ["a", 3], ["b", 5], ["a", 4]])
    found = read_recordings(path)
    assert found.names == ("a",) and found.observations[:, 0].tolist() == [1, 3, 4]
    assert found.notes[-1] == "1 sequence with fewer than 3 steps left out"
    path = written(tmp_path / "d.csv", ["id", "p"], [[row, row] for row in range(5)])
    with pytest.raises(RecordingError, match=r"no sequence has 3 steps or more.*column 'id' names the sequence"):
        read_recordings(path)


# recordings themselves


def test_from_arrays() -> None:
    found = from_arrays(SEEN, [part[:-1] for part in ACTED])
    same(found, SEEN, [np.concatenate([part[:-1], part[-2:-1]]) for part in ACTED])
    same(from_arrays(np.stack([SEEN[0], -SEEN[0]])), [SEEN[0], -SEEN[0]], None)
    with pytest.raises(RecordingError, match=r"sequence 1 have shape \(4, 1\); expected 2 columns as in the first"):
        from_arrays([SEEN[0], SEEN[1][:, :1]])
    with pytest.raises(RecordingError, match=r"sequence 1 has 4 observations and 2 actions"):
        from_arrays(SEEN, [ACTED[0], ACTED[1][:2], ACTED[2]])
    with pytest.raises(RecordingError, match="3 sequences of observations and 2 of actions"):
        from_arrays(SEEN, ACTED[:2])
    with pytest.raises(RecordingError, match="expected 16 rows and 1 columns, one per name"):
        from_arrays(SEEN, observation_names=["p"])
    with pytest.raises(RecordingError, match="more than one column p"):
        from_arrays(SEEN, observation_names=["p", "p"])
    with pytest.raises(RecordingError, match="1 names for 3 sequences"):
        from_arrays(SEEN, names=["a"])
    with pytest.raises(RecordingError, match="there are no sequences"):
        from_arrays([])
    with pytest.raises(RecordingError, match="are not an array of numbers"):
        from_arrays([np.array(["a", "b"])])
    with pytest.raises(RecordingError, match=r"step 2 of sequence '1' is infinite or too large in column 'x0'"):
        from_arrays([np.arange(4), np.array([0, 1, 1e39])])


def test_take_and_starts() -> None:
    found = from_arrays(SEEN, ACTED, names=NAMES)
    assert found.starts.tolist() == [0, 7, 11]
    fewer = found.take([2, 0])
    same(fewer, [SEEN[2], SEEN[0]], [ACTED[2], ACTED[0]])
    assert fewer.names == ("c 1", "b") and len(fewer) == 2
    nothing = found.take([])
    assert len(nothing) == 0 and nothing.observations.shape == (0, 2) and nothing.starts.shape == (0,)


def test_aligned() -> None:
    found = from_arrays(SEEN, ACTED, observation_names=["p", "v"], action_names=["u"])
    other = found.select_columns(["u", "p"], ["v"], "the model")
    same(other, [np.c_[a, o[:, 0]] for o, a in zip(SEEN, ACTED, strict=True)], [part[:, 1:] for part in SEEN])
    assert found.select_columns(["v"], [], "the model").actions.shape == (16, 0)
    expected = "the data has no column y, z; it has p, v, u, and models/m was trained on p, y, z"
    with pytest.raises(RecordingError, match=expected):
        found.select_columns(["p", "y"], ["z"], "models/m")


def test_preview() -> None:
    found = from_arrays(SEEN, ACTED, observation_names=["p", "v"], action_names=["u"])
    assert replace(found, notes=("so it is",)).preview() == [
        "3 sequences, 4 to 7 steps, 16 rows, 1 kB",
        "predicted: p, v",
        "given (actions): u",
        "note: so it is",
    ]
    one = from_arrays([np.arange(250_000.0)])
    assert one.preview()[0] == "1 sequence, 250000 steps each, 250000 rows, 1.0 MB"
    assert one.preview()[2] == "given (actions): none"


# layouts


def test_recordings_carry_their_layout(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", ["who", "tick", "p", "v", "u"], rows())
    given = Layout(sequence="who", time="tick", actions=("u",))
    found = read_recordings(path, given)
    assert found.layout == replace(given, wide=False) and found.take([1]).layout == found.layout
    wide = written(tmp_path / "e.csv", [f"p_{step}" for step in range(12)], np.eye(4, 12).tolist())
    assert read_recordings(wide).layout == Layout(wide=True)
    assert from_arrays(SEEN).layout == Layout()


def test_a_layout_can_insist_on_wide_or_long(tmp_path: Path) -> None:
    values = np.arange(20.0).reshape(4, 5) ** 2
    path = written(tmp_path / "d.csv", [f"p_{step}" for step in range(5)], values.tolist())
    same(read_recordings(path), [values], None)  # few: variables, not steps
    same(read_recordings(path, Layout(wide=True)), list(values[:, :, None]), None)
    path = written(tmp_path / "e.csv", [str(step) for step in range(12)], np.eye(4, 12).tolist())
    assert len(read_recordings(path)) == 4
    found = read_recordings(path, Layout(wide=False))
    assert len(found) == 1 and "wide" not in " ".join(found.notes)
    path = written(tmp_path / "f.csv", ["p", "v"], [[1, 2], [3, 4], [5, 7]])
    with pytest.raises(RecordingError, match=r"has the columns p, v; expected x_0, x_1, \.\.\. of every variable"):
        read_recordings(path, Layout(wide=True))


# bad input

BAD: dict[str, tuple[str, str | bytes, str]] = {
    "empty": ("d.csv", "", r"d.csv is empty; expected .npz, .csv, .parquet, or minari:NAME with a row per time step"),
    "blank": ("d.csv", "\n\n", r"d.csv has no column to predict; its columns are none"),
    "header only": ("d.csv", "p,v\n", r"d.csv has a header and no rows"),
    "no header": ("d.csv", "0.5,1\n2,3\n4,5\n", r"the first line of .*d.csv holds numbers \(0.5, ...\)"),
    "ending": ("d.xlsx", "p\n1\n", r"d.xlsx ends in .xlsx; expected .npz, .csv, .parquet, or minari:NAME"),
    "no ending": ("d", "p\n1\n", r"d ends in nothing; expected .npz"),
    "text": (
        "d.csv",
        "p,v\n1,2\n\n3,up\n",
        r"line 4 of .*d.csv: 'up' in column 'v' is not a number; leave the column out \(--ignore v\), or name it as "
        r"what it is \(--sequence, --time\)",
    ),
    "decimal comma": ("d.csv", 'p,v\n"1,5",2\n', r"line 2 .*'1,5' in column 'p' .*; write decimals with a point"),
    "ragged": ("d.csv", "p,v\n1,2\n3\n", r"line 3 of .*d.csv has 1 column; the header has 2"),
    "twice": ("d.csv", "p,v,p\n1,2,3\n", r"d.csv has more than one column p; rename them"),
    "infinite": ("d.csv", "p,v\n1,2\n1,-inf\n", r"line 3 of .*d.csv: -inf in column 'v' is infinite or too large"),
    "too large": ("d.csv", "p,v\n1e39,2\n", r"line 2 of .*d.csv: 1e\+39 in column 'p' is infinite or too large"),
    "constant": ("d.csv", "p,v\n1,2\n1,2\n1,2\n", r"all columns are constant \(p, v\); there is nothing to predict"),
    "all missing": ("d.csv", "p,v\n1,\n2,NA\n3,\n", r"all values are missing in column v; fill it in or --ignore it"),
    "never together": ("d.csv", "p,v\n1,\n,2\n", r"every row has a missing value; fill them in"),
    "latin-1": ("d.csv", "größe\n1\n2\n".encode("latin-1"), r"d.csv is not a text file in UTF-8 .*; save it as UTF-8"),
    "utf-16": ("d.csv", "p\n1\n2\n".encode("utf-16"), r"d.csv is not a text file in UTF-8"),
    "late": ("d.csv", b"p\n" + b"1\n" * 9000 + b"\xff\n", r"d.csv is not a text file in UTF-8"),
    "time": ("d.csv", "t,p\n0,1\n,2\n", r"line 3 of .*: '' in column 't' is not a time; expected numbers, or dates"),
    "two times": ("d.csv", "t,p\n0,1\n2024-01-01,2\n", r"line 3 of .*: '2024-01-01' in column 't' is not a time"),
    "nobody": ("d.csv", "id,p\na,1\n,2\n", r"line 3 of .*d.csv has no name of a sequence in column 'id'"),
    "not npz": ("d.npz", "p,v\n", r"d.npz is not a NumPy archive of plain arrays \(File is not a zip file\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path: Path, case: str) -> None:
    name, content, pattern = BAD[case]
    with pytest.raises(RecordingError, match=pattern):
        read_recordings(text(tmp_path / name, content))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"there is no .*nowhere.csv; expected .npz"):
        read_recordings(tmp_path / "nowhere.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(RecordingError, match=r"d.csv is a directory; expected .npz"):
        read_recordings(tmp_path / "d.csv")


class Trap:
    """Creates a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_nothing_in_npz_is_executed(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    path = tmp_path / "d.npz"
    np.savez(path, observations=np.array([Trap(sprung)], dtype=object))
    pattern = (
        r"d.npz is not a NumPy archive of plain arrays \(Object arrays cannot be loaded.*nothing in it was executed"
    )
    with pytest.raises(RecordingError, match=pattern):
        read_recordings(path)
    assert not sprung.exists()
    with np.load(path, allow_pickle=True) as file:  # the trap works
        file["observations"]
    assert sprung.exists()


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95])
def test_truncated_npz(tmp_path: Path, kept: float) -> None:
    np.savez_compressed(tmp_path / "d.npz", observations=np.random.default_rng(0).normal(size=(50, 2)))
    content = (tmp_path / "d.npz").read_bytes()
    with pytest.raises(RecordingError, match=r"d.npz is not a NumPy archive of plain arrays"):
        read_recordings(text(tmp_path / "d.npz", content[: int(kept * len(content))]))


def test_damaged_npz(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", observations=np.random.default_rng(0).normal(size=(50, 2)))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[200:220] = bytes(20)
    with pytest.raises(RecordingError, match=r"d.npz is not a NumPy archive of plain arrays"):
        read_recordings(text(tmp_path / "d.npz", bytes(content)))


@pytest.mark.parametrize(
    ("arrays", "pattern"),
    [
        ({}, r"has no array 'observations'; it has none"),
        ({"actions": np.ones(3)}, r"has no array 'observations'; it has actions"),
        ({"observations": np.array(["a"])}, r"observations in .* holds <U1; expected numbers"),
        ({"observations": np.ones((2, 3, 4, 5))}, r"have shape \(2, 3, 4, 5\); expected \[N, T, O\] or \[S, O\]"),
        ({"observations": np.ones((5, 2)), "lengths": [3, 3]}, r"add up to 6; there are 5 rows"),
        ({"observations": np.ones((5, 2)), "lengths": [2.5, 2.5]}, r"lengths in .*float64 \(2,\); expected whole"),
        ({"observations": np.ones((5, 2)), "sequence": ["a"]}, r"names of sequences \(1,\) for 5 rows"),
        ({"observations": np.ones((2, 5, 1)), "lengths": [5, 6]}, r"do not fit .*; expected 2 of at most 5"),
        ({"observations": np.ones((2, 5, 1)), "actions": np.ones((3, 5))}, r"\(2, 5, 1\) and actions \(3, 5\)"),
    ],
)
def test_bad_arrays_in_npz(tmp_path: Path, arrays: dict[str, Any], pattern: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(RecordingError, match=pattern):
        read_recordings(tmp_path / "d.npz")


# size


@pytest.mark.slow
def test_memory_of_large_files(tmp_path: Path) -> None:
    count = 200_000
    values = np.random.default_rng(0).integers(-9999, 9999, size=(count, 4)) / 8
    lines = (f"{row // 1000},{row % 1000},{a},{b},{c},{d}\n" for row, (a, b, c, d) in enumerate(values.tolist()))
    path = text(tmp_path / "d.csv", "episode,step,a,b,c,d\n" + "".join(lines))
    tracemalloc.start()
    try:
        found = read_recordings(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found.observations, values)
    assert len(found) == 200 and set(found.lengths) == {1000}
    assert peak < 7 * found.observations.nbytes, peak / found.observations.nbytes


def test_decimal_commas_are_read_where_they_separate_nothing(tmp_path):
    (tmp_path / "d.csv").write_text("p;v\n1,5;2\n-0,25;1.234,5\n3;,5\n1e3;4,5e-1\n")
    read = read_recordings(tmp_path / "d.csv")
    assert read.observations.tolist() == [[1.5, 2], [-0.25, 1234.5], [3, 0.5], [1000, np.float32(0.45)]]


def test_many_files_are_sequences(tmp_path):
    for name, first in (("b", 10), ("a", 0)):
        rows = "".join(f"{first + step},{step % 3}\n" for step in range(5 + first))
        (tmp_path / f"{name}.csv").write_text(f"x,push\n{rows}")
    read = read_recordings(tmp_path / "*.csv", Layout(actions=("push",)))
    assert read.names == ("a", "b") and read.lengths.tolist() == [5, 15] and read.action_names == ("push",)
    assert read.observations[5, 0] == 10
    assert read.notes[:2] == ("2 files", "no column names a sequence, all rows of a file are one (--sequence COLUMN)")
    (tmp_path / "c.csv").write_text("y,push\n1,2\n3,4\n5,6\n")
    with pytest.raises(RecordingError, match=r"c.csv has the columns y, push; expected x, push, as in .*a.csv"):
        read_recordings(str(tmp_path / "*.csv"), Layout(actions=("push",)))
    with pytest.raises(RecordingError, match="there is no file"):
        read_recordings(tmp_path / "none*.csv")


def test_uneven_steps_of_time_are_noted(tmp_path):
    even = "".join(f"2024-01-01 00:{step:02}:00,{step % 4}\n" for step in range(30))
    (tmp_path / "even.csv").write_text("time,x\n" + even)
    (tmp_path / "uneven.csv").write_text("time,x\n" + "".join(f"{step * step},{step % 4}\n" for step in range(30)))
    assert not any("steps of time" in note for note in read_recordings(tmp_path / "even.csv").notes)
    notes = read_recordings(tmp_path / "uneven.csv").notes
    assert any("% of the steps of time are longer or shorter than usual" in note for note in notes)
