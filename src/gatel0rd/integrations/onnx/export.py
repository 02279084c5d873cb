"""World models as ONNX files, to run without PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gatel0rd.files import FileError, write_atomically
from gatel0rd.integrations.onnx.models import initial_model, sequence_model, step_model
from gatel0rd.models.fitted import FittedModel


def export_onnx(fitted: FittedModel, out: Path) -> list[Path]:
    """Write ``step.onnx``, ``initial.onnx`` and ``sequence.onnx`` into a directory; float32, without gate noise.

    Observations, actions and predictions are in the data's units, states are as in the model. Batch and time are free.

    - ``step``: observation [batch, O], action [batch, A], state_0 … -> prediction [batch, O], next_state_0 …,
      latents [batch, H], gates [batch, G].
    - ``initial``: observations [init_steps, batch, O], actions -> state_0 …, with which stepping starts.
    - ``sequence``: observations [time, batch, O], actions, real_steps (how many inputs are real before the model
      continues with its own predictions) -> predictions [time, batch, O], latents, gates.

    Models without actions have no such input, cells without sparse gates no such output.

    Example:
        >>> from pathlib import Path
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.integrations.onnx import export_onnx
        >>> from gatel0rd.models.fitted import wrap_model
        >>> model = wrap_model(WorldModel(WorldModelConfig(observation_size=2, action_size=1)))
        >>> [path.name for path in export_onnx(model, Path("onnx"))]
        ['step.onnx', 'initial.onnx', 'sequence.onnx']
    """
    check_exportable(fitted)
    if out.exists() and not out.is_dir():
        raise FileError(f"{out} is a file; expected a directory to write the ONNX files into")
    models = {
        "step.onnx": step_model(fitted),
        "initial.onnx": initial_model(fitted),
        "sequence.onnx": sequence_model(fitted),
    }
    for name, model in models.items():
        write_atomically(out / name, model.SerializeToString())
    return [out / name for name in models]


def check_exportable(fitted: FittedModel) -> None:
    for name, parameter in fitted.model.named_parameters():
        if parameter.dtype != torch.float32:
            raise ValueError(
                f"{name} is {parameter.dtype}; ONNX files are written for torch.float32, call model.float() before"
            )
    for kind, names, scaling in (
        ("observations", fitted.observation_names, fitted.observation_scaling),
        ("actions", fitted.action_names, fitted.action_scaling),
    ):
        for name, offset, scale in zip(names, scaling.offset, scaling.scale, strict=True):
            as_written = np.array([offset, scale, 1 / scale if scale else np.inf]).astype(np.float64)
            if not (np.abs(as_written) <= np.finfo(np.float32).max).all():
                raise ValueError(
                    f"column {name} of the {kind} has offset {offset} and scale {scale}; expected numbers that float32 "
                    "can hold, change the unit of the column and fit again"
                )
