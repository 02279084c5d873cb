"""The update of recurrent PPO (Suppl. B.2): epochs of gradient steps on the chunks of a rollout."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from gatel0rd.engine import can_run
from gatel0rd.engine.optimizer import FlatAdam
from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.training.adam import AdamState, read_adam, restore_adam
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo.advantages import generalized_advantages
from gatel0rd.training.ppo.chunks import chunk_batches, run_chunks
from gatel0rd.training.ppo.compiled_gradient import CompiledGradient
from gatel0rd.training.ppo.loss import LossTerms, StoredSteps, backward
from gatel0rd.training.ppo.rollout import RolloutBuffer


class Learner:
    """Improves an agent by gradient steps on its rollouts.

    Example:
        >>> import torch
        >>> import gatel0rd.worlds
        >>> from gatel0rd.models import ActorCritic
        >>> from gatel0rd.training import PPOConfig, make_vector_env
        >>> from gatel0rd.training.ppo import Learner, RolloutCollector, fitting_agent
        >>> config = PPOConfig(environments=4, steps=8, chunk=4, batch_size=16)
        >>> with make_vector_env("gatel0rd/Recall-v0", 4) as envs:
        ...     agent = ActorCritic(fitting_agent(envs))
        ...     rollout, _ = RolloutCollector(agent, envs, seed=0).collect(config, torch.Generator())
        >>> terms = Learner(agent, config).update(rollout, torch.Generator())
        >>> "entropy" in terms
        True
    """

    def __init__(self, agent: ActorCritic, config: PPOConfig) -> None:
        self.agent, self.config = agent, config
        self.compiled = CompiledGradient.make(agent, config)
        self.parameters = dict(agent.named_parameters())
        self.optimizer: FlatAdam | torch.optim.Adam
        if self.compiled is not None:
            self.parameters, self.optimizer = self.compiled.parameters, self.compiled.optimizer
        elif can_run(agent.engine, [], agent):
            self.optimizer = FlatAdam(list(agent.parameters()), gradients=True)
        else:
            self.optimizer = torch.optim.Adam(
                agent.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.epsilon
            )

    def update(self, rollout: RolloutBuffer, generator: torch.Generator) -> dict[str, float]:
        """Some epochs of gradient steps; returns the means of the loss's terms."""
        config, agent = self.config, self.agent
        advantages = generalized_advantages(
            rollout.rewards,
            rollout.values,
            rollout.next_values,
            rollout.ends,
            gamma=config.gamma,
            gae_lambda=config.gae_lambda,
        )
        stored = (rollout.actions, rollout.log_probs, rollout.values, advantages)
        compiled = self.compiled if self.compiled is not None and self.compiled.begin(rollout, advantages) else None
        found: list[Tensor] = []
        norms: list[float] = []
        for epoch in range(config.epochs):
            for batch in chunk_batches(config, rollout.starts.shape[1], epoch, generator):
                noise = None if rollout.noise is None else batch.select(rollout.noise)
                if noise is not None and config.gate_noise == "fresh":
                    assert agent.memory is not None
                    noise = agent.memory.sample_noise(config.chunk, noise.shape[1], noise, generator)
                if compiled is not None:
                    terms = compiled.compute(batch, noise)
                else:
                    output = run_chunks(agent, rollout, batch, noise=noise, refresh=config.refresh_memories)
                    terms = backward(output, StoredSteps(*map(batch.select, stored)), config)
                norms.append(self._descend())
                found.append(torch.stack([getattr(terms, field.name).detach() for field in fields(terms)]))
        means = torch.stack(found).mean(dim=0).tolist()
        return {
            **dict(zip((field.name for field in fields(LossTerms)), means, strict=True)),
            "gradient_norm": np.mean(norms),
        }

    def _descend(self) -> float:
        """Clip the gradients and take a step along them; returns their norm."""
        config = self.config
        if isinstance(self.optimizer, FlatAdam):
            return self.optimizer.update(
                rate=config.learning_rate, betas=config.betas, epsilon=config.epsilon, clip=config.clip_norm
            )
        norm = torch.nn.utils.clip_grad_norm_(self.agent.parameters(), config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(norm)

    def read_optimizer(self) -> AdamState:
        return read_adam(self.optimizer, self.parameters)

    def restore_optimizer(self, state: AdamState) -> None:
        restore_adam(self.optimizer, self.parameters, state)
