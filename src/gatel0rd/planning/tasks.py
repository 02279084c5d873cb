"""What is planned for: episodes that run in parallel, and what their futures cost (Suppl. B.3, B.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.icem import ICEMConfig
from gatel0rd.planning.noise import Array

Flags = NDArray[np.bool_]


class ControlTask(ABC):
    """A control problem: episodes that run side by side, and their true future for any actions.

    Attributes:
        name: what messages call it.
        horizon: steps that the paper plans ahead.
        limit: steps until an episode has failed.
        idle: an action that changes nothing, for the first steps in which a model has not seen enough.
        enlarged: factor on the radii of the environment that the task was made from.

    Example:
        >>> import numpy as np
        >>> import gatel0rd.worlds
        >>> task = gatel0rd.worlds.get("rrc").make_task()
        >>> task.reset(np.random.default_rng(0).spawn(3)).shape  # three episodes, four observations
        (3, 4)
        >>> task.limit >= task.horizon
        True
    """

    name: str
    horizon: int
    limit: int
    idle: tuple[float, ...]
    enlarged: float = 1.0

    @property
    def action_size(self) -> int:
        return len(self.idle)

    @property
    def search(self) -> ICEMConfig:
        """The settings of iCEM that are used for it by default."""
        return ICEMConfig(horizon=self.horizon)

    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest actions, [A] each."""
        return -np.ones(self.action_size), np.ones(self.action_size)

    @abstractmethod
    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        """Begin an episode with each generator, on which alone its start depends; returns observations [E, O]."""

    @abstractmethod
    def step(self, actions: Array) -> tuple[Array, Flags]:
        """One step of every episode: observations [E, O], and whether its goal is reached now [E]."""

    def ended(self) -> bool:
        """Whether the episodes cannot continue, reached or not."""
        return False

    @abstractmethod
    def keep(self, rows: NDArray[np.int64]) -> None:
        """Continue with these episodes only."""

    @abstractmethod
    def simulate(self, sequences: Array) -> Array:
        """What action sequences would lead to. Shape: [E, N, T, A] -> observations [E, N, T, O]."""

    @abstractmethod
    def cost(self, observations: Array, actions: Array) -> Array:
        """The cost of (predicted) futures, summed over the horizon. Shape: [..., T, O], [..., T, A] -> [...]."""


def distances(points: Array, others: Array) -> Array:
    """Distances of points in the plane from others, [..., 2] each -> [...], in the precision of the points.

    Component by component, which takes a fraction of the time of ``np.linalg.norm``.
    """
    x, y = (points[..., k] - others[..., k].astype(points.dtype) for k in range(2))
    x *= x
    y *= y
    x += y
    result: Array = np.sqrt(x, out=x)
    return result
