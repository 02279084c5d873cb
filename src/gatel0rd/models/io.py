"""Every save and load of models: safetensors files that carry their configuration. None of them ever executes code.

A path is a file, the directory that a run or a fit left, or the name of a model that comes with this package, as in
``zoo:rrc/gatel0rd``; :func:`identify` says what it holds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from gatel0rd.config import from_json, to_json
from gatel0rd.files import Arrays, FileError, load_arrays, read_header, read_json, save_arrays, write_sealed_json
from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.models.config import (
    ActorCriticConfig,
    FollowingModelConfig,
    OutcomeModelConfig,
    SequenceModelConfig,
    WorldModelConfig,
)
from gatel0rd.models.fitted import FittedModel, Scaling, wrap_model
from gatel0rd.models.sequence_model import SequenceModel
from gatel0rd.models.world_model import WorldModel
from gatel0rd.models.zoo import resolve

MODEL_FILE, AGENT_FILE, CHECKPOINT_FILE = "model.safetensors", "agent.safetensors", "checkpoint.safetensors"
"""Names of the files in the directory of a run or of a fit."""
DESCRIPTION_FILE, DESCRIPTION_VERSION = "model.json", 1
"""Columns and scaling of a fitted model, next to its weights."""
VARIANTS_FILE = "variants.safetensors"
"""The weights of a fitted model at other prices of open gates, next to those of the chosen one."""
EXPECTED = {
    MODEL_FILE: "a directory that `gatel0rd fit` or `gatel0rd run` left",
    AGENT_FILE: "the directory of a finished run, as `gatel0rd rl train` leaves it",
}
"""Where these files are found, in words."""


Network = TypeVar("Network", bound=torch.nn.Module)


class ContentKind(Enum):
    """What a file or a directory holds. The values complete the sentence "it holds …"."""

    WORLD_MODEL = "a world model"
    FITTED_MODEL = "a world model of recordings"
    AGENT = "an agent"
    SEQUENCE_MODEL = "a network that answers at every step"
    CHECKPOINT = "an unfinished training"
    DATASET = "a data set"


@dataclass(frozen=True)
class Contents:
    """What a path holds.

    Attributes:
        file: the safetensors file, which is the path itself or a file in it.
        metadata: what was written into that file next to the arrays, as plain data.
    """

    kind: ContentKind
    file: Path
    metadata: dict[str, Any]


def identify(path: Path | str) -> Contents:
    """Say what a file, or the directory of a run or of a fit, holds; without reading weights.

    The finished model counts before the checkpoint from which it came. A path with nothing of ours is a
    :class:`FileError`.

    Example:
        >>> from gatel0rd import WorldModel, WorldModelConfig, save_model
        >>> from gatel0rd.models import identify
        >>> save_model("model.safetensors", WorldModel(WorldModelConfig(observation_size=2, action_size=1)))
        >>> identify("model.safetensors").kind.value
        'a world model'
    """
    path = resolve(path)
    file = path
    if path.is_dir():
        found = [path / name for name in (MODEL_FILE, AGENT_FILE, CHECKPOINT_FILE) if (path / name).exists()]
        if not found:
            raise FileError(
                f"there is no {MODEL_FILE} or {AGENT_FILE} in {path}; expected a directory that `gatel0rd fit`, "
                "`gatel0rd run` or `gatel0rd rl train` left"
            )
        file = found[0]
    name, metadata = read_header(file)
    kinds = {
        "model": ContentKind.WORLD_MODEL,
        "agent": ContentKind.AGENT,
        "sequence model": ContentKind.SEQUENCE_MODEL,
        "checkpoint": ContentKind.CHECKPOINT,
        "dataset": ContentKind.DATASET,
    }
    if name not in kinds:
        raise FileError(f"{file} is gatel0rd {name}, which this version does not know; expected {', '.join(kinds)}")
    kind = kinds[name]
    if kind is ContentKind.WORLD_MODEL and file != path and (path / DESCRIPTION_FILE).exists():
        kind = ContentKind.FITTED_MODEL
    return Contents(kind, file, metadata)


def weights_file(path: Path | str, name: str) -> Path:
    """The file of weights at a path, which is that file or a directory in which it has this name."""
    path = resolve(path)
    if path.is_file() or path.suffix == ".safetensors":
        return path
    file, held = path / name, ""
    if file.is_file():
        return file
    if path.is_dir():
        with suppress(FileError):  # there is nothing of ours
            held = f" ({path} holds {identify(path).kind.value})"
    raise FileError(f"there is no {file}{held}; expected {EXPECTED[name]}")


# ---- weights ----


def model_arrays(model: torch.nn.Module) -> Arrays:
    """The weights of a model as NumPy arrays, by name."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}


def load_weights(model: torch.nn.Module, arrays: Arrays, source: Path) -> None:
    """Put weights into a model; weights of another model are a :class:`FileError` that names the differences."""
    check_weights(model, arrays, source)
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})


def check_weights(model: torch.nn.Module, arrays: Arrays, source: Path) -> None:
    """Weights of another model are a :class:`FileError` that names the differences."""
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


def check_finite(arrays: Arrays, source: Path) -> None:
    """Weights that are NaN or infinite, as after a training that diverged, are a :class:`FileError`."""
    wrong = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if wrong:
        names = ", ".join(wrong[:4])
        raise FileError(f"{source} has weights that are NaN or infinite ({names}); train the model again")


def _restore(file: Path, kind: str, build: Callable[[Any, Arrays], Network]) -> tuple[Network, dict[str, Any]]:
    """The network in a file of this kind, in ``eval()`` mode, and the metadata that was written with it.

    Args:
        build: makes the network of its configuration, and of the arrays for their type; a configuration that no network
            can be made of is an error that names the file.
    """
    arrays, metadata = load_arrays(file, kind=kind)
    config = metadata.get("config")
    try:
        _check_layers(config, len(arrays))
        with torch.device("meta"):  # sizes that the weights do not have are seen before memory is taken for them
            check_weights(build(config, arrays), arrays, file)
        network = build(config, arrays)
    except FileError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise FileError(f"{file} is damaged or of another version: {error}; make it again or restore it") from error
    load_weights(network, arrays, file)
    check_finite(arrays, file)
    return network.eval(), metadata


def _weights_dtype(arrays: Arrays) -> torch.dtype:
    dtypes = {array.dtype for array in arrays.values()} & {np.dtype(np.float32), np.dtype(np.float64)}
    return torch.float64 if dtypes == {np.dtype(np.float64)} else torch.float32


def _check_layers(config: Any, most: int) -> None:
    """More layers than there are weights are an error, before they are made."""
    if not isinstance(config, dict):
        return
    for name, value in config.items():
        if name.endswith("layers") and isinstance(value, int) and value > most:
            raise ValueError(f"{name} is {value}, and there are {most} weights")
        _check_layers(value, most)


# ---- world models ----


def save_model(path: Path | str, model: WorldModel, metadata: dict[str, Any] | None = None) -> None:
    """Write a world model to one file, with its configuration and ``metadata`` (plain JSON data).

    Example:
        >>> from gatel0rd import WorldModel, WorldModelConfig, save_model
        >>> model = WorldModel(WorldModelConfig(observation_size=2, action_size=1))
        >>> save_model("model.safetensors", model, {"trained on": "pendulum"})
    """
    content = {"config": to_json(model.config), **(metadata or {})}
    save_arrays(Path(path), model_arrays(model), kind="model", metadata=content)


def load_model(path: Path | str) -> WorldModel:
    """Read a world model from its file or its directory, in ``eval()`` mode.

    Example:
        >>> from gatel0rd import WorldModel, WorldModelConfig, load_model, save_model
        >>> model = WorldModel(WorldModelConfig(observation_size=2, action_size=1))
        >>> save_model("model.safetensors", model)
        >>> load_model("model.safetensors").config == model.config
        True
    """
    return _load_model(weights_file(path, MODEL_FILE))[0]


def _load_model(file: Path) -> tuple[WorldModel, dict[str, Any]]:
    return _restore(file, "model", _build_world_model)


def _build_world_model(config: Any, arrays: Arrays) -> WorldModel:
    kinds = {"outcomes": OutcomeModelConfig, "transitions": FollowingModelConfig}
    fields = config if isinstance(config, dict) else {}
    kind = next((kinds[field] for field in kinds if field in fields), WorldModelConfig)
    return WorldModel(from_json(kind, config), dtype=_weights_dtype(arrays))


# ---- agents ----


def save_agent(path: Path | str, agent: ActorCritic, metadata: dict[str, Any] | None = None) -> None:
    """Write an agent to one file, with its configuration and ``metadata`` (plain JSON data).

    Example:
        >>> from gatel0rd.models import ActorCritic, ActorCriticConfig, save_agent
        >>> agent = ActorCritic(ActorCriticConfig(observation_shape=(3,), actions=2))
        >>> save_agent("agent.safetensors", agent)
    """
    content = {"config": to_json(agent.config), **(metadata or {})}
    save_arrays(Path(path), model_arrays(agent), kind="agent", metadata=content)


def load_agent(path: Path | str) -> tuple[ActorCritic, dict[str, Any]]:
    """Read an agent from its file or its directory, in ``eval()`` mode, and the metadata that was written with it.

    Example:
        >>> from gatel0rd.models import ActorCritic, ActorCriticConfig, load_agent, save_agent
        >>> agent = ActorCritic(ActorCriticConfig(observation_shape=(3,), actions=2))
        >>> save_agent("agent.safetensors", agent, {"environment": "Pendulum-v1"})
        >>> loaded, metadata = load_agent("agent.safetensors")
        >>> metadata["environment"]
        'Pendulum-v1'
    """
    file = weights_file(path, AGENT_FILE)
    return _restore(file, "agent", _build_agent)


def _build_agent(config: Any, arrays: Arrays) -> ActorCritic:
    return ActorCritic(from_json(ActorCriticConfig, config)).to(_weights_dtype(arrays))


# ---- networks that answer at every step ----


def save_sequence_model(path: Path | str, model: SequenceModel, metadata: dict[str, Any] | None = None) -> None:
    """Write a network to one file, with its configuration and ``metadata`` (plain JSON data)."""
    content = {"config": to_json(model.config), **(metadata or {})}
    save_arrays(Path(path), model_arrays(model), kind="sequence model", metadata=content)


def load_sequence_model(path: Path | str) -> SequenceModel:
    """Read a network from its file or its directory, in ``eval()`` mode."""
    file = weights_file(path, MODEL_FILE)
    return _restore(file, "sequence model", _build_sequence_model)[0]


def _build_sequence_model(config: Any, arrays: Arrays) -> SequenceModel:
    return SequenceModel(from_json(SequenceModelConfig, config)).to(_weights_dtype(arrays))


# ---- fitted models ----


def save_fitted(directory: Path | str, fitted: FittedModel) -> Path:
    """Write a fitted model's weights and its description to a directory.

    Example:
        >>> import gatel0rd
        >>> from gatel0rd.models import save_fitted
        >>> from gatel0rd.models.fitted import wrap_model
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> model = WorldModel(WorldModelConfig(observation_size=1, action_size=1))
        >>> directory = save_fitted("tank", wrap_model(model, observation_names=["level"], action_names=["valve"]))
        >>> gatel0rd.load(directory).observation_names
        ('level',)
    """
    directory = Path(directory)
    save_model(directory / MODEL_FILE, fitted.model)
    content = {
        "version": DESCRIPTION_VERSION,
        "cell": fitted.cell,
        "observations": list(fitted.observation_names),
        "actions": list(fitted.action_names),
        "scaling": {
            "observations": {"offset": fitted.observation_scaling.offset, "scale": fitted.observation_scaling.scale},
            "actions": {"offset": fitted.action_scaling.offset, "scale": fitted.action_scaling.scale},
        },
        "info": fitted.info,
    }
    variants = {f"{place}.{name}": array for place, own in enumerate(fitted.variants) for name, array in own.items()}
    if variants:
        save_arrays(directory / VARIANTS_FILE, variants, kind="variants", metadata={"count": len(fitted.variants)})
    else:
        (directory / VARIANTS_FILE).unlink(missing_ok=True)
    write_sealed_json(directory / DESCRIPTION_FILE, content)  # it is read by people, but not changed by them
    return directory


def load_fitted(directory: Path | str) -> FittedModel:
    """Read a model that ``gatel0rd fit`` or ``gatel0rd run`` left in a directory, or one of the zoo by its name.

    Example:
        >>> import gatel0rd
        >>> from gatel0rd import WorldModel, WorldModelConfig, save_model
        >>> save_model("model.safetensors", WorldModel(WorldModelConfig(observation_size=2, action_size=1)))
        >>> gatel0rd.load("model.safetensors").observation_names
        ('x0', 'x1')
    """
    file = weights_file(directory, MODEL_FILE)
    model, metadata = _load_model(file)
    description = file.parent / DESCRIPTION_FILE
    if description.exists():
        fitted = _read_description(description, model)
        return replace(fitted, variants=_load_variants(file.parent / VARIANTS_FILE, fitted))
    run = metadata.get("run")  # a run of an experiment: columns are numbered, nothing is scaled
    return wrap_model(model, info={"run": run} if run else {})


def _load_variants(file: Path, fitted: FittedModel) -> tuple[Arrays, ...]:
    """The weights of the points of a fit's curve; none if there is no such file."""
    points = fitted.info.get("curve")
    if not file.exists() or not isinstance(points, list):
        return ()
    arrays, _ = load_arrays(file, kind="variants")
    variants: list[Arrays] = [{} for _ in points]
    for key, array in arrays.items():
        place, _, name = key.partition(".")
        if not place.isdigit() or int(place) >= len(variants):
            raise FileError(f"{file} belongs to another model: {key} is not part of a curve of {len(points)} points")
        variants[int(place)][name] = array
    scratch = copy.deepcopy(fitted.model)
    for variant in variants:
        load_weights(scratch, variant, file)
    return tuple(variants)


def _read_description(path: Path, model: WorldModel) -> FittedModel:
    config = model.config
    try:
        content = read_json(path)
        scaling = {
            name: Scaling(tuple(map(float, entry["offset"])), tuple(map(float, entry["scale"])))
            for name, entry in content["scaling"].items()
        }
        observed, acted = tuple(map(str, content["observations"])), tuple(map(str, content["actions"]))
        sizes = (len(observed), len(acted))
        usable = content["version"] == DESCRIPTION_VERSION and all(
            scaling[name].fits(size) for name, size in zip(("observations", "actions"), sizes, strict=True)
        )
        info = content.get("info", {})
        if not isinstance(info, dict):
            raise TypeError(f"info is a {type(info).__name__}")
    except FileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileError(f"{path} is damaged ({error!r}); fit the model again") from error
    if sizes != (config.observation_size, config.action_size):
        raise FileError(
            f"{path} names {sizes[0]} observations and {sizes[1]} actions; the weights beside it have "
            f"{config.observation_size} and {config.action_size}"
        )
    if not usable:
        raise FileError(f"{path} has another version, or a scaling that is no scaling; fit the model again")
    return FittedModel(
        model=model,
        observation_names=observed,
        action_names=acted,
        observation_scaling=scaling["observations"],
        action_scaling=scaling["actions"],
        info=info,
    )
