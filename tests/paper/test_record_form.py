"""Records whose parts have another form are named, and not read."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from gatel0rd.cli.main import main
from gatel0rd.files import FileError, read_json, write_atomically, write_sealed_json
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.records import load_records, read_record

RESULTS = Path(__file__).parents[2] / "results"
WORLD_MODEL = next(path for path in sorted(RESULTS.glob("rrc/*/record.json")) if "planning" in read_json(path))
AGENT = next(iter(sorted(RESULTS.glob("minigrid/*/record.json"))))


def put(content, *way, value):
    """The same content with another value somewhere."""
    changed = json.loads(json.dumps(content))
    place = changed
    for key in way[:-1]:
        place = place[key]
    if value is None:
        del place[way[-1]]
    else:
        place[way[-1]] = value
    return changed


def test_all_records_of_this_repository_have_the_form():
    damaged: list[str] = []
    records = load_records([RESULTS], damaged)
    assert damaged == [] and len(records) > 200


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("schema",), "3"),
        (("kind",), "plant"),
        (("run",), []),
        (("run", "profile"), None),
        (("run", "train", "epochs"), "10"),
        (("run", "seed"), [0]),
        (("parameters",), None),
        (("wall_seconds",), "long"),
        (("share_of_paper",), [0.5]),
        (("share_of_paper",), None),
        (("run", "length_override"), 0),
        (("code",), 3),
        (("code", "commit"), 7),
        (("machine", "processor"), {}),
        (("curves",), []),
        (("curves", "epoch"), None),
        (("curves", "epoch"), [[1]]),
        (("curves", "test.error"), [1.0]),
        (("curves", "test.error", 0), "1"),
        (("curves", "test.error", 0), float("inf")),
        (("final",), None),
        (("final", "test"), 0.5),
        (("final", "test", "error"), [0.5]),
        (("measures", "gating"), "x"),
        (("measures", "examples"), []),
        (("measures", "examples", "control"), 3),
        (("measures", "examples", "control", "latents"), [[1.0], [1.0, 2.0]]),
        (("planning", "epochs"), 3),
        (("planning", "success"), []),
    ],
    ids=lambda part: ".".join(map(str, part)) if isinstance(part, tuple) else None,
)
def test_other_forms_are_named(tmp_path, way, value):
    path = tmp_path / "record.json"
    changed = put(read_json(WORLD_MODEL), *way, value=value)
    path.write_text(json.dumps(changed))
    with pytest.raises(FileError, match=r"record\.json is not a record"):
        read_record(path)
    damaged: list[str] = []
    assert load_records([tmp_path], damaged) == [] and len(damaged) == 1


def test_a_flipped_digit_is_noticed(tmp_path):
    path = tmp_path / "record.json"
    write_sealed_json(path, read_json(AGENT))
    assert read_record(path).content == read_json(AGENT)
    text = path.read_text()
    path.write_text(re.sub(r'"episodes": 1(\d)', r'"episodes": 3\1', text, count=1))
    assert path.read_text() != text
    with pytest.raises(FileError, match="does not match the checksum inside"):
        read_record(path)


def test_a_report_says_in_the_terminal_which_records_it_left_out(tmp_path, capsys):
    (run,) = plan(find("rrc/gating"), profile="smoke", seeds=[0], cells=["gatel0rd"])
    run.execute(tmp_path)
    damaged = tmp_path / "rrc" / "damaged" / "record.json"
    write_atomically(damaged, "{")
    main(["report", "rrc/gating", "--out", str(tmp_path), "--json", str(tmp_path / "outcome.json")])
    assert f"left out: {damaged} is not a record" in capsys.readouterr().out
    (left_out,) = json.loads((tmp_path / "outcome.json").read_text())["left_out"]
    assert left_out in html.unescape((tmp_path / "report.html").read_text())
