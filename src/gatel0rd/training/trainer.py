"""Training of world models: Adam, clipping, scheduled sampling, evaluation, checkpoints (Suppl. B.1).

All randomness of an epoch is drawn from a generator that is seeded with (seed, epoch), so that a checkpoint needs
no generator state and a resumed run ends bit-identical to one that was never interrupted.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from gatel0rd.training.resumable import Metrics, Resumable, TrainingError
from gatel0rd.training.steps import make_stepper

Measure = Callable[[WorldModel, Dataset], dict[str, float]]


class Trainer(Resumable):
    """Trains one world model in one directory, and goes on where a killed predecessor stopped.

    The directory holds ``metrics.jsonl`` (a line per epoch), ``checkpoint.safetensors``, and in ``snapshots/`` the
    model as it was at some evaluations, if asked for.

    Args:
        model_config, config: what to train, and how.
        train: training data.
        evaluations: data sets on which the free-running error is measured every ``evaluate_every`` epochs.
        seed: of the weights and of everything drawn while training.
        directory: where metrics and checkpoints go.
        measure: further numbers to measure with the error.
        snapshots: how many models to keep from the course of training, evenly spaced over the evaluations.
        checkpoint_seconds: time between checkpoints; one is also written at the end.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.
    """

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
        self.config, self.seed, self.directory = config, seed, directory
        self.checkpoint_seconds = checkpoint_seconds
        self.model = WorldModel(model_config, engine=engine)
        self.model.reset_parameters(torch.Generator().manual_seed(mix(seed, -1)))
        self.observations, self.actions = time_first(train, model_config)
        self.stepper = make_stepper(self.model, config, self.observations, self.actions, seed=seed, engine=engine)
        self.strata = torch.from_numpy(train.strata)
        self.evaluations = {name: (data, *time_first(data, model_config)) for name, data in evaluations.items()}
        self.measure = measure
        evaluated = {*range(0, config.epochs, config.evaluate_every), config.epochs}
        self.snapshot_epochs = set(evenly_spaced(sorted(evaluated), snapshots))
        self.epoch = 0
        self.seconds = 0.0
        self.history: list[Metrics] = []
        recipes = [content_hash(data.recipe) for data in (train, *evaluations.values())]
        self.identity = " ".join([content_hash(model_config), content_hash(config), str(seed), *recipes])
        self.belongs_to = "model, configuration, seed or data"
        if self.prepare_directory():
            self._restore()

    def run(self, on_epoch: Callable[[Metrics], None] = lambda metrics: None) -> WorldModel:
        """Train until the last epoch; ``on_epoch`` sees the metrics of each."""
        saved = time.monotonic()
        self._started = saved - self.seconds
        with self.metrics_path.open("a") as file:
            if not self.history:
                self._record(file, {"epoch": 0, "evaluation": self._evaluate()})
            while self.epoch < self.config.epochs:
                metrics = self._train_epoch()
                self.epoch += 1
                metrics["epoch"] = self.epoch
                if self.epoch % self.config.evaluate_every == 0 or self.epoch == self.config.epochs:
                    metrics["evaluation"] = self._evaluate()
                self._record(file, metrics)
                if self.epoch in self.snapshot_epochs:
                    save_model(self.directory / "snapshots" / f"{self.epoch:06d}.safetensors", self.model)
                on_epoch(metrics)
                if time.monotonic() - saved > self.checkpoint_seconds or self.epoch == self.config.epochs:
                    os.fsync(file.fileno())
                    self.save_checkpoint()
                    saved = time.monotonic()
        return self.model.eval()

    def save_checkpoint(self) -> None:
        """Write weights, optimizer and epoch to one file, atomically."""
        progress = {"epoch": self.epoch, "step": self.stepper.updates}
        self.write_checkpoint(self.model, self.stepper.moments(), progress)

    def _train_epoch(self) -> Metrics:
        config = self.config
        self.model.train()
        generator = torch.Generator().manual_seed(mix(self.seed, self.epoch))
        probability = 1.0
        if not config.teacher_forcing:
            probability = sampling_probability(self.epoch, decay=config.sampling_decay, minimum=config.sampling_minimum)
        sums: dict[str, float] = {}
        batches = stratified_order(self.strata, generator).split(config.batch_size)
        for number, index in enumerate(batches):
            counter = self.epoch * len(batches) + number
            terms = self.stepper.step(index, probability=probability, counter=counter, generator=generator)
            if not math.isfinite(terms["loss"]):
                raise TrainingError(
                    f"the loss became {terms['loss']} in epoch {self.epoch + 1}; lower the learning rate "
                    f"(now {config.learning_rate}) or check the data for extreme values"
                )
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + term
        self.model.eval()
        return {**{name: value / len(batches) for name, value in sums.items()}, "sampling_probability": probability}

    def _evaluate(self) -> dict[str, dict[str, float]]:
        self.model.eval()
        found = {}
        for name, (data, observations, actions) in self.evaluations.items():
            found[name] = evaluate(self.model, observations, actions)
            if self.measure is not None:
                found[name] |= self.measure(self.model, data)
        return found

    def _record(self, file: Any, metrics: Metrics) -> None:
        self.seconds = time.monotonic() - self._started  # earlier attempts included
        metrics["seconds"] = round(self.seconds, 2)
        self.history.append(metrics)
        file.write(json.dumps(metrics) + "\n")
        file.flush()

    def _restore(self) -> None:
        progress, moments = self.read_checkpoint(self.model)
        self.stepper.restore(moments, progress["step"])
        self.epoch = progress["epoch"]
        self.history = self.read_history(self.epoch + 1)
        self.seconds = self.history[-1]["seconds"]


def time_first(data: Dataset, model: WorldModelConfig) -> tuple[Tensor, Tensor]:
    """Observations and actions as tensors with time first; data that does not fit the model is an error."""
    for name, array, expected in (
        ("observations", data.observations, model.observation_size),
        ("actions", data.actions, model.action_size),
    ):
        if array.shape[-1] != expected:
            raise ValueError(f"{name} of {data.recipe.name} have {array.shape[-1]} columns; the model has {expected}")
    observations, actions = (torch.from_numpy(array) for array in (data.observations, data.actions))
    return observations.transpose(0, 1).contiguous(), actions.transpose(0, 1).contiguous()


def stratified_order(strata: Tensor, generator: torch.Generator) -> Tensor:
    """A random order in which every stretch holds its share of each stratum. Shape: [N] -> [N]."""
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


def mix(seed: int, epoch: int) -> int:
    """One number out of a seed and a place in time, so that neighbours share nothing."""
    return int(np.random.SeedSequence([seed, epoch + 1]).generate_state(1, np.uint64)[0] >> np.uint64(1))
