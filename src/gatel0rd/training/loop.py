"""The one resumable training loop: metrics line by line, checkpoints, and a history that survives a power cut.

World models (:class:`~gatel0rd.training.trainer.Trainer`), recordings (:class:`~gatel0rd.recordings.fitter.Fitter`) and
agents (:class:`~gatel0rd.training.ppo.AgentTrainer`) plug into it. All randomness of a unit of training follows from
(seed, number of the unit), so that a checkpoint needs no generator state and a resumed run ends bit-identical to one
that was never interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn

from gatel0rd.config import check_numbers
from gatel0rd.errors import FailedError
from gatel0rd.files import (
    Arrays,
    FileError,
    explain_write_errors,
    load_arrays,
    parse_json,
    save_arrays,
    write_all,
    write_atomically,
)
from gatel0rd.models.io import CHECKPOINT_FILE, check_finite, load_weights, model_arrays
from gatel0rd.training.adam import AdamState

Metrics = dict[str, Any]
OnMetrics = Callable[[Metrics], None]
FORMAT = 2
"""Of checkpoints; raised when the same entries would mean something else."""


class TrainingError(FailedError):
    """Training cannot continue; the message says why and what to do.

    Example:
        >>> from gatel0rd.training import TrainingError
        >>> try:
        ...     raise TrainingError("the loss became nan in epoch 3; lower the learning rate")
        ... except TrainingError as error:
        ...     print(error)
        the loss became nan in epoch 3; lower the learning rate
    """


def ignore_metrics(metrics: Metrics) -> None:
    """A callback that does nothing."""


def derive_seed(seed: int, place: int) -> int:
    """One number from a seed and a place in time (-1 or later), so that neighbours share nothing."""
    return int(np.random.SeedSequence([seed, place + 1]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def add_to_digest(digest: hashlib._Hash, metrics: Metrics) -> None:
    """Let a checksum that checkpoints keep cover some metrics: a changed number would get into the record unnoticed.

    How long it took is left out, so that a resumed training ends with the same bytes as one that never stopped.
    """
    digest.update(json.dumps({name: value for name, value in metrics.items() if name != "seconds"}).encode())


class KeepsOptimizer(Protocol):
    """Trains the weights of a module with Adam."""

    def read_optimizer(self) -> AdamState:
        """The state of Adam."""
        ...

    def restore_optimizer(self, state: AdamState) -> None:
        """Continue from an earlier state."""
        ...


class TrainingLoop(ABC):
    """Training in one directory that resumes where a killed predecessor stopped.

    The directory holds ``metrics.jsonl``, a line per unit of training, and ``checkpoint.safetensors``, which is written
    atomically and only after the lines that it refers to are safely on the disk. Lines after the last checkpoint belong
    to training that is repeated, and are dropped. A file that lost more than that is an error that says what to do.

    Subclasses prepare everything that a checkpoint fills, then call :meth:`open_directory`.

    Attributes:
        unit: the name of one unit of training in the metrics: epoch, round or update.
        differs_in: what may differ where a checkpoint has another identity, in words.
        assesses_start: whether the metrics begin with a line about the untrained model, which has the number 0.
        directory: where metrics and checkpoints are written.
        completed: units of training so far.
        history: their metrics.
        seconds: wall time of all attempts together.

    Example:
        >>> from gatel0rd.training import Trainer, TrainingLoop
        >>> from gatel0rd.training.ppo import AgentTrainer
        >>> [kind.unit for kind in (Trainer, AgentTrainer) if issubclass(kind, TrainingLoop)]
        ['epoch', 'update']
    """

    unit: ClassVar[str]
    differs_in: ClassVar[str]
    assesses_start: ClassVar[bool] = False

    directory: Path
    completed: int
    history: list[Metrics]
    seconds: float

    # ---- what is trained ----

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether there is nothing left to train."""

    @abstractmethod
    def train_unit(self) -> Metrics:
        """Train for one unit; ``completed`` is the number of those before it."""

    @abstractmethod
    def assess(self, metrics: Metrics) -> None:
        """Add what is measured after a unit, which is counted already."""

    @property
    def can_pause(self) -> bool:
        """Whether a checkpoint at this place would be complete."""
        return True

    def read_extras(self) -> tuple[dict[str, Any], Arrays]:
        """What else a checkpoint has to keep: plain JSON data, and arrays."""
        return {}, {}

    def restore_extras(self, extras: dict[str, Any], arrays: Arrays) -> None:  # noqa: B027
        """Continue from what :meth:`read_extras` gave."""

    # ---- the loop ----

    def open_directory(
        self,
        directory: Path,
        module: nn.Module,
        optimizer: KeepsOptimizer,
        *,
        identity: str,
        checkpoint_seconds: float,
    ) -> None:
        """Make the directory, and continue from the checkpoint in it if there is one.

        Args:
            module, optimizer: what is trained, and what trains it: a checkpoint keeps both.
            identity: what must be the same for a checkpoint to be one's own.
            checkpoint_seconds: least time between checkpoints; one is also written at the end.
        """
        self.directory, self.identity, self.checkpoint_seconds = directory, identity, checkpoint_seconds
        self._module, self._optimizer = module, optimizer
        self.completed, self.history, self.seconds = 0, [], 0.0
        self._digest = hashlib.sha256()
        directory.mkdir(parents=True, exist_ok=True)
        if self.checkpoint_path.exists():
            self._restore()
        else:  # of a predecessor that died before its first checkpoint
            self.metrics_path.unlink(missing_ok=True)

    @property
    def checkpoint_path(self) -> Path:
        return self.directory / CHECKPOINT_FILE

    @property
    def metrics_path(self) -> Path:
        return self.directory / "metrics.jsonl"

    def run_loop(self, on_metrics: OnMetrics) -> None:
        """Train until finished; ``on_metrics`` is called after each unit.

        An interrupt, as by Ctrl+C or from the callback, loses no more than what came after the last checkpoint.
        """
        saved = time.monotonic()
        began = saved - self.seconds
        with explain_write_errors(self.metrics_path):
            file = self.metrics_path.open("ab", buffering=0)
        with file:
            if self.assesses_start and not self.history:
                self._record({}, began, file)
            while not self.finished:
                metrics = self.train_unit()
                self.completed += 1
                self._record(metrics, began, file)
                on_metrics(metrics)
                due = self.can_pause and time.monotonic() - saved >= self.checkpoint_seconds
                if due or self.finished:
                    self.save_checkpoint()
                    saved = time.monotonic()

    def save_checkpoint(self) -> None:
        """Write weights, optimizer and progress to one file, atomically, after the metrics so far are on the disk."""
        with explain_write_errors(self.metrics_path), self.metrics_path.open("a") as file:
            os.fsync(file.fileno())
        state, (extras, extra_arrays) = self._optimizer.read_optimizer(), self.read_extras()
        parts: dict[str, Arrays] = {
            "model": model_arrays(self._module),
            "exp_avg": {name: tensor.numpy() for name, tensor in state.exp_avg.items()},
            "exp_avg_sq": {name: tensor.numpy() for name, tensor in state.exp_avg_sq.items()},
            "extra": extra_arrays,
        }
        metadata = {
            "format": FORMAT,
            "identity": self.identity,
            "completed": self.completed,
            "optimizer_steps": state.steps,
            "extras": extras,
            "history": self._digest.hexdigest(),
        }
        arrays = {f"{part}.{name}": array for part, named in parts.items() for name, array in named.items()}
        save_arrays(self.checkpoint_path, arrays, kind="checkpoint", metadata=metadata)

    def _record(self, metrics: Metrics, began: float, file: IO[bytes]) -> None:
        metrics[self.unit] = self.completed
        self.assess(metrics)
        self.seconds = time.monotonic() - began
        metrics["seconds"] = round(self.seconds, 2)
        self.history.append(metrics)
        add_to_digest(self._digest, metrics)
        with explain_write_errors(self.metrics_path):
            write_all(file, f"{json.dumps(metrics)}\n".encode())

    # ---- resuming ----

    def _restore(self) -> None:
        try:
            arrays, metadata = load_arrays(self.checkpoint_path, kind="checkpoint")
        except FileError as error:
            raise FileError(f"{error}; or {self._start_over}") from error
        try:
            self._continue_from(arrays, metadata)
        except FileError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
            raise FileError(f"{self.checkpoint_path} is damaged ({error!r}); {self._start_over}") from error

    def _continue_from(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        if metadata.get("format") != FORMAT:
            raise FileError(
                f"{self.checkpoint_path} has format {metadata.get('format', 1)}, expected {FORMAT}: it was written by "
                f"another version of gatel0rd; {self._start_over}"
            )
        if metadata["identity"] != self.identity:
            raise FileError(
                f"{self.checkpoint_path} was written by a run with another {self.differs_in}; "
                "use another directory, or delete this one to start over"
            )
        parts: dict[str, Arrays] = {"model": {}, "exp_avg": {}, "exp_avg_sq": {}, "extra": {}}
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts[part][name] = array
        check_numbers(least=0, completed=metadata["completed"], optimizer_steps=metadata["optimizer_steps"])
        history = self._read_history(metadata["completed"])
        for metrics in history:
            add_to_digest(self._digest, metrics)
        if metadata.get("history") not in (None, self._digest.hexdigest()):  # earlier versions did not keep it
            raise FileError(
                f"{self.metrics_path} is damaged: it is not what was written when its checkpoint was; restore it from "
                f"a backup, or {self._start_over}"
            )
        self._check_parts(parts)
        load_weights(self._module, parts["model"], self.checkpoint_path)
        exp_avg, exp_avg_sq = (
            {name: torch.from_numpy(array.copy()) for name, array in parts[moment].items()}
            for moment in ("exp_avg", "exp_avg_sq")
        )
        self._optimizer.restore_optimizer(AdamState(metadata["optimizer_steps"], exp_avg, exp_avg_sq))
        self.completed, self.history = metadata["completed"], history
        self.seconds = history[-1]["seconds"] if history else 0.0
        self.restore_extras(metadata["extras"], parts["extra"])
        # what was logged after the checkpoint happens again
        write_atomically(self.metrics_path, "".join(json.dumps(metrics) + "\n" for metrics in history))

    def _check_parts(self, parts: dict[str, Arrays]) -> None:
        """Numbers that are not finite, and moments of other parameters, are an error."""
        for part in ("model", "exp_avg", "exp_avg_sq"):
            check_finite(parts[part], self.checkpoint_path)
        shapes = {name: tuple(parameter.shape) for name, parameter in self._module.named_parameters()}
        other = parts["exp_avg"].keys() ^ parts["exp_avg_sq"].keys()
        for part in ("exp_avg", "exp_avg_sq"):
            other |= {name for name, array in parts[part].items() if array.shape != shapes.get(name)}
        if other:
            raise ValueError(f"the moments of {', '.join(sorted(other)[:4])} do not fit the weights")

    def _read_history(self, completed: int) -> list[Metrics]:
        """The metrics up to a checkpoint. Whatever follows may be cut short or damaged, it is not read."""
        if not self.metrics_path.exists():
            raise FileError(f"{self.metrics_path} is missing, but its checkpoint is there; {self._start_over}")
        numbers = range(0 if self.assesses_start else 1, completed + 1)
        lines = self.metrics_path.read_bytes().split(b"\n")[: len(numbers)]
        history: list[Metrics] = []
        for number, line in zip(numbers, lines, strict=False):
            try:
                metrics = parse_json(line.decode(), self.metrics_path)
            except ValueError:  # cut short, or not even text
                break
            if metrics.get(self.unit) != number or not isinstance(metrics.get("seconds"), (int, float)):
                break
            history.append(metrics)
        if len(history) < len(numbers):
            raise FileError(
                f"{self.metrics_path} has {len(history)} whole lines; its checkpoint was written after {len(numbers)}. "
                f"Restore the file from a backup, or {self._start_over}"
            )
        return history

    @property
    def _start_over(self) -> str:
        return f"delete {self.checkpoint_path} to train again from the beginning"
