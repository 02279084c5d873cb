"""What the share of open gates, or the number of events, is compared with while λ is adjusted.

How λ follows is the business of :class:`gatel0rd.nn.gate_rate.SparsityWeight`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gatel0rd.models.events import event_starts
from gatel0rd.models.world_model import WorldModel
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.windows import WindowBatch

CONTROL_RATE = 0.25
"""How fast λ follows the gates: by this much of their logarithmic distance from the target in every round."""
TOLERANCE = 0.25
"""How far from its target, relative to it, a measurement may be and still count as held."""
WATCHED = 256
"""Windows on which gates are measured after every round."""
LONGEST_EVENT = 3.0
"""Steps for which gates may stay open at an event, on average, before λ rises."""


@dataclass(frozen=True)
class GateActivity:
    """How active gates are, with real inputs and without noise.

    Attributes:
        open_rate: share of open gates.
        events: events per sequence of mean length (see :mod:`gatel0rd.models.events`).
        open_steps: steps with an open gate per sequence of mean length.
    """

    open_rate: float
    events: float
    open_steps: float


@torch.no_grad()
def measure_gates(
    model: WorldModel, observations: Tensor, actions: Tensor, groups: Sequence[WindowBatch], mean_steps: float
) -> GateActivity:
    """Measure gates on some of the windows, the longest first.

    Args:
        observations, actions: all rows, [S, O] and [S, A], in the model's units.
        groups: windows by length, in ascending order.
        mean_steps: inputs of a sequence, on average.
    """
    open_gates, gates_seen, open_steps, steps, events, transitions = 0.0, 0, 0.0, 0, 0.0, 0
    left = WATCHED
    for group in reversed(groups):
        starts = group.starts[:: max(1, len(group.starts) // left)][:left]
        left -= len(starts)
        rows = torch.from_numpy(starts)[None] + torch.arange(group.steps)[:, None]  # [T, B]
        gates = model(observations[rows], actions[rows]).gates
        assert gates is not None
        opened = gates > 0
        is_open = opened.any(-1)
        open_gates += float(opened.sum())
        gates_seen += gates.numel()
        open_steps += float(is_open.sum())
        steps += is_open.numel()
        events += float(event_starts(is_open.T.numpy()).sum())
        transitions += is_open.numel() - is_open.shape[1]  # the first step of a window is never an event
        if left <= 0:
            break
    return GateActivity(
        open_rate=open_gates / gates_seen,
        events=events / max(1, transitions) * (mean_steps - 1),
        open_steps=open_steps / steps * mean_steps,
    )


@dataclass(frozen=True)
class GateTarget:
    """What is held, at which value, in sequences of how many inputs on average."""

    kind: Literal["open_rate", "events"]
    value: float
    mean_steps: float

    @staticmethod
    def of(config: FitConfig, mean_steps: float) -> GateTarget | None:
        """The target of a fit, if it has one."""
        if config.events is not None:
            return GateTarget("events", config.events, mean_steps)
        return None if config.gate_rate is None else GateTarget("open_rate", config.gate_rate, mean_steps)

    def distance(self, activity: GateActivity) -> float:
        """How far a measurement is from the target, relative to it."""
        measured = activity.events if self.kind == "events" else activity.open_rate
        return abs(measured / self.value - 1)

    def ratio(self, activity: GateActivity) -> float:
        """What λ answers to, relative to the target: above 1 while gates are too active."""
        return self._activity(activity) / self.value

    def _activity(self, activity: GateActivity) -> float:
        """What λ answers to; it falls as λ rises.

        The number of events alone does not: gates that never close make no event either. Long openings therefore count
        as several events, and gates that are always open as at least twice the target.
        """
        if self.kind == "open_rate":
            return activity.open_rate
        longest = min(LONGEST_EVENT, self.mean_steps / (2 * self.value))
        return max(activity.events, activity.open_steps / longest)
