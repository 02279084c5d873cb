"""Recordings as people have them, from the preview of a fit to a page, with the commands that they type."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from gatel0rd.cli.fit_report import describe_columns, describe_curve, describe_fit, describe_next
from gatel0rd.cli.main import main
from gatel0rd.recordings import from_arrays


def write_logs(directory, *, modes=("heat", "cool"), seed=0):
    """Three logs with semicolons, decimal commas, dates, a text column, missing values and missing rows."""
    rng = np.random.default_rng(seed)
    directory.mkdir()
    for number in range(3):
        level, rows = 5_300_000.0, ["Datum;Temperatur;mode"]
        for step in range(40):
            mode = modes[(step // 10 + number) % len(modes)]
            level += 5.0 * (step == 25)
            text = "" if step == 7 else f"{level + rng.normal(0, 0.1):.3f}".replace(".", ",")
            if step not in (20, 21):
                rows.append(f"{number + 1:02}.03.2024 10:{step:02}:00;{text};{mode}")
        (directory / f"log{number}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return sorted(map(str, directory.glob("*.csv")))


@pytest.mark.parametrize("quoted", [True, False])
def test_logs_of_a_heater(tmp_path, monkeypatch, capsys, quoted):
    monkeypatch.chdir(tmp_path)
    files = write_logs(tmp_path / "logs")
    named = ["logs/*.csv"] if quoted else files
    main(["fit", *named, "--time", "Datum", "--actions", "mode", "--rounds", "2", "--out", "heater"])
    shown = capsys.readouterr().out.replace("\n", " ")
    for words in (
        "3 sequences, 40 steps each, 120 rows",
        "predicted: Temperatur",
        "given (actions): mode=heat",
        "note: 3 files",
        "note: column 'Datum' orders rows",
        "note: column 'mode' holds categories: cool, heat",
        "of the steps of time are longer or shorter than usual: resampled every 1 min, 120 rows instead of 114",
        "3 missing values: 3 interpolated",
        "Temperatur  predicted  5299999",
        "good for: following recordings",
        "next:   gatel0rd segment heater",
    ):
        assert words in shown, words
    main(["segment", "heater", *named, "--method", "changes"])
    assert "in 3 sequences" in capsys.readouterr().out
    with open("events.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["time"] for row in rows] == ["25"] * 3
    assert list(rows[0]) == ["sequence", "time", "probability", "label", "variables", "stamp"]
    for row in rows:
        day, minute = int(row["sequence"].removeprefix("log")) + 1, int(row["time"])
        assert row["stamp"] == f"2024-03-{day:02}T10:{minute:02}:00"
    main(["segment", "heater", *named, "--method", "changes", "--out", "events.json"])
    first = json.loads((tmp_path / "events.json").read_text())[0]["boundaries"][0]
    assert first["stamp"].startswith("2024-03-01T10:")
    main(["explore", "heater", *named, "--save", "heater.html"])
    page = (tmp_path / "heater.html").read_text(encoding="utf-8")
    content = json.loads(page.partition('id="saved">')[2].partition("</script>")[0])
    assert [entry["name"] for entry in content["sequences"]] == ["log0", "log1", "log2"]
    assert content["models"][0]["actions"] == ["mode=heat"]
    assert len(set(content["saved"][0]["values"]["Temperatur"])) > 20  # not cut off after six digits
    write_logs(tmp_path / "new", modes=("heat", "broken"))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["segment", "heater", "new/*.csv"])
    assert "'broken' in column 'mode' is none of the categories" in capsys.readouterr().err.replace("\n", " ")


def test_actions_in_the_row_that_they_explain(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pushes = np.random.default_rng(0).integers(-3, 4, size=90)
    rows = [f"{x},{push}\n" for x, push in zip(np.cumsum(pushes), pushes, strict=True)]
    (tmp_path / "d.csv").write_text("x,push\n" + "".join(rows))
    main(["fit", "d.csv", "--actions", "push", "--rounds", "1", "--out", "wrong"])
    assert "note: actions explain 100% of the changes in their own row" in capsys.readouterr().out.replace("\n", " ")
    main(["fit", "d.csv", "--actions", "push", "--same-row", "--rounds", "1", "--out", "right"])
    shown = capsys.readouterr().out
    assert "note: actions moved up by one row" in shown and "in their own row" not in shown
    assert json.loads((tmp_path / "right" / "model.json").read_text())["info"]["layout"]["same_row"] is True


def test_the_preview_shows_columns_in_80_characters():
    rng = np.random.default_rng(0)
    names = [f"column_{i}" * (1 + 5 * (i == 2)) for i in range(14)]
    found = from_arrays([5_300_000 + rng.normal(size=(20, 14))], observation_names=names)
    lines = describe_columns(found)
    assert len(lines) == 13 and lines[-1] == "  … and 2 more" and max(map(len, lines)) <= 80
    assert lines[0].split()[:2] == ["column_0", "predicted"] and "5300000.1" in lines[0]
    assert "column_2column_2col…" in lines[2]


def test_what_a_fit_says():
    curve = [{"price": 0.1 * 2**i, "events": 9.0 - i, "error": 0.1 + 0.01 * i, "open_rate": 0.1} for i in range(8)]
    info = {
        "config": {"objective": "follow"},
        "rounds": 7,
        "seconds": 5.0,
        "error": 0.95,
        "persistence_error": 2.0,
        "curve": curve,
        "chosen": 3,
        "held": True,
        "purpose": "following",
    }
    lines = describe_fit(info)
    assert any("predicting the mean, or no change, is about as good" in line for line in lines)
    assert lines[-1] == "good for: following"
    assert not any("about as good" in line for line in describe_fit(info | {"error": 0.5}))
    shown = describe_curve(info)
    assert len(shown) == 10 and [line.endswith("chosen") for line in shown].index(True) == 6  # 9 - 3 events
    assert shown[2].split() == ["13", "2.0", "10.0%", "0.17"]


def test_commands_that_come_next_can_be_pasted(tmp_path):
    assert describe_next(tmp_path / "a b", ["x y.csv"])[1] == f"  gatel0rd segment '{tmp_path}/a b' 'x y.csv'"
    assert describe_next(tmp_path, ["data/*.csv"])[2].endswith("'data/*.csv'")
    assert describe_next(tmp_path, ["1.csv", "2.csv", "3.csv"])[2].endswith(" 1.csv …")
