"""Training of agents: rollouts and updates until enough frames were seen, with metrics and checkpoints.

Environments cannot be saved, so training is cut into segments: at the start of each, all episodes begin anew from a
seed of (seed, segment), and everything else is drawn from (seed, update). A checkpoint at a segment's end is therefore
complete, and a resumed run ends bit-identical to one that was never interrupted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gatel0rd.config import content_hash
from gatel0rd.engine import EngineName
from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo import Actor, Episodes, Learner
from gatel0rd.training.resumable import Metrics, Resumable, TrainingError
from gatel0rd.training.trainer import mix
from gatel0rd.training.vector_env import BackendName, Vector, make_vector

SEGMENT = 50
"""Updates between checkpoints."""
TRIALS_AT_ONCE, TRIAL_PLACE = 50, 10**9
"""Environments of trials side by side; and a place in time that training never reaches, for their seeds."""


class AgentTrainer(Resumable):
    """Trains one agent in one directory, and goes on where a killed predecessor stopped.

    The directory holds ``metrics.jsonl`` (a line per update) and ``checkpoint.safetensors``.

    Args:
        environment: id, as for ``gymnasium.make``.
        agent: what to train.
        config: how.
        frames: how many to see; rounded up to whole rollouts.
        seed: of weights, environments and everything drawn while training.
        directory: where metrics and checkpoints go.
        backend: who runs the environments.
        evaluations: further environments in which the agent is tried out, by name.
        evaluate_every: updates between these trials; there is one after the last update in any case.
        trials: episodes of each.
    """

    def __init__(
        self,
        environment: str,
        agent: ActorCriticConfig,
        config: PPOConfig,
        *,
        frames: int,
        seed: int,
        directory: Path,
        backend: BackendName = "auto",
        engine: EngineName = "auto",
        evaluations: Sequence[str] = (),
        evaluate_every: int = 10**9,
        trials: int = 100,
    ) -> None:
        self.evaluations, self.evaluate_every, self.trials, self.backend = evaluations, evaluate_every, trials, backend
        self.environment, self.config, self.seed, self.directory = environment, config, seed, directory
        self.vector = make_vector(environment, config.environments, backend=backend)
        check_fits(agent, self.vector)
        self.agent = ActorCritic(agent, engine=engine)
        self.agent.reset_parameters(torch.Generator().manual_seed(mix(seed, -1)))
        self.learner = Learner(self.agent, config)
        self.updates, self.update = -(-frames // config.frames), 0
        self.seconds = 0.0
        self.history: list[Metrics] = []
        kind = type(self.vector).__name__  # the same seed gives other levels elsewhere
        self.identity = " ".join([environment, kind, content_hash(agent), content_hash(config), str(seed)])
        self.belongs_to = "environment, backend, agent, configuration or seed"
        if self.prepare_directory():
            self._restore()

    @property
    def frames(self) -> int:
        """Seen so far."""
        return self.update * self.config.frames

    def run(self, on_update: Callable[[Metrics], None] = lambda metrics: None) -> ActorCritic:
        """Train until all frames are seen; ``on_update`` hears of every update."""
        started = time.monotonic() - self.seconds
        with self.vector, self.metrics_path.open("a") as file:
            while self.update < self.updates:
                actor = Actor(self.agent, self.vector, seed=mix(self.seed, self.update // SEGMENT))
                while self.update < self.updates:
                    generator = torch.Generator().manual_seed(mix(self.seed, self.update))
                    rollout, episodes = actor.collect(self.config, generator)
                    terms = self.learner.update(rollout, generator)
                    self.update += 1
                    if not all(np.isfinite(value) for value in terms.values()):
                        raise TrainingError(
                            f"the loss is no longer a number after {self.frames} frames; lower the learning rate "
                            f"(now {self.config.learning_rate})"
                        )
                    self.seconds = time.monotonic() - started  # earlier attempts included
                    metrics: Metrics = {
                        "update": self.update,
                        "frames": self.frames,
                        "episodes": len(episodes.returns),
                        "return": _mean(episodes.returns),
                        "rewarded": _mean(episodes.rewarded),
                        "length": _mean(episodes.lengths),
                        **{name: float(f"{value:.6g}") for name, value in terms.items()},
                        "seconds": round(self.seconds, 2),
                    }
                    if self.update % self.evaluate_every == 0 or self.update == self.updates:
                        metrics["evaluation"] = self._evaluate()
                    self.history.append(metrics)
                    file.write(json.dumps(metrics) + "\n")
                    file.flush()
                    on_update(metrics)
                    if self.update % SEGMENT == 0:
                        break
                os.fsync(file.fileno())
                self.save_checkpoint()
        return self.agent

    def _evaluate(self) -> dict[str, dict[str, float]]:
        found = {}
        for id in self.evaluations:
            count = min(self.trials, TRIALS_AT_ONCE)
            with make_vector(id, count, backend=self.backend) as vector:
                played = try_out(self.agent, vector, episodes=self.trials, seed=mix(self.seed, TRIAL_PLACE))
            found[id] = {
                "success": sum(played.rewarded) / self.trials,
                "return": float(np.mean(played.returns)),
                "length": float(np.mean(played.lengths)),
                "episodes": self.trials,
            }
        return found

    def save_checkpoint(self) -> None:
        """Write weights, optimizer and progress to one file, atomically."""
        steps, moments = self.learner.moments()
        self.write_checkpoint(self.agent, moments, {"update": self.update, "step": steps})

    def _restore(self) -> None:
        progress, moments = self.read_checkpoint(self.agent)
        self.learner.restore(progress["step"], moments)
        self.update = progress["update"]
        self.history = self.read_history(self.update)
        self.seconds = self.history[-1]["seconds"]


@torch.no_grad()
def try_out(
    agent: ActorCritic,
    vector: Vector,
    *,
    episodes: int,
    seed: int,
    greedy: bool = False,
    on_step: Callable[[int], None] = lambda ended: None,
) -> Episodes:
    """Episodes of an agent that does not learn: without gate noise, with drawn or with the most probable actions.

    Every environment plays its share of the episodes to the end, so that short ones are not preferred. ``on_step``
    hears how many have ended.
    """
    generator = torch.Generator().manual_seed(seed)
    actor = Actor(agent, vector, seed=seed)
    act = agent.prepare(noise=False)
    remaining = np.full(vector.count, episodes // vector.count)
    remaining[: episodes % vector.count] += 1
    played = Episodes([], [], [])
    while (remaining > 0).any():
        actor.advance(act, generator, greedy=greedy, episodes=played, counted=remaining > 0)
        remaining -= actor.starts
        on_step(len(played.returns))
    return played


def check_fits(agent: ActorCriticConfig, vector: Vector) -> None:
    """An agent that was made for other observations or actions is an error."""
    config = describe(vector)
    for name in ("observation_shape", "actions", "continuous"):
        if getattr(agent, name) != getattr(config, name):
            raise ValueError(
                f"{vector.id} has {name} {getattr(config, name)}; the agent was made for {getattr(agent, name)}"
            )


def describe(vector: Vector) -> ActorCriticConfig:
    """The plain agent that fits environments."""
    space = vector.action_space
    discrete = isinstance(space, spaces.Discrete)
    actions = int(space.n) if isinstance(space, spaces.Discrete) else space.shape[0]
    return ActorCriticConfig(observation_shape=vector.observation_shape, actions=actions, continuous=not discrete)


def _mean(values: list[Any]) -> float | None:
    return float(f"{np.mean(values):.6g}") if values else None
