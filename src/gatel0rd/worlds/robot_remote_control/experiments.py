"""The paper's questions about Robot Remote Control (Sec. 6.2, Suppl. C.4, C.5, D.2 to D.6)."""

from __future__ import annotations

from dataclasses import replace

from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.training.config import PenaltyName
from gatel0rd.worlds.claims import (
    SIMILAR,
    Claim,
    Less,
    Of,
    Times,
    changes_dimensions,
    clearly_lowest,
    loss_rises_and_falls,
    lowest,
    similar,
)
from gatel0rd.worlds.experiments import Experiment, PaperValue, Scenario, Variant, View, search_rates, tabulate_latents
from gatel0rd.worlds.metrics import (
    GENERALIZATION_ERROR,
    TEST_ERROR,
    CurveAt,
    FinalValue,
    GatingRate,
    LatentChange,
    PlanningSuccess,
)

SPARSITY = 0.001
EPOCHS = 5000
REFERENCE_EPOCHS = 10_000
CLOCKWORK_EPOCHS = 20_000

SCENARIO = Scenario(
    name="rrc",
    title="Robot Remote Control",
    model=WorldModelConfig(
        observation_size=4, action_size=2, feature_size=8, pre_layers=3, init_layers=2, init_steps=1
    ),
    steps=50,
    splits={"train": 6400, "validation": 6400, "test": 6400},
    step_seconds={"gatel0rd": 0.0016, "lstm": 0.0015, "gru": 0.0014, "elman": 0.0010, "clockwork": 0.0012},
    sampling_minimum=0.02,
    episode_seconds=0.2,
    evaluations={
        "time": {"test": ("time", "test"), "generalization": ("random", "test")},
        "random": {"test": ("random", "test")},
    },
    validations={
        "time": {"validation": ("time", "validation"), "generalization validation": ("random", "validation")},
        "random": {"validation": ("random", "validation")},
    },
    effect_share=0.24,
)

GATEL0RD = Variant(
    name="gatel0rd",
    label="GateL0RD",
    cell=CellConfig(name="gatel0rd"),
    learning_rate=0.005,
    sparsity_weight=SPARSITY,
    paper_epochs=EPOCHS,
    reference_epochs=REFERENCE_EPOCHS,
)


def _baseline(name: CellName, label: str) -> Variant:
    return replace(GATEL0RD, name=name, label=label, cell=CellConfig(name=name), sparsity_weight=0.0)


LSTM, GRU, ELMAN = _baseline("lstm", "LSTM"), _baseline("gru", "GRU"), _baseline("elman", "Elman RNN")
CLOCKWORK = replace(
    _baseline("clockwork", "Clockwork RNN"),
    learning_rate=0.001,
    paper_epochs=CLOCKWORK_EPOCHS,
    reference_epochs=CLOCKWORK_EPOCHS,
)
FOUR = (GATEL0RD, LSTM, GRU, ELMAN)
FIVE = tuple(variant.name for variant in (*FOUR, CLOCKWORK))


def _sigmoid(name: str, label: str, penalty: PenaltyName) -> Variant:
    cell = CellConfig(name="gatel0rd", gate="sigmoid")
    return replace(GATEL0RD, name=name, label=label, cell=cell, penalty=penalty)


GENERALIZATION_VALIDATION_ERROR = FinalValue("generalization validation", "error")
FINAL_ERRORS = {
    "clockwork": (PaperValue(mean=0.00056, deviation=0.00015), PaperValue(mean=0.0331, deviation=0.0128)),
    "elman": (PaperValue(mean=0.00064, deviation=0.00036), PaperValue(mean=0.0062, deviation=0.0040)),
    "gru": (PaperValue(mean=0.00030, deviation=0.00036), PaperValue(mean=0.0118, deviation=0.0058)),
    "lstm": (PaperValue(mean=0.00018, deviation=0.00013), PaperValue(mean=0.0173, deviation=0.0058)),
    "gatel0rd": (PaperValue(mean=0.00015, deviation=0.00010), PaperValue(mean=0.0011, deviation=0.0007)),
}

EXPERIMENTS = (
    Experiment(
        id="rrc/generalization",
        title="Generalization across policies",
        question="Which network predicts well when actions no longer grow with time, as they did during training?",
        claims=(
            Claim(words="GateL0RD has the lowest test error.", tests=lowest("gatel0rd", FIVE[:4], TEST_ERROR)),
            Claim(
                words="Only GateL0RD keeps a low generalization error.",
                tests=clearly_lowest("gatel0rd", FIVE[:4], GENERALIZATION_ERROR),
            ),
            Claim(
                words="The Clockwork RNN's errors are higher, too.",
                tests=(
                    *lowest("gatel0rd", ("clockwork",), TEST_ERROR),
                    *lowest("gatel0rd", ("clockwork",), GENERALIZATION_ERROR),
                ),
            ),
            Claim(
                words="The Clockwork RNN overfits even more than the other baselines.",
                tests=tuple(
                    Less(Of(name, GENERALIZATION_ERROR), Of("clockwork", GENERALIZATION_ERROR))
                    for name in ("lstm", "gru", "elman")
                ),
            ),
            Claim(
                words="The errors of GRU and LSTM on the generalization set even increase over training.",
                tests=tuple(
                    Less(
                        Of(name, CurveAt(GENERALIZATION_ERROR.curve, 0.25, around=0.05)),
                        Of(name, CurveAt(GENERALIZATION_ERROR.curve, 1.0, around=0.05)),
                    )
                    for name in ("gru", "lstm")
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="time",
        variants=(*FOUR, CLOCKWORK),
        views=(
            View(kind="curves", title="Test error", artefact="Fig. 4a", curve=TEST_ERROR.curve),
            View(kind="curves", title="Generalization error", artefact="Fig. 4b", curve=GENERALIZATION_ERROR.curve),
            View(
                kind="final_table",
                title="Final prediction errors",
                artefact="Table 3",
                values=(TEST_ERROR, GENERALIZATION_ERROR),
            ),
        ),
        paper={
            (name, metric): value
            for name, values in FINAL_ERRORS.items()
            for metric, value in zip((TEST_ERROR, GENERALIZATION_ERROR), values, strict=True)
        },
    ),
    Experiment(
        id="rrc/planning",
        title="Planning with a learned memory",
        question="Which network moves the robot to the goal when it is used for model-predictive control?",
        claims=(
            Claim(
                words="GateL0RD has the highest success rate.",
                tests=tuple(
                    Less(Of(name, PlanningSuccess()), Of("gatel0rd", PlanningSuccess()))
                    for name in ("lstm", "gru", "elman")
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="time",
        variants=FOUR,
        views=(
            View(kind="planning", title="Success rate over training", artefact="Fig. 4c"),
            View(kind="planning_table", title="Success rate after training", artefact="Fig. 4c"),
        ),
    ),
    Experiment(
        id="rrc/gating",
        title="When gates open",
        question="Do gates open when control over the robot is gained, and stay shut otherwise?",
        claims=(
            Claim(
                words="GateL0RD mostly opens its gates when the robot is controlled and tends to keep them shut "
                "otherwise.",
                tests=(
                    Less(0.8, Of("gatel0rd", GatingRate("hits"))),
                    Less(Of("gatel0rd", GatingRate("false_alarms")), 0.2),
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="time",
        variants=(GATEL0RD,),
        views=(
            View(kind="gating_table", title="Gating on the generalization set", artefact="Table 2"),
            View(
                kind="gate_table",
                title="Gate statistics, free-running",
                artefact="Sec. 6.2",
                datasets=("test", "generalization"),
            ),
            View(
                kind="curves",
                title="Open gates",
                artefact="Sec. 6.2",
                curve=FinalValue("generalization", "open_rate").curve,
            ),
        ),
        paper={
            ("gatel0rd", GatingRate("hits")): PaperValue(mean=0.978, deviation=0.016),
            ("gatel0rd", GatingRate("misses")): PaperValue(mean=0.022, deviation=0.016),
            ("gatel0rd", GatingRate("false_alarms")): PaperValue(mean=0.089, deviation=0.037),
            ("gatel0rd", GatingRate("correct_rejections")): PaperValue(mean=0.911, deviation=0.037),
        },
    ),
    Experiment(
        id="rrc/latents",
        title="Learned latent states",
        question="What do the latent states look like with and without control over the robot?",
        claims=(
            Claim(
                words="GateL0RD changes one dimension when control is gained and nothing without control.",
                tests=(
                    *changes_dimensions("gatel0rd", "control", 1, 1),
                    Less(0.5, Of("gatel0rd", LatentChange("unchanged", "control", happens=False))),
                ),
            ),
            Claim(
                words="GRU and LSTM change their latent states all the time, also without control (tested to the last "
                "bit, as any dense network does).",
                tests=tuple(
                    Less(0.9, Of(name, LatentChange("changed_share", "control", happens=False)))
                    for name in ("gru", "lstm")
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="time",
        variants=(GATEL0RD, GRU, LSTM),
        views=(
            View(kind="latents", title="With control", artefact="Fig. 4d, Fig. 21a", example="control"),
            View(kind="latents", title="Without control", artefact="Fig. 21b", example="no control"),
            tabulate_latents("Fig. 21b", event="control", example="control"),
        ),
    ),
    Experiment(
        id="rrc/loss",
        title="Loss and scheduled sampling",
        question="How does the loss develop while real inputs give way to predictions?",
        claims=(loss_rises_and_falls(tuple(variant.name for variant in FOUR)),),
        scenario=SCENARIO,
        policy="time",
        variants=FOUR,
        views=(
            View(kind="sampling", title="Sampling probability", artefact="Fig. 18a"),
            View(kind="loss", title="Loss", artefact="Fig. 18b"),
        ),
    ),
    search_rates(
        "rrc/learning-rates",
        title="Learning-rate grid search",
        words="0.005 for GateL0RD, LSTM, GRU and Elman RNN, 0.001 for the Clockwork RNN.",
        scenario=SCENARIO,
        policy="time",
        variants=(*FOUR, CLOCKWORK),
    ),
    search_rates(
        "rrc/generalization-rates",
        title="Learning rates searched for generalization",
        question="Which learning rate gives the baselines the lowest error on the generalization validation set?",
        words="0.001 for all three baselines.",
        scenario=SCENARIO,
        policy="time",
        variants=tuple(replace(variant, learning_rate=0.001) for variant in (LSTM, GRU, ELMAN)),
        rates=(0.005, 0.001, 0.0005),
        value=GENERALIZATION_VALIDATION_ERROR,
        artefact="Suppl. D.3",
    ),
    Experiment(
        id="rrc/improved-generalization",
        title="Generalization with optimized learning rates",
        question="Do the baselines catch up when their learning rate is chosen for generalization?",
        claims=(
            Claim(
                words="GRU and LSTM improve.",
                tests=tuple(
                    Less(Of(name, GENERALIZATION_ERROR), Of(name, GENERALIZATION_ERROR, "rrc/generalization"))
                    for name in ("gru", "lstm")
                ),
            ),
            Claim(
                words="GateL0RD still has the lowest generalization error.",
                tests=lowest("gatel0rd", FIVE[:4], GENERALIZATION_ERROR),
            ),
        ),
        scenario=SCENARIO,
        policy="time",
        variants=(GATEL0RD, *(replace(variant, learning_rate=0.001) for variant in (LSTM, GRU, ELMAN))),
        views=(
            View(kind="curves", title="Generalization error", artefact="Fig. 19", curve=GENERALIZATION_ERROR.curve),
        ),
        seeds=10,
    ),
    Experiment(
        id="rrc/random",
        title="Training on random actions",
        question="Is GateL0RD merely better at predicting random actions?",
        claims=(
            Claim(
                words="No: trained on random actions, GRU and LSTM reach a similar error.",
                tests=tuple(
                    test for name in ("gru", "lstm") for test in similar(name, "gatel0rd", TEST_ERROR, SIMILAR)
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="random",
        variants=FOUR,
        views=(View(kind="curves", title="Test error on random actions", artefact="Fig. 20", curve=TEST_ERROR.curve),),
    ),
    Experiment(
        id="rrc/output-gate",
        title="Ablation 4: output function",
        question="Does the multiplicative output gate help?",
        claims=(
            Claim(
                words="The error is much lower with the multiplicative output (p·o) than without it (p).",
                tests=(Less(Of("gatel0rd", TEST_ERROR), Times(0.5, Of("gatel0rd-no-output-gate", TEST_ERROR))),),
            ),
        ),
        scenario=SCENARIO,
        policy="random",
        variants=(
            replace(GATEL0RD, label="p·o"),
            replace(
                GATEL0RD,
                name="gatel0rd-no-output-gate",
                label="p",
                cell=CellConfig(name="gatel0rd", output_gate=False),
            ),
        ),
        views=(View(kind="curves", title="Test error on random actions", artefact="Fig. 14", curve=TEST_ERROR.curve),),
    ),
    Experiment(
        id="rrc/l1-l2",
        title="Ablation 5: L1 and L2 penalties",
        question="Would sigmoid gates with an L1 or L2 penalty generalize as well?",
        claims=(
            Claim(
                words="L1 and L2 have a test error even below GateL0RD's, L2 the lowest of all networks.",
                tests=(
                    *lowest("gatel0rd-l1", ("gatel0rd",), TEST_ERROR),
                    *lowest("gatel0rd-l2", ("gatel0rd", "gatel0rd-l1"), TEST_ERROR),
                    *lowest("gatel0rd-l2", ("lstm", "gru", "elman"), TEST_ERROR, experiment="rrc/generalization"),
                ),
            ),
            Claim(
                words="Both have a high generalization error.",
                tests=lowest("gatel0rd", ("gatel0rd-l1", "gatel0rd-l2"), GENERALIZATION_ERROR),
            ),
        ),
        scenario=SCENARIO,
        policy="time",
        variants=(
            GATEL0RD,
            _sigmoid("gatel0rd-l1", "L1, sigmoid gate", "l1"),
            _sigmoid("gatel0rd-l2", "L2, sigmoid gate", "l2"),
        ),
        views=(
            View(kind="curves", title="Test error", artefact="Fig. 15a", curve=TEST_ERROR.curve),
            View(kind="curves", title="Generalization error", artefact="Fig. 15b", curve=GENERALIZATION_ERROR.curve),
        ),
    ),
)
