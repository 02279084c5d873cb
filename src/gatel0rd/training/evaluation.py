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
    """``run`` on some sequences at a time; the last step has no successor and is left out."""
    parts = zip(observations.split(SEQUENCES_AT_ONCE, 1), actions.split(SEQUENCES_AT_ONCE, 1), strict=True)
    return [run(o[:-1], a[:-1]) for o, a in parts]


def join_gates(rollouts: list[Rollout]) -> Tensor | None:
    """The gates of several batches joined, [T, ΣB, G]."""
    parts = [rollout.gates for rollout in rollouts if rollout.gates is not None]
    return torch.cat(parts, dim=1) if parts else None
