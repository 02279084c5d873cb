"""A world model of somebody's own data: weights, names of columns and scaling, in one directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.files import FileError, load_arrays, write_json
from gatel0rd.models.io import load_model, save_model
from gatel0rd.models.world_model import Rollout, WorldModel

Array = NDArray[np.float32]
VERSION = 1


@dataclass(frozen=True)
class Scaling:
    """(x - offset) / scale, column by column."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @staticmethod
    def of(values: Array) -> Scaling:
        """Mean 0 and deviation 1 on these rows; constant columns keep their size."""
        deviation = values.std(axis=0, dtype=np.float64)
        return Scaling(
            tuple(values.mean(axis=0, dtype=np.float64).tolist()),
            tuple(np.where(deviation > 0, deviation, 1.0).tolist()),
        )

    def fits(self, size: int) -> bool:
        """Whether this can scale so many columns."""
        numbers = np.array([*self.offset, *self.scale])
        return (
            len(self.offset) == len(self.scale) == size
            and bool(np.isfinite(numbers).all())
            and min(self.scale, default=1) > 0
        )

    def there(self, values: Array) -> Array:
        """From the data's units to the model's."""
        scaled: Array = ((values - np.array(self.offset)) / np.array(self.scale)).astype(np.float32)
        return scaled

    def back(self, values: Array) -> Array:
        """From the model's units to the data's."""
        plain: Array = (values * np.array(self.scale) + np.array(self.offset)).astype(np.float32)
        return plain


@dataclass(frozen=True)
class Course:
    """One sequence as a model sees it, in the data's units.

    Row t of all arrays is about input t: the prediction of observation t + 1, the latent state and gates after input t.

    Shape: predictions [T - 1, O], latents [T - 1, H], gates [T - 1, G] or None.
    """

    predictions: Array
    latents: Array
    gates: Array | None


@dataclass(frozen=True, kw_only=True)
class FittedModel:
    """A trained world model that knows its data.

    Attributes:
        observation_names, action_names: columns, in the model's order.
        observation_scaling, action_scaling: learned on the training part.
        info: how it was fitted, as plain data.
    """

    model: WorldModel
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    observation_scaling: Scaling
    action_scaling: Scaling
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        return self.model.config.cell.name

    def save(self, directory: Path | str) -> Path:
        """Write ``model.safetensors`` and ``model.json``."""
        directory = Path(directory)
        save_model(directory / "model.safetensors", self.model)
        content = {
            "version": VERSION,
            "cell": self.cell,
            "observations": list(self.observation_names),
            "actions": list(self.action_names),
            "scaling": {
                "observations": {"offset": self.observation_scaling.offset, "scale": self.observation_scaling.scale},
                "actions": {"offset": self.action_scaling.offset, "scale": self.action_scaling.scale},
            },
            "info": self.info,
        }
        write_json(directory / "model.json", content)
        return directory

    @staticmethod
    def load(directory: Path | str) -> FittedModel:
        """Read a model's directory; never executes code from it."""
        directory = Path(directory)
        weights, description = directory / "model.safetensors", directory / "model.json"
        if not weights.exists():
            raise FileError(f"there is no {weights}; expected a directory that `gatel0rd fit` or `gatel0rd run` left")
        model = load_model(weights)
        config = model.config
        if not description.exists():  # a run of an experiment: columns are numbered, nothing is scaled
            run = load_arrays(weights, kind="model")[1].get("run", {})
            return unscaled(model, info={"run": run} if run else {})
        try:
            content = json.loads(description.read_text())
            scaling = {
                name: Scaling(tuple(map(float, entry["offset"])), tuple(map(float, entry["scale"])))
                for name, entry in content["scaling"].items()
            }
            observed, acted = tuple(map(str, content["observations"])), tuple(map(str, content["actions"]))
            sizes = (len(observed), len(acted))
            usable = content["version"] == VERSION and all(
                scaling[name].fits(size) for name, size in zip(("observations", "actions"), sizes, strict=True)
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileError(f"{description} is damaged ({error!r}); fit the model again") from error
        if sizes != (config.observation_size, config.action_size):
            raise FileError(
                f"{description} names {sizes[0]} observations and {sizes[1]} actions; the weights beside it have "
                f"{config.observation_size} and {config.action_size}"
            )
        if not usable:
            raise FileError(f"{description} has another version, or a scaling that is no scaling; fit the model again")
        return FittedModel(
            model=model,
            observation_names=observed,
            action_names=acted,
            observation_scaling=scaling["observations"],
            action_scaling=scaling["actions"],
            info=content.get("info", {}),
        )

    def inputs(self, observations: Array, actions: Array) -> tuple[Tensor, Tensor]:
        """One sequence in the model's units, with a batch of one. Shape: [T, O], [T, A] -> [T, 1, O], [T, 1, A]."""
        for what, array, names in (
            ("observations", observations, self.observation_names),
            ("actions", actions, self.action_names),
        ):
            if array.ndim != 2 or array.shape[1] != len(names):
                raise ValueError(
                    f"{what} have shape {array.shape}; expected [T, {len(names)}] ({', '.join(names) or 'none'})"
                )
        seen, acted = self.observation_scaling.there(observations), self.action_scaling.there(actions)
        return torch.from_numpy(seen).unsqueeze(1), torch.from_numpy(acted).unsqueeze(1)

    @torch.no_grad()
    def run(self, observations: Array, actions: Array | None = None, *, real_steps: int | None = None) -> Course:
        """Run over one sequence, without gate noise.

        Args:
            observations: [T, O] in the data's units.
            actions: [T, A]; none if the model has none.
            real_steps: how many inputs are real before the model goes on by itself; all if not given.
        """
        acted = np.zeros((len(observations), 0), np.float32) if actions is None else actions
        seen, given = self.inputs(observations, acted)
        if len(seen) <= self.model.config.init_steps:
            raise ValueError(f"there are {len(seen)} steps; expected more than {self.model.config.init_steps}")
        real_steps = len(seen) if real_steps is None else max(real_steps, self.model.config.init_steps)
        return self._course(self.model.free_run(seen[:-1], given[:-1], real_steps))

    def _course(self, rollout: Rollout) -> Course:
        return Course(
            predictions=self.observation_scaling.back(rollout.predictions[:, 0].numpy()),
            latents=rollout.latents[:, 0].numpy(),
            gates=None if rollout.gates is None else rollout.gates[:, 0].numpy(),
        )


def unscaled(
    model: WorldModel,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    info: dict[str, Any] | None = None,
) -> FittedModel:
    """A world model whose data needs no scaling."""
    sizes = (model.config.observation_size, model.config.action_size)
    names = tuple(observation_names or (f"x{i}" for i in range(sizes[0])))
    acted = tuple(action_names or (f"a{i}" for i in range(sizes[1])))
    scalings = [Scaling((0.0,) * size, (1.0,) * size) for size in sizes]
    return FittedModel(
        model=model,
        observation_names=names,
        action_names=acted,
        observation_scaling=scalings[0],
        action_scaling=scalings[1],
        info=info or {},
    )


def load(directory: Path | str) -> FittedModel:
    """Read a model that ``gatel0rd fit`` or ``gatel0rd run`` left in a directory."""
    return FittedModel.load(directory)
