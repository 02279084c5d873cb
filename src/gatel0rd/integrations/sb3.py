"""Our cells in sb3-contrib's ``RecurrentPPO``, which knows only the LSTM.

.. code-block:: python

    from sb3_contrib import RecurrentPPO
    from gatel0rd.integrations.sb3 import MemoryPolicy

    model = RecurrentPPO(MemoryPolicy, "CartPole-v1", policy_kwargs={"cell": "gatel0rd", "lstm_hidden_size": 32})
"""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from torch import Tensor, nn

from gatel0rd.engine import ProgramCache
from gatel0rd.nn.cells import build_cell
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.nn.functional import l0_penalty
from gatel0rd.nn.unroll import unroll

__all__ = ["MemoryPolicy"]


class Memory(nn.Module):
    """A stack of cells that is called as sb3-contrib calls its LSTM, with episode starts inside of sequences.

    States are (h, c), [layers, B, H] each; cells without a c leave theirs as it is.
    """

    def __init__(self, config: CellConfig, input_size: int, *, sparsity_weight: float) -> None:
        super().__init__()
        self.stack = build_cell(config, input_size, config.hidden_size)
        self.config, self.input_size, self.sparsity_weight = config, input_size, sparsity_weight
        self.hidden_size, self.num_layers = config.hidden_size, config.num_layers
        self._programs = ProgramCache()

    def forward(self, x: Tensor, states: tuple[Tensor, Tensor], starts: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Shape: x [T, B, I], starts [T, B] -> [T, B, H]."""
        h, c = states
        lstm = self.config.name == "lstm"
        state = tuple(part for layer in zip(h, c, strict=True) for part in layer) if lstm else tuple(h)
        noise = None
        if self.training and torch.is_grad_enabled():
            noise = self.stack.sample_noise(len(x), x.shape[1], x)
        outputs, _, gates, state = unroll(self.stack, x, state, noise=noise, resets=starts > 0, cache=self._programs)
        if gates is not None and self.sparsity_weight and torch.is_grad_enabled():
            outputs = join_loss(outputs, self.sparsity_weight * l0_penalty(gates))
        if lstm:
            return outputs, (torch.stack(state[::2]), torch.stack(state[1::2]))
        return outputs, (torch.stack(state), c)


class MemoryPolicy(RecurrentActorCriticPolicy):
    """A policy for ``RecurrentPPO`` with any of our cells as its memory, in the compiled engine.

    Args:
        cell: ``gatel0rd``, ``gru``, ``elman`` or ``lstm``.
        sparsity_weight: λ, of open gates in the loss; steps with which sb3-contrib pads sequences count too.
        gate_noise: standard deviation of the gate noise in updates. Acting has none, so that with noise the ratios of
            PPO do not begin at 1.
        further: as of ``RecurrentActorCriticPolicy``; ``lstm_hidden_size`` and ``n_lstm_layers`` are the memory's.

    Example:
        >>> from sb3_contrib import RecurrentPPO
        >>> from gatel0rd.integrations.sb3 import MemoryPolicy
        >>> options = {"cell": "gatel0rd", "lstm_hidden_size": 8}
        >>> model = RecurrentPPO(MemoryPolicy, "CartPole-v1", n_steps=8, policy_kwargs=options, device="cpu")
        >>> model.policy.lstm_actor.config.name
        'gatel0rd'
    """

    def __init__(
        self,
        *args: Any,
        cell: CellName = "gatel0rd",
        sparsity_weight: float = 0.01,
        gate_noise: float = 0.0,
        **further: Any,
    ) -> None:
        if further.get("lstm_kwargs"):
            raise ValueError(f"lstm_kwargs are {further['lstm_kwargs']}; they are nn.LSTM's and of no use here")
        if cell not in ("gatel0rd", "gru", "elman", "lstm"):
            raise ValueError(f"cell is {cell!r}; expected gatel0rd, gru, elman or lstm")
        super().__init__(*args, **further)
        layers, _, hidden = self.lstm_hidden_state_shape
        config = CellConfig(name=cell, hidden_size=hidden, num_layers=layers, noise_std=gate_noise)
        self.lstm_actor: Any = Memory(config, self.features_dim, sparsity_weight=sparsity_weight)
        if self.lstm_critic is not None:
            self.lstm_critic: Any = Memory(config, self.features_dim, sparsity_weight=sparsity_weight)
        make: Any = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=self.optimizer.param_groups[0]["lr"], **self.optimizer_kwargs)

    @staticmethod
    def _process_sequence(
        features: Tensor, lstm_states: tuple[Tensor, Tensor], episode_starts: Tensor, lstm: Any
    ) -> tuple[Tensor, Any]:
        """Whole sequences at once, whether episodes start inside of them or not. Shape: [B·T, I] -> [B·T, H]."""
        count = lstm_states[0].shape[1]
        sequence = features.reshape(count, -1, lstm.input_size).swapaxes(0, 1)  # [B·T, I] -> [T, B, I]
        starts = episode_starts.reshape(count, -1).swapaxes(0, 1)  # [B·T] -> [T, B]
        outputs, states = lstm(sequence, lstm_states, starts)
        return outputs.transpose(0, 1).flatten(0, 1), states  # [T, B, H] -> [B·T, H]


class _JoinLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Tensor, loss: Tensor) -> Tensor:
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, gradient.new_ones(())


def join_loss(outputs: Tensor, loss: Tensor) -> Tensor:
    """The same outputs; whoever computes gradients through them, once, minimises ``loss`` too."""
    apply: Any = _JoinLoss.apply
    joined: Tensor = apply(outputs, loss)
    return joined
