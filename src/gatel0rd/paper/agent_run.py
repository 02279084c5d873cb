"""Runs that train agents."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.paper.profiles import Profile
from gatel0rd.paper.run import Metrics, OnMetrics, Outcome, Reading, Run
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.presets import AgentPreset, agent_configs
from gatel0rd.worlds.experiments import AgentExperiment, AgentVariant
from gatel0rd.worlds.metrics import short_name

if TYPE_CHECKING:
    from gatel0rd.training.vector_env import BackendName

FRAMES_PER_SECOND = 20_000
"""About what one core that is otherwise idle trains on, with compiled engine and environments."""
POINTS = 100
"""Points of a learning curve."""


@dataclass(frozen=True, kw_only=True)
class AgentRun(Run):
    """An agent, how it is trained, and where it is tried out."""

    kind = "agent"
    unit = "frames"
    environment: str
    transfers: tuple[str, ...]
    agent: ActorCriticConfig
    ppo: PPOConfig
    frames: int
    evaluate_every: int
    trials: int

    @property
    def network(self) -> str:
        return self.agent.cell.name if self.agent.memory else "none"

    @property
    def title(self) -> str:
        rate = f" rate {self.ppo.learning_rate:g}" if self.ppo.learning_rate != 0.001 else ""
        return f"{short_name(self.environment)} {self.network}{rate} seed {self.seed}"

    @property
    def length(self) -> int:
        return self.updates * self.ppo.frames

    @property
    def updates(self) -> int:
        return -(-self.frames // self.ppo.frames)

    def estimate_seconds(self) -> float:
        return self.length / FRAMES_PER_SECOND

    def train_network(self, directory: Path, *, data: Path, backend: BackendName, on_metrics: OnMetrics) -> Outcome:
        from gatel0rd.paper.schema import describe_run
        from gatel0rd.training.ppo import AgentTrainer

        trainer = AgentTrainer(
            self.environment,
            self.agent,
            self.ppo,
            frames=self.frames,
            seed=self.seed,
            directory=directory,
            backend=backend,
            evaluations=(self.environment, *self.transfers),
            evaluate_every=self.evaluate_every,
            trials=self.trials,
            description=describe_run(self),
        )
        agent = trainer.run(on_metrics)
        return Outcome(
            parameters=sum(parameter.numel() for parameter in agent.parameters()),
            seconds=trainer.seconds,
            curves=learning_curves(trainer.history),
            final=trainer.history[-1]["evaluation"],
            machine={"environments": type(trainer.envs).__name__},
        )

    def follow(self) -> AgentFollower:
        return AgentFollower()


class AgentFollower:
    """Success (where the environment says what that is) and reward over the last 50 updates, speed, and open gates."""

    def __init__(self) -> None:
        self.episodes: deque[tuple[int, float | None, float]] = deque(maxlen=50)

    def read(self, metrics: Metrics) -> Reading:
        if metrics["episodes"]:
            self.episodes.append((metrics["episodes"], read_success(metrics), metrics["return"]))
        count = sum(entry[0] for entry in self.episodes)
        parts = [f"{metrics['frames'] / metrics['seconds']:.0f} frames/s"]
        if count:
            reward = sum(number * each for number, _, each in self.episodes) / count
            parts = [f"reward {reward:.2f}", *parts]
            judged = [(number, success) for number, success, _ in self.episodes if success is not None]
            if judged:
                success = sum(number * each for number, each in judged) / sum(number for number, _ in judged)
                parts = [f"success {success:.0%}", *parts]
        if metrics["open_rate"]:
            parts.append(f"gates {metrics['open_rate']:.1%}")
        line = f"{metrics['frames']} frames, {', '.join(parts)}" if metrics["update"] % 50 == 0 else None
        return Reading(metrics["frames"], "  ".join(parts), line)


def read_success(metrics: Metrics) -> float | None:
    """The success rate of an update; earlier versions counted episodes that ended with a reward."""
    rate: float | None = metrics.get("success", metrics["rewarded"])
    return rate


def plan_agent(
    experiment: AgentExperiment,
    variant: AgentVariant,
    *,
    seed: int,
    profile: Profile,
    preset: AgentPreset = "text",
    length: int | None = None,
) -> AgentRun:
    """The run that trains one variant of an experiment with one seed; ``length`` replaces the profile's frames."""
    if length is not None and length < 1:
        raise ValueError(f"frames is {length}; expected at least 1")
    frames = profile.scale_frames(experiment.frames) if length is None else length
    agent, ppo = agent_configs(
        variant.cell,
        observation_shape=experiment.observation_shape,
        actions=experiment.actions,
        preset=preset,
        memory=variant.memory,
    )
    ppo = replace(ppo, learning_rate=variant.learning_rate, sparsity_weight=variant.sparsity_weight)
    updates = -(-frames // ppo.frames)
    return AgentRun(
        scenario=experiment.scenario.name,
        preset=preset,
        profile=profile.name,
        length_override=length,
        environment=experiment.environment,
        transfers=experiment.transfers,
        agent=agent,
        ppo=ppo,
        frames=frames,
        evaluate_every=max(1, updates // profile.trial_points),
        trials=profile.episodes,
        seed=seed,
    )


def learning_curves(history: Sequence[Metrics]) -> dict[str, list[Any]]:
    """Metrics over frames, in some hundred pieces: of episodes, means over those that ended in a piece."""
    columns: dict[str, list[Any]] = {}
    pieces = [piece for piece in np.array_split(np.arange(len(history)), min(POINTS, len(history))) if len(piece)]
    evaluated = sorted({name for entry in history for name in entry.get("evaluation", {})})
    for piece in pieces:
        entries = [history[index] for index in piece]
        ended = [entry for entry in entries if entry["episodes"]]
        count = sum(entry["episodes"] for entry in ended)
        row: dict[str, Any] = {"frames": entries[-1]["frames"], "episodes": count}
        judged = [entry for entry in ended if read_success(entry) is not None]
        total = sum(entry["episodes"] * (read_success(entry) or 0.0) for entry in judged)
        row["success"] = total / sum(entry["episodes"] for entry in judged) if judged else None
        for name in ("return", "length"):
            total = sum(entry["episodes"] * entry[name] for entry in ended)
            row[name] = total / count if count else None
        for name in ("entropy", "open_rate", "value", "clipped"):
            row[name] = float(np.mean([entry[name] for entry in entries]))
        trials: dict[str, Any] = next((entry["evaluation"] for entry in reversed(entries) if "evaluation" in entry), {})
        for name in evaluated:
            for measure in ("success", "return"):
                row[f"{name}.{measure}"] = trials.get(name, {}).get(measure)
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns
