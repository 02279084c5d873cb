"""A world model of somebody's own data: weights, names of columns and scaling."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.models.world_model import Rollout, WorldModel

Array = NDArray[np.floating[Any]]
PRECISION = 1e-4
"""Share of a column's spread that rounding to float32 may cost."""
ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Spread of a constant column that was computed, relative to its size."""


def narrow(values: NDArray[Any], *, whole: bool = True) -> Array:
    """float32 where that keeps the details of every column, else float64: 5300000 + 0.05·sin(t) needs it.

    Args:
        values: numbers, [S, columns], NaN where they are missing.
        whole: whether these are all rows; what is constant in a part of them may change in another.
    """
    if values.dtype == np.float32:
        return values
    exact = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        short = exact.astype(np.float32)
        lost = np.fmax.reduce(np.abs(exact - short), axis=0, initial=0.0)
        spread = np.fmax.reduce(exact, axis=0, initial=-np.inf) - np.fmin.reduce(exact, axis=0, initial=np.inf)
        matters = (lost > PRECISION * spread) & ((spread > 0) | (not whole))
    return exact if matters.any() else short


@dataclass(frozen=True)
class Scaling:
    """(x - offset) / scale, column by column."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @staticmethod
    def of(values: Array) -> Scaling:
        """Mean 0 and standard deviation 1 on these rows; constant columns keep their size."""
        std = values.std(axis=0, dtype=np.float64)
        # that of a constant is not 0 if its mean is rounded, and what is divided by it may overflow
        rounding = ROUNDING * np.abs(values).max(axis=0, initial=0.0)
        return Scaling(
            tuple(values.mean(axis=0, dtype=np.float64).tolist()),
            tuple(np.where((std > 0) & (np.ptp(values, axis=0) > rounding), std, 1.0).tolist()),
        )

    def fits(self, size: int) -> bool:
        """Whether this is a valid scaling of ``size`` columns."""
        numbers = np.array([*self.offset, *self.scale])
        return (
            len(self.offset) == len(self.scale) == size
            and bool(np.isfinite(numbers).all())
            and min(self.scale, default=1) > 0
        )

    def transform(self, values: Array) -> NDArray[np.float32]:
        """From the data's units to the model's: centred in float64, then float32."""
        scaled: NDArray[np.float32] = ((values - np.array(self.offset)) / np.array(self.scale)).astype(np.float32)
        return scaled

    def inverse_transform(self, values: Array) -> Array:
        """From the model's units to the data's; in float64 where float32 would lose the details."""
        offset, scale = np.array(self.offset), np.array(self.scale)
        plain: NDArray[np.float64] = values * scale + offset
        rounding = np.finfo(np.float32).eps * np.abs(offset)
        return plain if (rounding > PRECISION * scale).any() else plain.astype(np.float32)


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
        variants: weights that the fit went through with other prices of open gates, and so with more or fewer events,
            one for each point of ``info["curve"]``; none for models of which there is no such curve.

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
    variants: tuple[dict[str, NDArray[Any]], ...] = ()

    def take_variant(self, point: int) -> FittedModel:
        """The model with the weights of a point of its curve; the chosen one is the model itself."""
        if point == self.info.get("chosen"):
            return self
        model = copy.deepcopy(self.model)
        model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.variants[point].items()})
        return replace(self, model=model.eval())

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
