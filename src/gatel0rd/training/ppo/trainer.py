"""Training of agents: rollouts and updates until enough frames were seen.

Environments cannot be saved, so training is cut into segments: at the start of each, all episodes begin anew from a
seed of (seed, segment), and everything else is drawn from (seed, update). A checkpoint at a segment's end is therefore
complete, and a resumed run ends bit-identical to one that was never interrupted. The value of what would have come next
counts where a segment cuts an episode, so that nothing wrong is learned there; and segments are long compared with
episodes, so that few are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gatel0rd.config import check_numbers, content_hash, to_json
from gatel0rd.engine import EngineName
from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.models.io import AGENT_FILE, CHECKPOINT_FILE, save_agent
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.loop import Metrics, OnMetrics, TrainingError, TrainingLoop, derive_seed, ignore_metrics
from gatel0rd.training.ppo.evaluation import evaluate_policy
from gatel0rd.training.ppo.learner import Learner
from gatel0rd.training.ppo.rollout import EpisodeStatistics, RolloutCollector
from gatel0rd.training.ppo.success import judge_episodes
from gatel0rd.training.vector_env import BackendName, EnvironmentSource, VectorEnv, is_known, make_vector_env

SEGMENT = 50
"""The fewest updates between checkpoints."""
SEGMENT_STEPS = 6400
"""The fewest steps of an environment between checkpoints: those of SEGMENT rollouts of the paper's 128 steps."""
LEAST_RANGE = 0.1
"""The least share of [-1, 1], where the actions of a new agent are, that the bounds of actions have to let through."""
EVALUATION_PLACE = 10**9
"""A place in time that training never reaches, for the seeds of evaluations."""


class AgentTrainer(TrainingLoop):
    """Trains one agent in one directory, and resumes where a killed predecessor stopped.

    The directory holds ``metrics.jsonl`` (a line per update), ``checkpoint.safetensors``, and after training
    ``agent.safetensors``, which `gatel0rd rl eval` tries out and films.

    Args:
        environment: an id, a vector environment or a function that makes one, as for :func:`make_vector_env`.
        agent: the agent to train.
        config: how to train it.
        frames: how many to train on; rounded up to whole rollouts.
        seed: determines weights, environments and everything that is drawn while training.
        directory: where metrics and checkpoints are written.
        backend: which library runs the environments.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.
        evaluations: ids of the environments in which the agent is evaluated.
        evaluate_every: updates between evaluations; there is one after the last update in any case.
        trials: episodes of each evaluation.
        success_return: the least return of a successful episode; the default is the environment's own notion.
        description: plain data about the run for the agent's file; the default names environment, training and seed.

    Example:
        >>> from pathlib import Path
        >>> import gatel0rd.worlds
        >>> from gatel0rd.training import PPOConfig, make_vector_env
        >>> from gatel0rd.training.ppo import AgentTrainer, fitting_agent
        >>> with make_vector_env("gatel0rd/Recall-v0", 1) as envs:
        ...     agent = fitting_agent(envs)
        >>> config = PPOConfig(environments=4, steps=8, chunk=4, batch_size=16)
        >>> trainer = AgentTrainer("gatel0rd/Recall-v0", agent, config, frames=64, seed=0, directory=Path("agent"))
        >>> trained = trainer.run()
        >>> len(trainer.history)
        2
    """

    unit = "update"
    differs_in = "environment, backend, agent, configuration or seed"

    def __init__(
        self,
        environment: EnvironmentSource,
        agent: ActorCriticConfig,
        config: PPOConfig,
        *,
        frames: int,
        seed: int,
        directory: Path | str,
        backend: BackendName = "auto",
        engine: EngineName = "auto",
        evaluations: Sequence[str] = (),
        evaluate_every: int = 10**9,
        trials: int = 100,
        success_return: float | None = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        check_numbers(frames=frames, evaluate_every=evaluate_every, trials=trials)
        check_numbers(least=0, seed=seed)
        self.evaluations, self.evaluate_every, self.trials, self.backend = evaluations, evaluate_every, trials, backend
        self.config, self.seed, self.success_return = config, seed, success_return
        self.segment = max(SEGMENT, -(-SEGMENT_STEPS // config.steps))
        self.envs = make_vector_env(environment, config.environments, backend=backend)
        check_agent_fits(agent, self.envs)
        if not (Path(directory) / CHECKPOINT_FILE).exists():  # what was trained before this was an error may continue
            check_action_bounds(self.envs)
        self.agent = ActorCritic(agent, engine=engine)
        self.agent.reset_parameters(torch.Generator().manual_seed(derive_seed(seed, -1)))
        self.learner = Learner(self.agent, config)
        self.collector: RolloutCollector | None = None
        self.updates = -(-frames // config.frames)
        self.description = description or {
            "environment": self.envs.id if is_known(self.envs.id) else None,
            "ppo": to_json(config),
            "frames": self.updates * config.frames,
            "seed": seed,
        }
        kind = type(self.envs).__name__  # the same seed gives other levels elsewhere
        identity = " ".join([self.envs.id, kind, content_hash(agent), content_hash(config), str(seed)])
        self.open_directory(Path(directory), self.agent, self.learner, identity=identity, checkpoint_seconds=0.0)

    @property
    def update(self) -> int:
        """Updates so far."""
        return self.completed

    @property
    def frames(self) -> int:
        """Frames so far."""
        return self.update * self.config.frames

    @property
    def finished(self) -> bool:
        return self.update >= self.updates

    @property
    def can_pause(self) -> bool:
        """Whether a segment is over, and with it all episodes."""
        return self.update % self.segment == 0

    def run(self, on_update: OnMetrics = ignore_metrics) -> ActorCritic:
        """Train on all frames; ``on_update`` sees the metrics of every update."""
        with self.envs:
            self.run_loop(on_update)
        save_agent(self.directory / AGENT_FILE, self.agent, self.description)
        return self.agent

    def train_unit(self) -> Metrics:
        if self.collector is None or self.can_pause:  # a new segment
            self.collector = RolloutCollector(
                self.agent, self.envs, seed=derive_seed(self.seed, self.update // self.segment)
            )
        generator = torch.Generator().manual_seed(derive_seed(self.seed, self.update))
        rollout, episodes = self.collector.collect(self.config, generator)
        terms = self.learner.update(rollout, generator)
        frames = self.frames + self.config.frames
        if not all(np.isfinite(value) for value in terms.values()):
            raise TrainingError(
                f"the loss is no longer a number after {frames} frames; lower the learning rate "
                f"(now {self.config.learning_rate})"
            )
        return {
            "frames": frames,
            **_summarize(episodes),
            "success": judge_episodes(episodes, self.envs, success_return=self.success_return).rate,
            **{name: float(f"{value:.6g}") for name, value in terms.items()},
        }

    def assess(self, metrics: Metrics) -> None:
        if self.update % self.evaluate_every == 0 or self.finished:
            seed = derive_seed(self.seed, EVALUATION_PLACE)
            metrics["evaluation"] = {
                id: evaluate_policy(
                    self.agent,
                    id,
                    episodes=self.trials,
                    seed=seed,
                    backend=self.backend,
                    success_return=self.success_return,
                )
                for id in self.evaluations
            }


def check_agent_fits(agent: ActorCriticConfig, envs: VectorEnv) -> None:
    """Raise an error for an agent that was made for other observations or actions.

    Example:
        >>> import gatel0rd.worlds
        >>> from gatel0rd.models import ActorCriticConfig
        >>> from gatel0rd.training import make_vector_env
        >>> from gatel0rd.training.ppo import check_agent_fits
        >>> with make_vector_env("gatel0rd/Recall-v0", 1) as envs:
        ...     try:
        ...         check_agent_fits(ActorCriticConfig(observation_shape=(99,), actions=2), envs)
        ...     except ValueError as error:
        ...         print(str(error).partition(";")[2])
         the agent was made for (99,)
    """
    config = fitting_agent(envs)
    for name in ("observation_shape", "actions", "continuous"):
        if getattr(agent, name) != getattr(config, name):
            raise ValueError(
                f"{envs.id} has {name} {getattr(config, name)}; the agent was made for {getattr(agent, name)}"
            )


def check_action_bounds(envs: VectorEnv) -> None:
    """Raise an error where nearly all actions of a new agent would end at the bounds, and nothing could be learned."""
    space = envs.action_space
    if isinstance(space, spaces.Discrete):
        return
    share = (np.minimum(space.high, 1) - np.maximum(space.low, -1)) / 2
    lost = np.flatnonzero((share < LEAST_RANGE) & (space.low < space.high))  # what cannot be chosen need not be learned
    if len(lost):
        raise ValueError(
            f"actions of {envs.id} are {space.low[lost[0]]:g} to {space.high[lost[0]]:g} (component {lost[0]}); those "
            "of a new agent are about -1 to 1 and clipped to these bounds, at which nearly all would end. Rescale them "
            "where the environment is made: gymnasium.wrappers.RescaleAction(env, -1, 1)"
        )


def fitting_agent(envs: VectorEnv) -> ActorCriticConfig:
    """The agent with default settings that fits environments.

    Example:
        >>> import gatel0rd.worlds
        >>> from gatel0rd.training import make_vector_env
        >>> from gatel0rd.training.ppo import fitting_agent
        >>> with make_vector_env("CartPole-v1", 1) as envs:
        ...     agent = fitting_agent(envs)
        >>> agent.observation_shape, agent.actions
        ((4,), 2)
    """
    space = envs.action_space
    discrete = isinstance(space, spaces.Discrete)
    actions = int(space.n) if isinstance(space, spaces.Discrete) else space.shape[0]
    return ActorCriticConfig(observation_shape=envs.observation_shape, actions=actions, continuous=not discrete)


def _summarize(episodes: EpisodeStatistics) -> Metrics:
    """Number and means of the episodes that ended in a rollout; None where none did."""

    def mean(values: Sequence[Any]) -> float | None:
        return float(f"{np.mean(values):.6g}") if values else None

    return {
        "episodes": len(episodes.returns),
        "return": mean(episodes.returns),
        "rewarded": mean(episodes.rewarded),
        "length": mean(episodes.lengths),
    }
