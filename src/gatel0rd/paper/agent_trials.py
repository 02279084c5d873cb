"""Agents outside the paper's experiments: train one in any environment, try it out, film it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import gatel0rd
from gatel0rd.models.io import load_agent
from gatel0rd.nn.config import CellConfig
from gatel0rd.paper.agent_film import drawn_environment, film_agent
from gatel0rd.paper.agent_run import AgentRun
from gatel0rd.paper.execute import one_thread
from gatel0rd.paper.provenance import code_commit
from gatel0rd.paper.records import wilson
from gatel0rd.paper.schema import read_run
from gatel0rd.training.ppo.evaluation import ENVIRONMENTS_AT_ONCE, play_episodes
from gatel0rd.training.ppo.trainer import check_agent_fits, fitting_agent
from gatel0rd.training.presets import AgentPreset, agent_configs
from gatel0rd.training.vector_env import BackendName, make_vector_env


def plan_own_agent(
    environment: str,
    cell: str,
    *,
    frames: int,
    seed: int,
    hidden_size: int = 64,
    learning_rate: float = 0.001,
    sparsity_weight: float = 0.01,
    preset: AgentPreset = "text",
    backend: BackendName = "auto",
) -> AgentRun:
    """A run in any environment, with the paper's training; ``cell`` may be ``none``."""
    if frames < 1:
        raise ValueError(f"frames is {frames}; expected at least 1")
    with make_vector_env(environment, 1, backend=backend) as envs:
        fitting = fitting_agent(envs)
    gated = cell == "gatel0rd"
    agent, ppo = agent_configs(
        CellConfig(name="elman" if cell == "none" else cell, hidden_size=hidden_size),  # type: ignore[arg-type]
        preset=preset,
        memory=cell != "none",
        observation_shape=fitting.observation_shape,
        actions=fitting.actions,
        continuous=fitting.continuous,
    )
    return AgentRun(
        scenario="rl",
        preset=preset,
        profile="own",
        environment=environment,
        transfers=(),
        agent=agent,
        ppo=replace(ppo, learning_rate=learning_rate, sparsity_weight=sparsity_weight if gated else 0.0),
        frames=frames,
        evaluate_every=10**9,
        trials=100,
        seed=seed,
    )


def evaluate_agent(
    directory: Path,
    *,
    environment: str | None,
    episodes: int,
    seed: int,
    greedy: bool = False,
    backend: BackendName = "auto",
    film: Path | None = None,
    on_episode: Callable[[int], None] = lambda ended: None,
    on_frame: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """How often a trained agent succeeds, where it was trained or elsewhere; as plain data."""
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; expected at least 1")
    agent, metadata = load_agent(directory)
    run = read_run(metadata, directory, AgentRun)
    place = environment or run.environment
    if environment is None and ":" in place:  # Gymnasium imports what comes before the colon
        raise ValueError(
            f"{directory} says that its environment is {place}, which imports a module; if you trust it, name it "
            f"yourself, as in --env {place}"
        )
    drawn = None if film is None else drawn_environment(place, film)
    with one_thread(), make_vector_env(place, min(episodes, ENVIRONMENTS_AT_ONCE), backend=backend) as envs:
        check_agent_fits(agent.config, envs)
        played = play_episodes(agent, envs, episodes=episodes, seed=seed, greedy=greedy, on_step=on_episode)
        if film is not None and drawn is not None:
            film_agent(agent, drawn, film, name=run.network_title, seed=seed, greedy=greedy, on_frame=on_frame)
    low, high = wilson(sum(played.rewarded), episodes)
    return {
        "run": str(directory),
        "environment": place,
        "memory": run.network,
        "episodes": episodes,
        "seed": seed,
        "greedy": greedy,
        "success": sum(played.rewarded) / episodes,
        "confidence": [low, high],
        "return": float(np.mean(played.returns)),
        "length": float(np.mean(played.lengths)),
        "returns": [float(f"{value:.6g}") for value in played.returns],
        "code": {"version": gatel0rd.__version__, "commit": code_commit()},
    }
