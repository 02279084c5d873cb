"""Events of a network's gates while rows come one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.models.events import APART
from gatel0rd.models.fitted import FittedModel
from gatel0rd.nn.cells import State


class OnlineGates:
    """A fitted model that is given one row at a time.

    Args:
        fitted: a model with gates.
        apart: events less than this many steps after another belong to it.
    """

    def __init__(self, fitted: FittedModel, *, apart: int = APART) -> None:
        self.fitted, self.apart = fitted, apart
        self.scaling = [
            (np.array(scaling.offset), np.array(scaling.scale))
            for scaling in (fitted.observation_scaling, fitted.action_scaling)
        ]
        self.reset()

    def reset(self) -> None:
        """Forget the sequence; the next row begins another."""
        self.time, self.last = -1, 0  # the beginning is a boundary
        self.was_open = True  # gates that are open from the first input on were not seen to open
        self.state: State | None = None
        self.waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def update(self, observation: Sequence[float] | NDArray[Any], action: Sequence[float] | NDArray[Any] = ()) -> Any:
        """Take a row; returns its time if an event begins there, else None."""
        model = self.fitted.model
        rows = [
            torch.from_numpy(((np.asarray(values, np.float64) - offset) / scale).astype(np.float32)[None, None])
            for values, (offset, scale) in zip((observation, action), self.scaling, strict=True)
        ]
        self.waiting.append((rows[0], rows[1]))
        if self.state is None:
            if len(self.waiting) < model.config.init_steps:
                return None
            self.state = model.initial(*(torch.cat(parts) for parts in zip(*self.waiting, strict=True)))
        begun = None
        for seen, given in self.waiting:
            self.time += 1
            rollout = model.rollout(self.state, seen[0], given)  # one step, in one call of the compiled engine
            self.state, gates = rollout.state, rollout.gates
            assert gates is not None
            is_open = bool(gates.max() > 0)
            if is_open and not self.was_open and self.time - self.last >= self.apart:
                begun = self.last = self.time
            self.was_open = is_open
        self.waiting = []
        return begun
