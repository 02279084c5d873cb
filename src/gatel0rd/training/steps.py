"""One training step on a batch: loss of Eq. 5, backward, clipping, Adam. In PyTorch, or in the compiled engine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gatel0rd.engine import EngineName, EngineUnavailableError, can_run
from gatel0rd.engine.builder import describe
from gatel0rd.engine.optimizer import FlatTrainer
from gatel0rd.models.world_model import WorldModel
from gatel0rd.models.world_program import training_program
from gatel0rd.nn.functional import PENALTIES, open_rate
from gatel0rd.training.adam import AdamState, read_adam, restore_adam
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.loop import KeepsOptimizer, TrainingError

Terms = dict[str, float]
MOST_SKIPPED = 100
"""Updates in a row that may be left out, as their gradients are not finite, before training is given up."""


class Stepper(KeepsOptimizer, Protocol):
    """Trains a model batch by batch."""

    sparsity_weight: float
    """λ; may be changed between steps."""
    learning_rate: float
    """Of Adam; may be changed between steps."""
    skipped: int
    """How many of the last steps in a row were left out, as their gradients were not finite."""

    def step(
        self,
        index: Tensor,
        *,
        probability: float,
        counter: int,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> Terms:
        """Train on the sequences ``index``; returns loss, task_loss, and penalty and open_rate if there are gates.

        A gradient that is not finite changes nothing, and ``skipped`` is 1 then.

        Args:
            probability: of feeding the real input (scheduled sampling).
            counter: number of the batch since the beginning of training.
            generator: seeded for this epoch.
            steps: how many of the sequences' first steps to train on; all if not given.
        """
        ...


@dataclass(frozen=True)
class SequenceBatch:
    """Sequences to train on, and how many of their first steps (all if None)."""

    index: Tensor
    steps: int | None = None


def train_on_batches(
    stepper: Stepper,
    batches: Iterable[SequenceBatch],
    *,
    probability: float,
    first_counter: int,
    generator: torch.Generator,
    place: str,
    learning_rate: float,
) -> Terms:
    """Take a step on every batch; returns the means of the loss's terms, and the share of ``skipped`` steps if any.

    Args:
        first_counter: number of the first batch since the beginning of training.
        place: where training is, for the error that a loss which is not finite raises: "epoch 3".
        learning_rate: what that error advises to lower.
    """
    sums: Terms = {}
    count = 0
    for batch in batches:
        terms = stepper.step(
            batch.index,
            probability=probability,
            counter=first_counter + count,
            generator=generator,
            steps=batch.steps,
        )
        if not math.isfinite(terms["loss"]):
            raise TrainingError(
                f"the loss became {terms['loss']} in {place}; lower the learning rate (now {learning_rate:g}) "
                "or look for extreme values in the data"
            )
        for name, term in terms.items():
            sums[name] = sums.get(name, 0.0) + term
        count += 1
        if stepper.skipped == MOST_SKIPPED:
            raise TrainingError(
                f"no gradient was finite in {MOST_SKIPPED} updates up to {place}; lower the learning rate (now "
                f"{learning_rate:g}), or train on fewer time steps, over which gradients grow less"
            )
    return {name: total / count for name, total in sums.items()}


def is_finite(gradient: Tensor) -> bool:
    """Whether a gradient can be followed: after many time steps it may be too large for its precision."""
    # the sum is several times faster, and finite only if every part is
    return math.isfinite(gradient.sum().item()) or bool(gradient.isfinite().all())


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The terms of the loss of Eq. 5, unweighted, and the share of open gates (None for cells without gates).

    Example:
        >>> import torch
        >>> from gatel0rd.training import Losses
        >>> Losses(task=torch.tensor(0.5), penalty=torch.tensor(0.25)).total(sparsity_weight=2.0).item()
        1.0
    """

    task: Tensor
    penalty: Tensor | None = None
    open_rate: Tensor | None = None

    def total(self, sparsity_weight: float) -> Tensor:
        return self.task if self.penalty is None else self.task + sparsity_weight * self.penalty


class TorchStepper:
    """The step as PyTorch operations. Shape: observations [T + 1, N, O], actions [T + 1, N, A].

    Example:
        >>> import torch
        >>> from gatel0rd import TrainConfig, WorldModel, WorldModelConfig
        >>> from gatel0rd.training import TorchStepper
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> stepper = TorchStepper(model, TrainConfig(epochs=1), torch.randn(8, 5, 4), torch.randn(8, 5, 2))
        >>> terms = stepper.step(torch.arange(5), probability=1.0, counter=0, generator=torch.Generator())
        >>> sorted(terms)
        ['loss', 'open_rate', 'penalty', 'task_loss']
    """

    def __init__(
        self,
        model: WorldModel,
        config: TrainConfig,
        observations: Tensor,
        actions: Tensor,
        *,
        step_weights: Tensor | None = None,
    ) -> None:
        self.model, self.config = model, config
        self.step_weights = step_weights
        self.sparsity_weight, self.learning_rate, self.skipped = config.sparsity_weight, config.learning_rate, 0
        self.observations, self.actions = observations, actions
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.epsilon, foreach=True
        )

    def losses(self, index: Tensor, feed: Tensor | None, noise: Tensor | None, steps: int | None = None) -> Losses:
        """The loss terms of one batch. Shape: feed [T, B], noise [T, B, noise_size]."""
        last = len(self.observations) if steps is None else steps + 1
        observations, actions = self.observations[:last, index], self.actions[:last, index]
        predictions, _, gates, _ = self.model(observations[:-1], actions[:-1], feed, noise)
        errors = (predictions - observations[1:]).square()
        if self.step_weights is not None:
            errors = errors * self.step_weights[: len(errors), None, None].to(errors)
        task = errors.mean()
        if gates is None:
            return Losses(task=task)
        return Losses(task=task, penalty=PENALTIES[self.config.penalty](gates), open_rate=open_rate(gates))

    def update(self, total: Tensor) -> bool:
        """Backward, clip, Adam; returns False if the gradient is not finite, and nothing was changed."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        self.optimizer.zero_grad()
        total.backward()
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
        if not norm.isfinite():  # also if its square alone is too large
            if not all(map(is_finite, gradients)):
                return False
            norm = torch.stack([gradient.double().square().sum() for gradient in gradients]).sum().sqrt()
        torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.clip_norm, norm, foreach=True)
        self.optimizer.step()
        return True

    def step(
        self,
        index: Tensor,
        *,
        probability: float,
        counter: int,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> Terms:
        steps = len(self.observations) - 1 if steps is None else steps
        feed = None
        if not self.config.teacher_forcing:
            feed = torch.rand(steps, len(index), generator=generator) < probability
        losses = self.losses(index, feed, self.model.sample_noise(steps, len(index), generator), steps)
        total = losses.total(self.sparsity_weight)
        self.skipped = 0 if self.update(total) else self.skipped + 1
        named = {"loss": total, "task_loss": losses.task, "penalty": losses.penalty, "open_rate": losses.open_rate}
        terms = {name: term.item() for name, term in named.items() if term is not None}
        return {**terms, "skipped": 1.0} if self.skipped else terms

    def read_optimizer(self) -> AdamState:
        return read_adam(self.optimizer, dict(self.model.named_parameters()))

    def restore_optimizer(self, state: AdamState) -> None:
        restore_adam(self.optimizer, dict(self.model.named_parameters()), state)


class NativeStepper:
    """The step in the compiled engine: the whole closed loop, its loss and its gradients in one call.

    Example:
        >>> import torch
        >>> from gatel0rd import TrainConfig, WorldModel, WorldModelConfig
        >>> from gatel0rd.training import NativeStepper, make_stepper
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> data = torch.randn(8, 5, 4), torch.randn(8, 5, 2)
        >>> stepper = make_stepper(model, TrainConfig(epochs=1), *data, seed=0, engine="native")
        >>> isinstance(stepper, NativeStepper)
        True
    """

    def __init__(
        self, model: WorldModel, config: TrainConfig, observations: Tensor, actions: Tensor, trainer: FlatTrainer
    ) -> None:
        self.config, self.trainer = config, trainer
        self.sparsity_weight, self.learning_rate, self.skipped = config.sparsity_weight, config.learning_rate, 0
        self.all_steps, self.features = len(observations) - 1, observations.shape[-1]
        self.gates = model.core.noise_size

    def step(
        self,
        index: Tensor,
        *,
        probability: float,
        counter: int,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> Terms:
        config, batch = self.config, len(index)
        self.trainer.steps = self.all_steps if steps is None else steps
        if not 1 <= self.trainer.steps <= self.all_steps or batch == 0:
            raise ValueError(
                f"a step on {batch} sequences of {self.trainer.steps} time steps was asked for; expected at least one "
                f"sequence and 1 to {self.all_steps} time steps"
            )
        scales = [1 / (batch * self.trainer.steps * self.features)]
        weights = list(scales)
        slots = self.trainer.compiled.program.loss_slots
        if slots > 1:
            scales += [1 / (batch * self.trainer.steps * self.gates)] * (slots - 1)
            weights += [self.sparsity_weight * scales[1], *[0.0] * (slots - 2)]
        sums = self.trainer.losses(index, probability=probability, weights=weights, counter=counter)
        self.skipped = 0 if is_finite(self.trainer.gradient) else self.skipped + 1
        if not self.skipped:
            self.trainer.update(
                rate=self.learning_rate, betas=config.betas, epsilon=config.epsilon, clip=config.clip_norm
            )
        means = [scale * value for scale, value in zip(scales, sums, strict=True)]
        terms = dict(zip(("task_loss", "penalty", "open_rate"), means, strict=False))
        if slots == 2:
            terms["open_rate"] = terms["penalty"]
        if self.skipped:
            terms["skipped"] = 1.0
        return {"loss": sum(weight * value for weight, value in zip(weights, sums, strict=True)), **terms}

    def read_optimizer(self) -> AdamState:
        return read_adam(self.trainer, self._named_parameters())

    def restore_optimizer(self, state: AdamState) -> None:
        restore_adam(self.trainer, self._named_parameters(), state)

    def _named_parameters(self) -> dict[str, Tensor]:
        return dict(zip(self.trainer.compiled.program.parameters, self.trainer.parameters, strict=True))


def make_stepper(
    model: WorldModel,
    config: TrainConfig,
    observations: Tensor,
    actions: Tensor,
    *,
    seed: int,
    engine: EngineName = "auto",
    in_place: bool = False,
    step_weights: Tensor | None = None,
) -> Stepper:
    """The compiled step where it can run, else PyTorch's. Shape: observations [T + 1, N, O], actions [T + 1, N, A].

    Args:
        in_place: leave the tensors where they are, as views of overlapping windows have to be.
        step_weights: what the squared errors of each step are multiplied by, [T]; 1 if not given.

    Example:
        >>> import torch
        >>> from gatel0rd import TrainConfig, WorldModel, WorldModelConfig
        >>> from gatel0rd.training import make_stepper
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> stepper = make_stepper(model, TrainConfig(epochs=1), torch.randn(8, 5, 4), torch.randn(8, 5, 2), seed=0)
        >>> terms = stepper.step(torch.arange(5), probability=0.5, counter=0, generator=torch.Generator())
        >>> terms["loss"] > 0
        True
    """
    if can_run(engine, [observations, actions], model, called=False):  # nothing calls the model: its hooks count
        program = None
        if all(parameter.requires_grad for parameter in model.parameters()):
            program = describe(
                lambda: training_program(
                    model,
                    teacher_forcing=config.teacher_forcing,
                    penalty=config.penalty,
                    weighted=step_weights is not None,
                )
            )
        if program is None and engine == "native":
            raise EngineUnavailableError(
                f"engine='native' cannot train this: frozen parameters, a cell without a program, or the penalty "
                f"{config.penalty!r}, which is not a sum; choose engine='auto'"
            )
        if program is not None:
            sequences = [tensor if in_place else _by_sequence(tensor) for tensor in (actions, observations)]
            if step_weights is not None:
                factors = torch.cat([step_weights, step_weights.new_zeros(1)]).to(observations).sqrt()
                sequences.append(factors[:, None, None].expand(-1, observations.shape[1], 1))
            trainer = FlatTrainer(model, program, sequences, steps=len(observations) - 1, seed=seed)
            return NativeStepper(model, config, observations, actions, trainer)
    return TorchStepper(model, config, observations, actions, step_weights=step_weights)


def _by_sequence(tensor: Tensor) -> Tensor:
    """The same tensor, laid out so that a sequence is in one piece. Shape: [T, N, ·], strides of [N, T, ·]."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)
