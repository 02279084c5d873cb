"""The paper's questions about Fetch Pick&Place (Sec. 6.5, Suppl. B.5, D.7, D.8)."""

from __future__ import annotations

from dataclasses import replace

from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.worlds.claims import SIMILAR, Claim, Less, Of, Times, changes_dimensions, lowest, similar
from gatel0rd.worlds.experiments import Experiment, Scenario, Variant, View, search_rates, tabulate_latents
from gatel0rd.worlds.metrics import (
    GENERALIZATION_ERROR,
    TEST_ERROR,
    EventMatch,
    LatentChange,
)

EPOCHS, REFERENCE_EPOCHS = 5000, 20_000
HIDDEN = 16
MODEL = WorldModelConfig(
    observation_size=11,
    action_size=4,
    cell=CellConfig(hidden_size=HIDDEN),
    feature_size=16,
    pre_layers=3,
    init_layers=2,
    init_steps=1,
    post_layers=2,
)

SCENARIO = Scenario(
    name="fetch",
    title="Fetch Pick&Place",
    model=MODEL,
    steps=25,
    splits={"train": 3200, "validation": 640, "test": 640, "generalization": 3200},
    step_seconds={"gatel0rd": 0.0024, "lstm": 0.0024, "gru": 0.0022, "elman": 0.0018, "clockwork": 0.0020},
    sampling_minimum=0.05,
    evaluations={"grasps": {"test": ("grasps", "test"), "generalization": ("grasps", "generalization")}},
    validations={"grasps": {"validation": ("grasps", "validation")}},
    sequence_limits={"smoke": 32},
)
"""Reach-grasp-lift sequences, in training always grasped at step 5."""

DIVERSE = Scenario(
    name="fetch-diverse",
    title="Fetch Pick&Place, diverse",
    model=MODEL,
    steps=50,
    splits={"train": 12_800, "validation": 6_400, "test": 6_400},
    step_seconds={"gatel0rd": 0.0090, "lstm": 0.0090, "gru": 0.0080, "elman": 0.0060, "clockwork": 0.0065},
    sampling_minimum=0.05,
    evaluations={"mixed": {"test": ("mixed", "test")}},
    validations={"mixed": {"validation": ("mixed", "validation")}},
    epoch_shares={"quick": 0.1},
    sequence_limits={"smoke": 32, "demo": 640, "quick": 3200},
)
"""All ways of moving the object."""


def _network(cell: CellName, label: str, *, rate: float, layers: int = 1) -> Variant:
    own = cell == "gatel0rd"  # its subnetworks are deep, the others are stacked
    return Variant(
        name=cell,
        label=label,
        cell=CellConfig(
            name=cell,
            hidden_size=HIDDEN,
            net_layers=layers if own else 1,
            num_layers=1 if own else layers,
        ),
        learning_rate=rate,
        sparsity_weight=0.0001 if cell == "gatel0rd" else 0.0,
        paper_epochs=EPOCHS,
        reference_epochs=REFERENCE_EPOCHS,
    )


def _networks(*, rate: float, layers: int = 1) -> tuple[Variant, ...]:
    names: tuple[tuple[CellName, str], ...] = (
        ("gatel0rd", "GateL0RD"),
        ("lstm", "LSTM"),
        ("gru", "GRU"),
        ("elman", "Elman RNN"),
    )
    return tuple(_network(cell, label, rate=rate, layers=layers) for cell, label in names)


FOUR = _networks(rate=0.005)
_DEEP, *_OTHERS = _networks(rate=0.001, layers=3)
DEEP = (
    replace(_DEEP, name="gatel0rd-0.001", label="GateL0RD, λ = 0.001", sparsity_weight=0.001),
    replace(_DEEP, name="gatel0rd-0", label="GateL0RD, λ = 0", sparsity_weight=0.0, dashed=True),
    *_OTHERS,
)

BASELINES = ("lstm", "gru", "elman")

EXPERIMENTS = (
    Experiment(
        id="fetch/generalization",
        title="Generalization across grasp timings",
        question="Which network predicts well when the object is grasped later than ever during training?",
        claims=(
            Claim(
                words="On the test set LSTM's error is slightly lower than GateL0RD's (λ = 0.0001).",
                tests=lowest("lstm", ("gatel0rd",), TEST_ERROR),
            ),
            Claim(
                words="On the test set the errors of all networks are similar.",
                tests=tuple(test for name in BASELINES for test in similar(name, "gatel0rd", TEST_ERROR, SIMILAR)),
            ),
            Claim(
                words="When the grasp comes later all errors are much higher.",
                tests=tuple(
                    Less(Of(variant.name, TEST_ERROR), Times(0.5, Of(variant.name, GENERALIZATION_ERROR)))
                    for variant in FOUR
                ),
            ),
            Claim(
                words="GateL0RD's is then the lowest.",
                tests=lowest("gatel0rd", BASELINES, GENERALIZATION_ERROR),
            ),
        ),
        scenario=SCENARIO,
        policy="grasps",
        variants=FOUR,
        views=(
            View(kind="curves", title="Test error", artefact="Fig. 22a", curve=TEST_ERROR.curve),
            View(kind="curves", title="Generalization error", artefact="Fig. 22b", curve=GENERALIZATION_ERROR.curve),
            View(
                kind="final_table",
                title="Final prediction errors",
                artefact="Fig. 22a",
                values=(TEST_ERROR, GENERALIZATION_ERROR),
            ),
        ),
    ),
    Experiment(
        id="fetch/latents",
        title="Learned latent states",
        question="What do the latent states look like when the object is grasped and carried?",
        claims=(
            Claim(
                words="One or three dimensions of GateL0RD's latent state change around the grasp and then stay.",
                tests=(
                    *changes_dimensions("gatel0rd", "grasp", 1, 3),
                    Less(Of("gatel0rd", LatentChange("changed_share", "grasp")), 0.1),
                ),
            ),
            Claim(
                words="Other networks' states are not as easily interpreted (tested to the last bit: they "
                "change all the time, as any dense network's do).",
                tests=tuple(Less(0.9, Of(name, LatentChange("changed_share", "grasp"))) for name in BASELINES),
            ),
        ),
        scenario=SCENARIO,
        policy="grasps",
        variants=FOUR,
        views=(
            View(kind="latents", title="Example 1", artefact="Fig. 7c", example="late grasp"),
            View(kind="latents", title="Example 2", artefact="Fig. 23", example="early grasp"),
            tabulate_latents("Fig. 23", event="grasp", example="late grasp"),
        ),
    ),
    Experiment(
        id="fetch/gating",
        title="Gates at the grasp",
        question="Do gates open when the object is grasped?",
        claims=(
            Claim(
                words="GateL0RD typically updates its latent state when the object is grasped.",
                tests=(
                    Less(0.8, Of("gatel0rd", EventMatch("grasp", "recall", 3))),
                    Less(0.5, Of("gatel0rd", EventMatch("grasp", "precision", 3))),
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="grasps",
        variants=(FOUR[0],),
        views=(
            View(kind="events_table", title="Open gates against events", artefact="Sec. 6.5"),
            View(kind="dims_table", title="Dimensions that change per sequence", artefact="Suppl. D.7"),
            View(
                kind="gate_table",
                title="Gate statistics, free-running",
                artefact="Suppl. D.7",
                datasets=("test", "generalization"),
            ),
        ),
    ),
    search_rates(
        "fetch/learning-rates",
        title="Learning-rate grid search",
        words="0.005 for all four.",
        scenario=SCENARIO,
        policy="grasps",
        variants=FOUR,
    ),
    Experiment(
        id="fetch-diverse/prediction",
        title="Diverse ways of moving the object",
        question="Which network predicts best when the object is also pushed, slid and flicked?",
        claims=(
            Claim(
                words="All networks are very similar.",
                tests=tuple(
                    test
                    for name in ("gatel0rd-0.001", *BASELINES)
                    for test in similar(name, "gatel0rd-0", TEST_ERROR, SIMILAR)
                ),
            ),
            Claim(
                words="GateL0RD is slightly worse than the others with λ = 0.001 and slightly better with λ = 0.",
                tests=(
                    *lowest("gatel0rd-0", BASELINES, TEST_ERROR),
                    *(Less(Of(name, TEST_ERROR), Of("gatel0rd-0.001", TEST_ERROR)) for name in BASELINES),
                ),
            ),
        ),
        scenario=DIVERSE,
        policy="mixed",
        variants=DEEP,
        views=(
            View(kind="curves", title="Prediction error", artefact="Fig. 24", curve=TEST_ERROR.curve),
            View(kind="final_table", title="Final prediction errors", artefact="Fig. 24", values=(TEST_ERROR,)),
            View(kind="gate_table", title="Gate statistics, free-running", artefact="Suppl. D.8", datasets=("test",)),
        ),
    ),
    search_rates(
        "fetch-diverse/learning-rates",
        title="Learning-rate grid search, diverse sequences",
        words="0.001 for all four.",
        scenario=DIVERSE,
        policy="mixed",
        variants=DEEP,
    ),
)
