from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from gatel0rd.files import FileError
from gatel0rd.paper.records import Line, Record, load_records, summarise, wilson
from gatel0rd.paper.report import figures, tables
from gatel0rd.paper.report.page import Block, Picture, ReportSection, page
from gatel0rd.paper.run import SCHEMA
from gatel0rd.worlds.experiments import PaperValue
from gatel0rd.worlds.metrics import TEST_ERROR, Curve, FinalValue

RESULTS = Path(__file__).parents[2] / "results"


def record(seed: int, error: float, *, rate: float = 0.005, gating: bool = True) -> Record:
    shares = {"hits": 0.9, "misses": 0.1, "false_alarms": 0.2 * (seed + 1), "correct_rejections": 1 - 0.2 * (seed + 1)}
    example = {
        "onset": 1,
        "observations": [[0.0, 0.1, 0.2, 0.3]] * 3,
        "predictions": [[0.0, 0.1, 0.2, 0.3]] * 3,
        "latents": [[0.0, 0.5], [0.0, 1.0], [0.1, 1.0]],
        "gates": [[0.0, 0.0], [0.0, 0.3], [0.0, 0.0]],
    }
    content = {
        "schema": SCHEMA,
        "kind": "world model",
        "group": f"g{rate}",
        "share_of_paper": 0.5,
        "run": {
            "scenario": "rrc",
            "seed": seed,
            "profile": "quick",
            "preset": "text",
            "train": {"learning_rate": rate, "epochs": 10},
        },
        "final": {"test": {"error": error, "open_rate": 0.25}},
        "curves": {"epoch": [0, 5, 10], "test.error": [1.0, 0.5, error], "train.loss": [None, 0.4, 0.3]},
        "measures": {"gating": shares if gating else None, "examples": {"control": example}},
    }
    return Record(Path(f"{seed}.json"), content)


LINE = Line("gatel0rd", "GateL0RD", "gatel0rd", [record(0, 0.2), record(1, 0.4)])
ALONE = Line("gru", "GRU", "gru", [record(0, 0.1, gating=False)])


def test_summaries_over_seeds():
    assert LINE.summary(TEST_ERROR).mean == pytest.approx(0.3)
    assert LINE.summary(TEST_ERROR).deviation == pytest.approx(0.1414213562)
    assert LINE.summary(FinalValue("nothing", "error")) is None
    assert summarise([]) is None
    epochs, values = LINE.curve(TEST_ERROR.curve)
    assert epochs == [0, 5, 10] and values[2].mean == pytest.approx(0.3) and values[1].deviation == 0
    assert LINE.curve(Curve("loss", "train"))[0] == [5, 10]
    assert LINE.curve(Curve("nothing")) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00015, "0.00015"),
        (0.0110, "0.011"),
        (0.978, "0.98"),
        (0.0, "0"),
        (1.3e-8, "1.3e-08"),
        (0.0000123, "0.000012"),
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert tables.format_number(value) == text


def test_final_table_shows_ours_beside_the_papers():
    table = tables.final_table(
        [LINE, ALONE], [TEST_ERROR], {("gru", TEST_ERROR): PaperValue(mean=0.0003, deviation=0.00036)}
    )
    assert table.rows == [["GateL0RD", "0.3 ± 0.14 (2 seeds)", "–"], ["GRU", "0.1 (1 seed)", "0.0003 ± 0.00036"]]
    assert table.markdown().splitlines() == [
        "| network | test error, ours | the paper's |",
        "| --- | ---: | ---: |",
        "| GateL0RD | 0.3 ± 0.14 (2 seeds) | – |",
        "| GRU | 0.1 (1 seed) | 0.0003 ± 0.00036 |",
    ]
    assert "<td>0.3 ± 0.14 (2 seeds)</td>" in table.html()


def test_gating_and_gate_tables():
    rows = tables.gating_table([LINE], {}).rows
    assert rows[0][1] == "hits: 0.9 ± 0 (2 seeds)"
    assert rows[1][1] == "false alarms: 0.3 ± 0.14 (2 seeds)"
    assert tables.gate_table([LINE], ["test"]).rows == [["GateL0RD, test", "0.25 ± 0 (2 seeds)", "–", "–"]]


def test_grid_table_marks_the_best_rate():
    slow = Line("gru-lr0.001", "GRU", "gru", [record(0, 0.05, rate=0.001)])
    table = tables.grid_table([ALONE, slow], TEST_ERROR)
    assert table.header == ["network", "rate 0.005", "rate 0.001"]
    assert table.rows == [["GRU", "0.1 (1 seed)", "0.05 (1 seed) ◀ best"]]


def ball_record(seed: int, layers: int = 3, error: float = 0.1) -> Record:
    events = {
        "cushion contact": {
            "count": 9,
            "1": {
                "precision": 0.5,
                "opening_precision": 0.7,
                "precision_by_chance": 0.05,
                "recall": 0.8 + 0.1 * seed,
                "recall_by_chance": 0.3,
            },
        },
        "drop": {
            "count": 0,
            "1": {
                "precision": 0.0,
                "opening_precision": 0.0,
                "precision_by_chance": 0.0,
                "recall": None,
                "recall_by_chance": 0.3,
            },
        },
    }
    measured = {"open_times": 0.2, "events": events, "dims_histogram": [0.1, 0.2, 0.3, 0.1, 0.1, 0.1, 0.1, 0, 0]}
    example = {
        "sequence": 0,
        "start": [0.0, 0.0],
        "given": 2,
        "events": {"cushion contact": [2], "drop": []},
        "observations": [[0.1, 0.1], [0.2, 0.2], [0.3, 0.1]],
        "predictions": [[0.1, 0.1], [0.2, 0.25], [0.3, 0.3]],
        "latents": [[0.0, 0.5], [0.0, 1.0], [0.1, 1.0]],
        "gates": [[0.0, 0.0], [0.0, 0.3], [0.2, 0.0]],
    }
    content = record(seed, error).content | {
        "measures": {"gating": {"free-running": measured}, "examples": {"two contacts": example}},
    }
    content["run"] = content["run"] | {
        "scenario": "billiard",
        "model": {"cell": {"num_layers": layers, "net_layers": 1}},
    }
    return Record(Path(f"ball{seed}.json"), content)


BALL = Line("gatel0rd", "λ = 0.01", "gatel0rd", [ball_record(0), ball_record(1)])


def test_events_table_shows_precision_and_recall_beside_chance():
    assert tables.events_table([BALL, ALONE]).rows == [
        [
            "λ = 0.01, free-running, cushion contact, ± 1",
            "0.7 ± 0 (2 seeds)",
            "0.5 ± 0 (2 seeds)",
            "0.05 ± 0 (2 seeds)",
            "0.85 ± 0.071 (2 seeds)",
            "0.3 ± 0 (2 seeds)",
        ],
        ["λ = 0.01, free-running, drop, ± 1", *["0 ± 0 (2 seeds)"] * 3, "–", "0.3 ± 0 (2 seeds)"],
    ]


def test_confidence_intervals_are_wilsons():
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(20, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)
    assert all(0 <= wilson(0, count)[0] < 1e-9 and wilson(count, count)[1] <= 1 for count in range(1, 100))


def test_planning_is_shown_over_training_and_at_its_end():
    def planned(seed, *success, epochs=(5, 10)):
        outcome = {"episodes": [4, 10], "seed": 0, "epochs": list(epochs), "success": list(success), "reached": []}
        content = record(seed, 0.1).content
        run = content["run"] | {"train": content["run"]["train"] | {"epochs": 10}}
        return Record(Path("p"), content | {"run": run, "planning": outcome})

    alone = Line("lstm", "LSTM", "lstm", [planned(0, 0.0, 0.5)])
    lines = [Line("gatel0rd", "GateL0RD", "gatel0rd", [planned(0, 0.2, 0.5), planned(1, 0.6, 0.7)]), alone, ALONE]
    every = "50% (24% to 76%, 10 episodes)"
    assert tables.planning_table(lines).rows == [
        ["GateL0RD", "60% ± 10% (2 seeds)", f"{every}; 70% (40% to 89%, 10 episodes)"],
        ["LSTM", "50% (1 seed)", every],
        ["GRU", "– (0 seeds)", "–"],
    ]
    figure = figures.planning(lines, title="t")
    curve, *seeds, _ = figure.axes[0].lines
    assert [seed.get_ydata().tolist() for seed in seeds] == [[0.2, 0.5], [0.6, 0.7]]
    assert curve.get_xdata().tolist() == [5, 10]
    np.testing.assert_allclose(curve.get_ydata(), [0.4, 0.6])
    band, binomial = (collection.get_paths()[0].get_extents() for collection in figure.axes[0].collections)
    assert (band.ymin, band.ymax) == pytest.approx((0.2, 0.7))  # 0.4 and 0.6 with errors 0.2 and 0.1
    assert binomial.ymax == pytest.approx(0.5 + np.sqrt(0.25 / 10))
    figures.close(figure)
    unfinished = Line("lstm", "LSTM", "lstm", [planned(0, 0.0, 0.5), planned(1, 0.2, 0.9, epochs=(2, 5))])
    assert tables.planning_table([unfinished]).rows == [["LSTM", "50% (1 seed)", every]]
    figure = figures.planning([unfinished], title="t")
    shared, *own = (curve.get_xydata().tolist() for curve in figure.axes[0].lines)
    assert shared == [[5.0, 0.45]] and own == [[[5.0, 0.0], [10.0, 0.5]], [[2.0, 0.2], [5.0, 0.9]]]
    figures.close(figure)


def test_dims_table_sums_up_the_tail():
    table = tables.dims_table([Line("g", "λ", "gatel0rd", [ball_record(0)])], most=3)
    assert table.header == ["network", "0", "1", "2", "3 or more"]
    assert [cell.split()[0] for cell in table.rows[0][1:]] == ["0.1", "0.2", "0.3", "0.4"]


def test_layers_table_has_a_column_per_depth():
    deep = Line("gru-3", "GRU", "gru", [ball_record(0, layers=3, error=0.05)])
    flat = Line("gru-1", "GRU", "gru", [ball_record(0, layers=1, error=0.1)])
    table = tables.layers_table([deep, flat], TEST_ERROR)
    assert table.header == ["network", "1 layers", "3 layers"]
    assert table.rows == [["GRU", "0.1 (1 seed)", "0.05 (1 seed) ◀ best"]]


def test_the_trajectory_outlines_inputs_with_open_gates():
    figure = figures.trajectory([BALL], "two contacts", title="t")
    dots = figure.axes[0].collections
    pockets, real, predicted, given, opened = (collection.get_offsets().tolist() for collection in dots)
    assert len(pockets) == 6
    assert real == [[0.0, 0.0], [0.1, 0.1], [0.2, 0.2], [0.3, 0.1]]
    assert predicted == [[0.1, 0.1], [0.2, 0.25], [0.3, 0.3]] and given == real[:2]
    assert opened == [[0.1, 0.1], [0.2, 0.25]]  # the second input, a real one, and the third, a prediction
    figures.close(figure)


def test_the_legend_names_events():
    figure = figures.latents([BALL], "two contacts", title="t")
    texts = {text.get_text() for text in figure.legends[0].get_texts()}
    assert texts == {"x", "y", "predicted", "a gate is open", "cushion contact"}
    figures.close(figure)


@pytest.mark.slow
def test_figures_are_files_and_the_same_each_time(tmp_path):
    for name in ("first", "second"):
        for figure, stem in (
            (figures.curves([LINE, ALONE], TEST_ERROR.curve, title="t", ylabel="y"), "curves"),
            (figures.latents([LINE], "control", title="t"), "latents"),
            (figures.latents([BALL], "two contacts", title="t"), "ball"),
            (figures.trajectory([BALL], "two contacts", title="t"), "trajectory"),
            (figures.sampling([LINE], title="t"), "sampling"),
        ):
            paths = figures.save(figure, tmp_path / name / stem)
            figures.close(figure)
            assert [path.suffix for path in paths] == [".png", ".svg"]
            assert paths[0].read_bytes()[:4] == b"\x89PNG"
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


def test_variants_of_one_cell_have_colours_of_their_own():
    other = Line("gatel0rd-l1", "L1", "gatel0rd", [])
    lines = [LINE, other, ALONE]
    assert len({figures.color_of(line, lines) for line in lines}) == 3
    assert figures.color_of(ALONE, lines) == figures.COLORS["gru"]
    dashed = Line("gatel0rd-0", "λ = 0", "gatel0rd", [], dashed=True)
    assert figures.color_of(dashed, [LINE, dashed, ALONE]) == figures.COLORS["gatel0rd"]


def test_the_page_is_self_contained_and_escapes_text(tmp_path):
    picture = tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG")
    blocks = [Block("Fig", picture=Picture(picture, "cap")), Block("Tab", table=tables.Table(["a"], [["<b>"]]))]
    section = ReportSection("rrc/x", "rrc-x", "A < B", "Why?", [], "1 seed.", "gatel0rd run rrc/x", blocks)
    text = page("Title & more", ["intro"], [], [section], "footer")
    assert "A &lt; B" in text and "&lt;b&gt;" in text and "Title &amp; more" in text
    assert 'id="rrc-x"' in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "http" not in text and "<script" not in text


def test_records_are_found_once_and_bad_ones_named(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        shutil.copy(next(RESULTS.glob("rrc/gru-seed0-*/record.json")), tmp_path / place)
    assert len(load_records([tmp_path])) == 1
    (tmp_path / "b" / "record.json").write_text("{")
    with pytest.raises(FileError, match=r"b/record\.json is not a record"):
        load_records([tmp_path])
