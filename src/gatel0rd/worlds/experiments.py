"""Experiments as immutable data: a question, the paper's claims, which networks answer it, and how that is shown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from gatel0rd.models.config import WorldModelConfig
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.training.config import PenaltyName
from gatel0rd.training.presets import AgentPreset
from gatel0rd.training.recipe import DataRecipe, Preset
from gatel0rd.worlds.claims import Claim, best_rate, name_with_rate
from gatel0rd.worlds.metrics import VALIDATION_ERROR, Curve, FinalValue, Metric

LengthUnit = Literal["epochs", "frames"]

ViewKind = Literal[
    "curves",
    "final_table",
    "gating_table",
    "gate_table",
    "events_table",
    "dims_table",
    "latents",
    "latents_table",
    "trajectory",
    "loss",
    "sampling",
    "grid_table",
    "layers_table",
    "planning",
    "planning_table",
    "agent_table",
    "frames_table",
    "lengths",
    "lengths_table",
]


@dataclass(frozen=True, kw_only=True)
class View:
    """One figure or table of an experiment.

    Attributes:
        artefact: the paper's name for it.
        curve: what ``curves`` show.
        values: what tables of final values show; searches (``grid_table``, ``layers_table``) show one.
        datasets: what ``gate_table`` shows.
        example: the sequence that ``latents`` and ``trajectory`` show, and that ``latents_table`` compares with all.
        event: what sequences of ``latents_table`` are sorted by: the world's ``memory_event``.
    """

    kind: ViewKind
    title: str
    artefact: str
    curve: Curve | None = None
    values: tuple[FinalValue, ...] = ()
    datasets: tuple[str, ...] = ()
    example: str | None = None
    event: str | None = None

    def __post_init__(self) -> None:
        needs = {
            "curves": "curve",
            "final_table": "values",
            "grid_table": "values",
            "layers_table": "values",
            "gate_table": "datasets",
            "latents": "example",
            "latents_table": "event",
            "trajectory": "example",
        }.get(self.kind)
        if needs is not None and not getattr(self, needs):
            raise ValueError(f"the view {self.title!r} is of the kind {self.kind}; expected {needs} to be given")


def tabulate_latents(artefact: str, *, event: str, example: str) -> View:
    """How latent states change over the whole test set, and in the one sequence that a figure shows."""
    title = "Changes of the latent state over the whole test set"
    return View(kind="latents_table", title=title, artefact=artefact, event=event, example=example)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The world of some experiments.

    Attributes:
        effect_share: share of the paper's training after which the networks are known to differ.
        of_paper: whether the paper asks about it; where not, there are no numbers to compare with.
    """

    name: str
    title: str
    effect_share: float = 0.0
    of_paper: bool = True


@dataclass(frozen=True, kw_only=True)
class BaseVariant:
    """One line of a figure: a network and how it is trained.

    Attributes:
        dashed: how the line is drawn, in the colour of its cell.
    """

    name: str
    label: str
    cell: CellConfig
    learning_rate: float
    sparsity_weight: float = 0.0
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class PaperValue:
    """A number of the paper's text or tables: mean and standard deviation."""

    mean: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of the paper, and which networks answer it.

    Attributes:
        id: ``scenario/name``.
        question: what is asked.
        claims: what the paper says, in words and as what can be tested.
        seeds: how many random seeds the paper used.
        paper: (variant, metric) -> the paper's number, where it gives one.
        unit: what the length of a run is counted in.
        presets: ways of training that there are.
    """

    id: str
    title: str
    question: str
    claims: tuple[Claim, ...]
    views: tuple[View, ...]
    scenario: Setting
    variants: tuple[BaseVariant, ...]
    seeds: int
    paper: dict[tuple[str, Metric], PaperValue] = field(default_factory=dict)
    unit: ClassVar[LengthUnit]
    presets: ClassVar[tuple[AgentPreset, ...]]

    @property
    def claim(self) -> str:
        """What the paper says, in words."""
        return " ".join(claim.words for claim in self.claims)

    @property
    def artefacts(self) -> tuple[str, ...]:
        """The paper's names of the figures and tables that this makes."""
        return tuple(dict.fromkeys(view.artefact for view in self.views))

    @property
    def plans(self) -> bool:
        """Whether models are planned with after training."""
        return any(view.kind in ("planning", "planning_table") for view in self.views)


GRID_RATES = (0.005, 0.001, 0.0005, 0.0001, 0.00005)
"""The learning rates that the paper searches in every scenario."""


@dataclass(frozen=True, kw_only=True)
class Variant(BaseVariant):
    """A world model.

    Attributes:
        initialized: whether f_init sets the first latent state; zeros otherwise.
        teacher_forcing: train on real inputs only, instead of scheduled sampling.
        reference_epochs, reference_rate: in the authors' code, where it differs from the text.
    """

    penalty: PenaltyName = "l0"
    initialized: bool = True
    teacher_forcing: bool = False
    paper_epochs: int
    reference_epochs: int | None = None
    reference_rate: float | None = None


UNMEASURED_STEP = 0.005
"""Seconds that a training step is held to take in a world in which it was not measured."""


@dataclass(frozen=True, kw_only=True)
class Scenario(Setting):
    """What all experiments in one world share: sizes of model and data, evaluation sets, schedule.

    Attributes:
        splits: how many sequences each split has.
        version: of the data's generator; it is raised when the same recipe would give other data.
        step_seconds: of one training step with each cell, with the compiled engine on one core of an AMD EPYC.
        evaluations: name -> (policy, split) of the sets measured during training, per training policy.
        validations: the same for sets that are measured once, after training.
        episode_seconds: of planning one episode with a learned model, on the same core; 0: no models are kept from the
            course of training to plan with.
        epoch_shares: profile -> share of the paper's epochs, where it is another than the profile's own.
        sequence_limits: profile -> upper limit on the size of data sets, where it is another than the profile's own.
    """

    model: WorldModelConfig
    steps: int
    splits: dict[str, int]
    version: int = 1
    step_seconds: dict[CellName, float] = field(default_factory=dict)
    sampling_minimum: float = 0.0
    evaluations: dict[str, dict[str, tuple[str, str]]]
    validations: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    episode_seconds: float = 0.0
    epoch_shares: dict[str, float] = field(default_factory=dict)
    sequence_limits: dict[str, int] = field(default_factory=dict)

    def seconds_per_step(self, cell: CellName) -> float:
        """Of one training step; about right for small worlds if it was never measured."""
        return self.step_seconds.get(cell, UNMEASURED_STEP)

    def recipe(
        self, policy: str, split: str, *, preset: Preset, sequences: int | None = None, seed: int = 0
    ) -> DataRecipe:
        """The recipe of one split, of the paper's size if no number of sequences is given."""
        return DataRecipe(
            scenario=self.name,
            policy=policy,
            split=split,
            sequences=self.splits[split] if sequences is None else sequences,
            steps=self.steps,
            preset=preset,
            seed=seed,
            version=self.version,
        )


@dataclass(frozen=True, kw_only=True)
class Experiment(Question):
    """A question about world models.

    Attributes:
        policy: which data set the networks are trained on.
    """

    scenario: Scenario
    policy: str
    variants: tuple[Variant, ...]
    seeds: int = 20
    unit = "epochs"
    presets = ("text", "reference")


@dataclass(frozen=True, kw_only=True)
class AgentVariant(BaseVariant):
    """An agent; ``memory``: whether it has one."""

    memory: bool = True
    learning_rate: float = 0.001


@dataclass(frozen=True, kw_only=True)
class AgentExperiment(Question):
    """A question about agents.

    Attributes:
        environment: where they are trained.
        transfers: larger environments in which they are tried out too, without training there.
        observation_shape, actions: of all these environments; MiniGrid's if not given.
        frames: in the profile ``paper``; the paper's text does not say how many it used.
    """

    environment: str
    transfers: tuple[str, ...] = ()
    observation_shape: tuple[int, ...] = (7, 7, 3)
    actions: int = 7
    frames: int
    variants: tuple[AgentVariant, ...]
    seeds: int = 10
    unit = "frames"
    presets = ("text", "reference", "tuned")


def search_rates(
    id: str,
    *,
    title: str,
    question: str = "Which learning rate gives the lowest validation error?",
    words: str,
    scenario: Scenario,
    policy: str,
    variants: tuple[Variant, ...],
    rates: tuple[float, ...] = GRID_RATES,
    value: FinalValue = VALIDATION_ERROR,
    artefact: str = "Table 1",
) -> Experiment:
    """A search over learning rates; the claim is that each variant has the lowest ``value`` at its own rate."""
    return Experiment(
        id=id,
        title=title,
        question=question,
        claims=(
            Claim(
                words=words,
                tests=tuple(
                    test
                    for variant in variants
                    for test in best_rate(variant.name, variant.learning_rate, rates, value)
                ),
            ),
        ),
        scenario=scenario,
        policy=policy,
        variants=tuple(
            replace(variant, name=name_with_rate(variant.name, rate), learning_rate=rate, reference_rate=None)
            for variant in variants
            for rate in rates
        ),
        views=(View(kind="grid_table", title=value.words.capitalize(), artefact=artefact, values=(value,)),),
        seeds=2,
    )
