from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gatel0rd.paper.bootstrap import interval, resampled, student_interval, student_quantile
from gatel0rd.paper.claims import Finding, judge
from gatel0rd.paper.records import Line, Record
from gatel0rd.paper.report.front import describe_world, shorten_artefacts, verdict_table
from gatel0rd.paper.report.judge import Judged, count_verdicts, count_words, prefer
from gatel0rd.paper.report.page import page
from gatel0rd.worlds.claims import (
    Claim,
    Less,
    Of,
    Times,
    best_rate,
    changes_dimensions,
    clearly_lowest,
    loss_rises_and_falls,
    lowest,
    similar,
)
from gatel0rd.worlds.metrics import (
    TEST_ERROR,
    ChangedDimensions,
    ChangedShare,
    Curve,
    CurveAt,
    CurveMean,
    EventMatch,
    FinalValue,
    GatingRate,
    LatentChange,
    LossStretch,
    PlanningSuccess,
)


def record(seed: int, error: float, *, epochs: int = 10, **content) -> Record:
    base = {
        "kind": "world model",
        "run": {"seed": seed, "train": {"epochs": epochs}},
        "final": {"test": {"error": error}},
        "curves": {"epoch": [0, 5, 10], "test.error": [1.0, 0.5, error]},
        "measures": {"gating": {"hits": 0.9}, "examples": {}},
    }
    return Record(Path(f"{seed}"), base | content)


def line(name: str, *errors: float) -> Line:
    return Line(name, name.upper(), name, [record(seed, error) for seed, error in enumerate(errors)])


def finder(*lines: Line):
    return lambda number: next((entry for entry in lines if entry.name == number.network), None)


A_BELOW_B = Claim(words="a is below b.", tests=lowest("a", ("a", "b"), TEST_ERROR))


@pytest.mark.parametrize(
    ("a", "b", "seeds", "verdict"),
    [
        ((1, 1.1, 0.9), (2, 2.1, 1.9), 20, "holds"),
        ((2, 2.1, 1.9), (1, 1.1, 0.9), 20, "does not hold"),
        ((1, 2, 3), (2, 3, 1.5), 20, "not enough seeds"),
        ((1, 2, 3), (2, 3, 1.5), 3, "does not hold"),  # as many seeds as in the paper, and still not clear
        ((1, 1.1), (2, 2.1), 20, "not enough seeds"),  # however clear
        ((1, 1.1), (2, 2.1), 2, "holds"),  # the paper had no more
        ((1, 1.1, 0.9), (), 20, "networks missing"),
        ((), (), 20, "not run"),
    ],
)
def test_verdicts(a, b, seeds, verdict):
    found = judge(A_BELOW_B, finder(line("a", *a), line("b", *b)), paper_seeds=seeds)
    assert (found.verdict, found.seeds) == (verdict, min(len(a), len(b)))


def test_networks_that_learned_nothing_are_not_compared():
    learned = tuple(Less(Of(name, TEST_ERROR), 0.5) for name in ("a", "b"))
    claim = Claim(words="a is no worse.", tests=similar("a", "b", TEST_ERROR, 1.5), learned=learned)
    verdicts = {
        ((1.0, 1.1, 0.9), (1.0, 1.0, 1.1)): "not enough training",  # alike, as neither learned anything
        ((1.0,), (1.0,)): "not enough training",
        ((0.1, 0.1, 0.11), (0.1, 0.1, 0.1)): "holds",
        ((0.1, 0.1, 0.11), (1.0, 1.0, 1.1)): "does not hold",  # one that learned is enough
        ((0.1, 0.1), (1.0, 1.0)): "not enough seeds",
    }
    for (a, b), verdict in verdicts.items():
        found = judge(claim, finder(line("a", *a), line("b", *b)), paper_seeds=20)
        assert (found.verdict, found.decided) == (verdict, verdict in ("holds", "does not hold"))


def test_records_without_a_measure_are_no_missing_networks():
    claim = Claim(words="w.", tests=changes_dimensions("a", "control", 1, 1))
    bare = judge(claim, finder(line("a", 1, 2, 3)), paper_seeds=20)
    assert (bare.verdict, bare.seeds, bare.decided) == ("not measured", 0, False)
    assert "A was not measured" in bare.evidence
    found = {"dimensions": 1.0, "dimensions_near_event": 1.0, "unchanged": 0.0}
    measures = {"latents": {"control": {"with": found, "without": found | {"unchanged": 0.75}}}}
    full = Line("a", "A", "a", [record(seed, 1, measures=measures) for seed in range(3)])
    assert judge(claim, finder(full), paper_seeds=20).verdict == "holds"
    still = LatentChange("unchanged", "control", happens=False)
    assert still.read(full.records[0]) == 0.75
    assert still.words == "share of the test sequences without control in which nothing changes"
    assert LatentChange("unchanged", "grasp").read(full.records[0]) is None
    other = measures | {"latents": {"control": {"with": found | {"dimensions": 2.0}}}}
    more = Line("a", "A", "a", [record(seed, 1, measures=other) for seed in range(3)])
    assert judge(claim, finder(more), paper_seeds=20).verdict == "does not hold"


def test_runs_without_a_number_are_left_out_and_named():
    claim = Claim(words="w.", tests=(Less(Of("a", CurveAt(TEST_ERROR.curve, 0.5)), Times(0.5, Of("a", TEST_ERROR))),))
    runs = [
        record(seed, end, curves={"epoch": [0, 5, 10], "test.error": [9.0, middle, end]})
        for seed, (middle, end) in enumerate(((0.1, 1.0), (5.0, None), (1.0, 10.0), (10.0, 100.0)))
    ]
    found = judge(claim, finder(Line("a", "A", "a", runs)), paper_seeds=20)
    # pairs of other seeds would give a difference below zero now and then
    assert (found.verdict, found.seeds) == ("holds", 3)
    # the number that this run has does not count, either
    assert found.evidence.count("(left out: 1 run without all numbers of this claim)") == 2


def test_gates_that_never_opened_were_never_right():
    events = {"grasp": {"count": 2, "3": {"precision": None, "recall": 0.0, "precision_by_chance": None}}}
    shut = record(0, 1, measures={"gating": {"free-running": {"events": events}}})
    assert [EventMatch("grasp", name, 3).read(shut) for name in ("precision", "recall")] == [0.0, 0.0]
    assert EventMatch("grasp", "precision_by_chance", 3).read(shut) is None
    assert EventMatch("grasp", "precision", 1).read(shut) is None  # not measured with this tolerance
    assert EventMatch("grasp", "precision", 3).read(record(0, 1)) is None


def test_what_is_tested_is_said_in_words():
    tests = (
        *lowest("a", ("b",), TEST_ERROR),
        Less(Of("a", TEST_ERROR), Times(0.5, Of("b", TEST_ERROR, "w/other"))),
        Less(0.8, Of("a", GatingRate("hits"))),
        Less(Of("a", GatingRate("hits")), Times(1.0, Of("b", GatingRate("hits")), more=0.05)),
    )
    found = judge(Claim(words="w.", tests=tests), finder(line("a", 1)), paper_seeds=2)
    assert found.tested == "test error: A < b, A < 0.5 × b of w/other; hits: 0.8 < A, A < b + 0.05"


def test_only_means_that_no_other_is_similar():
    lines = finder(line("a", 1, 1, 1), line("b", 1.4, 1.4, 1.4), line("c", 1.6, 1.6, 1.6))
    assert judge(Claim(words="w.", tests=clearly_lowest("a", ("a", "c"), TEST_ERROR)), lines, paper_seeds=20).decided
    found = judge(Claim(words="w.", tests=clearly_lowest("a", ("b", "c"), TEST_ERROR)), lines, paper_seeds=20)
    assert (found.verdict, found.tested) == ("does not hold", "test error: 1.5 × A < B, 1.5 × A < C")


def test_one_inequality_that_fails_decides():
    lines = finder(line("a", 1, 1, 1), line("b", 2, 2, 2), line("c", 0.5, 0.5, 0.5))
    claim = Claim(words="a is the lowest.", tests=lowest("a", ("b", "c"), TEST_ERROR))
    assert judge(claim, lines, paper_seeds=20).verdict == "does not hold"


def test_similar_much_lower_and_bounds():
    lines = finder(line("a", 1.0, 1.1, 0.9), line("b", 1.2, 1.3, 1.1))

    def verdict(*tests):
        return judge(Claim(words="w.", tests=tests), lines, paper_seeds=20).verdict

    assert verdict(*similar("a", "b", TEST_ERROR, 1.5)) == "holds"
    assert verdict(*similar("a", "b", TEST_ERROR, 1.01)) == "does not hold"
    assert verdict(Less(Of("a", TEST_ERROR), Times(0.5, Of("b", TEST_ERROR)))) == "does not hold"
    assert verdict(Less(0.8, Of("a", TEST_ERROR)), Less(Of("a", TEST_ERROR), 1.2)) == "holds"


def test_means_decide_in_searches():
    lines = finder(line("a-lr0.1", 1, 5), line("a-lr0.01", 4, 4), line("a-lr0.001", 9, 9))
    claim = Claim(words="w.", tests=best_rate("a", 0.1, (0.1, 0.01, 0.001), TEST_ERROR))
    assert judge(claim, lines, paper_seeds=2).verdict == "holds"
    claim = Claim(words="w.", tests=best_rate("a", 0.01, (0.1, 0.01, 0.001), TEST_ERROR))
    assert judge(claim, lines, paper_seeds=2).verdict == "does not hold"


def test_numbers_of_the_same_runs_are_resampled_together():
    """A rise of 1 % in every run is certain, although runs differ a hundredfold."""
    rises = Line(
        "a",
        "A",
        "a",
        [
            record(seed, 1.01 * size, curves={"epoch": [0, 5, 10], "test.error": [9.0, size, 1.01 * size]})
            for seed, size in enumerate((0.01, 0.1, 1.0))
        ],
    )
    claim = Claim(words="w.", tests=(Less(Of("a", CurveAt(TEST_ERROR.curve, 0.5)), Of("a", TEST_ERROR)),))
    assert judge(claim, finder(rises), paper_seeds=20).verdict == "holds"


def test_a_value_around_a_moment_is_a_mean():
    curves = {"epoch": list(range(0, 101, 5)), "test.error": [float(epoch) ** 2 for epoch in range(0, 101, 5)]}
    run = record(0, 10_000.0, epochs=100, curves=curves)
    moments = {
        CurveAt(TEST_ERROR.curve, 0.25): 625.0,
        CurveAt(TEST_ERROR.curve, 0.25, around=0.05): (400 + 625 + 900) / 3,
        CurveAt(TEST_ERROR.curve, 1.0, around=0.05): (9025 + 10_000) / 2,
        CurveAt(TEST_ERROR.curve, 0.23, around=0.01): 625.0,  # nothing is nearer
    }
    assert {moment: moment.read(run) for moment in moments} == pytest.approx(moments)
    words = "test error after 25% of training (mean over 5% before and after)"
    assert CurveAt(TEST_ERROR.curve, 0.25, around=0.05).words == words


def test_the_peak_of_the_loss_is_that_before_the_sampling_probability_stops_falling():
    curves = {
        "epoch": [0, 2, 4, 6, 8, 10],
        "train.loss": [None, 5.0, 3.0, 4.0, 9.0, 3.5],
        "train.sampling_probability": [None, 0.9, 0.6, 0.1, 0.1, 0.1],
    }
    run = record(0, 0.3, curves=curves)
    assert [LossStretch(name).read(run) for name in ("dip", "peak", "end")] == [3.0, 4.0, 3.5]
    long = {"epoch": [*range(30)], "train.loss": [1.0] * 27 + [2.0, 9.0, 3.0]}
    long["train.sampling_probability"] = [1.0] * 10 + [0.0] * 20
    assert LossStretch("end").read(record(0, 0.3, curves=long)) == 3.0  # the median of three
    constant = curves | {"train.sampling_probability": [None, *[1.0] * 5]}
    assert LossStretch("peak").read(record(0, 0.3, curves=constant)) == 3.0


def test_what_can_be_read_off_a_record():
    example = {"latents": [[0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]}
    planning = {"epochs": [5, 10], "success": [0.2, 0.7]}
    curves = {
        "epoch": [0, 2, 4, 6, 8, 10],
        "train.loss": [None, 5.0, 3.0, 8.0, 6.0, 4.0],
        "train.sampling_probability": [None, 0.9, 0.6, 0.4, 0.1, 0.0],
        "success": [0.0, 0.0, 0.5, 0.5, 1.0, 1.0],
    }
    events = {"grasp": {"count": 2, "3": {"precision": 0.25, "recall": None}}}
    gating = {"hits": 0.9, "false_alarms": 0.05, "free-running": {"events": events}}
    full = record(0, 0.3, curves=curves, planning=planning, measures={"gating": gating, "examples": {"one": example}})
    values = {
        TEST_ERROR: (0.3, "test error"),
        CurveAt(Curve("success"), 0.5): (0.5, "success after 50% of training"),
        CurveAt(Curve("success"), 0.0): (0.0, "success after 0% of training"),
        CurveMean(Curve("success")): (0.5, "mean success"),
        GatingRate("hits"): (0.9, "hits"),
        GatingRate("false_alarms"): (0.05, "false alarms"),
        EventMatch("grasp", "precision", 3): (0.25, "free-running events grasp 3 precision"),
        PlanningSuccess(): (0.7, "success in planning"),
        ChangedShare("one"): (0.25, "share of the latent state that changes per step, one"),
        ChangedDimensions("one"): (1.0, "dimensions that change, one"),
        LossStretch("dip"): (3.0, "loss dip"),
        LossStretch("peak"): (8.0, "loss peak"),
        LossStretch("end"): (4.0, "loss end"),
    }
    for metric, (value, words) in values.items():
        assert metric.read(full) == pytest.approx(value) and metric.words == words
    assert EventMatch("grasp", "recall", 3).read(full) is None  # nothing happened that could be recalled
    bare = record(0, 0.3, curves={"epoch": []}, measures={"gating": None, "examples": {}})
    assert all(metric.read(bare) is None for metric in values if metric != TEST_ERROR)
    late = record(0, 0.3, planning=planning, epochs=20)
    assert PlanningSuccess().read(late) is None  # it was not the last model that was planned with
    claim = loss_rises_and_falls(["a"])
    three = Line("a", "A", "a", [full] * 3)
    assert judge(claim, finder(three), paper_seeds=20).verdict == "holds"


def test_evidence_names_networks_metrics_and_intervals():
    found = judge(A_BELOW_B, finder(line("a", 1, 1.1, 0.9), line("b", 2.0, 2.0)), paper_seeds=20)
    low, high = interval([1, 1.1, 0.9])
    assert found.evidence == f"test error: A 1 ({low:.2g} to {high:.2g}), B 2"
    missing = judge(A_BELOW_B, finder(line("a", 1)), paper_seeds=20)
    assert missing.evidence == "test error: A 1, b has not been run"
    assert FinalValue("MiniGrid-DoorKey-8x8-v0", "success").words == "DoorKey-8x8 success"
    assert FinalValue("test", "open_rate").words == "test open rate"


def test_numbers_of_another_experiment_are_told_apart():
    claim = Claim(words="w.", tests=lowest("a", ("b",), TEST_ERROR, experiment="w/other"))
    elsewhere = Line("w/other:b", "B", "b", [record(0, 2.0)])
    found = judge(claim, finder(line("a", 1.0), line("b", 0.5), elsewhere), paper_seeds=1)
    assert found.verdict == "holds" and found.evidence == "test error: A 1; test error in w/other: B 2"


def test_the_bootstrap_is_repeatable_and_covers():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert np.array_equal(resampled(values, "a"), resampled(values, "a"))
    assert not np.array_equal(resampled(values, "a"), resampled(values, "b"))
    generator = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        low, high = interval(generator.normal(size=20))
        inside += low < 0 < high
    assert 0.87 < inside / 200 < 0.98


def test_student_intervals_are_those_of_tables():
    tabled = {1: 12.706, 2: 4.303, 4: 2.776, 10: 2.228, 30: 2.042}
    assert {freedom: student_quantile(freedom) for freedom in tabled} == pytest.approx(tabled, abs=2e-3)
    # one sample, by hand: 2 ± 4.303 * 1 / sqrt(3)
    assert student_interval([np.array([1.0, 2.0, 3.0])]) == pytest.approx((2 - 2.4843, 2 + 2.4843), abs=1e-3)
    # Welch: variances of the means 1/3 and 8/2, so (13/3)^2 / ((1/3)^2 / 2 + 4^2) degrees of freedom
    first, second = np.array([1.0, 2.0, 3.0]), np.array([8.0, 12.0])
    low, high = student_interval([-first, second])
    assert (low + high) / 2 == 8.0
    assert (high - low) / 2 == pytest.approx(student_quantile(338 / 289) * np.sqrt(13 / 3))
    assert student_interval([np.array([2.0, 2.0]), np.array([1.0, 1.0, 1.0])]) == (3.0, 3.0)


def test_verdicts_that_students_t_does_not_confirm_are_marked():
    claim = Claim(words="w.", tests=lowest("a", ("b",), TEST_ERROR))
    clear = judge(claim, finder(line("a", 1, 1.1, 0.9), line("b", 2, 2.1, 1.9)), paper_seeds=20)
    narrow = judge(claim, finder(line("a", 1, 2, 3), line("b", 3.1, 5, 8)), paper_seeds=20)
    assert [(found.verdict, found.marked) for found in (clear, narrow)] == [("holds", "holds"), ("holds", "holds†")]
    undecided = judge(claim, finder(line("a", 1, 2, 3), line("b", 2, 3, 1.5)), paper_seeds=20)
    assert undecided.marked == "not enough seeds"
    single = judge(claim, finder(line("a", 1), line("b", 2)), paper_seeds=1)  # as in the paper, but no t of one run
    assert single.marked == "holds†"
    rows = [Judged("W", "w/one", "Fig. 1", "w.", found, "3") for found in (clear, narrow, undecided)]
    assert count_words(rows).endswith("2 hold (1 of them by the bootstrap alone), 0 do not hold, 1 lacks seeds.")
    assert [row[2] for row in verdict_table(rows).rows] == ["**holds**", "**holds†**", "**not enough seeds**"]


def test_the_largest_scale_with_enough_seeds_counts_whatever_it_says():
    def at(size: str, verdict, seeds: int) -> Judged:
        return Judged("W", "w/one", "Fig. 1", "w.", Finding(verdict, "", seeds), "", size=size)

    undecided, decided = at("25 %", "not enough seeds", 3), at("10 %", "holds", 5)
    single, missing = at("100 %", "not enough seeds", 1), at("50 %", "networks missing", 0)
    idle, nothing = at("40 %", "not enough training", 3), at("–", "not run", 0)
    assert prefer([single, missing, idle, undecided, decided], 20).size == "25 %"
    assert prefer([single, missing, decided], 20).size == "10 %"
    assert prefer([single, missing], 20).size == "100 %"
    assert prefer([idle, nothing], 20).size == "40 %"
    assert prefer([single, decided], 1).size == "100 %"  # the paper had no more seeds
    assert prefer([missing, nothing], 20).size == "50 %"


def test_artefacts_are_shortened():
    assert shorten_artefacts("Fig. 3c, Fig. 3d, Table 2, Suppl. D.1") == "Fig. 3c, 3d, Table 2, Suppl. D.1"


def test_the_page_begins_with_verdicts():
    judged = [
        Judged(
            "World", "w/one", "Fig. 1a", "it <works>.", judge(A_BELOW_B, finder(), paper_seeds=2), "0 seeds", "w-one"
        ),
        Judged(
            "World",
            "w/two",
            "Table 9",
            "b.",
            judge(A_BELOW_B, finder(line("a", 1, 1, 1), line("b", 2, 2, 2)), paper_seeds=9),
            "3",
        ),
    ]
    assert count_verdicts(judged) == {"holds": 1, "does not hold": 0, "not run": 1}
    assert describe_world(judged) == "Of 2 verdicts 1 holds, with 3 seeds; 1 was not run."
    assert describe_world(judged[:1]) == "The only verdict is undecided; 1 was not run."
    text = page("t", ["i"], judged, [], "f")
    assert "Decided (1)" in text and text.index("Decided (1)") < text.index("Undecided (1)")
    assert "it &lt;works&gt;." in text and '<a href="#w-one"' in text and "<b>1</b><span>hold" in text
    assert text.index("Fig. 1a") < text.index("Every claim")
    assert verdict_table(judged).rows[1] == [
        "Table 9",
        "b.",
        "**holds**",
        "3",
        "test error: A 1 (1 to 1), B 2 (2 to 2)",
    ]
