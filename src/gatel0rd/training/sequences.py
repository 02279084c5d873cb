"""Training of networks that answer at every step, and how long they remember."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gatel0rd.config import content_hash
from gatel0rd.engine import EngineName, can_run
from gatel0rd.engine.optimizer import FlatAdam
from gatel0rd.models.config import SequenceModelConfig
from gatel0rd.models.sequence_model import SequenceModel
from gatel0rd.nn.functional import l0_penalty, open_rate
from gatel0rd.training.adam import AdamState, read_adam, restore_adam
from gatel0rd.training.config import EPOCH_UPDATES, SequenceTrainConfig
from gatel0rd.training.loop import Metrics, OnMetrics, TrainingError, TrainingLoop, derive_seed, ignore_metrics

BETAS, EPSILON, CLIP_NORM = (0.9, 0.999), 1e-8, 1.0
"""Of Adam, and the largest norm of a gradient."""
PRICE_RISES = (0.2, 0.5)
"""Shares of the training between which λ rises from 0: a gate that is shut before it is of use is never opened."""
ROWS = 2**17
"""Steps times sequences that are evaluated at once: what they take fits into some dozens of MB."""


class Stretch(NamedTuple):
    """Some steps of sequences: inputs [T, B, I], what should be answered at each step [T, B, S], and where there is
    something new to remember [T, B]."""

    inputs: Tensor
    targets: Tensor
    writes: Tensor


class SequenceTask(Protocol):
    """What sequences look like, and which answers are right."""

    @property
    def name(self) -> str: ...

    def sample(
        self,
        steps: int,
        batch_size: int,
        generator: torch.Generator,
        *,
        whole: int | None = None,
        held: Tensor | None = None,
    ) -> Stretch:
        """Sequences; or the next steps of sequences with ``whole`` steps, before which ``held`` was the answer."""
        ...

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How wrong answers are, a mean over all of them."""
        ...

    def is_right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Which answers of one step are right, [B]."""
        ...


class SequenceTrainer(TrainingLoop):
    """Trains one network in one directory, and resumes where a killed predecessor stopped.

    Args:
        task: where sequences come from; every update gets new ones.
        model_config: the network to train.
        config: how to train it.
        seed: determines the weights and everything that is drawn while training.
        directory: where metrics and checkpoints are written.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.
    """

    unit = "epoch"
    differs_in = "task, model, configuration or seed"

    def __init__(
        self,
        task: SequenceTask,
        model_config: SequenceModelConfig,
        config: SequenceTrainConfig,
        *,
        seed: int,
        directory: Path,
        engine: EngineName = "auto",
    ) -> None:
        self.task, self.config, self.seed = task, config, seed
        self.model = SequenceModel(model_config, engine=engine)
        self.model.reset_parameters(torch.Generator().manual_seed(derive_seed(seed, -1)))
        self.optimizer: FlatAdam | torch.optim.Adam
        if can_run(engine, [], self.model.core, called=False):
            self.optimizer = FlatAdam(list(self.model.parameters()), gradients=True)
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), betas=BETAS, eps=EPSILON)
        identity = " ".join([task.name, content_hash(model_config), content_hash(config), str(seed)])
        self.open_directory(directory, self.model, self, identity=identity, checkpoint_seconds=10.0)

    @property
    def finished(self) -> bool:
        return self.completed >= self.config.epochs

    def run(self, on_epoch: OnMetrics = ignore_metrics) -> SequenceModel:
        """Train until the last epoch; ``on_epoch`` sees the metrics of each."""
        self.run_loop(on_epoch)
        return self.model.eval()

    def train_unit(self) -> Metrics:
        self.model.train()
        generator = torch.Generator().manual_seed(derive_seed(self.seed, self.completed))
        losses, rates = [], []
        for update in range(EPOCH_UPDATES):
            progress = (self.completed + update / EPOCH_UPDATES) / self.config.epochs
            batch = self.task.sample(self.config.steps, self.config.batch_size, generator)
            output = self.model(batch.inputs, noise=self.model.sample_noise(batch.inputs, generator))
            loss = self.task.loss(output.answers, batch.targets)
            losses.append(loss.detach())
            if output.gates is not None:
                rates.append(open_rate(output.gates))
                loss = loss + self._sparsity_weight(progress) * l0_penalty(output.gates)
            loss.backward()
            self._descend(self._learning_rate(progress))
        mean = float(torch.stack(losses).mean())
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss became {mean} in epoch {self.completed + 1}; lower the learning rate "
                f"(now {self.config.learning_rate:g})"
            )
        return {"loss": mean, **({"open_rate": float(torch.stack(rates).mean())} if rates else {})}

    def assess(self, metrics: Metrics) -> None:
        """What is measured is measured in training."""

    def _sparsity_weight(self, progress: float) -> float:
        first, last = PRICE_RISES
        return self.config.sparsity_weight * min(1.0, max(0.0, (progress - first) / (last - first)))

    def _learning_rate(self, progress: float) -> float:
        return self.config.learning_rate * (1 + math.cos(math.pi * progress)) / 2

    def _descend(self, rate: float) -> None:
        """Clip the gradients and take a step along them."""
        if isinstance(self.optimizer, FlatAdam):
            self.optimizer.update(rate=rate, betas=BETAS, epsilon=EPSILON, clip=CLIP_NORM)
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def read_optimizer(self) -> AdamState:
        return read_adam(self.optimizer, dict(self.model.named_parameters()))

    def restore_optimizer(self, state: AdamState) -> None:
        restore_adam(self.optimizer, dict(self.model.named_parameters()), state)


@torch.no_grad()
def measure_memory(
    model: SequenceModel, task: SequenceTask, *, steps: int, sequences: int, seed: int
) -> dict[str, float]:
    """How many answers are right after so many steps, and how much the memory changes while nothing is written.

    Long sequences are run in stretches, from the state that the last one left.

    Returns:
        accuracy: share of the sequences whose last answer is right.
        sequences: how many there were.
        changed: share of the steps at which nothing is written and the latent state is not bit-identical to the one
            before.
        open_times: share of these steps at which a gate is open, for cells with gates.
    """
    generator = torch.Generator().manual_seed(seed)
    stretch = max(1, ROWS // sequences)
    state = held = latents = None
    quiet = changed = opened = 0
    for start in range(0, steps, stretch):
        batch = task.sample(min(stretch, steps - start), sequences, generator, whole=steps, held=held)
        output = model(batch.inputs, state)
        first = output.latents[:1] if latents is None else latents  # the first step is a write: it does not count
        moved = (output.latents != torch.cat([first, output.latents[:-1]])).any(dim=-1)  # [T, B]
        quiet += int((~batch.writes).sum())
        changed += int((moved & ~batch.writes).sum())
        if output.gates is not None:
            opened += int(((output.gates > 0).any(dim=-1) & ~batch.writes).sum())
        state, held, latents = output.state, batch.targets[-1], output.latents[-1:]
    right = task.is_right(output.answers[-1], batch.targets[-1])
    found = {"accuracy": float(right.double().mean()), "sequences": sequences, "changed": changed / max(1, quiet)}
    return found if output.gates is None else {**found, "open_times": opened / max(1, quiet)}
