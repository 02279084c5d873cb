"""The paper's questions about Shepherd (Sec. 6.3, Suppl. D.2)."""

from __future__ import annotations

from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.worlds.claims import Claim, Less, Of, Times, clearly_lowest, loss_rises_and_falls, lowest
from gatel0rd.worlds.experiments import Experiment, Scenario, Variant, View, search_rates, tabulate_latents
from gatel0rd.worlds.metrics import TEST_ERROR, CurveAt, FinalValue, LatentChange, PlanningSuccess

SCENARIO = Scenario(
    name="shepherd",
    title="Shepherd",
    model=WorldModelConfig(
        observation_size=7, action_size=3, feature_size=16, pre_layers=3, init_layers=3, init_steps=2
    ),
    steps=100,
    splits={"train": 12_800, "validation": 6_400, "test": 12_800},
    step_seconds={"gatel0rd": 0.0075, "lstm": 0.0075, "gru": 0.0070, "elman": 0.0060, "clockwork": 0.0065},
    sampling_minimum=0.05,
    episode_seconds=1.2,
    epoch_shares={"demo": 0.015, "quick": 0.05},
    evaluations={"random": {"test": ("random", "test")}},
    validations={"random": {"validation": ("random", "validation")}},
)


def _network(cell: CellName, label: str) -> Variant:
    return Variant(
        name=cell,
        label=label,
        cell=CellConfig(name=cell),
        learning_rate=0.001,
        sparsity_weight=0.0001 if cell == "gatel0rd" else 0.0,
        paper_epochs=10_000,
    )


GATEL0RD = _network("gatel0rd", "GateL0RD")
FOUR = (GATEL0RD, _network("lstm", "LSTM"), _network("gru", "GRU"), _network("elman", "Elman RNN"))
BASELINES = ("lstm", "gru", "elman")
REAPPEARANCE = FinalValue("test", "reappearance")

EXPERIMENTS = (
    Experiment(
        id="shepherd/prediction",
        title="Long-term memorization",
        question="Which network predicts 100 steps, and which one knows where a sheep that was hidden will reappear?",
        claims=(
            Claim(
                words="GateL0RD has the lowest prediction error.",
                tests=lowest("gatel0rd", BASELINES, TEST_ERROR),
            ),
            Claim(
                words="Only GateL0RD reliably learns where the sheep will appear.",
                tests=clearly_lowest("gatel0rd", BASELINES, REAPPEARANCE),
            ),
            Claim(
                words="GRU and Elman RNN do not noticeably improve at it.",
                tests=tuple(
                    Less(
                        Of(name, CurveAt(REAPPEARANCE.curve, 0.1, around=0.05)),
                        Times(1.25, Of(name, CurveAt(REAPPEARANCE.curve, 1.0, around=0.05))),
                    )
                    for name in ("gru", "elman")
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="random",
        variants=FOUR,
        views=(
            View(kind="curves", title="100-step prediction error", artefact="Fig. 5a", curve=TEST_ERROR.curve),
            View(
                kind="curves",
                title="Error of the sheep's x at its reappearance",
                artefact="Fig. 5b",
                curve=REAPPEARANCE.curve,
            ),
            View(
                kind="final_table",
                title="Final errors",
                artefact="Fig. 5b",
                values=(TEST_ERROR, REAPPEARANCE),
            ),
        ),
    ),
    Experiment(
        id="shepherd/planning",
        title="Planning with a learned memory",
        question="With which network is the sheep caught, whose place has to be known before the gate is opened?",
        claims=(
            Claim(
                words="Only GateL0RD solves the task with a mean success rate above 50 %.",
                tests=(
                    Less(0.5, Of("gatel0rd", PlanningSuccess())),
                    *(Less(Of(name, PlanningSuccess()), 0.5) for name in BASELINES),
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="random",
        variants=FOUR,
        views=(
            View(kind="planning", title="Success rate over training", artefact="Fig. 5c"),
            View(kind="planning_table", title="Success rate after training", artefact="Fig. 5c"),
        ),
    ),
    Experiment(
        id="shepherd/loss",
        title="Loss curves",
        question="How does the loss develop while real inputs give way to predictions?",
        claims=(loss_rises_and_falls(tuple(variant.name for variant in FOUR)),),
        scenario=SCENARIO,
        policy="random",
        variants=FOUR,
        views=(View(kind="loss", title="Loss", artefact="Fig. 18c"),),
    ),
    Experiment(
        id="shepherd/latents",
        title="Learned latent states",
        question="What do the latent states look like while the sheep is hidden and when it comes back?",
        claims=(
            Claim(
                words="(Ours, the paper shows no figure:) GateL0RD's latent state changes sparsely, GRU's and LSTM's "
                "all the time.",
                tests=(
                    Less(Of("gatel0rd", LatentChange("changed_share", "sheep hidden")), 0.1),
                    *(Less(0.9, Of(name, LatentChange("changed_share", "sheep hidden"))) for name in ("gru", "lstm")),
                ),
            ),
        ),
        scenario=SCENARIO,
        policy="random",
        variants=FOUR[:3],
        views=(
            View(kind="latents", title="Sheep caught", artefact="Sec. 6.3", example="caught"),
            View(kind="latents", title="Gate stays closed", artefact="Sec. 6.3", example="gate closed"),
            tabulate_latents("Sec. 6.3", event="sheep hidden", example="caught"),
        ),
    ),
    Experiment(
        id="shepherd/gating",
        title="When gates open",
        question="At which events do gates open?",
        claims=(
            Claim(
                words="(Ours, the paper gives no number:) latent states change rarely, less than a tenth of the gates "
                "is open.",
                tests=(Less(Of("gatel0rd", FinalValue("test", "open_rate")), 0.1),),
            ),
        ),
        scenario=SCENARIO,
        policy="random",
        variants=(GATEL0RD,),
        views=(
            View(kind="events_table", title="Open gates against events", artefact="Sec. 6.3"),
            View(kind="gate_table", title="Gate statistics, free-running", artefact="Sec. 6.3", datasets=("test",)),
        ),
    ),
    search_rates(
        "shepherd/learning-rates",
        title="Learning-rate grid search",
        words="0.001 for all four.",
        scenario=SCENARIO,
        policy="random",
        variants=FOUR,
    ),
)
