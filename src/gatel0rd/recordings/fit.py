"""Fit a world model to recordings of any lengths, and hold the share of open gates at a target.

Training takes windows of the recordings, at offsets that are drawn anew in every round; recordings shorter than a
window are taken whole. A batch holds windows of one length, so nothing is ever padded. All randomness of a round
follows from (seed, round): an interrupted fit goes on and ends the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.config import content_hash, to_json
from gatel0rd.engine import EngineName
from gatel0rd.files import load_arrays, save_arrays
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.fitted import FittedModel, Scaling
from gatel0rd.models.io import load_weights, model_arrays
from gatel0rd.models.world_model import WorldModel
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.functional import sampling_probability
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.gate_control import TOLERANCE, GateActivity, GateTarget, measure_gates
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.windows import batches, split, window_view, windows
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.resumable import Metrics, Resumable, TrainingError
from gatel0rd.training.steps import make_stepper
from gatel0rd.training.trainer import mix

SETTLED_SHARE = 0.6
"""Share of the rounds after which scheduled sampling has reached its minimum."""
CHECKPOINT_SECONDS = 2.0


class Fitter(Resumable):
    """Fits one model in one directory, and goes on where a killed predecessor stopped.

    Args:
        recordings: all of them; a part is kept for validation.
        config: how.
        directory: where metrics, checkpoints and the best model so far go.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.
    """

    def __init__(
        self, recordings: Recordings, config: FitConfig, directory: Path, *, engine: EngineName = "auto"
    ) -> None:
        self.config, self.directory = config, directory
        self.train_part, self.validation_part = split(recordings, config.validation, config.seed)
        self.scaling = (Scaling.of(self.train_part.observations), Scaling.of(self.train_part.actions))
        self.train_tensors = self._scaled(self.train_part)
        self.validation_tensors = self._scaled(self.validation_part)
        self.model = WorldModel(model_config(self.train_part, config, self.train_tensors[0]), engine=engine)
        self.model.reset_parameters(torch.Generator().manual_seed(mix(config.seed, -1)))
        self.longest = min(config.window, int(self.train_part.lengths.max()) - 1)
        self.mean_steps = float((self.train_part.lengths - 1).mean())
        self.target = GateTarget.of(config, self.mean_steps) if self.model.core.noise_size else None
        self.stepper = make_stepper(
            self.model,
            TrainConfig(
                epochs=config.rounds, learning_rate=config.learning_rate, sparsity_weight=config.sparsity_weight
            ),
            *(window_view(tensor, self.longest) for tensor in self.train_tensors),
            seed=config.seed,
            engine=engine,
            in_place=True,
        )
        self.round, self.seconds = 0, 0.0
        self.history: list[Metrics] = []
        self.best: tuple[int, float, int] | None = None  # how far from what is wanted, by how much, in which round
        self.best_arrays: dict[str, NDArray[Any]] = {}
        self.identity = " ".join([content_hash(config), content_hash(self.model.config), fingerprint(recordings)])
        self.belongs_to = "data or settings"
        if self.prepare_directory():
            self._restore()

    def _scaled(self, part: Recordings) -> tuple[Tensor, Tensor]:
        return (
            torch.from_numpy(self.scaling[0].there(part.observations)),
            torch.from_numpy(self.scaling[1].there(part.actions)),
        )

    @property
    def settled(self) -> bool:
        """Whether real inputs have given way to predictions as far as they will."""
        return self.round >= SETTLED_SHARE * self.config.rounds

    @property
    def done(self) -> bool:
        """Whether all rounds are over, or nothing has improved for a while."""
        if self.round >= self.config.rounds:
            return True
        return self.best is not None and self.best[0] == 0 and self.round - self.best[2] >= self.config.patience

    def run(self, on_round: Callable[[Metrics], None] = lambda metrics: None) -> FittedModel:
        """Train until nothing improves any more; returns the best model, which is also in the directory."""
        saved = time.monotonic()
        began = saved - self.seconds
        with self.metrics_path.open("a") as file:
            while not self.done:
                metrics = self._train_round()
                self.round += 1
                metrics |= {"round": self.round, "seconds": round(time.monotonic() - began, 2)}
                self.seconds = metrics["seconds"]
                self._keep_best(metrics)
                self.history.append(metrics)
                file.write(json.dumps(metrics) + "\n")
                file.flush()
                on_round(metrics)
                if time.monotonic() - saved > CHECKPOINT_SECONDS or self.done:
                    self._save()
                    saved = time.monotonic()
        load_weights(self.model, self.best_arrays, self.directory)
        fitted = self.fitted()
        fitted.save(self.directory)
        return fitted

    def fitted(self) -> FittedModel:
        """The model as it is now, with what is known about its fit."""
        assert self.best is not None
        chosen = self.history[self.best[2] - 1]
        persistence = self._errors(persistence=True)
        names = ("error", "open_rate", "events", "sparsity_weight", "round")
        return FittedModel(
            model=self.model.eval(),
            observation_names=self.train_part.observation_names,
            action_names=self.train_part.action_names,
            observation_scaling=self.scaling[0],
            action_scaling=self.scaling[1],
            info={
                "config": to_json(self.config),
                "layout": to_json(self.train_part.layout),
                "training_sequences": len(self.train_part),
                "validation_sequences": len(self.validation_part),
                "rounds": self.round,
                "seconds": self.seconds,
                "persistence_error": persistence,
                "held": self.best[0] == 0,
                **{name: chosen[name] for name in names if name in chosen},
            },
        )

    def _train_round(self) -> Metrics:
        config = self.config
        self.model.train()
        generator = torch.Generator().manual_seed(mix(config.seed, self.round))
        decay = config.sampling_minimum ** (1 / max(1.0, SETTLED_SHARE * config.rounds))
        probability = sampling_probability(self.round, decay=decay, minimum=config.sampling_minimum)
        sums: dict[str, float] = {}
        for number, batch in enumerate(batches(self.train_part, config, self.round)):
            terms = self.stepper.step(
                torch.from_numpy(batch.starts),
                probability=probability,
                counter=self.round * config.round_updates + number,
                generator=generator,
                steps=batch.steps,
            )
            if not math.isfinite(terms["loss"]):
                raise TrainingError(
                    f"the loss became {terms['loss']} in round {self.round + 1}; lower the learning rate (now "
                    f"{config.learning_rate:g}) or look for extreme values in the data"
                )
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + term
        self.model.eval()
        metrics: Metrics = {"loss": sums["loss"] / config.round_updates, "error": self._errors()}
        if self.model.core.noise_size:
            activity = self._measure_gates()
            metrics |= asdict(activity)
            metrics["sparsity_weight"] = self.stepper.sparsity_weight
            if self.target is not None:
                metrics["distance"] = self.target.distance(activity)
                self.stepper.sparsity_weight = self.target.adjust(self.stepper.sparsity_weight, activity)
        return metrics

    @torch.no_grad()
    def _errors(self, *, persistence: bool = False) -> float:
        """Mean squared error of free-running prediction on the validation part, in units of the training variance."""
        total, count = 0.0, 0
        observations, actions = self.validation_tensors
        for group in windows(self.validation_part, self.longest):
            rows = torch.from_numpy(group.starts)[None] + torch.arange(group.steps + 1)[:, None]  # [T + 1, B]
            seen, given = observations[rows], actions[rows]
            if group.steps < self.model.config.init_steps:
                continue
            if persistence:
                predictions = seen[:1].expand_as(seen[1:])
            else:
                predictions = self.model.free_run(seen[:-1], given[:-1]).predictions
            total += float((predictions - seen[1:]).double().square().sum())
            count += predictions.numel()
        return total / count

    def _measure_gates(self) -> GateActivity:
        groups = windows(self.train_part, self.longest)
        return measure_gates(self.model, *self.train_tensors, groups, self.mean_steps)

    def _keep_best(self, metrics: Metrics) -> None:
        """The lowest error counts among settled rounds in which gates are as active as they should be.

        Without any the settled round counts in which they came closest, and before that the lowest error.
        """
        distance = metrics.get("distance", 0.0)
        if not self.settled:
            candidate = (2, metrics["error"], self.round)
        elif distance > TOLERANCE:
            candidate = (1, distance, self.round)
        else:
            candidate = (0, metrics["error"], self.round)
        if self.best is None or candidate[:2] < self.best[:2]:
            self.best = candidate
            self.best_arrays = {name: array.copy() for name, array in model_arrays(self.model).items()}
        metrics["best"] = self.best[2]

    def _save(self) -> None:
        assert self.best is not None
        save_arrays(
            self.directory / "best.safetensors", self.best_arrays, kind="checkpoint", metadata={"best": self.best}
        )
        progress: Any = {
            "round": self.round,
            "step": self.stepper.updates,
            "sparsity_weight": self.stepper.sparsity_weight,
        }
        self.write_checkpoint(self.model, self.stepper.moments(), progress)

    def _restore(self) -> None:
        progress, moments = self.read_checkpoint(self.model)
        self.stepper.restore(moments, progress["step"])
        self.round, self.stepper.sparsity_weight = progress["round"], progress["sparsity_weight"]
        self.history = self.read_history(self.round)
        self.seconds = self.history[-1]["seconds"] if self.history else 0.0
        self.best_arrays, metadata = load_arrays(self.directory / "best.safetensors", kind="checkpoint")
        rank, value, number = metadata["best"]
        self.best = (int(rank), float(value), int(number))


def model_config(train: Recordings, config: FitConfig, observations: Tensor) -> WorldModelConfig:
    """Sizes from the data and the settings; predictions are changes, in units of what usually changes in a step."""
    own = config.cell == "gatel0rd"
    inside = np.ones(len(observations), dtype=bool)
    inside[train.starts] = False  # from one sequence to the next is no change
    change = float((observations[1:] - observations[:-1])[inside[1:]].square().mean().sqrt())
    return WorldModelConfig(
        observation_size=len(train.observation_names),
        action_size=len(train.action_names),
        cell=CellConfig(
            name=config.cell,
            hidden_size=config.hidden_size,
            net_layers=config.layers if own else 1,
            num_layers=1 if own else config.layers,
        ),
        feature_size=config.features,
        pre_layers=2,
        init_layers=2,
        init_steps=2 if train.lengths.min() > 3 else 1,
        residual_scale=float(f"{min(1.0, max(0.05, change)):.2g}"),
    )


def fingerprint(recordings: Recordings) -> str:
    """What tells data sets apart."""
    names = [*recordings.observation_names, *recordings.action_names, *recordings.names]
    digest = hashlib.sha256(json.dumps([names, recordings.lengths.tolist()]).encode())
    digest.update(np.ascontiguousarray(recordings.observations).tobytes())
    digest.update(np.ascontiguousarray(recordings.actions).tobytes())
    return digest.hexdigest()[:10]


def fit(
    recordings: Recordings,
    config: FitConfig,
    directory: Path,
    *,
    engine: EngineName = "auto",
    on_round: Callable[[Metrics], None] = lambda metrics: None,
) -> FittedModel:
    """Fit a model to recordings, and write it to ``directory``; an interrupted fit resumes there."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; expected the name of a directory for the model")
    return Fitter(recordings, config, directory, engine=engine).run(on_round)
