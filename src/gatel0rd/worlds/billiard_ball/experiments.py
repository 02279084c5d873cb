"""The paper's questions about Billiard Ball (Sec. 6.1, 6.5, Suppl. C.1 to C.3, D.1)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig, CellName, GateName
from gatel0rd.worlds.claims import SIMILAR, Claim, Less, Of, changes_dimensions, clearly_lowest, lowest, similar
from gatel0rd.worlds.experiments import Experiment, Scenario, Variant, View, search_rates, tabulate_latents
from gatel0rd.worlds.metrics import (
    TEST_ERROR,
    VALIDATION_ERROR,
    CurveAt,
    EventMatch,
    FinalValue,
    LatentChange,
)

LAYERS = 3
"""Layers of g and r in GateL0RD, and stacked cells of the others, where prediction errors are compared."""

SCENARIO = Scenario(
    name="billiard",
    title="Billiard Ball",
    model=WorldModelConfig(
        observation_size=2, action_size=0, feature_size=16, pre_layers=3, init_layers=3, init_steps=2
    ),
    steps=51,
    splits={"train": 12_800, "validation": 3_200, "test": 3_200},
    step_seconds={"gatel0rd": 0.0058, "lstm": 0.0054, "gru": 0.0047, "elman": 0.0031, "clockwork": 0.0035},
    sampling_minimum=0.0,
    evaluations={"shots": {"test": ("shots", "test")}},
    validations={"shots": {"validation": ("shots", "validation")}},
    epoch_shares={"demo": 0.03, "quick": 0.1},
)


def _network(cell: CellName, label: str, layers: int = LAYERS) -> Variant:
    """A network at the learning rate for scheduled sampling."""
    gatel0rd = cell == "gatel0rd"
    return Variant(
        name=cell,
        label=label,
        cell=CellConfig(name=cell, net_layers=layers if gatel0rd else 1, num_layers=1 if gatel0rd else layers),
        learning_rate=0.0005,
        sparsity_weight=0.001 if gatel0rd else 0.0,
        paper_epochs=5000,
    )


GATEL0RD = _network("gatel0rd", "GateL0RD")
LSTM, GRU, ELMAN = _network("lstm", "LSTM"), _network("gru", "GRU"), _network("elman", "Elman RNN")
FOUR = (GATEL0RD, LSTM, GRU, ELMAN)
BASELINES = ("lstm", "gru", "elman")


def _sparsity(weight: float) -> Variant:
    name = "gatel0rd" if weight == GATEL0RD.sparsity_weight else f"gatel0rd-{weight:g}"
    return replace(GATEL0RD, name=name, label=f"λ = {weight:g}", sparsity_weight=weight)


COMPARED = (
    replace(GATEL0RD, label="GateL0RD, λ = 0.001"),
    replace(_sparsity(0), label="GateL0RD, λ = 0", dashed=True),
    LSTM,
    GRU,
    ELMAN,
)


def _teacher_forced(variant: Variant) -> Variant:
    elman = variant.cell.name == "elman"
    return replace(
        variant,
        teacher_forcing=True,
        learning_rate=0.00005 if elman else 0.001,
        reference_rate=0.0005 if elman else None,
    )


def _gate(gate: GateName, weight: float, label: str) -> Variant:
    cell = replace(GATEL0RD.cell, gate=gate)
    return replace(GATEL0RD, name=f"gatel0rd-{gate}-{weight:g}", label=label, cell=cell, sparsity_weight=weight)


def _noise(deviation: float) -> Variant:
    cell = replace(GATEL0RD.cell, noise_std=deviation)
    name = f"gatel0rd-noise{deviation:g}"
    return replace(_sparsity(0.01), name=name, label=f"gate noise {deviation:g}", cell=cell)


def _layers(layers: int) -> tuple[Variant, ...]:
    return tuple(
        replace(_network(variant.cell.name, variant.label, layers), name=f"{variant.name}-layers{layers}")
        for variant in FOUR
    )


OPEN_RATE, DIMS_USED = FinalValue("test", "open_rate"), FinalValue("test", "dims_used")

EXPERIMENTS = (
    Experiment(
        id="billiard/teacher-forcing",
        title="Trained on real inputs only",
        question="Which network predicts 50 steps on its own after training on single steps?",
        claims=(
            Claim(
                words="Only GateL0RD with λ = 0.001 achieves reasonable predictions.",
                tests=clearly_lowest("gatel0rd", ("gatel0rd-0", *BASELINES), TEST_ERROR),
            ),
            Claim(
                words="Without the penalty it is still better than the other networks.",
                tests=lowest("gatel0rd-0", BASELINES, TEST_ERROR),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=tuple(map(_teacher_forced, COMPARED)),
        views=(
            View(kind="curves", title="Prediction error, teacher forcing", artefact="Fig. 3a", curve=TEST_ERROR.curve),
            View(kind="final_table", title="Final prediction errors", artefact="Fig. 3a", values=(TEST_ERROR,)),
        ),
    ),
    Experiment(
        id="billiard/scheduled-sampling",
        title="Trained with scheduled sampling",
        question="Which network predicts best when training moves from real inputs to own predictions?",
        claims=(
            Claim(
                words="All networks improve on teacher forcing.",
                tests=tuple(
                    Less(Of(name, TEST_ERROR), Of(name, TEST_ERROR, "billiard/teacher-forcing"))
                    for name in ("gatel0rd", "gatel0rd-0", *BASELINES)
                ),
            ),
            Claim(
                words="GateL0RD with λ = 0.001 has the lowest mean error.",
                tests=lowest("gatel0rd", ("gatel0rd-0", *BASELINES), TEST_ERROR),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=COMPARED,
        views=(
            View(
                kind="curves", title="Prediction error, scheduled sampling", artefact="Fig. 3b", curve=TEST_ERROR.curve
            ),
            View(kind="final_table", title="Final prediction errors", artefact="Fig. 3b", values=(TEST_ERROR,)),
        ),
    ),
    Experiment(
        id="billiard/sparsity",
        title="Strength of the penalty",
        question="How does λ change the error and the number of gate openings?",
        claims=(
            Claim(
                words="λ = 0.001 has the lowest error.",
                tests=lowest("gatel0rd", ("gatel0rd-0", "gatel0rd-0.01", "gatel0rd-0.1"), TEST_ERROR),
            ),
            Claim(
                words="The errors of 0 and 0.01 are similar, that of 0.1 is higher.",
                tests=(
                    *similar("gatel0rd-0", "gatel0rd-0.01", TEST_ERROR, SIMILAR),
                    Less(Of("gatel0rd-0.01", TEST_ERROR), Of("gatel0rd-0.1", TEST_ERROR)),
                ),
            ),
            Claim(
                words="A larger λ opens fewer gates and uses fewer dimensions.",
                tests=tuple(
                    Less(Of(larger, metric), Of(smaller, metric))
                    for metric in (OPEN_RATE, DIMS_USED)
                    for larger, smaller in pairwise(("gatel0rd-0.1", "gatel0rd-0.01", "gatel0rd", "gatel0rd-0"))
                ),
            ),
            Claim(
                words="With λ = 0 less than 6 of 8 dimensions are used, with 0.01 two.",
                tests=(
                    Less(Of("gatel0rd-0", DIMS_USED), 6 / 8),
                    Less(1.5 / 8, Of("gatel0rd-0.01", DIMS_USED)),
                    Less(Of("gatel0rd-0.01", DIMS_USED), 2.5 / 8),
                ),
            ),
            Claim(
                words="Even with λ = 0 less than half of the gates are open.",
                tests=(Less(Of("gatel0rd-0", OPEN_RATE), 0.5),),
            ),
            Claim(
                words="Even with λ = 0 gates close over training.",
                tests=(Less(Of("gatel0rd-0", OPEN_RATE), Of("gatel0rd-0", CurveAt(OPEN_RATE.curve, 0))),),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=tuple(map(_sparsity, (0.001, 0, 0.01, 0.1))),
        views=(
            View(kind="curves", title="Prediction error", artefact="Fig. 3c", curve=TEST_ERROR.curve),
            View(kind="curves", title="Gate openings", artefact="Fig. 3d", curve=OPEN_RATE.curve),
            View(kind="curves", title="Latent dimensions used", artefact="Fig. 17", curve=DIMS_USED.curve),
            View(kind="gate_table", title="Gate statistics, free-running", artefact="Suppl. D.1", datasets=("test",)),
        ),
    ),
    Experiment(
        id="billiard/gating",
        title="When gates open",
        question="Do gates open when the ball touches a cushion, and how many dimensions does a sequence change?",
        claims=(
            Claim(
                words="With λ = 0.01 GateL0RD updates two dimensions of its latent state around the points of "
                "collision.",
                tests=(
                    Less(1.5 / 8, Of("gatel0rd-0.01", DIMS_USED)),
                    Less(Of("gatel0rd-0.01", DIMS_USED), 2.5 / 8),
                    Less(0.5, Of("gatel0rd-0.01", EventMatch("cushion contact", "precision", 3))),
                    Less(0.5, Of("gatel0rd-0.01", EventMatch("cushion contact", "recall", 3))),
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=(_sparsity(0.01), _sparsity(0.001), _sparsity(0)),
        views=(
            View(kind="events_table", title="Open gates against events", artefact="Sec. 6.5"),
            View(kind="dims_table", title="Share of sequences by dimensions that change", artefact="Suppl. D.1"),
        ),
    ),
    Experiment(
        id="billiard/latents",
        title="Learned latent states",
        question="What do the latent states look like while the ball moves?",
        claims=(
            Claim(
                words="GateL0RD changes two dimensions around collisions.",
                tests=changes_dimensions("gatel0rd-0.01", "cushion contact", 2, 2),
            ),
            Claim(
                words="GRU and LSTM change many throughout (tested to the last bit, as any dense network does).",
                tests=tuple(
                    Less(0.9, Of(f"{name}-layers1", LatentChange("changed_share", "cushion contact")))
                    for name in ("gru", "lstm")
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=(
            replace(_sparsity(0.01), label="GateL0RD, λ = 0.01"),
            replace(_network("gru", "GRU, one layer", 1), name="gru-layers1"),
            replace(_network("lstm", "LSTM, one layer", 1), name="lstm-layers1"),
        ),
        views=(
            View(kind="trajectory", title="Trajectory", artefact="Fig. 7a, Fig. 16a", example="two contacts"),
            View(kind="latents", title="Latent states", artefact="Fig. 7b, Fig. 16b", example="two contacts"),
            tabulate_latents("Fig. 7b, Fig. 16b", event="cushion contact", example="two contacts"),
        ),
    ),
    Experiment(
        id="billiard/latents-sparsity",
        title="Latent states and the penalty",
        question="How do the latent states of one sequence differ with λ?",
        claims=(
            Claim(
                words="With λ = 0.01 two dimensions encode the ball's velocity, with 0.001 three, with 0 five.",
                tests=tuple(
                    test
                    for name, dims in (("gatel0rd-0.01", 2), ("gatel0rd", 3), ("gatel0rd-0", 5))
                    for test in (
                        Less(dims - 0.5, Of(name, LatentChange("dimensions", "cushion contact"))),
                        Less(Of(name, LatentChange("dimensions", "cushion contact")), dims + 0.5),
                    )
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=tuple(map(_sparsity, (0, 0.001, 0.01))),
        views=(
            View(kind="trajectory", title="Trajectory", artefact="Fig. 16c", example="three contacts"),
            View(kind="latents", title="Latent states", artefact="Fig. 16d", example="three contacts"),
            tabulate_latents("Fig. 16d", event="cushion contact", example="three contacts"),
        ),
    ),
    Experiment(
        id="billiard/gate-function",
        title="Ablation 1: gate function",
        question="Would a sigmoid or a step function do as a gate?",
        claims=(
            Claim(
                words="Heaviside gates are worse.",
                tests=lowest("gatel0rd", ("gatel0rd-heaviside-0.001", "gatel0rd-heaviside-0"), TEST_ERROR),
            ),
            Claim(
                words="Without the penalty their error even rises.",
                tests=(
                    Less(
                        Of("gatel0rd-heaviside-0", CurveAt(TEST_ERROR.curve, 0.25, around=0.05)),
                        Of("gatel0rd-heaviside-0", CurveAt(TEST_ERROR.curve, 1.0, around=0.05)),
                    ),
                ),
            ),
            Claim(
                words="A sigmoid is as good as ReTanh but never exactly 0.",
                tests=(
                    *similar("gatel0rd-sigmoid-0", "gatel0rd", TEST_ERROR, SIMILAR),
                    Less(0.999, Of("gatel0rd-sigmoid-0", OPEN_RATE)),
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=(
            replace(GATEL0RD, label="ReTanh, λ = 0.001"),
            _gate("sigmoid", 0, "sigmoid, λ = 0"),
            _gate("heaviside", 0.001, "Heaviside, λ = 0.001"),
            _gate("heaviside", 0, "Heaviside, λ = 0"),
        ),
        views=(View(kind="curves", title="Prediction error", artefact="Fig. 11", curve=TEST_ERROR.curve),),
    ),
    Experiment(
        id="billiard/gate-noise",
        title="Ablation 2: gate noise",
        question="What does noise on the gates do?",
        claims=(
            Claim(
                words="The error is the same with and without noise.",
                tests=(
                    *similar("gatel0rd-noise0", "gatel0rd-0.01", TEST_ERROR, SIMILAR),
                    *similar("gatel0rd-noise0", "gatel0rd-noise0.2", TEST_ERROR, SIMILAR),
                ),
            ),
            Claim(
                words="More noise opens fewer gates.",
                tests=tuple(
                    Less(Of(more, OPEN_RATE), Of(less, OPEN_RATE))
                    for less, more in pairwise(("gatel0rd-noise0", "gatel0rd-0.01", "gatel0rd-noise0.2"))
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=(_noise(0), replace(_sparsity(0.01), label="gate noise 0.1"), _noise(0.2)),
        views=(
            View(kind="curves", title="Prediction error", artefact="Fig. 12a", curve=TEST_ERROR.curve),
            View(kind="curves", title="Gate openings", artefact="Fig. 12b", curve=OPEN_RATE.curve),
        ),
    ),
    Experiment(
        id="billiard/init",
        title="Ablation 3: f_init",
        question="Does it help to set the first latent state from the first inputs?",
        claims=(
            Claim(
                words="All networks are worse without f_init.",
                tests=tuple(
                    Less(Of(variant.name, TEST_ERROR), Of(f"{variant.name}-zero", TEST_ERROR)) for variant in FOUR
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=tuple(
            replace(
                variant,
                name=variant.name if initialized else f"{variant.name}-zero",
                label=variant.label if initialized else f"{variant.label}, h = 0",
                initialized=initialized,
                dashed=not initialized,
            )
            for variant in FOUR
            for initialized in (True, False)
        ),
        views=(
            View(kind="curves", title="Prediction error", artefact="Fig. 13", curve=TEST_ERROR.curve),
            View(kind="final_table", title="Final prediction errors", artefact="Fig. 13", values=(TEST_ERROR,)),
        ),
    ),
    search_rates(
        "billiard/learning-rates",
        title="Learning rates, scheduled sampling",
        words="0.0005 for all four.",
        scenario=SCENARIO,
        policy="shots",
        variants=FOUR,
    ),
    search_rates(
        "billiard/teacher-forcing-rates",
        title="Learning rates, teacher forcing",
        question="Which learning rate gives the lowest validation error after training on real inputs?",
        words="0.001 for GateL0RD, LSTM and GRU, 0.00005 for the Elman RNN.",
        scenario=SCENARIO,
        policy="shots",
        variants=tuple(map(_teacher_forced, FOUR)),
    ),
    Experiment(
        id="billiard/layers",
        title="Number of layers",
        question="Do one, two or three layers predict best?",
        claims=(
            Claim(
                words="All networks are slightly better with three.",
                tests=tuple(
                    Less(
                        Of(f"{variant.name}-layers3", VALIDATION_ERROR),
                        Of(f"{variant.name}-layers{fewer}", VALIDATION_ERROR),
                        surely=False,
                    )
                    for variant in FOUR
                    for fewer in (1, 2)
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="shots",
        variants=tuple(variant for layers in (1, 2, 3) for variant in _layers(layers)),
        views=(View(kind="layers_table", title="Validation error", artefact="Suppl. B.1", values=(VALIDATION_ERROR,)),),
        seeds=2,
    ),
)
