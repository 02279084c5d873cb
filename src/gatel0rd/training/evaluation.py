"""Prediction errors and gate statistics of a world model on a data set."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gatel0rd.models import Rollout, WorldModel
from gatel0rd.nn.functional import dims_used, open_rate, open_times

SEQUENCES_AT_ONCE = 640


@torch.no_grad()
def evaluate(model: WorldModel, observations: Tensor, actions: Tensor) -> dict[str, float]:
    """Free-running evaluation without gate noise: mean squared error, and gate statistics where there are gates.

    Shape: observations [T, B, O], actions [T, B, A] (the last action has no successor and is not used).

    Example:
        >>> import torch
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.training import evaluate
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> sorted(evaluate(model, torch.randn(7, 5, 4), torch.randn(7, 5, 2)))
        ['dims_used', 'error', 'open_rate', 'open_times']
    """
    rollouts = run_in_parts(model.free_run, observations, actions)
    predictions = torch.cat([rollout.predictions for rollout in rollouts], dim=1)
    measures = {"error": (predictions - observations[1:]).double().square().mean().item()}
    gates = join_gates(rollouts)
    if gates is not None:
        measures["open_rate"] = open_rate(gates).item()
        measures["open_times"] = open_times(gates).item()
        measures["dims_used"] = dims_used(gates).item()
    return measures


def run_in_parts(run: Callable[[Tensor, Tensor], Rollout], observations: Tensor, actions: Tensor) -> list[Rollout]:
    """``run`` on some sequences at a time; the last step has no successor and is left out.

    Example:
        >>> import torch
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.training import run_in_parts
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> (rollout,) = run_in_parts(model.free_run, torch.randn(7, 5, 4), torch.randn(7, 5, 2))
        >>> rollout.predictions.shape
        torch.Size([6, 5, 4])
    """
    parts = zip(observations.split(SEQUENCES_AT_ONCE, 1), actions.split(SEQUENCES_AT_ONCE, 1), strict=True)
    return [run(o[:-1], a[:-1]) for o, a in parts]


def join_gates(rollouts: list[Rollout]) -> Tensor | None:
    """The gates of several batches joined, [T, ΣB, G].

    Example:
        >>> import torch
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.training import join_gates
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> rollouts = [model(torch.randn(7, batch, 4), torch.randn(7, batch, 2)) for batch in (2, 3)]
        >>> join_gates(rollouts).shape
        torch.Size([7, 5, 8])
    """
    parts = [rollout.gates for rollout in rollouts if rollout.gates is not None]
    return torch.cat(parts, dim=1) if parts else None
