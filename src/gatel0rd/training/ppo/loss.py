"""PPO's loss: its terms, and their gradients written down by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatel0rd.models.actor_critic import ActorCriticOutput, Categorical
from gatel0rd.nn.functional import l0_penalty, open_rate
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo.advantages import normalize_advantages


class StoredSteps(NamedTuple):
    """Steps of a rollout as they were when the agent acted, [T, B] each (actions may be [T, B, A])."""

    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor


@dataclass
class LossTerms:
    """The parts of the loss, each a mean over frames; and how far the policy has moved."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    sparsity: Tensor
    open_rate: Tensor
    clipped: Tensor

    def total(self, config: PPOConfig) -> Tensor:
        """The loss that is minimised."""
        return (
            self.policy
            + config.vf_coef * self.value
            - config.ent_coef * self.entropy
            + config.sparsity_weight * self.sparsity
        )


def loss_terms(output: ActorCriticOutput, stored: StoredSteps, config: PPOConfig) -> LossTerms:
    """PPO's clipped objective, the (clipped) squared error of values, the entropy, and the share of open gates."""
    actions, old_log_probs, old_values, advantages = stored
    used = normalize_advantages(advantages) if config.normalize_advantages else advantages
    ratio = (output.policy.log_prob(actions) - old_log_probs).exp()
    cut = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    returns = old_values + advantages
    error = (output.values - returns).square()
    if config.clip_values:
        near = old_values + (output.values - old_values).clamp(-config.clip_coef, config.clip_coef)
        error = torch.maximum(error, (near - returns).square())
    nothing = error.new_zeros(())
    gates = output.gates
    return LossTerms(
        policy=-torch.minimum(ratio * used, cut * used).mean(),
        value=error.mean(),
        entropy=output.policy.entropy().mean(),
        sparsity=nothing if gates is None or config.sparsity_weight == 0 else l0_penalty(gates),
        open_rate=nothing if gates is None else open_rate(gates.detach()).to(error.dtype),
        clipped=(ratio.detach() != cut.detach()).to(error.dtype).mean(),
    )


def loss_gradients(
    output: ActorCriticOutput, stored: StoredSteps, config: PPOConfig
) -> tuple[LossTerms, dict[str, Tensor]]:
    """:func:`loss_terms` of an agent with categorical actions, with the gradients of their total, written down by hand.

    The same numbers in less time: autograd would go through some thirty small operations, each of which takes NumPy a
    fraction of the time that it takes PyTorch. Gradients are with respect to the log-probabilities [T, B, A], the
    values [T, B] and the gates [T, B, G].
    """
    assert isinstance(output.policy, Categorical)
    log_probs, values = output.policy.log_probs.detach().numpy(), output.values.detach().numpy()
    actions, old_log_probs, old_values, advantages = (tensor.numpy() for tensor in stored)
    count, shape = actions.size, log_probs.shape
    low, high = 1 - config.clip_coef, 1 + config.clip_coef
    taken = np.arange(count), actions.reshape(-1)
    used = normalize_advantages(stored.advantages).numpy() if config.normalize_advantages else advantages
    ratio = np.exp(log_probs.reshape(count, -1)[taken].reshape(actions.shape) - old_log_probs)
    cut = np.minimum(np.maximum(ratio, low), high)
    gain, cut_gain = ratio * used, cut * used
    probabilities = np.exp(log_probs)
    # d(-entropy) / d log p = p·(log p + 1)
    policy_gradient = (probabilities * (log_probs + 1) * (config.ent_coef / count)).reshape(count, -1)
    policy_gradient[taken] -= np.where(gain <= cut_gain, gain, 0).reshape(-1) / count

    returns = old_values + advantages
    difference = values - returns
    error, slope = difference * difference, difference
    if config.clip_values:
        moved = values - old_values
        near = np.minimum(np.maximum(moved, -config.clip_coef), config.clip_coef)
        cut_difference = near + old_values - returns
        cut_error = cut_difference * cut_difference
        slope = np.where(error >= cut_error, difference, np.where(near == moved, cut_difference, 0))
        error = np.maximum(error, cut_error)
    gradients = {
        "log_probs": torch.from_numpy(policy_gradient.reshape(shape)),
        "values": torch.from_numpy(slope * (2 * config.vf_coef / count)),
    }
    opened = 0.0
    if output.gates is not None:
        gates = output.gates.detach().numpy()
        opened = np.count_nonzero(gates > 0) / gates.size
        if config.sparsity_weight:  # straight through the step function
            gradients["gates"] = torch.full_like(output.gates, config.sparsity_weight / gates.size)
    terms = {
        "policy": -np.minimum(gain, cut_gain).mean(),
        "value": error.mean(),
        "entropy": -(probabilities * log_probs).sum() / count,
        "sparsity": opened if config.sparsity_weight else 0.0,
        "open_rate": opened,
        "clipped": np.count_nonzero(ratio != cut) / count,
    }
    numbers = torch.from_numpy(np.array(list(terms.values()), dtype=values.dtype))
    return LossTerms(**dict(zip(terms, numbers.unbind(), strict=True))), gradients


def backward(output: ActorCriticOutput, stored: StoredSteps, config: PPOConfig) -> LossTerms:
    """Add the gradients of the loss to those of the parameters."""
    if not isinstance(output.policy, Categorical):
        terms = loss_terms(output, stored, config)
        terms.total(config).backward()
        return terms
    terms, gradients = loss_gradients(output, stored, config)
    tensors = {"log_probs": output.policy.log_probs, "values": output.values}
    if output.gates is not None:
        tensors["gates"] = output.gates
    torch.autograd.backward([tensors[name] for name in gradients], list(gradients.values()))
    return terms
