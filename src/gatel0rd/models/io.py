"""World models as safetensors files that carry their configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from gatel0rd.config import from_json, to_json
from gatel0rd.files import FileError, load_arrays, save_arrays
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.world_model import WorldModel


def model_arrays(model: torch.nn.Module) -> dict[str, np.ndarray[Any, Any]]:
    """The weights of a model as NumPy arrays, by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}


def load_weights(model: torch.nn.Module, arrays: dict[str, np.ndarray[Any, Any]], source: Path) -> None:
    """Put weights into a model; weights of another model are a :class:`FileError` that names the differences."""
    own = model.state_dict()
    differences = [f"{name} is missing" for name in own if name not in arrays]
    differences += [f"{name} is not part of this model" for name in arrays if name not in own]
    differences += [
        f"{name} has shape {array.shape}, expected {tuple(own[name].shape)}"
        for name, array in arrays.items()
        if name in own and array.shape != tuple(own[name].shape)
    ]
    if differences:
        shown = "; ".join(differences[:4]) + ("; …" if len(differences) > 4 else "")
        raise FileError(f"{source} belongs to another model: {shown}")
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})


def save_model(path: Path | str, model: WorldModel, metadata: dict[str, Any] | None = None) -> None:
    """Write a world model to one file; ``metadata`` (plain JSON data) is kept beside its configuration."""
    content = {"config": to_json(model.config), **(metadata or {})}
    save_arrays(Path(path), model_arrays(model), kind="model", metadata=content)


def load_model(path: Path | str) -> WorldModel:
    """Read a world model, in ``eval()`` mode. Never executes code from the file."""
    arrays, metadata = load_arrays(Path(path), kind="model")
    dtype = torch.from_numpy(next(iter(arrays.values()))).dtype
    model = WorldModel(from_json(WorldModelConfig, metadata["config"]), dtype=dtype)
    load_weights(model, arrays, Path(path))
    return model.eval()
