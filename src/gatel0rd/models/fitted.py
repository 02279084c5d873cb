"""A world model of somebody's own data: weights, names of columns and scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.models.world_model import Rollout, WorldModel

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Scaling:
    """(x - offset) / scale, column by column."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @staticmethod
    def of(values: Array) -> Scaling:
        """Mean 0 and standard deviation 1 on these rows; constant columns keep their size."""
        std = values.std(axis=0, dtype=np.float64)
        return Scaling(
            tuple(values.mean(axis=0, dtype=np.float64).tolist()),
            tuple(np.where(std > 0, std, 1.0).tolist()),
        )

    def fits(self, size: int) -> bool:
        """Whether this is a valid scaling of ``size`` columns."""
        numbers = np.array([*self.offset, *self.scale])
        return (
            len(self.offset) == len(self.scale) == size
            and bool(np.isfinite(numbers).all())
            and min(self.scale, default=1) > 0
        )

    def transform(self, values: Array) -> Array:
        """From the data's units to the model's."""
        scaled: Array = ((values - np.array(self.offset)) / np.array(self.scale)).astype(np.float32)
        return scaled

    def inverse_transform(self, values: Array) -> Array:
        """From the model's units to the data's."""
        plain: Array = (values * np.array(self.scale) + np.array(self.offset)).astype(np.float32)
        return plain


@dataclass(frozen=True)
class Trajectory:
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

    Example:
        >>> import numpy as np
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.models.fitted import wrap_model
        >>> model = WorldModel(WorldModelConfig(observation_size=1, action_size=1))
        >>> fitted = wrap_model(model, observation_names=["level"], action_names=["valve"])
        >>> fitted.observation_names, fitted.cell
        (('level',), 'gatel0rd')
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
        seen, acted = self.observation_scaling.transform(observations), self.action_scaling.transform(actions)
        return torch.from_numpy(seen).unsqueeze(1), torch.from_numpy(acted).unsqueeze(1)

    @torch.no_grad()
    def run(self, observations: Array, actions: Array | None = None, *, real_steps: int | None = None) -> Trajectory:
        """Run over one sequence, without gate noise.

        Args:
            observations: [T, O] in the data's units.
            actions: [T, A]; none if the model has none.
            real_steps: how many inputs are real before the model is fed its own predictions; all if not given.
        """
        acted = np.zeros((len(observations), 0), np.float32) if actions is None else actions
        seen, given = self.inputs(observations, acted)
        if len(seen) <= self.model.config.init_steps:
            raise ValueError(f"there are {len(seen)} steps; expected more than {self.model.config.init_steps}")
        real_steps = len(seen) if real_steps is None else max(real_steps, self.model.config.init_steps)
        return self._trajectory(self.model.free_run(seen[:-1], given[:-1], real_steps))

    def _trajectory(self, rollout: Rollout) -> Trajectory:
        return Trajectory(
            predictions=self.observation_scaling.inverse_transform(rollout.predictions[:, 0].numpy()),
            latents=rollout.latents[:, 0].numpy(),
            gates=None if rollout.gates is None else rollout.gates[:, 0].numpy(),
        )


def wrap_model(
    model: WorldModel,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    info: dict[str, Any] | None = None,
) -> FittedModel:
    """A world model whose data needs no scaling, as a fitted model; columns are numbered if no names are given."""
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
