"""What a run leaves in its directory while it goes on: metrics, line by line, and a checkpoint to go on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gatel0rd.files import FileError, load_arrays, save_arrays, write_atomically
from gatel0rd.models.io import load_weights, model_arrays

Metrics = dict[str, Any]
Moments = dict[str, dict[str, Tensor]]
"""Adam's moments: ``exp_avg`` and ``exp_avg_sq``, each by the names of the parameters."""


class TrainingError(ValueError):
    """Training cannot go on; the message says why and what to do."""


class Resumable:
    """Training in one directory that goes on where a killed predecessor stopped.

    Attributes:
        directory: holds ``metrics.jsonl`` and ``checkpoint.safetensors``.
        identity: what must be the same for a checkpoint to be one's own.
        belongs_to: the same, in words.
    """

    directory: Path
    identity: str
    belongs_to: str

    @property
    def checkpoint_path(self) -> Path:
        return self.directory / "checkpoint.safetensors"

    @property
    def metrics_path(self) -> Path:
        return self.directory / "metrics.jsonl"

    def prepare_directory(self) -> bool:
        """Make the directory; whether there is a checkpoint to go on from."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.checkpoint_path.exists():
            return True
        self.metrics_path.unlink(missing_ok=True)  # of a predecessor that died before its first checkpoint
        return False

    def write_checkpoint(self, model: nn.Module, moments: Moments, progress: dict[str, int]) -> None:
        """Write weights, optimizer and progress to one file, atomically."""
        arrays = {f"model.{name}": array for name, array in model_arrays(model).items()}
        for moment, tensors in moments.items():
            arrays |= {f"{moment}.{name}": tensor.numpy() for name, tensor in tensors.items()}
        save_arrays(self.checkpoint_path, arrays, kind="checkpoint", metadata={**progress, "identity": self.identity})

    def read_checkpoint(self, model: nn.Module) -> tuple[dict[str, int], Moments]:
        """Put the checkpoint's weights into the model; returns progress and moments."""
        arrays, metadata = load_arrays(self.checkpoint_path, kind="checkpoint")
        if metadata.pop("identity") != self.identity:
            raise FileError(
                f"{self.checkpoint_path} was written by a run with another {self.belongs_to}; "
                "use another directory, or delete this one to start over"
            )
        parts: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts.setdefault(part, {})[name] = array
        load_weights(model, parts.pop("model"), self.checkpoint_path)
        moments = {
            moment: {name: torch.from_numpy(array.copy()) for name, array in found.items()}
            for moment, found in parts.items()
        }
        return metadata, moments

    def read_history(self, lines: int) -> list[Metrics]:
        """The first lines of the metrics. What was logged after the checkpoint happens again and is dropped; a line cut
        short by a kill can only be among that."""
        if not self.metrics_path.exists():
            raise FileError(
                f"{self.metrics_path} is missing beside its checkpoint; delete the checkpoint to start over"
            )
        history = [json.loads(line) for line in self.metrics_path.read_text().splitlines()[:lines]]
        write_atomically(self.metrics_path, "".join(json.dumps(metrics) + "\n" for metrics in history))
        return history
