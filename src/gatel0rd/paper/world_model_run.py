"""Runs that train world models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatel0rd.files import read_json
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.paper.profiles import Profile, compressed_decay
from gatel0rd.paper.run import Metrics, OnMetrics, OnStep, Outcome, Reading, Run
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.recipe import DataRecipe, Preset
from gatel0rd.worlds import World, registry
from gatel0rd.worlds.experiments import Experiment, Variant

if TYPE_CHECKING:
    from gatel0rd.training.dataset import Dataset
    from gatel0rd.training.vector_env import BackendName

SNAPSHOTS = 10
"""Models that are kept from the course of training, where they can be planned with."""


@dataclass(frozen=True, kw_only=True)
class WorldModelRun(Run):
    """A world model, how it is trained, and the data for that and for its evaluation."""

    kind = "world model"
    unit = "epochs"
    preset: Preset
    train_data: DataRecipe
    evaluation_data: tuple[DataRecipe, ...]
    evaluation_names: tuple[str, ...]
    validation_data: tuple[DataRecipe, ...]
    validation_names: tuple[str, ...]
    model: WorldModelConfig
    train: TrainConfig
    paper_epochs: int
    paper_sequences: int

    @property
    def network(self) -> str:
        return self.model.cell.name

    @property
    def title(self) -> str:
        cell = self.model.cell
        layers = max(cell.num_layers, cell.net_layers)
        words = [self.scenario, cell.name]
        words += [f"{layers} layers"] if layers > 1 else []
        words += [f"λ {self.train.sparsity_weight:g}"] if cell.name == "gatel0rd" else []
        words += [f"{cell.gate} gate"] if cell.gate != "retanh" else []
        words += [f"noise {cell.noise_std:g}"] if cell.noise_std != 0.1 else []
        words += [] if cell.output_gate else ["no output gate"]
        words += [f"{self.train.penalty} penalty"] if self.train.penalty != "l0" else []
        words += ["teacher-forced"] if self.train.teacher_forcing else []
        words += [] if self.model.init_layers else ["h = 0"]
        words += [f"rate {self.train.learning_rate:g}"]
        return " ".join([*words, f"seed {self.seed}"])

    @property
    def network_title(self) -> str:
        sparsity = f" (lambda {self.train.sparsity_weight:g})" if self.network == "gatel0rd" else ""
        return super().network_title + sparsity

    @property
    def length(self) -> int:
        return self.train.epochs

    @property
    def gradient_steps(self) -> int:
        return self.train.epochs * -(-self.train_data.sequences // self.train.batch_size)

    @property
    def share(self) -> float:
        return self.gradient_steps / (self.paper_epochs * -(-self.paper_sequences // self.train.batch_size))

    @property
    def recipes(self) -> tuple[DataRecipe, ...]:
        return (self.train_data, *self.evaluation_data, *self.validation_data)

    @property
    def world(self) -> World:
        """The world that is modelled."""
        return registry.get(self.scenario)

    def estimate_seconds(self) -> float:
        return self.gradient_steps * self.world.scenario.seconds_per_step(self.model.cell.name)

    def estimate_planning_seconds(self, profile: Profile) -> float:
        return planned_episodes(profile) * self.world.scenario.episode_seconds

    def is_planned(self, out: Path, profile: Profile) -> bool:
        if not self.is_finished(out):
            return False
        directory = out / self.directory_name
        outcome = read_json(directory / "record.json").get("planning", {"epochs": [], "episodes": []})
        planned = dict(zip(outcome["epochs"], outcome["episodes"], strict=True))
        course = set(find_snapshots(directory)) - {self.length}
        return planned.get(self.length, 0) >= profile.episodes and all(
            planned.get(epoch, 0) >= profile.course_episodes for epoch in course
        )

    def train_network(self, directory: Path, *, data: Path, backend: BackendName, on_metrics: OnMetrics) -> Outcome:
        from gatel0rd.models import save_model
        from gatel0rd.paper.measures import measure
        from gatel0rd.paper.schema import describe_run
        from gatel0rd.training import Trainer, evaluate, time_first
        from gatel0rd.worlds.data import obtain

        evaluations = self.obtain_evaluations(data)
        trainer = Trainer(
            self.model,
            self.train,
            obtain(self.train_data, data),
            evaluations,
            seed=self.seed,
            directory=directory,
            measure=self.world.measure_in_training,
            snapshots=SNAPSHOTS if self.world.scenario.episode_seconds else 0,
        )
        model = trainer.run(on_metrics)
        save_model(directory / "model.safetensors", model, describe_run(self))
        final = dict(trainer.history[-1]["evaluation"])
        for name, recipe in zip(self.validation_names, self.validation_data, strict=True):
            final[name] = evaluate(model, *time_first(obtain(recipe, data), self.model))
        return Outcome(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            seconds=trainer.seconds,
            curves=curves_of(trainer.history),
            final=final,
            measures=measure(self.scenario, model, evaluations),
        )

    def obtain_evaluations(self, data: Path) -> dict[str, Dataset]:
        """The data sets that are measured during training, by name; made first where they are missing."""
        from gatel0rd.worlds.data import obtain

        named = zip(self.evaluation_names, self.evaluation_data, strict=True)
        return {name: obtain(recipe, data) for name, recipe in named}

    def plan_episodes(self, directory: Path, profile: Profile, on_step: OnStep) -> None:
        from gatel0rd.paper.planning import plan_over_training

        plan_over_training(
            directory, episodes=profile.episodes, course_episodes=profile.course_episodes, on_step=on_step
        )

    def follow(self) -> WorldModelFollower:
        return WorldModelFollower()


def find_snapshots(directory: Path) -> dict[int, Path]:
    """The models from the course of a run's training, by their epochs; other files are left alone."""
    paths = sorted(directory.glob("snapshots/*.safetensors"))
    return {int(path.stem): path for path in paths if re.fullmatch("[0-9]+", path.stem)}


class WorldModelFollower:
    """Loss, the last error that was measured, and open gates."""

    def __init__(self) -> None:
        self.error: float | None = None

    def read(self, metrics: Metrics) -> Reading:
        parts = [f"loss {metrics['loss']:.2e}"]
        evaluated = "evaluation" in metrics
        if evaluated:
            self.error = metrics["evaluation"]["test"]["error"]
        if self.error is not None:
            parts.append(f"error {self.error:.2e}")
        if "open_rate" in metrics:
            parts.append(f"gates {metrics['open_rate']:.1%}")
        if "skipped" in metrics:
            parts.append(f"{metrics['skipped']:.1%} of the updates skipped, as gradients were not finite")
        line = f"epoch {metrics['epoch']}, {', '.join(parts)}" if evaluated else None
        return Reading(metrics["epoch"], "  ".join(parts), line)


def planned_episodes(profile: Profile) -> int:
    """How many episodes are planned with all models of a run."""
    return (SNAPSHOTS - 1) * profile.course_episodes + profile.episodes


def plan_world_model(
    experiment: Experiment,
    variant: Variant,
    *,
    seed: int,
    profile: Profile,
    preset: Preset = "text",
    length: int | None = None,
) -> WorldModelRun:
    """The run that trains one variant of an experiment with one seed; ``length`` replaces the profile's epochs."""
    scenario = experiment.scenario
    reference = preset == "reference"
    paper_epochs = (reference and variant.reference_epochs) or variant.paper_epochs
    if length is not None and length < 1:
        raise ValueError(f"epochs is {length}; expected at least 1")
    epochs = profile.scale_epochs(paper_epochs, scenario) if length is None else length

    def recipe(policy: str, split: str) -> DataRecipe:
        sequences = profile.limit_sequences(split, scenario)
        return scenario.recipe(policy, split, preset=preset, sequences=sequences)

    evaluations = scenario.evaluations[experiment.policy]
    validations = scenario.validations.get(experiment.policy, {})
    init_layers = scenario.model.init_layers if variant.initialized else 0
    return WorldModelRun(
        scenario=scenario.name,
        preset=preset,
        profile=profile.name,
        length_override=length,
        train_data=recipe(experiment.policy, "train"),
        evaluation_data=tuple(recipe(*source) for source in evaluations.values()),
        evaluation_names=tuple(evaluations),
        validation_data=tuple(recipe(*source) for source in validations.values()),
        validation_names=tuple(validations),
        model=replace(scenario.model, cell=variant.cell, init_layers=init_layers),
        train=TrainConfig(
            epochs=epochs,
            learning_rate=(reference and variant.reference_rate) or variant.learning_rate,
            sparsity_weight=variant.sparsity_weight,
            penalty="squared_mean" if reference and variant.penalty == "l2" else variant.penalty,
            sampling_decay=compressed_decay(0.998, epochs, paper_epochs),
            sampling_minimum=scenario.sampling_minimum,
            teacher_forcing=variant.teacher_forcing,
            evaluate_every=profile.evaluate_every(epochs),
        ),
        paper_epochs=paper_epochs,
        paper_sequences=scenario.splits["train"],
        seed=seed,
    )


def curves_of(history: Sequence[Metrics]) -> dict[str, list[Any]]:
    """The metrics at evaluations, as columns; training losses are means over the epochs since the last one."""
    columns: dict[str, list[Any]] = {"epoch": []}
    since: list[Metrics] = []
    for metrics in history:
        since.append(metrics)
        if "evaluation" not in metrics:
            continue
        row: dict[str, Any] = {"epoch": metrics["epoch"]}
        for name in ("loss", "task_loss", "penalty", "open_rate", "sampling_probability"):
            values = [entry[name] for entry in since if name in entry]
            row[f"train.{name}"] = sum(values) / len(values) if values else None
        trained = [entry for entry in since if "loss" in entry]
        row["train.skipped"] = sum(e.get("skipped", 0.0) for e in trained) / len(trained) if trained else None
        for dataset, measures in metrics["evaluation"].items():
            row.update({f"{dataset}.{name}": value for name, value in measures.items()})
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        since = []
    if not any(columns.get("train.skipped", [])):
        columns.pop("train.skipped", None)
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}
