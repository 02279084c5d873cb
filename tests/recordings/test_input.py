"""Tables as people have them: categories, dates, uneven times, large offsets, many files, actions in the wrong row."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from small_models import small_model

from gatel0rd import EventSegmenter
from gatel0rd.models.fitted import Scaling
from gatel0rd.recordings import Layout, RecordingError, from_arrays, read_for_model, read_recordings
from gatel0rd.recordings.alignment import note_alignment
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.layout import Categories
from gatel0rd.recordings.sampling import forget_plain_times

MODES = ("auto", "manual", "off")


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


# categories


def test_texts_become_columns_of_zeros_and_ones(tmp_path):
    rows = [f"{step},{MODES[step % 3]},{'yes' if step % 2 else 'no'}" for step in range(12)]
    found = read_recordings(write(tmp_path / "d.csv", "x,mode,open", rows), Layout(actions=("open",)))
    assert found.observation_names == ("x", "mode=auto", "mode=manual", "mode=off")
    assert found.action_names == ("open=yes",)  # of two values one column is enough
    np.testing.assert_array_equal(found.observations[:, 1:], np.tile(np.eye(3), (4, 1)))
    np.testing.assert_array_equal(found.actions[:, 0], np.arange(12) % 2)
    assert "column 'mode' holds categories: auto, manual, off" in found.notes
    assert found.layout.categories == (
        Categories(column="mode", values=MODES),
        Categories(column="open", values=("no", "yes")),
    )


def test_texts_of_parquet_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pandas.DataFrame({"x": np.arange(9.0), "mode": [*MODES * 2, "off", None, "off"]})
    table.astype({"mode": "category"}).to_parquet(tmp_path / "d.parquet")
    found = read_recordings(tmp_path / "d.parquet")
    assert found.observation_names == ("x", "mode=auto", "mode=manual", "mode=off")
    np.testing.assert_array_equal(found.observations[6:, 3], [1, 1, 1])  # a gap keeps the last value


def test_missing_texts_keep_the_last_value(tmp_path):
    texts = ["up", "", "down", "na", "down", "none", "none", "up"]
    found = read_recordings(write(tmp_path / "d.csv", "x,way", [f"{i},{text}" for i, text in enumerate(texts)]))
    assert found.observation_names == ("x", "way=down", "way=none", "way=up")  # "none" is a name
    np.testing.assert_array_equal(found.observations[:4, 1:], [[0, 0, 1], [0, 0, 1], [1, 0, 0], [1, 0, 0]])
    assert "2 missing" not in " ".join(found.notes) and "6 missing values: 6 interpolated" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1,a"] * 1000 + ["3,4"], r"line 1002 of .*: '4' in column 'k' is a number, and values above it are texts"),
        (["1,4", "2,b", "3,c"], r"line 3 of .*: 'b' in column 'k' is not a number; .*--categories k"),
        ([f"{i},text {i}" for i in range(30)], r"'k' of .* more than 20 different texts \(text 0, text 1, text 2, …"),
        ([f"{i},2024-01-0{i}" for i in range(1, 9)], r"column 'k' of .* holds dates .*--time k.*--ignore k"),
    ],
)
def test_texts_that_are_no_categories(tmp_path, rows, message):
    with pytest.raises(RecordingError, match=message):
        read_recordings(write(tmp_path / "d.csv", "x,k", rows))


def test_numbers_can_be_categories(tmp_path):
    path = write(tmp_path / "d.csv", "x,gear", [f"{i * i},{(1, 2, 'R')[i % 3]}" for i in range(9)])
    found = read_recordings(path, Layout(categories=(Categories(column="gear"),)))
    assert found.observation_names == ("x", "gear=1", "gear=2", "gear=R")
    with pytest.raises(RecordingError, match="no column 'gears' for the categories"):
        read_recordings(path, Layout(categories=(Categories(column="gears"),)))


def test_a_model_knows_its_categories(tmp_path):
    rows = [f"{step % 5},{MODES[step % 3]}" for step in range(12)]
    found = read_recordings(write(tmp_path / "d.csv", "x,mode", rows))
    layout = {"wide": False, "categories": [{"column": "mode", "values": list(MODES)}]}
    model = small_model(observed=found.observation_names, acted=(), layout=layout)
    fewer = read_for_model(model, write(tmp_path / "e.csv", "mode,x", ["off,1", "off,2", "auto,4"]))
    assert fewer.observation_names == ("x", "mode=auto", "mode=manual", "mode=off")
    np.testing.assert_array_equal(fewer.observations, [[1, 0, 0, 1], [2, 0, 0, 1], [4, 1, 0, 0]])
    unseen = write(tmp_path / "f.csv", "x,mode", ["1,off", "2,broken", "3,off"])
    with pytest.raises(RecordingError, match=r"line 3 of .*: 'broken' in column 'mode' is none of the categories"):
        read_for_model(model, unseen)
    layout["categories"][0]["values"] = ["auto", "off", "other"]
    names = ("x", "mode=auto", "mode=off", "mode=other")
    found = read_for_model(small_model(observed=names, acted=(), layout=layout), unseen)
    np.testing.assert_array_equal(found.observations[:, 1:], [[0, 1, 0], [0, 0, 1], [0, 1, 0]])


def test_categories_of_many_files_are_those_of_all(tmp_path):
    write(tmp_path / "a.csv", "x,mode", [f"{i},auto" for i in range(4)])
    write(tmp_path / "b.csv", "x,mode", [f"{i},{MODES[i % 3]}" for i in range(6)])
    write(tmp_path / "c.csv", "x,mode", [f"{i}," for i in range(3)] + ["3,off", "4,off", "5,off"])
    found = read_recordings(tmp_path / "*.csv")
    assert found.observation_names == ("x", "mode=auto", "mode=manual", "mode=off")
    assert found.observations[:4, 1].tolist() == [1] * 4 and found.lengths.tolist() == [4, 6, 3]


@pytest.mark.parametrize("first", [3, 1500, 2700])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_name_is_a_value_wherever_the_first_text_is(tmp_path, first, kind):
    """A chunk has 1000 rows: in all but the first of these cases some hold nothing but "none", "-" or nothing."""
    texts = [("high" if row < first + 5 else "-") if row >= first else "none" for row in range(2800)]
    texts[1] = ""
    if kind == "csv":
        path = write(tmp_path / "d.csv", "x,alarm", [f"{row % 7},{text}" for row, text in enumerate(texts)])
    else:
        parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        path = tmp_path / "d.parquet"
        table = {"x": [row % 7 for row in range(2800)], "alarm": [text or None for text in texts]}
        parquet.write_table(pyarrow.table(table), path, row_group_size=700)
    found = read_recordings(path)
    assert found.observation_names == ("x", "alarm=-", "alarm=high", "alarm=none")
    assert found.lengths.tolist() == [2800]
    held = [*texts[:1], "none", *texts[2:]]  # what is missing keeps the last value
    expected = [[text == value for value in ("-", "high", "none")] for text in held]
    np.testing.assert_array_equal(found.observations[:, 1:], expected)


def test_names_among_numbers_are_missing_values(tmp_path):
    texts = ["none"] * 2 + ["7", "?", "9"] + ["11"] * 1400 + ["-"] * 3 + ["13"]
    found = read_recordings(write(tmp_path / "d.csv", "x,k", [f"{row % 5},{text}" for row, text in enumerate(texts)]))
    assert found.observation_names == ("x", "k") and found.lengths.tolist() == [len(texts) - 2]
    assert found.observations[:3, 1].tolist() == [7, 8, 9]
    with pytest.raises(RecordingError, match=r"line 1502 of .*: 'high' in column 'k' is not a number"):
        read_recordings(
            write(tmp_path / "e.csv", "x,k", [f"{row},-" for row in range(1400)] + ["1,2"] * 100 + ["1,high"])
        )


def test_names_are_values_if_another_file_has_texts(tmp_path):
    write(tmp_path / "a.csv", "x,mode", [f"{i},none" for i in range(4)])
    write(tmp_path / "b.csv", "x,mode", [f"{i},{MODES[i % 2]}" for i in range(6)])
    found = read_recordings(tmp_path / "*.csv")
    assert found.observation_names == ("x", "mode=auto", "mode=manual", "mode=none")
    assert found.lengths.tolist() == [4, 6] and found.observations[:4, 3].tolist() == [1] * 4
    write(tmp_path / "c.csv", "x,mode", [f"{i},{i}" for i in range(5)])
    with pytest.raises(
        RecordingError, match=r"'mode' of .*c.csv holds numbers, and texts in other files; .*--categories"
    ):
        read_recordings(tmp_path / "*.csv")


# files


def test_files_are_named_one_by_one_or_by_patterns(tmp_path):
    (tmp_path / "more").mkdir()
    for name in ("b", "a", "more/a"):
        write(tmp_path / f"{name}.csv", "x", [f"{i * len(name)}" for i in range(4)])
    found = read_recordings([tmp_path / "b.csv", str(tmp_path / "*.csv")])
    assert found.names == ("b", "a") and "2 files" in found.notes
    both = read_recordings([tmp_path / "a.csv", tmp_path / "more" / "a.csv"])
    assert both.names == (str(tmp_path / "a"), str(tmp_path / "more" / "a"))  # equal names are told apart
    with pytest.raises(RecordingError, match=r"more is a directory; expected .*many files as in .*more/\*.csv"):
        read_recordings(tmp_path / "more")
    with pytest.raises(RecordingError, match="no recordings were named"):
        read_recordings([])


# time


def test_dates_with_points_begin_with_the_day(tmp_path):
    rows = ["02.01.2024 00:00;1,5", "1.2.2024;4", "03.01.2024 00:00:00;2,5", "31.12.2023 23:00;0,5"]
    found = read_recordings(write(tmp_path / "d.csv", "Zeit;Höhe", rows), Layout(time="Zeit"))
    assert found.observation_names == ("Höhe",) and found.observations[:, 0].tolist() == [0.5, 1.5, 2.5, 4]
    with pytest.raises(RecordingError, match=r"'12/31/2024' in column 'time' is not a time; .*31.12.2024 23:59"):
        read_recordings(write(tmp_path / "e.csv", "time,x", ["12/31/2024,1", "12/30/2024,2"]))


def test_missing_rows_are_filled_in_and_pauses_split(tmp_path):
    steps = [*range(12), *range(14, 20), *range(40, 50)]
    path = write(tmp_path / "d.csv", "time,x,push", [f"{0.5 * step},{step * 2},{step % 7}" for step in steps])
    found = read_recordings(path, Layout(actions=("push",)))
    assert found.lengths.tolist() == [20, 10] and found.names == ("d/0", "d/1")
    assert found.origins == (("d", 0), ("d", 40))
    np.testing.assert_allclose(found.observations[:20, 0], np.arange(20) * 2)  # in between: linear
    assert found.actions[11:15, 0].tolist() == [4, 4, 4, 0]  # actions: held
    assert found.times is not None
    np.testing.assert_allclose(found.times, 0.5 * np.array([*range(20), *range(40, 50)]))
    (note,) = (note for note in found.notes if "resampled" in note)
    assert "resampled every 0.5, 30 rows instead of 28; 1 sequence split at longer pauses" in note
    kept = read_recordings(path, Layout(actions=("push",), ignored=("time",)))
    assert len(kept.observations) == 28 and kept.times is None


def test_uneven_times_are_resampled_at_their_median(tmp_path):
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.5, 1.5, size=400))
    path = tmp_path / "d.csv"
    write(path, "t,x,mode", [f"{t},{np.sin(0.1 * t)},{'b' if t > 200 else 'a'}" for t in times.tolist()])
    found = read_recordings(path)
    assert found.times is not None
    steps = np.diff(found.times)
    np.testing.assert_allclose(steps, np.median(np.diff(times)), rtol=1e-6)
    np.testing.assert_allclose(found.observations[:, 0], np.sin(0.1 * found.times), atol=3e-3)  # h² f″ / 8
    assert set(found.observations[:, 1].tolist()) == {0, 1}  # categories are never mixed
    even = write(tmp_path / "e.csv", "t,x", [f"{0.1 * i},{i % 3}" for i in range(50)])
    assert not any("resampled" in note for note in read_recordings(even).notes)
    coarse = write(tmp_path / "f.csv", "t,x", [f"{i // 2},{i % 3}" for i in range(50)])
    found = read_recordings(coarse)
    assert len(found.observations) == 50 and "time stamps repeat" in found.notes[-1] and found.times is None


def test_values_that_are_missing_stay_missing_when_rows_are_resampled(tmp_path):
    rows = [f"{step + 0.3 * (step % 2)},{'' if 10 <= step < 20 else step}" for step in range(40)]
    found = read_recordings(write(tmp_path / "d.csv", "t,x", rows))
    assert len(found) == 2 and found.times is not None  # the long gap splits
    assert found.times[found.starts[1]] >= 20 and found.times[found.lengths[0] - 1] <= 9.3


def test_time_stamps_follow_their_rows(tmp_path):
    rows = [f"2024-01-01 00:{step:02}:00,{step * step if step not in (3, 4) else ''},1" for step in range(30)]
    rows += [f"2024-01-02 00:{step:02}:00,{step},2" for step in range(2)]
    found = read_recordings(write(tmp_path / "d.csv", "date,x,id", rows))
    assert found.times is not None and len(found.times) == 30
    assert found.take([0]).cut(5).times.tolist()[-1].minute == 4
    plain = read_recordings(write(tmp_path / "e.csv", "t,x", [f"{i},{i % 3}" for i in range(9)]))
    assert plain.times is None  # they are the numbers of the rows


def local_times(start, step, count, changes):
    """Dates as a clock on the wall shows them, and with their offset; it is set back and forth in turn."""
    first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    shifts = [datetime.fromisoformat(change).replace(tzinfo=UTC) for change in changes]
    times = []
    for moment in (first + number * timedelta(seconds=step) for number in range(count)):
        hours = 2 - sum(moment >= shift for shift in shifts) % 2
        times.append(moment.astimezone(timezone(timedelta(hours=hours))))
    return [f"{time:%Y-%m-%d %H:%M:%S}" for time in times], [time.isoformat() for time in times]


AUTUMN = ["2024-10-27 01:00"]


@pytest.mark.parametrize(
    ("start", "step", "count", "changes"),
    [
        ("2024-10-26 22:00:03", 61, 360, AUTUMN),  # no stamp twice
        ("2024-10-26 22:00:00", 60, 360, AUTUMN),  # every stamp of the hour twice
        ("2024-10-26 23:10:00", 17, 500, AUTUMN),  # it ends within the hour
        ("2024-10-27 00:10:00", 7, 1300, AUTUMN),  # it begins within the hour
        ("2022-10-01 00:00:00", 1800, 40_000, ["2022-10-30 01:00", "2023-03-26 01:00", "2023-10-29 01:00"]),
    ],
)
def test_an_hour_that_clocks_show_twice_is_an_error(tmp_path, start, step, count, changes):
    local, exact = local_times(start, step, count, changes)
    rows = [f"2020-01-01 0{number}:00:00,b,{number}" for number in range(5)]
    path = write(tmp_path / "d.csv", "time,id,x", rows + [f"{time},a,{i % 7}" for i, time in enumerate(local)])
    with pytest.raises(RecordingError, match=r"goes back from .* \(row \d+ of sequence 'a'\).*daylight.*--ignore"):
        read_recordings(path)
    assert read_recordings(path, Layout(ignored=("time",))).lengths.tolist() == [5, count]
    path = write(tmp_path / "e.csv", "time,id,x", rows[:1] + [f"{time},a,{i % 7}" for i, time in enumerate(exact)])
    found = read_recordings(path)
    assert found.observations[:, 0].tolist() == [i % 7 for i in range(count)]
    assert not any("moved" in note for note in found.notes)


@pytest.mark.parametrize("dates", [True, False])
@pytest.mark.parametrize(
    ("minutes", "moved", "first"),
    [
        ([*range(70), 20.5, *range(70, 99)], "1 row", 70),  # it arrived 50 minutes late
        ([*range(20), *range(90, 150), *range(20, 90)], "70 rows", 80),  # two blocks the wrong way round
        ([*range(30, 65), *range(5, 30)], "25 rows", 35),  # an hour back, but nothing twice
    ],
)
def test_rows_that_are_moved_are_counted(tmp_path, dates, minutes, moved, first):
    start = datetime(2024, 10, 27)
    stamps = [(start + timedelta(minutes=minute)).isoformat() if dates else f"{minute:.1f}" for minute in minutes]
    path = write(tmp_path / "d.csv", "time,x", [f"{stamp},{m}" for stamp, m in zip(stamps, minutes, strict=True)])
    found = read_recordings(path)
    note = f"{moved} moved to the order of column 'time', the first is row {first} of sequence 'd' ({stamps[first]})"
    assert note in found.notes and (np.diff(found.observations[:, 0]) > 0).all()


@pytest.mark.parametrize("step", [10, 15, 20, 30, 60])
def test_two_rows_in_the_wrong_order_are_no_change_of_clocks(tmp_path, step):
    minutes = [number * step for number in range(40)]
    minutes[10], minutes[11] = minutes[11], minutes[10]
    stamps = [datetime(2024, 6, 1) + timedelta(minutes=minute) for minute in minutes]
    found = read_recordings(
        write(tmp_path / "d.csv", "time,x", [f"{s},{m}" for s, m in zip(stamps, minutes, strict=True)])
    )
    assert (np.diff(found.observations[:, 0]) == step).all() and any("1 row moved" in note for note in found.notes)


@pytest.mark.parametrize("late", [5, 20])
def test_a_late_row_of_an_irregular_log_is_no_change_of_clocks(tmp_path, late):
    minutes = np.cumsum(np.random.default_rng(0).integers(30, 120, size=60))
    minutes = np.insert(minutes, 30, minutes[29] - late).tolist()
    stamps = [datetime(2024, 6, 1) + timedelta(minutes=minute) for minute in minutes]
    found = read_recordings(
        write(tmp_path / "d.csv", "time,x", [f"{s},{m}" for s, m in zip(stamps, minutes, strict=True)])
    )
    assert any("1 row moved" in note for note in found.notes)


# numbers


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("last", [3, 1400])
def test_points_are_between_thousands_where_commas_are_decimal(tmp_path, delimiter, last):
    """Wherever in the file the first comma is; without one in its column a point is decimal."""
    cells = ["1.000", "999", "-1.234.567", "+12.000"] + ["1.001"] * last + ["1.000,5", "0.125", "999,5"]
    rows = [delimiter.join([cell, "1.000", f"1.00{row % 7}"]) for row, cell in enumerate(cells)]
    found = read_recordings(write(tmp_path / "d.csv", delimiter.join("abc"), rows), keep_constant=True)
    expected = [1000, 999, -1234567, 12000, *[1001] * last, 1000.5, 0.125, 999.5]
    assert found.observations[:, 0].tolist() == expected
    with pytest.raises(RecordingError, match=r"the first line of .* holds numbers \(1.5, ...\)"):
        read_recordings(write(tmp_path / "e.csv", delimiter.join(["1,5", "2,5", "3"]), [delimiter.join("456")] * 5))
    np.testing.assert_allclose(found.observations[:, 1], 1)
    np.testing.assert_allclose(found.observations[:, 2], [1 + row % 7 / 1000 for row in range(len(cells))], rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 6e5, 5.3e6, 1.7e9])
@pytest.mark.parametrize("kind", ["csv", "npz", "arrays"])
def test_small_changes_around_a_large_value_are_kept(tmp_path, offset, kind):
    wave = 0.05 * np.sin(0.3 * np.arange(2500))
    values = offset + wave
    if kind == "csv":
        found = read_recordings(
            write(tmp_path / "d.csv", "p,q", [f"{v!r},{i % 7}" for i, v in enumerate(values.tolist())])
        )
    elif kind == "npz":
        np.savez(tmp_path / "d.npz", observations=np.stack([values, np.arange(2500) % 7], axis=1))
        found = read_recordings(tmp_path / "d.npz")
    else:
        found = from_arrays([np.stack([values, np.arange(2500) % 7], axis=1)], keep_constant=False)
    assert len(found.observation_names) == 2
    assert found.observations.dtype == (np.float64 if offset else np.float32)
    seen = found.observations[:, 0].astype(np.float64) - offset
    np.testing.assert_allclose(seen, wave, atol=1e-6)


def test_a_model_is_fed_and_answers_in_full_precision():
    wave = 0.05 * np.sin(0.3 * np.arange(60))
    recordings = from_arrays([5.3e6 + wave[:, None]])
    model = small_model(observed=("x0",), acted=())
    scaling = type(model.observation_scaling).of(recordings.observations)
    model = replace(model, observation_scaling=scaling)
    np.testing.assert_allclose(scaling.transform(recordings.observations)[:, 0].std(), 1, rtol=1e-3)
    back = scaling.inverse_transform(scaling.transform(recordings.observations))
    np.testing.assert_allclose(back[:, 0] - 5.3e6, wave, atol=1e-6)
    predictions = model.run(recordings.observations).predictions
    assert predictions.dtype == np.float64 and len(np.unique(predictions)) > 20


def test_numbers_that_are_constant_need_no_precision():
    found = from_arrays([np.stack([np.full(9, 0.1), np.arange(9.0)], axis=1)])
    assert found.observations.dtype == np.float32


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_constant_columns_keep_their_size(kind):
    """The standard deviation of 997 times 0.1 is 1.4e-15 in double precision."""
    rows = np.stack([np.full(997, 0.1), np.full(997, 0.3), np.arange(997) % 7 * 0.25], axis=1)
    rows[5:9, 1] = 0.1 + 0.2  # not 0.3, but for people it is
    scaling = Scaling.of(rows.astype(kind))
    assert scaling.scale[:2] == (1.0, 1.0) and scaling.scale[2] == pytest.approx(0.5, rel=1e-2)
    np.testing.assert_allclose(scaling.transform(rows + 0.1)[:, :2], 0.1, atol=1e-6)
    assert Scaling.of(np.zeros((5, 0))) == Scaling((), ())
    assert Scaling.of(np.array([[0.0], [1e-170], [0.0]])).scale == (1.0,)  # its square is 0


def test_what_is_constant_while_fitting_may_change_later(tmp_path):
    rng = np.random.default_rng(0)
    wave = 5300000 + 0.05 * np.sin(np.arange(300) / 9) + 0.001 * rng.normal(size=300)  # read in double precision
    late = np.where(np.arange(300) < 280, 0.1, 0.2)
    config = FitConfig(rounds=2, round_updates=2, hidden_size=3, features=4, window=15, transitions=1)
    fitted = fit(from_arrays([np.stack([wave, late], axis=1)]), config, tmp_path)
    assert fitted.observation_scaling.scale[1] == 1 and fitted.info["error"] < 100
    before, after = (np.stack([wave, level], axis=1) for level in (np.full(300, 0.1), late))
    segmenter = EventSegmenter(method="changes").fit(before)
    assert segmenter.predict(after).shape[0] <= 3


def test_a_hundred_thousand_columns_are_read_in_seconds(tmp_path):
    names = tuple(f"c{i}" for i in range(100_000))
    values = np.random.default_rng(0).normal(size=(4, len(names))).round(2)
    values[:, ::2] = 1
    path = write(tmp_path / "d.csv", ",".join(names), [",".join(map(str, row)) for row in values.tolist()])
    begun = time.process_time()
    found = read_recordings(path)
    again = read_recordings(path, Layout(observations=names), keep_constant=True)
    assert time.process_time() - begun < 20
    assert len(found.observation_names) == 50_000 and len(again.observation_names) == 100_000
    assert max(map(len, found.preview())) < 1000


# actions


def shift(array: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros((1, array.shape[1])), array[:-1]])


@pytest.mark.parametrize("kind", ["level", "change"])
def test_which_row_actions_explain_is_noted(kind):
    rng = np.random.default_rng(0)
    acted = [rng.normal(size=(50, 1)) for _ in range(8)]
    seen = [own if kind == "level" else np.cumsum(own, axis=0) for own in acted]
    (note,) = note_alignment(from_arrays(seen, acted))
    assert "actions explain 100% of the changes in their own row" in note and "--same-row" in note
    assert note_alignment(from_arrays([shift(own) for own in seen], acted)) == []


def test_actions_are_moved_up_if_the_layout_says_so(tmp_path):
    rng = np.random.default_rng(0)
    pushes = rng.integers(-3, 4, size=40)
    path = write(
        tmp_path / "d.csv", "x,push", [f"{x},{push}" for x, push in zip(np.cumsum(pushes), pushes, strict=True)]
    )
    moved = read_recordings(path, Layout(actions=("push",), same_row=True))
    assert moved.actions[:, 0].tolist() == [*pushes[1:], pushes[-1]]
    assert note_alignment(moved) == [] and "actions moved up by one row (--same-row)" in moved.notes
    model = small_model(observed=("x",), acted=("push",), layout={"wide": False, "same_row": True})
    np.testing.assert_array_equal(read_for_model(model, path).actions, moved.actions)


# what fuzzing found


@pytest.mark.parametrize(
    ("header", "row", "names"),
    [
        ("level,x;y", "{},7", ("level", "x;y")),
        ('"level";"a,b";"c,d"', "{},5;7,25;2", ("level", "a,b", "c,d")),
        ('level\t"a;b"\t"c;d"', "{}\t7\t2", ("level", "a;b", "c;d")),
        ("a;b", "{},5;7,25", ("a", "b")),
    ],
)
def test_names_may_contain_other_delimiters(tmp_path, header, row, names):
    path = write(tmp_path / "d.csv", header, [row.format(step) for step in range(5)])
    found = read_recordings(path, keep_constant=True)
    half = 0.5 if ",5" in row else 0.0
    assert found.observation_names == names and found.observations[:, 0].tolist() == [step + half for step in range(5)]
    assert (found.observations[:, 1] == (7.25 if half else 7)).all()


def test_lines_of_different_lengths_are_named_whatever_the_delimiter(tmp_path):
    with pytest.raises(RecordingError, match=r"line 2 of .* has 3 columns; the header has 2"):
        read_recordings(write(tmp_path / "d.csv", "a,b", ["1,2,3"] * 5))


def test_a_name_of_thousands_of_digits_is_a_name(tmp_path):
    path = write(tmp_path / "d.csv", f"x_{'9' * 5000},y", [f"{step},{step % 3}" for step in range(5)])
    assert read_recordings(path).observations.shape == (5, 2)


def test_nothing_is_moved_where_there_is_nothing(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros(0))
    with pytest.raises(RecordingError, match="no sequence has 3 steps or more"):
        read_recordings(tmp_path / "d.npz", Layout(same_row=True))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"sequence": np.zeros(4, dtype=[("a", "f4"), ("b", "U2")])}, "expected a list of numbers or texts"),
        ({"sequence": np.zeros((4, 7))}, "expected a list of numbers or texts"),
        ({"actions": np.zeros(4)}, r"actions in .* have shape \(4,\)"),
    ],
)
def test_arrays_that_are_no_names_and_no_actions(tmp_path, arrays, message):
    np.savez(tmp_path / "d.npz", observations=np.zeros((4, 7, 2)), **arrays)
    with pytest.raises(RecordingError, match=message):
        read_recordings(tmp_path / "d.npz")


def test_names_of_columns_are_a_list(tmp_path):
    np.savez(tmp_path / "d.npz", observations=np.zeros((7, 2)), observation_names=np.full((2, 2, 2), np.inf))
    with pytest.raises(
        RecordingError, match=r"observation_names in .* are float64 \(2, 2, 2\); expected a list of texts"
    ):
        read_recordings(tmp_path / "d.npz")


def test_a_pause_may_be_of_any_length(tmp_path):
    times = [*range(12), 1e20, 1e20 + 2e4, 1e20 + 4e4]
    found = read_recordings(write(tmp_path / "d.csv", "time,x", [f"{time},{i % 5}" for i, time in enumerate(times)]))
    assert found.names == ("d/0",) and found.lengths.tolist() == [12]


def test_steps_after_a_very_long_pause_are_numbers(tmp_path):
    steps = np.array([*range(12), *(10**20 + 2**20 * i for i in range(3))], dtype=np.float64)
    recordings = from_arrays([np.arange(15.0) % 5])
    moved = replace(recordings, origins=(("0", 10**20),), times=steps)
    assert forget_plain_times(moved).times is not None


def test_what_other_libraries_say_is_one_line(tmp_path):
    path = tmp_path / "d.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 200 + (100).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(RecordingError, match="is not a Parquet file that can be read") as refused:
        read_recordings(path)
    assert "\n" not in str(refused.value)
