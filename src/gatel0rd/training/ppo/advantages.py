"""Advantages: how much better than expected things went."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def generalized_advantages(
    rewards: Tensor, values: Tensor, next_values: Tensor, ends: Tensor, *, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalized advantage estimation: A_t = δ_t + γλ·A_{t+1}, with δ_t = r_t + γ·V(o_{t+1}) - V(o_t).

    Args:
        next_values: V of the observation after each step; 0 where an episode terminated.
        ends: True where a step ended its episode: what comes later belongs to another one.

    Shape: [T, N] each -> [T, N].

    Example:
        >>> import torch
        >>> from gatel0rd.training.ppo import generalized_advantages
        >>> rewards, values = torch.tensor([[0.0], [1.0]]), torch.zeros(2, 1)
        >>> ends = torch.tensor([[False], [True]])
        >>> generalized_advantages(rewards, values, values, ends, gamma=0.5, gae_lambda=1.0).tolist()
        [[0.5], [1.0]]
    """
    errors = (rewards + gamma * next_values - values).numpy()
    passed_on = (gamma * gae_lambda * (~ends).to(rewards.dtype)).numpy()
    advantages = np.empty_like(errors)
    later = np.zeros_like(errors[0])
    for t in reversed(range(len(errors))):  # in NumPy, whose small operations take a fraction of the time
        later = errors[t] + passed_on[t] * later
        advantages[t] = later
    return torch.from_numpy(advantages)


def normalize_advantages(advantages: Tensor) -> Tensor:
    """Advantages of a batch, scaled to mean 0 and standard deviation 1."""
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
