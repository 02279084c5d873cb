"""Adam's state as plain data: one codec for the compiled optimizer and for PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gatel0rd.engine.optimizer import FlatAdam


@dataclass(frozen=True)
class AdamState:
    """What Adam remembers between steps.

    Attributes:
        steps: gradient steps taken so far.
        exp_avg, exp_avg_sq: running means of the gradients and of their squares, by the names of the parameters.
            Parameters that have not been trained have none.
    """

    steps: int
    exp_avg: dict[str, Tensor]
    exp_avg_sq: dict[str, Tensor]


def read_adam(optimizer: FlatAdam | torch.optim.Adam, parameters: Mapping[str, Tensor]) -> AdamState:
    """The state of an optimizer.

    Args:
        parameters: all that it trains, by name, in the order in which it was given them.
    """
    if isinstance(optimizer, FlatAdam):
        return AdamState(optimizer.updates, *_flat_moments(optimizer, parameters))
    entries = {name: optimizer.state[parameter] for name, parameter in parameters.items()}
    trained = {name: entry for name, entry in entries.items() if entry}
    return AdamState(
        max((int(entry["step"]) for entry in trained.values()), default=0),
        {name: entry["exp_avg"] for name, entry in trained.items()},
        {name: entry["exp_avg_sq"] for name, entry in trained.items()},
    )


def restore_adam(optimizer: FlatAdam | torch.optim.Adam, parameters: Mapping[str, Tensor], state: AdamState) -> None:
    """Make an optimizer continue from the state of another, of either kind."""
    if isinstance(optimizer, FlatAdam):
        optimizer.updates = state.steps
        for views, moment in zip(_flat_moments(optimizer, parameters), (state.exp_avg, state.exp_avg_sq), strict=True):
            for name, view in views.items():
                view.copy_(moment.get(name, torch.zeros_like(view)))
        return
    for name in state.exp_avg:
        optimizer.state[parameters[name]] = {
            "step": torch.tensor(float(state.steps)),
            "exp_avg": state.exp_avg[name].clone(),
            "exp_avg_sq": state.exp_avg_sq[name].clone(),
        }


def _flat_moments(optimizer: FlatAdam, parameters: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Both moments as views of the flat buffers, by name."""
    exp_avg, exp_avg_sq = (
        dict(zip(parameters, FlatAdam.parts(flat, list(parameters.values())), strict=True))
        for flat in (optimizer.mean, optimizer.square)
    )
    return exp_avg, exp_avg_sq
