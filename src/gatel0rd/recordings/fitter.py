"""Training of a world model of recordings of any lengths, which finds how many events they have, or holds a number.

Training takes windows of the recordings, at offsets that are drawn anew in every round; recordings shorter than a
window are taken whole. A batch holds windows of one length, so nothing is ever padded. All randomness of a round
follows from (seed, round): an interrupted fit resumes and ends the same.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatel0rd.config import to_json
from gatel0rd.engine import EngineName
from gatel0rd.files import Arrays, FileError
from gatel0rd.models.fitted import FittedModel, Scaling
from gatel0rd.models.io import load_weights, model_arrays, save_fitted
from gatel0rd.models.world_model import WorldModel
from gatel0rd.nn.functional import sampling_probability
from gatel0rd.nn.gate_rate import SparsityWeight
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.gate_control import CONTROL_RATE, TOLERANCE, GateActivity, GateTarget, measure_gates
from gatel0rd.recordings.identity import identify_fit
from gatel0rd.recordings.method import MethodName, choose_method
from gatel0rd.recordings.recordings import Recordings
from gatel0rd.recordings.sizes import choose_sizes
from gatel0rd.recordings.sweep import (
    BEGIN,
    END,
    POINTS,
    SweepPoint,
    choose_point,
    describe_curve,
    has_learned,
    price_at,
)
from gatel0rd.recordings.whole import FollowedSequence, follow
from gatel0rd.recordings.windows import batches, split, windows
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.loop import Metrics, OnMetrics, TrainingLoop, derive_seed, ignore_metrics
from gatel0rd.training.steps import SequenceBatch, make_stepper, train_on_batches
from gatel0rd.training.windows import window_view

SETTLED_SHARE = 0.6
"""Share of the rounds after which scheduled sampling has reached its minimum."""
CHECKPOINT_SECONDS = 2.0
EPSILON = 1e-8
"""Of Adam."""
FIRST_WEIGHT = 0.001
"""λ at the beginning where a target is held."""
FOLLOWED = 0.8
"""Probability of real inputs while following: now and then several steps are predicted in a row."""
WARM_UP = 0.05
"""Share of the training in which the learning rate rises; it falls after the sweep, or in the last fifth."""
PURPOSES = {
    "follow": "following recordings: predicting the next steps from real observations, and finding events; to plan "
    "with a model, fit it with --objective free-run",
    "free-run": "planning: predicting many steps from its own predictions; it also finds events that can be foreseen",
}
"""What a model is good for, in words."""
TIMED = 3
"""Rounds after which it is clear how long a round takes."""


class Fitter(TrainingLoop):
    """Fits one model in one directory, and resumes where a killed predecessor stopped.

    Args:
        recordings: all of them; a part is kept for validation.
        config: how to fit.
        directory: where metrics and checkpoints are written, and the model in the end.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.
    """

    unit = "round"
    differs_in = "data or settings"

    def __init__(
        self, recordings: Recordings, config: FitConfig, directory: Path, *, engine: EngineName = "auto"
    ) -> None:
        self.config = config
        self.train_part, self.validation_part = split(recordings, config.validation, config.seed)
        self.scaling = (Scaling.of(self.train_part.observations), Scaling.of(self.train_part.actions))
        self.train_tensors = self._scaled(self.train_part)
        self.validation_tensors = self._scaled(self.validation_part)
        self.model = WorldModel(choose_sizes(self.train_part, config, self.train_tensors[0]), engine=engine)
        self.model.reset_parameters(torch.Generator().manual_seed(derive_seed(config.seed, -1)))
        self.longest = min(config.window, int(self.train_part.lengths.max()) - 1)
        self.mean_steps = float((self.train_part.lengths - 1).mean())
        self.target = GateTarget.of(config, self.mean_steps) if self.model.core.noise_size else None
        self.held_weight = SparsityWeight(FIRST_WEIGHT, speed=CONTROL_RATE, dtype=torch.float64)
        self.unit_price = self.model.config.residual_scale**2
        self.stepper = make_stepper(
            self.model,
            TrainConfig(
                epochs=config.rounds,
                learning_rate=config.learning_rate,
                sparsity_weight=FIRST_WEIGHT if config.sparsity_weight is None else config.sparsity_weight,
                epsilon=EPSILON,
                clip_norm=self.unit_price,  # the loss is as large as changes are
            ),
            *(window_view(tensor, self.longest) for tensor in self.train_tensors),
            seed=config.seed,
            engine=engine,
            in_place=True,
        )
        self.total = config.rounds
        self.best: tuple[int, float, int] | None = None  # how far from what is wanted, by how much, in which round
        self.points: list[SweepPoint] = []
        self.chosen: int | None = None
        self.kept: dict[str, Arrays] = {"best": {}}  # and the weights at every point of the sweep
        self.extended: list[int] = []  # rounds after which it was given more
        identity = identify_fit(config, self.model.config, recordings)
        self.open_directory(
            directory, self.model, self.stepper, identity=identity, checkpoint_seconds=CHECKPOINT_SECONDS
        )

    def _scaled(self, part: Recordings) -> tuple[Tensor, Tensor]:
        return (
            torch.from_numpy(self.scaling[0].transform(part.observations)),
            torch.from_numpy(self.scaling[1].transform(part.actions)),
        )

    @property
    def round(self) -> int:
        """Rounds so far."""
        return self.completed

    @property
    def progress(self) -> float:
        """Share of the training that is over."""
        return self.round / self.total

    @property
    def sweeps(self) -> bool:
        """Whether the number of events is found."""
        return self.config.finds_events and self.model.core.noise_size > 0

    @property
    def settled(self) -> bool:
        """Whether neither the sampling of inputs nor the price of open gates changes any more."""
        return self.chosen is not None if self.sweeps else self.progress >= SETTLED_SHARE

    @property
    def finished(self) -> bool:
        """Whether all rounds are over, or nothing has improved for a while."""
        if self.round >= self.total:
            return True
        if self.sweeps or self.best is None or self.best[0] > 0:
            return False
        return self.round - self.best[2] >= self.config.patience

    def run(self, on_round: OnMetrics = ignore_metrics) -> FittedModel:
        """Train until nothing improves any more; returns the best model, which is also in the directory."""
        self.run_loop(on_round)
        load_weights(self.model, self.kept["best"], self.directory)
        fitted = self.fitted()
        save_fitted(self.directory, fitted)
        return fitted

    def fitted(self) -> FittedModel:
        """The model as it is now, with what is known about its fit."""
        assert self.best is not None
        chosen = self.history[self.best[2] - 1]
        self.model.eval()
        followed = self._follow(self.train_part, self.train_tensors), self.follow_validation()
        asked: MethodName | None = "gates" if self.model.core.noise_size and not self.config.finds_events else None
        method = choose_method(
            self.train_part, self.validation_part, followed if self.model.core.noise_size else None, asked=asked
        )
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
                "extended": self.extended,
                "seconds": self.seconds,
                "persistence_error": self._measure_persistence(),
                "held": self.best[0] == 0 or self.sweeps,
                **{name: chosen[name] for name in names if name in chosen},
                **self._describe_events(followed[1]),
                "curve": describe_curve(self.points),
                "chosen": self.chosen,
                "purpose": PURPOSES[self.config.objective],
                "segmentation": method.to_json(),
            },
            variants=tuple(self.kept[f"point{number}"] for number in range(len(self.points))),
        )

    def train_unit(self) -> Metrics:
        config = self.config
        if self.round == TIMED:
            self._keep_time()
        if self.sweeps:
            if self.progress < BEGIN and has_learned([metrics["error"] for metrics in self.history]):
                self.total = min(self.total, math.ceil(self.round / BEGIN))
            if self.chosen is None and self.progress >= END:
                self._choose_price()
            chosen = None if self.chosen is None else self.points[self.chosen].price
            self.stepper.sparsity_weight = price_at(self.progress, self.unit_price) if chosen is None else chosen
        self.stepper.learning_rate = self._learning_rate()
        self.model.train()
        terms = train_on_batches(
            self.stepper,
            (
                SequenceBatch(torch.from_numpy(batch.starts), batch.steps)
                for batch in batches(self.train_part, config, self.round)
            ),
            probability=self._probability(),
            first_counter=self.round * config.round_updates,
            generator=torch.Generator().manual_seed(derive_seed(config.seed, self.round)),
            place=f"round {self.round + 1}",
            learning_rate=config.learning_rate,
        )
        self.model.eval()
        metrics: Metrics = {"loss": terms["loss"], "rounds": self.total}
        if "skipped" in terms:
            metrics["skipped"] = terms["skipped"]
        followed = self.follow_validation()
        metrics["error"] = self._free_running_error() if config.objective == "free-run" else mean_error(followed)
        if self.model.core.noise_size:
            activity = self._measure_gates()
            metrics |= asdict(activity)
            metrics["sparsity_weight"] = self.stepper.sparsity_weight
            if self.target is not None:
                metrics["distance"] = self.target.distance(activity)
                self.held_weight.adjust(self.target.ratio(activity))
                self.stepper.sparsity_weight = float(self.held_weight.weight)
        if self.sweeps and self.chosen is None:
            self._add_point(followed, metrics["sparsity_weight"])
        return metrics

    def _keep_time(self) -> None:
        """Leave out the rounds that there is no time for."""
        if self.config.minutes is not None:
            rounds = int(60 * self.config.minutes / max(1e-9, self.seconds / self.round))
            self.total = min(self.total, max(2 * TIMED, self.round, rounds))

    def _extend(self, rounds: int) -> None:
        """Continue a fit that was to take fewer rounds: it is as if these were the middle of a longer one."""
        if rounds > self.config.rounds:
            raise FileError(
                f"{self.directory} holds a fit of {rounds} rounds, {self.config.rounds} were asked for; ask for at "
                "least as many, or use another directory"
            )
        if rounds < self.config.rounds:
            self.extended.append(self.round)
            self.total = self.config.rounds
            if self.round > TIMED:
                self._keep_time()

    def _probability(self) -> float:
        """Of a real input."""
        config = self.config
        if config.objective == "follow":
            return max(FOLLOWED, config.sampling_minimum)
        decay = config.sampling_minimum ** (1 / max(1.0, SETTLED_SHARE * self.total))
        return sampling_probability(self.round, decay=decay, minimum=config.sampling_minimum)

    def _learning_rate(self) -> float:
        """It rises, stays, and falls to nearly nothing."""
        fall = (1 - self.progress) / (1 - END)
        return self.config.learning_rate * max(0.02, min(1.0, (self.progress + 1 / self.total) / WARM_UP, fall))

    def _add_point(self, followed: list[FollowedSequence], price: float) -> None:
        """Remember what a price leads to, at evenly spaced rounds of the sweep."""
        last = max(1, round(END * self.total))
        first = min(last - 1, round(BEGIN * self.total))
        if self.round < first:
            return
        every = max(1, (last - first) // POINTS)
        if (self.round - first) % every == 0 or self.round == last - 1:
            self.kept[f"point{len(self.points)}"] = copy_weights(self.model)
            self.points.append(SweepPoint.of(price, followed))

    def _choose_price(self) -> None:
        """Go back to the weights that the rule chooses; training continues with their price."""
        self.chosen = choose_point(self.points)
        load_weights(self.model, self.kept[f"point{self.chosen}"], self.directory)

    def _follow(self, part: Recordings, tensors: tuple[Tensor, Tensor]) -> list[FollowedSequence]:
        return follow(self.model, part, *tensors)

    def follow_validation(self) -> list[FollowedSequence]:
        """The model as it is now on the validation part."""
        return self._follow(self.validation_part, self.validation_tensors)

    def _describe_events(self, followed: list[FollowedSequence]) -> dict[str, float]:
        """Events and open gates of the validation part, as ``segment`` measures them: on whole recordings."""
        if not self.model.core.noise_size:
            return {}
        point = SweepPoint.of(0.0, followed)
        return {"events": point.events, "open_rate": point.open_rate}

    def _measure_persistence(self) -> float:
        """The error if nothing changed, in the same way as the model's."""
        if self.config.objective == "free-run":
            return self._free_running_error(persistence=True)
        observations = self.validation_tensors[0].double()
        inside = torch.ones(len(observations), dtype=torch.bool)
        inside[torch.from_numpy(self.validation_part.starts)] = False
        return float((observations[1:] - observations[:-1])[inside[1:]].square().mean())

    @torch.no_grad()
    def _free_running_error(self, *, persistence: bool = False) -> float:
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

    def assess(self, metrics: Metrics) -> None:
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
            self.kept["best"] = copy_weights(self.model)
        metrics["best"] = self.best[2]

    def read_extras(self) -> tuple[dict[str, Any], Arrays]:
        extras = {
            "sparsity_weight": self.stepper.sparsity_weight,
            "best": self.best,
            "total": self.total,
            "rounds": self.config.rounds,
            "extended": self.extended,
            "points": [asdict(point) for point in self.points],
            "chosen": self.chosen,
        }
        return extras, {f"{part}.{name}": array for part, arrays in self.kept.items() for name, array in arrays.items()}

    def restore_extras(self, extras: dict[str, Any], arrays: Arrays) -> None:
        self.stepper.sparsity_weight = extras["sparsity_weight"]
        if self.target is not None:
            self.held_weight.weight.fill_(extras["sparsity_weight"])
        self.total, self.chosen = extras["total"], extras["chosen"]
        self.points = [SweepPoint(**{**point, "errors": tuple(point["errors"])}) for point in extras["points"]]
        self.kept = {"best": {}}
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            self.kept.setdefault(part, {})[name] = array
        if extras["best"] is not None:
            rank, value, number = extras["best"]
            self.best = (int(rank), float(value), int(number))
        self.extended = list(extras.get("extended", []))
        self._extend(extras.get("rounds", self.config.rounds))


def copy_weights(model: WorldModel) -> Arrays:
    """The weights as they are now."""
    return {name: array.copy() for name, array in model_arrays(model).items()}


def mean_error(followed: list[FollowedSequence]) -> float:
    """Mean squared error of the next step, over all sequences."""
    return float(np.square(np.concatenate([entry.errors for entry in followed]), dtype=np.float64).mean())
