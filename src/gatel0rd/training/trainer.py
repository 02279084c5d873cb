"""Training of world models: Adam, clipping, scheduled sampling, evaluation (Suppl. B.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gatel0rd.config import content_hash
from gatel0rd.engine import EngineName
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.io import save_model
from gatel0rd.models.world_model import WorldModel
from gatel0rd.nn.functional import sampling_probability
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.evaluation import evaluate
from gatel0rd.training.loop import Metrics, OnMetrics, TrainingLoop, derive_seed, ignore_metrics
from gatel0rd.training.steps import SequenceBatch, make_stepper, train_on_batches

Measure = Callable[[WorldModel, Dataset], dict[str, float]]


class Trainer(TrainingLoop):
    """Trains one world model in one directory, and resumes where a killed predecessor stopped.

    The directory holds ``metrics.jsonl`` (a line per epoch), ``checkpoint.safetensors``, and in ``snapshots/`` the
    model as it was at some evaluations, if asked for.

    Args:
        model_config: the model to train.
        config: how to train it.
        train: training data.
        evaluations: data sets on which the free-running error is measured every ``evaluate_every`` epochs.
        seed: determines the weights and everything that is drawn while training.
        directory: where metrics and checkpoints are written.
        measure: further numbers to measure with the error.
        snapshots: how many models to keep from the course of training, evenly spaced over the evaluations.
        checkpoint_seconds: time between checkpoints; one is also written at the end.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.

    Example:
        >>> from pathlib import Path
        >>> from gatel0rd import TrainConfig, WorldModelConfig
        >>> from gatel0rd.training import DataRecipe, Trainer
        >>> from gatel0rd.worlds.data import generate
        >>> data = generate(DataRecipe(scenario="rrc", policy="time", split="train", sequences=16, steps=10))
        >>> model = WorldModelConfig(observation_size=4, action_size=2)
        >>> trainer = Trainer(model, TrainConfig(epochs=2), data, {"train": data}, seed=0, directory=Path("run"))
        >>> trained = trainer.run()
        >>> [line["epoch"] for line in trainer.history]
        [0, 1, 2]
    """

    unit = "epoch"
    differs_in = "model, configuration, seed or data"
    assesses_start = True

    def __init__(
        self,
        model_config: WorldModelConfig,
        config: TrainConfig,
        train: Dataset,
        evaluations: Mapping[str, Dataset],
        *,
        seed: int,
        directory: Path,
        measure: Measure | None = None,
        snapshots: int = 0,
        checkpoint_seconds: float = 30.0,
        engine: EngineName = "auto",
    ) -> None:
        self.config, self.seed = config, seed
        self.model = WorldModel(model_config, engine=engine)
        self.model.reset_parameters(torch.Generator().manual_seed(derive_seed(seed, -1)))
        self.observations, self.actions = time_first(train, model_config)
        self.stepper = make_stepper(self.model, config, self.observations, self.actions, seed=seed, engine=engine)
        self.strata = torch.from_numpy(train.strata)
        self.evaluations = {name: (data, *time_first(data, model_config)) for name, data in evaluations.items()}
        self.measure = measure
        evaluated = {*range(0, config.epochs, config.evaluate_every), config.epochs}
        self.snapshot_epochs = set(evenly_spaced(sorted(evaluated), snapshots))
        recipes = [content_hash(data.recipe) for data in (train, *evaluations.values())]
        identity = " ".join([content_hash(model_config), content_hash(config), str(seed), *recipes])
        self.open_directory(
            directory, self.model, self.stepper, identity=identity, checkpoint_seconds=checkpoint_seconds
        )

    @property
    def epoch(self) -> int:
        """Epochs so far."""
        return self.completed

    @property
    def finished(self) -> bool:
        return self.epoch >= self.config.epochs

    def run(self, on_epoch: OnMetrics = ignore_metrics) -> WorldModel:
        """Train until the last epoch; ``on_epoch`` sees the metrics of each."""

        def keep_snapshot(metrics: Metrics) -> None:
            if self.epoch in self.snapshot_epochs:
                save_model(self.directory / "snapshots" / f"{self.epoch:06d}.safetensors", self.model)
            on_epoch(metrics)

        self.run_loop(keep_snapshot)
        return self.model.eval()

    def train_unit(self) -> Metrics:
        config = self.config
        self.model.train()
        generator = torch.Generator().manual_seed(derive_seed(self.seed, self.epoch))
        probability = 1.0
        if not config.teacher_forcing:
            probability = sampling_probability(self.epoch, decay=config.sampling_decay, minimum=config.sampling_minimum)
        batches = stratified_order(self.strata, generator).split(config.batch_size)
        terms = train_on_batches(
            self.stepper,
            map(SequenceBatch, batches),
            probability=probability,
            first_counter=self.epoch * len(batches),
            generator=generator,
            place=f"epoch {self.epoch + 1}",
            learning_rate=config.learning_rate,
        )
        self.model.eval()
        return {**terms, "sampling_probability": probability}

    def assess(self, metrics: Metrics) -> None:
        if self.epoch % self.config.evaluate_every == 0 or self.finished:
            metrics["evaluation"] = self._evaluate()

    def _evaluate(self) -> dict[str, dict[str, float]]:
        self.model.eval()
        found = {}
        for name, (data, observations, actions) in self.evaluations.items():
            found[name] = evaluate(self.model, observations, actions)
            if self.measure is not None:
                found[name] |= self.measure(self.model, data)
        return found


def time_first(data: Dataset, model: WorldModelConfig) -> tuple[Tensor, Tensor]:
    """Observations and actions as tensors with time first; data that does not fit the model is an error.

    Example:
        >>> from gatel0rd import WorldModelConfig
        >>> from gatel0rd.training import DataRecipe, time_first
        >>> from gatel0rd.worlds.data import generate
        >>> data = generate(DataRecipe(scenario="rrc", policy="time", split="train", sequences=16, steps=10))
        >>> observations, actions = time_first(data, WorldModelConfig(observation_size=4, action_size=2))
        >>> observations.shape, actions.shape
        (torch.Size([10, 16, 4]), torch.Size([10, 16, 2]))
    """
    for name, array, expected in (
        ("observations", data.observations, model.observation_size),
        ("actions", data.actions, model.action_size),
    ):
        if array.shape[-1] != expected:
            raise ValueError(f"{name} of {data.recipe.name} have {array.shape[-1]} columns; the model has {expected}")
    observations, actions = (torch.from_numpy(array) for array in (data.observations, data.actions))
    return observations.transpose(0, 1).contiguous(), actions.transpose(0, 1).contiguous()


def stratified_order(strata: Tensor, generator: torch.Generator) -> Tensor:
    """A random order in which every stretch holds its share of each stratum. Shape: [N] -> [N].

    Example:
        >>> import torch
        >>> from gatel0rd.training import stratified_order
        >>> strata = torch.tensor([0, 0, 0, 1, 1, 1])
        >>> order = stratified_order(strata, torch.Generator().manual_seed(0))
        >>> [sorted(strata[pair].tolist()) for pair in order.split(2)]
        [[0, 1], [0, 1], [0, 1]]
    """
    shuffled = torch.randperm(len(strata), generator=generator)
    position = torch.empty(len(strata), dtype=torch.float64)
    for stratum in strata.unique():
        members = shuffled[strata[shuffled] == stratum]
        position[members] = torch.arange(len(members), dtype=torch.float64) / len(members)
    return position.argsort(stable=True)


def evenly_spaced(choices: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of the choices with about equal distances, the last one among them."""
    if count < 1:
        return []
    places = np.linspace(0, len(choices) - 1, min(count + 1, len(choices))).round().astype(int)
    return [choices[place] for place in places[1:]]
