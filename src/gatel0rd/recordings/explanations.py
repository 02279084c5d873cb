"""Ways to look at recordings in which a stretch without events is one linear regression.

An *explanation* says what a step of a channel follows from: its level, its drift, its own past, the actions, the other
channels. An event is where the coefficients or the size of the noise change; see :mod:`gatel0rd.recordings.changes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RARE = 0.1
"""Share of steps up to which a column may differ from its most frequent value, and count as at rest."""
MOST_CHANNELS = 6
"""Observed channels up to which every channel may also be explained by all others."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What explains a step of a channel, besides a constant.

    Attributes:
        change: explain the change o_{t+1} - o_t; else the value o_{t+1} itself.
        level: use the channel's own value o_t.
        lags: use so many of the channel's own last changes.
        actions: use the actions: of the same row as o_t, or (``"next"``) of the row of o_{t+1}.
        given: which ones, by their numbers.
        others: use the values o_t of these channels.
        outliers: whether single steps may lie anywhere, without an event.
    """

    change: bool = True
    level: bool = False
    lags: int = 0
    actions: str | None = None
    given: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    outliers: bool = False

    @property
    def memory(self) -> int:
        """Steps after a boundary at which what explains still reaches back over it."""
        return self.lags + 1 if self.change and (self.level or self.lags or self.others) else 0


class Design(NamedTuple):
    """A regression per channel: targets [T - 1, O] and what explains them [T - 1, O, P]."""

    targets: Array
    features: Array


def find_busy(rows: NDArray[Any]) -> tuple[int, ...]:
    """Columns that are seldom at rest: they differ from their most frequent value at more than a tenth of the steps.

    A column that is nearly always the same, such as a button, is no explanation: with a coefficient of its own in every
    sequence, what it does once could be anything. What it does is an event.
    """
    busy = []
    for number, column in enumerate(rows.T):
        counts = np.unique(column, return_counts=True)[1]
        if counts.max(initial=0) < (1 - RARE) * len(column):
            busy.append(number)
    return tuple(busy)


def propose_explanations(observations: NDArray[Any], actions: NDArray[Any]) -> dict[str, Explanation]:
    """The explanations that are compared, by name. Shape: [S, O], [S, A], some rows."""
    given, others = find_busy(actions), find_busy(observations)
    channels = observations.shape[1]
    found = {
        "level": Explanation(change=False),
        "level with outliers": Explanation(change=False, outliers=True),
        "drift": Explanation(),
    }
    found |= {f"own past ({lags + 1})": Explanation(level=True, lags=lags) for lags in (0, 1, 3, 7)}
    if given:
        for alignment, name in (("row", "actions"), ("next", "actions of the same row")):
            found[name] = Explanation(actions=alignment, given=given)
            found |= {
                f"{name} and own past ({lags + 1})": Explanation(level=True, lags=lags, actions=alignment, given=given)
                for lags in (0, 1)
            }
    if 1 < channels <= MOST_CHANNELS and len(others) > 1:
        found["all channels"] = Explanation(others=others, actions="row" if given else None, given=given)
    return found


def build_design(explanation: Explanation, observations: Array, actions: Array) -> Design:
    """The regression of one sequence. Shape: observations [T, O], actions [T, A]; changes before its start are 0."""
    steps, channels = len(observations) - 1, observations.shape[1]
    changes = np.diff(observations, axis=0)
    past = np.concatenate([np.zeros((explanation.lags, channels)), changes])
    columns = [np.ones((steps, channels, 1))]
    if explanation.level:
        columns.append(observations[:-1, :, None])
    columns += [past[explanation.lags - 1 - lag :][:steps, :, None] for lag in range(explanation.lags)]
    if explanation.actions is not None:
        shown = actions[:, list(explanation.given)]
        shown = shown[:-1] if explanation.actions == "row" else shown[1:]
        columns.append(np.repeat(shown[:, None], channels, axis=1))
    if explanation.others:
        seen = observations[:-1, list(explanation.others)]
        columns.append(np.repeat(seen[:, None], channels, axis=1))
    return Design(changes if explanation.change else observations[1:], np.concatenate(columns, axis=-1))
