"""How world models and agents are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PenaltyName = Literal["l0", "l1", "l2", "squared_mean"]
GateNoise = Literal["none", "kept", "fresh"]
EPOCH_UPDATES = 100
"""Gradient steps of an epoch of :class:`SequenceTrainConfig`, each on sequences of its own: there is no data set."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a world model is trained. Defaults are the paper's (Suppl. B.1).

    Example:
        >>> from gatel0rd import TrainConfig
        >>> config = TrainConfig(epochs=200, learning_rate=0.003, sparsity_weight=0.001)
        >>> config.batch_size
        128
    """

    epochs: int
    learning_rate: float = 0.005
    batch_size: int = 128
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-4
    clip_norm: float = 0.1
    sparsity_weight: float = 0.001
    penalty: PenaltyName = "l0"
    sampling_decay: float = 0.998
    sampling_minimum: float = 0.0
    teacher_forcing: bool = False
    evaluate_every: int = 100


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Recurrent proximal policy optimization. Defaults are the paper's (Suppl. B.2) and torch-ac's.

    Attributes:
        environments: how many run in parallel.
        steps: steps of each environment in one rollout.
        epochs: passes over a rollout.
        batch_size: frames of a gradient step.
        chunk: time steps through which gradients flow.
        clip_norm: largest norm of the gradient.
        gamma, gae_lambda: γ and λ of the generalized advantage estimation.
        clip_coef: how far the ratio of probabilities may move away from 1 before the objective is clipped.
        clip_values: whether the change of values is clipped in the same way.
        ent_coef, vf_coef: weights of the entropy and of the value function's loss.
        sparsity_weight: weight of the share of open gates.
        normalize_advantages: whether the advantages of a batch are scaled to mean 0 and standard deviation 1.
        refresh_memories: whether memories in the middle of chunks are replaced by those of the newest weights, for the
            shifted chunks that begin there.
        shift_chunks: whether every other epoch cuts half a chunk later.
        bootstrap_timeouts: whether the value of what comes next counts where only the time limit ended an episode.
        gate_noise: of GateL0RD: ``none``; drawn while acting and ``kept`` for the update, so that an unchanged network
            gives unchanged probabilities; or drawn ``fresh`` in the update too (the authors' code).

    Example:
        >>> from gatel0rd.training import PPOConfig
        >>> PPOConfig(environments=8, steps=64, chunk=16).frames
        512
    """

    environments: int = 16
    steps: int = 128
    epochs: int = 4
    batch_size: int = 256
    chunk: int = 32
    learning_rate: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-4
    clip_norm: float = 0.1
    gamma: float = 0.99
    gae_lambda: float = 0.99
    clip_coef: float = 0.2
    clip_values: bool = True
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    sparsity_weight: float = 0.01
    normalize_advantages: bool = False
    refresh_memories: bool = True
    shift_chunks: bool = True
    bootstrap_timeouts: bool = True
    gate_noise: GateNoise = "kept"

    def __post_init__(self) -> None:
        for name in ("environments", "steps", "epochs", "batch_size", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.steps % self.chunk or self.batch_size % self.chunk:
            raise ValueError(
                f"chunks have {self.chunk} steps; expected a divisor of the {self.steps} steps of a rollout and of the "
                f"batch size {self.batch_size}"
            )
        if self.chunk > 1 and self.chunk % 2:
            raise ValueError(f"chunks have {self.chunk} steps; expected an even number, they are shifted by half")
        if self.gate_noise not in ("none", "kept", "fresh"):
            raise ValueError(f"gate_noise is {self.gate_noise!r}; expected none, kept or fresh")
        for name in ("learning_rate", "clip_coef", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number above 0")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 0 to 1")

    @property
    def frames(self) -> int:
        """Frames of one rollout."""
        return self.environments * self.steps


@dataclass(frozen=True, kw_only=True)
class SequenceTrainConfig:
    """How a network that answers at every step is trained.

    Attributes:
        epochs: of 100 updates each.
        steps: of the sequences.
        learning_rate: at the beginning; it falls to 0 along half a cosine.
        sparsity_weight: λ of GateL0RD; it rises from 0 while the task is learned.
    """

    epochs: int
    steps: int
    batch_size: int = 32
    learning_rate: float = 0.005
    sparsity_weight: float = 0.0
