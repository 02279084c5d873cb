"""Runs that train networks to remember, and ask them much later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatel0rd.models.config import SequenceModelConfig
from gatel0rd.paper.profiles import Profile
from gatel0rd.paper.run import Metrics, OnMetrics, Outcome, Reading, Run
from gatel0rd.training.config import EPOCH_UPDATES, SequenceTrainConfig
from gatel0rd.training.presets import AgentPreset
from gatel0rd.worlds.memory.experiments import MemoryExperiment, MemoryVariant
from gatel0rd.worlds.memory.sizes import SIZES, TaskName

if TYPE_CHECKING:
    from gatel0rd.training.vector_env import BackendName

UPDATE_SECONDS, STEP_SECONDS = 0.003, 3e-7
"""About how long an update takes on one core, and a step of one sequence that is only evaluated."""
SHORT_LENGTH = 1000
"""The longest sequences of the profile ``smoke``."""


@dataclass(frozen=True, kw_only=True)
class MemoryRun(Run):
    """A network, what it remembers, and after how many steps it is asked, in how many sequences each."""

    kind = "memory"
    unit = "epochs"
    task: TaskName
    model: SequenceModelConfig
    train: SequenceTrainConfig
    lengths: tuple[int, ...]
    sequences: tuple[int, ...]

    @property
    def network(self) -> str:
        return self.model.cell.name

    @property
    def title(self) -> str:
        words = [self.scenario, self.task, self.network]
        words += ["chrono"] if self.model.chrono_steps is not None else []
        words += [f"λ {self.train.sparsity_weight:g}"] if self.network == "gatel0rd" else []
        return " ".join([*words, f"seed {self.seed}"])

    @property
    def length(self) -> int:
        return self.train.epochs

    def estimate_seconds(self) -> float:
        asked = sum(steps * count for steps, count in zip(self.lengths, self.sequences, strict=True))
        return self.length * EPOCH_UPDATES * UPDATE_SECONDS + asked * STEP_SECONDS

    def train_network(self, directory: Path, *, data: Path, backend: BackendName, on_metrics: OnMetrics) -> Outcome:
        from gatel0rd.models.io import MODEL_FILE, save_sequence_model
        from gatel0rd.paper.schema import describe_run
        from gatel0rd.training.loop import derive_seed
        from gatel0rd.training.sequences import SequenceTrainer, measure_memory
        from gatel0rd.worlds.memory.tasks import TASKS

        task = TASKS[self.task]
        trainer = SequenceTrainer(task, self.model, self.train, seed=self.seed, directory=directory)
        model = trainer.run(on_metrics)
        save_sequence_model(directory / MODEL_FILE, model, describe_run(self))
        final = {
            str(steps): measure_memory(model, task, steps=steps, sequences=count, seed=derive_seed(self.seed, steps))
            for steps, count in zip((self.train.steps, *self.lengths), (1000, *self.sequences), strict=True)
        }
        names = [name for name in ("loss", "open_rate") if name in trainer.history[-1]]
        curves: dict[str, list[Any]] = {"epoch": [entry["epoch"] for entry in trainer.history]}
        curves |= {f"train.{name}": [entry[name] for entry in trainer.history] for name in names}
        return Outcome(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            seconds=trainer.seconds,
            curves=curves,
            final=final,
        )

    def follow(self) -> MemoryFollower:
        return MemoryFollower()


class MemoryFollower:
    """Loss and open gates."""

    def read(self, metrics: Metrics) -> Reading:
        parts = [f"loss {metrics['loss']:.2e}"]
        parts += [f"gates {metrics['open_rate']:.1%}"] if "open_rate" in metrics else []
        return Reading(metrics["epoch"], "  ".join(parts), f"epoch {metrics['epoch']}, {', '.join(parts)}")


def plan_memory(
    experiment: MemoryExperiment,
    variant: MemoryVariant,
    *,
    seed: int,
    profile: Profile,
    preset: AgentPreset = "text",
    length: int | None = None,
) -> MemoryRun:
    """The run of one variant with one seed; ``length`` replaces the epochs.

    Runs take less than a minute, so that all profiles but ``smoke`` are the whole experiment.
    """
    if length is not None and length < 1:
        raise ValueError(f"epochs is {length}; expected at least 1")
    smoke = profile.name == "smoke"
    epochs = min(experiment.epochs, profile.most_epochs or experiment.epochs)
    lengths = {steps: count for steps, count in experiment.lengths.items() if not smoke or steps <= SHORT_LENGTH}
    sizes = SIZES[variant.task]
    return MemoryRun(
        scenario=experiment.scenario.name,
        preset=preset,
        profile=profile.name,
        length_override=length,
        task=variant.task,
        model=SequenceModelConfig(
            input_size=sizes.input_size,
            output_size=sizes.output_size,
            cell=variant.cell,
            chrono_steps=experiment.steps if variant.chrono else None,
        ),
        train=SequenceTrainConfig(
            epochs=epochs if length is None else length,
            steps=experiment.steps,
            learning_rate=variant.learning_rate,
            sparsity_weight=variant.sparsity_weight,
        ),
        lengths=tuple(lengths),
        sequences=tuple(lengths.values()),
        seed=seed,
    )
