"""Fit a world model to recordings of any lengths, and hold the share of open gates at a target.

Training takes windows of the recordings, at offsets that are drawn anew in every round; recordings shorter than a
window are taken whole. A batch holds windows of one length, so nothing is ever padded. All randomness of a round
follows from (seed, round): an interrupted fit resumes and ends the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.config import content_hash, to_json
from gatel0rd.engine import EngineName
from gatel0rd.files import Arrays
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.fitted import FittedModel, Scaling
from gatel0rd.models.io import load_weights, model_arrays, save_fitted
from gatel0rd.models.world_model import WorldModel
from gatel0rd.nn.config import CellConfig
from gatel0rd.nn.functional import sampling_probability
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.reading import RecordingError, Recordings
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.loop import Metrics, OnMetrics, TrainingLoop, derive_seed, ignore_metrics
from gatel0rd.training.steps import SequenceBatch, make_stepper, train_on_batches

Starts = NDArray[np.int64]
SETTLED_SHARE = 0.6
"""Share of the rounds after which scheduled sampling has reached its minimum."""
CONTROL_RATE = 0.25
"""How fast λ follows the share of open gates: by this much of their logarithmic distance in every round."""
LOWEST, HIGHEST = 1e-8, 10.0
TOLERANCE = 0.25
"""How far from its target, relative to it, a share of open gates counts as held."""
WATCHED = 256
"""Windows on which the share of open gates is measured after every round."""
CHECKPOINT_SECONDS = 2.0


class Batch(NamedTuple):
    """Windows of one length: the rows at which they start, and their steps (one less than their rows)."""

    starts: Starts
    steps: int


def split(recordings: Recordings, share: float, seed: int) -> tuple[Recordings, Recordings]:
    """Training and validation part, by sequence; a single sequence is cut, its end is for validation."""
    origins = list(dict.fromkeys(name for name, _ in recordings.origins))  # pieces of one recording stay together
    count = len(origins)
    if len(recordings) == 1:
        observations, actions = recordings.sequence(0)
        border = round(len(observations) * (1 - share))
        if min(border, len(observations) - border) < 10:
            raise RecordingError(
                f"there is one sequence of {len(observations)} steps; expected at least {math.ceil(10 / share)} steps, "
                "or more sequences, so that a part can be kept for validation"
            )
        parts = (slice(0, border), slice(border, None))
        return tuple(  # type: ignore[return-value]
            Recordings(
                observation_names=recordings.observation_names,
                action_names=recordings.action_names,
                observations=observations[part],
                actions=actions[part],
                names=recordings.names,
                lengths=np.array([len(observations[part])], dtype=np.int64),
            )
            for part in parts
        )
    if count == 1:  # a single one in pieces: the last ones are for validation
        border = np.searchsorted(np.cumsum(recordings.lengths), (1 - share) * recordings.lengths.sum())
        border = int(min(max(1, border), len(recordings) - 1))
        return recordings.take(range(border)), recordings.take(range(border, len(recordings)))
    order = np.random.default_rng([seed, 1]).permutation(count)
    kept = {origins[index] for index in order[: max(1, round(count * share))]}
    chosen: tuple[list[int], list[int]] = ([], [])
    for index, (name, _) in enumerate(recordings.origins):
        chosen[name in kept].append(index)
    return recordings.take(chosen[0]), recordings.take(chosen[1])


def windows(recordings: Recordings, longest: int, generator: np.random.Generator | None = None) -> list[Batch]:
    """Windows that cover the recordings, by length; from the first row on, or at random offsets.

    Without random offsets what is left at the end of a recording is a shorter window.
    """
    found: dict[int, list[int]] = {}
    for start, length in zip(recordings.starts.tolist(), recordings.lengths.tolist(), strict=True):
        steps = length - 1
        if steps < longest or generator is None:
            first = 0
            while steps - first >= 1:
                size = min(longest, steps - first)
                if size >= 2 or first == 0:
                    found.setdefault(size, []).append(start + first)
                first += longest
        else:
            offset = int(generator.integers(min(longest, steps - longest + 1)))
            found.setdefault(longest, []).extend(range(start + offset, start + steps - longest + 1, longest))
    return [Batch(np.array(starts, dtype=np.int64), steps) for steps, starts in sorted(found.items())]


def batches(recordings: Recordings, config: FitConfig, number: int) -> Iterator[Batch]:
    """The batches of one round: as many as it has updates, every window once before any is taken again."""
    generator = np.random.default_rng([config.seed, 2, number])
    left = config.round_updates
    while left:
        parts: list[Batch] = []
        for group in windows(recordings, config.window, generator):
            starts = generator.permutation(group.starts)
            pieces = range(0, len(starts), config.batch_size)
            parts += [Batch(starts[first : first + config.batch_size], group.steps) for first in pieces]
        for index in generator.permutation(len(parts))[:left]:
            yield parts[int(index)]
            left -= 1


def window_view(values: Tensor, longest: int) -> Tensor:
    """Every row as the start of a window, without a copy. Shape: [S, F] -> [longest + 1, S, F]."""
    rows, width = values.shape
    padded = torch.cat([values, values.new_zeros(longest, width)])  # rows near the end reach over it, unused
    return padded.as_strided((longest + 1, rows, width), (width, width, 1))


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
        self.model = WorldModel(model_config(self.train_part, config, self.train_tensors[0]), engine=engine)
        self.model.reset_parameters(torch.Generator().manual_seed(derive_seed(config.seed, -1)))
        self.longest = min(config.window, int(self.train_part.lengths.max()) - 1)
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
        self.best: tuple[int, float, int] | None = None  # how far from what is wanted, by how much, in which round
        self.best_arrays: Arrays = {}
        identity = " ".join([content_hash(config), content_hash(self.model.config), fingerprint(recordings)])
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
    def settled(self) -> bool:
        """Whether real inputs have given way to predictions as far as they will."""
        return self.round >= SETTLED_SHARE * self.config.rounds

    @property
    def finished(self) -> bool:
        """Whether all rounds are over, or nothing has improved for a while."""
        if self.round >= self.config.rounds:
            return True
        return self.best is not None and self.best[0] == 0 and self.round - self.best[2] >= self.config.patience

    def run(self, on_round: OnMetrics = ignore_metrics) -> FittedModel:
        """Train until nothing improves any more; returns the best model, which is also in the directory."""
        self.run_loop(on_round)
        load_weights(self.model, self.best_arrays, self.directory)
        fitted = self.fitted()
        save_fitted(self.directory, fitted)
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
                "training_sequences": len(self.train_part),
                "validation_sequences": len(self.validation_part),
                "rounds": self.round,
                "seconds": self.seconds,
                "persistence_error": persistence,
                "held": self.best[0] == 0,
                **{name: chosen[name] for name in names if name in chosen},
            },
        )

    def train_unit(self) -> Metrics:
        config = self.config
        self.model.train()
        decay = config.sampling_minimum ** (1 / max(1.0, SETTLED_SHARE * config.rounds))
        terms = train_on_batches(
            self.stepper,
            (
                SequenceBatch(torch.from_numpy(batch.starts), batch.steps)
                for batch in batches(self.train_part, config, self.round)
            ),
            probability=sampling_probability(self.round, decay=decay, minimum=config.sampling_minimum),
            first_counter=self.round * config.round_updates,
            generator=torch.Generator().manual_seed(derive_seed(config.seed, self.round)),
            place=f"round {self.round + 1}",
            learning_rate=config.learning_rate,
        )
        self.model.eval()
        metrics: Metrics = {"loss": terms["loss"], "error": self._errors()}
        if self.model.core.noise_size:
            metrics |= self._openness()
            metrics["sparsity_weight"] = self.stepper.sparsity_weight
            self._adjust(metrics)
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

    @torch.no_grad()
    def _openness(self) -> Metrics:
        """Share of open gates, and steps with an open gate per sequence, with real inputs and without noise.

        Openings would be no measure: a gate that never closes opens once.
        """
        observations, actions = self.train_tensors
        is_open, gates_seen, open_steps, steps = 0.0, 0, 0.0, 0
        left = WATCHED
        for group in reversed(windows(self.train_part, self.longest)):
            starts = group.starts[:: max(1, len(group.starts) // left)][:left]
            left -= len(starts)
            rows = torch.from_numpy(starts)[None] + torch.arange(group.steps)[:, None]
            gates = self.model(observations[rows], actions[rows]).gates
            assert gates is not None
            opened = gates > 0
            is_open += float(opened.sum())
            gates_seen += gates.numel()
            open_steps += float(opened.any(-1).sum())
            steps += opened.shape[0] * opened.shape[1]
            if left <= 0:
                break
        mean_length = float((self.train_part.lengths - 1).mean())
        return {"open_rate": is_open / gates_seen, "events": open_steps / steps * mean_length}

    def _adjust(self, metrics: Metrics) -> None:
        """Dual ascent: a higher price on open gates while there are too many, a lower one while there are too few."""
        held = self._held()
        if held is None:
            return
        name, target = held
        distance = math.log((metrics[name] + 1e-3 * target) / target)
        weight = self.stepper.sparsity_weight * math.exp(CONTROL_RATE * max(-2.0, min(2.0, distance)))
        self.stepper.sparsity_weight = min(HIGHEST, max(LOWEST, weight))

    def _held(self) -> tuple[str, float] | None:
        """What is held at a target, if anything."""
        config = self.config
        if not self.model.core.noise_size or (config.events is None and config.gate_rate is None):
            return None
        return ("events", config.events) if config.events is not None else ("open_rate", config.gate_rate or 0.0)

    def assess(self, metrics: Metrics) -> None:
        """The lowest error counts among settled rounds in which gates are as open as they should be.

        Without any the settled round counts in which they came closest, and before that the lowest error.
        """
        held = self._held()
        distance = 0.0 if held is None else abs(metrics[held[0]] / held[1] - 1)
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

    def read_extras(self) -> tuple[dict[str, Any], Arrays]:
        return {"sparsity_weight": self.stepper.sparsity_weight, "best": self.best}, self.best_arrays

    def restore_extras(self, extras: dict[str, Any], arrays: Arrays) -> None:
        self.stepper.sparsity_weight, self.best_arrays = extras["sparsity_weight"], arrays
        if extras["best"] is not None:
            rank, value, number = extras["best"]
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
    on_round: OnMetrics = ignore_metrics,
) -> FittedModel:
    """Fit a model to recordings; it is left in ``directory``."""
    return Fitter(recordings, config, directory, engine=engine).run(on_round)
