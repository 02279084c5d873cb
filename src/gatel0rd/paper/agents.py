"""Experiments with agents, as immutable data: which runs answer a question about reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gatel0rd.config import content_hash
from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.paper.profiles import Profile
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.presets import AgentPreset, agent_configs
from gatel0rd.worlds.experiments import AgentExperiment, AgentVariant

FRAMES_PER_SECOND = 6000
"""About what one core trains on, with the compiled engine and EnvPool."""
OBSERVATION_SHAPE, ACTIONS = (7, 7, 3), 7
"""Of every MiniGrid environment."""


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """One training run of an agent, completely: equal configurations are the same run.

    ``profile`` is the name under which it was planned, and no part of what makes runs equal.
    """

    scenario: str
    preset: AgentPreset
    profile: str
    environment: str
    transfers: tuple[str, ...]
    agent: ActorCriticConfig
    ppo: PPOConfig
    frames: int
    evaluate_every: int
    trials: int
    seed: int

    @property
    def memory_name(self) -> str:
        return self.agent.cell.name if self.agent.memory else "none"

    @property
    def directory_name(self) -> str:
        return f"{self.scenario}/{self.memory_name}-seed{self.seed}-{self.group}"

    @property
    def group(self) -> str:
        """What runs that differ in their seed only have in common."""
        return content_hash(replace(self, seed=0, profile=""))

    @property
    def length(self) -> int:
        """How long the run is, in what its progress is counted in."""
        return self.updates * self.ppo.frames

    @property
    def updates(self) -> int:
        return -(-self.frames // self.ppo.frames)


def plan_agent_run(
    experiment: AgentExperiment,
    variant: AgentVariant,
    *,
    seed: int,
    profile: Profile,
    preset: AgentPreset = "text",
    frames: int | None = None,
) -> AgentRun:
    """The run that trains one variant of an experiment with one seed."""
    if frames is not None and frames < 1:
        raise ValueError(f"frames is {frames}; expected at least 1")
    own_frames = profile.scale_frames(experiment.frames) if frames is None else frames
    agent, ppo = agent_configs(
        variant.cell, preset=preset, memory=variant.memory, observation_shape=OBSERVATION_SHAPE, actions=ACTIONS
    )
    ppo = replace(ppo, learning_rate=variant.learning_rate, sparsity_weight=variant.sparsity_weight)
    updates = -(-own_frames // ppo.frames)
    return AgentRun(
        scenario=experiment.scenario.name,
        preset=preset,
        profile=profile.name if frames is None else f"{profile.name}, {frames} frames",
        environment=experiment.environment,
        transfers=experiment.transfers,
        agent=agent,
        ppo=ppo,
        frames=own_frames,
        evaluate_every=max(1, updates // profile.trial_points),
        trials=profile.episodes,
        seed=seed,
    )
