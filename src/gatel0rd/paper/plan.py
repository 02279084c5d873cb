"""Experiments as immutable data: which runs answer a question of the paper, and how the answer is shown."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatel0rd.config import content_hash
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.paper.agents import FRAMES_PER_SECOND, AgentRun, plan_agent_run
from gatel0rd.paper.profiles import PROFILES, Profile, compressed_decay
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.presets import AgentPreset
from gatel0rd.training.recipe import DataRecipe, Preset
from gatel0rd.worlds import all_worlds, registry
from gatel0rd.worlds.experiments import AgentExperiment, AgentVariant, Experiment, Variant

SNAPSHOTS = 10
"""Models that are kept from the course of training, where they can be planned with."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run, completely: equal configurations are the same run, whichever experiment asks for it.

    ``profile`` is the name under which it was planned, and no part of what makes runs equal.
    """

    scenario: str
    preset: Preset
    profile: str
    train_data: DataRecipe
    evaluation_data: tuple[DataRecipe, ...]
    evaluation_names: tuple[str, ...]
    validation_data: tuple[DataRecipe, ...]
    validation_names: tuple[str, ...]
    model: WorldModelConfig
    train: TrainConfig
    paper_epochs: int
    paper_sequences: int
    seed: int

    @property
    def directory_name(self) -> str:
        return f"{self.scenario}/{self.model.cell.name}-seed{self.seed}-{self.group}"

    @property
    def group(self) -> str:
        """What runs that differ in their seed only have in common."""
        return content_hash(replace(self, seed=0, profile=""))

    @property
    def length(self) -> int:
        """How long the run is, in what its progress is counted in."""
        return self.train.epochs

    @property
    def gradient_steps(self) -> int:
        return self.train.epochs * -(-self.train_data.sequences // self.train.batch_size)

    @property
    def share(self) -> float:
        """Gradient steps as a share of the paper's."""
        return self.gradient_steps / (self.paper_epochs * -(-self.paper_sequences // self.train.batch_size))


def plan_run(
    experiment: Experiment,
    variant: Variant,
    *,
    seed: int,
    profile: Profile,
    preset: Preset = "text",
    epochs: int | None = None,
) -> RunConfig:
    """The run that trains one variant of an experiment with one seed."""
    scenario = experiment.scenario
    reference = preset == "reference"
    paper_epochs = (reference and variant.reference_epochs) or variant.paper_epochs
    if epochs is not None and epochs < 1:
        raise ValueError(f"epochs is {epochs}; expected at least 1")
    own_epochs = profile.scale_epochs(paper_epochs, scenario) if epochs is None else epochs

    def recipe(policy: str, split: str) -> DataRecipe:
        sequences = profile.limit_sequences(split, scenario)
        return scenario.recipe(policy, split, preset=preset, sequences=sequences)

    evaluations = scenario.evaluations[experiment.policy]
    validations = scenario.validations.get(experiment.policy, {})
    penalty = variant.penalty
    if reference and penalty == "l2":
        penalty = "squared_mean"
    init_layers = scenario.model.init_layers if variant.initialized else 0
    return RunConfig(
        scenario=scenario.name,
        preset=preset,
        profile=profile.name if epochs is None else f"{profile.name}, {epochs} epochs",
        train_data=recipe(experiment.policy, "train"),
        evaluation_data=tuple(recipe(*source) for source in evaluations.values()),
        evaluation_names=tuple(evaluations),
        validation_data=tuple(recipe(*source) for source in validations.values()),
        validation_names=tuple(validations),
        model=replace(scenario.model, cell=variant.cell, init_layers=init_layers),
        train=TrainConfig(
            epochs=own_epochs,
            learning_rate=(reference and variant.reference_rate) or variant.learning_rate,
            sparsity_weight=variant.sparsity_weight,
            penalty=penalty,
            sampling_decay=compressed_decay(0.998, own_epochs, paper_epochs),
            sampling_minimum=scenario.sampling_minimum,
            teacher_forcing=variant.teacher_forcing,
            evaluate_every=profile.evaluate_every(own_epochs),
        ),
        paper_epochs=paper_epochs,
        paper_sequences=scenario.splits["train"],
        seed=seed,
    )


AnyExperiment = Experiment | AgentExperiment
AnyRun = RunConfig | AgentRun


def plan_any(
    experiment: AnyExperiment,
    variant: Variant | AgentVariant,
    *,
    seed: int,
    profile: Profile,
    preset: AgentPreset,
    length: int | None,
) -> AnyRun:
    """The run of one variant and seed; ``length`` replaces the profile's number of epochs or frames."""
    if isinstance(experiment, AgentExperiment):
        assert isinstance(variant, AgentVariant)
        return plan_agent_run(experiment, variant, seed=seed, profile=profile, preset=preset, frames=length)
    assert isinstance(variant, Variant)
    if preset == "tuned":
        raise ValueError(f"the preset tuned is for agents; {experiment.id} has text and reference")
    return plan_run(experiment, variant, seed=seed, profile=profile, preset=preset, epochs=length)


def plan(
    experiment: AnyExperiment,
    *,
    profile: str,
    seeds: Sequence[int],
    cells: Sequence[str] | None = None,
    preset: AgentPreset = "text",
    epochs: int | None = None,
    frames: int | None = None,
) -> list[AnyRun]:
    """All runs of an experiment, optionally only those of some cells or variants, by name."""
    trains_agents = isinstance(experiment, AgentExperiment)
    if (epochs if trains_agents else frames) is not None:
        given, expected = ("epochs", "frames") if trains_agents else ("frames", "epochs")
        raise ValueError(f"{experiment.id} is not counted in {given}; give the number of {expected}")
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    known = {name for variant in experiment.variants for name in (variant.cell.name, variant.name)}
    unknown = set(cells or ()) - known
    if unknown:
        raise ValueError(
            f"{experiment.id} has no cell or variant {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}"
        )
    return [
        plan_any(
            experiment,
            variant,
            seed=seed,
            profile=PROFILES[profile],
            preset=preset,
            length=frames if trains_agents else epochs,
        )
        for seed in seeds
        for variant in experiment.variants
        if cells is None or {variant.cell.name, variant.name} & set(cells)
    ]


def plan_together(
    chosen: Sequence[AnyExperiment], *, profile: str, seeds: Sequence[int] | None, preset: AgentPreset = "text"
) -> tuple[list[AnyRun], frozenset[str]]:
    """The runs of several experiments, shared ones once; and the names of those with which is planned.

    ``seeds``: None for as many as the paper used.
    """
    runs: dict[str, AnyRun] = {}
    planned: set[str] = set()
    for experiment in chosen:
        used = range(experiment.seeds) if seeds is None else seeds
        own = {run.directory_name: run for run in plan(experiment, profile=profile, seeds=used, preset=preset)}
        runs = own | runs
        planned |= set(own) if experiment.plans else set()
    return list(runs.values()), frozenset(planned)


def experiments() -> dict[str, AnyExperiment]:
    """Every experiment of every world, by id."""
    return {experiment.id: experiment for world in all_worlds() for experiment in world.experiments()}


def world_experiments() -> dict[str, Experiment]:
    """Every experiment with world models, by id."""
    return {id: experiment for id, experiment in experiments().items() if isinstance(experiment, Experiment)}


def find(experiment_id: str) -> AnyExperiment:
    """The experiment with this id; an unknown id is an error that suggests the nearest."""
    known = experiments()
    if experiment_id not in known:
        near = difflib.get_close_matches(experiment_id, known, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"there is no experiment {experiment_id!r}; {hint}`gatel0rd list` shows all")
    return known[experiment_id]


def is_finished(run: AnyRun, out: Path) -> bool:
    """Whether the run's record is there."""
    return (out / run.directory_name / "record.json").exists()


def is_planned(run: RunConfig, out: Path, profile: Profile) -> bool:
    """Whether as many episodes as the profile asks for were planned with the run's models."""
    if not is_finished(run, out):
        return False
    directory = out / run.directory_name
    outcome = json.loads((directory / "record.json").read_text()).get("planning", {"epochs": [], "episodes": []})
    planned = dict(zip(outcome["epochs"], outcome["episodes"], strict=True))
    course = {int(path.stem) for path in directory.glob("snapshots/*.safetensors")} - {run.train.epochs}
    return planned.get(run.train.epochs, 0) >= profile.episodes and all(
        planned.get(epoch, 0) >= profile.course_episodes for epoch in course
    )


def estimated_seconds(run: AnyRun) -> float:
    """About how long a run is trained on one core."""
    if isinstance(run, AgentRun):
        return run.length / FRAMES_PER_SECOND
    return run.gradient_steps * registry.get(run.scenario).scenario.seconds_per_step(run.model.cell.name)


def estimated_planning_seconds(scenario: str, profile: Profile) -> float:
    """About how long a run's models are planned with on one core."""
    episodes = (SNAPSHOTS - 1) * profile.course_episodes + profile.episodes
    return episodes * registry.get(scenario).scenario.episode_seconds
