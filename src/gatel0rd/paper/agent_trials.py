"""Agents outside the paper's experiments: train one in any environment, try it out, film it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

import gatel0rd
from gatel0rd.config import check_numbers
from gatel0rd.files import FileError
from gatel0rd.models.io import load_agent
from gatel0rd.nn.config import CellConfig
from gatel0rd.paper.agent_film import drawn_environment, film_agent
from gatel0rd.paper.agent_run import AgentRun
from gatel0rd.paper.execute import one_thread
from gatel0rd.paper.provenance import code_commit
from gatel0rd.paper.records import wilson
from gatel0rd.paper.run import title_network
from gatel0rd.paper.schema import read_run
from gatel0rd.training.ppo.evaluation import ENVIRONMENTS_AT_ONCE, play_episodes
from gatel0rd.training.ppo.success import judge_episodes
from gatel0rd.training.ppo.trainer import check_agent_fits, fitting_agent
from gatel0rd.training.presets import AgentPreset, agent_configs
from gatel0rd.training.vector_env import BackendName, make_vector_env

AgentCell = Literal["gatel0rd", "lstm", "gru", "elman", "none"]
CELLS: tuple[AgentCell, ...] = get_args(AgentCell)


def plan_own_agent(
    environment: str,
    cell: AgentCell,
    *,
    frames: int,
    seed: int,
    hidden_size: int = 64,
    learning_rate: float = 0.001,
    sparsity_weight: float = 0.01,
    preset: AgentPreset = "text",
    backend: BackendName = "auto",
) -> AgentRun:
    """A run in any environment, with the paper's training.

    Args:
        environment: an id as for ``gymnasium.make``, also as ``module:id``.
        cell: ``gatel0rd``, ``lstm``, ``gru``, ``elman``, or ``none`` for an agent without a memory.
    """
    if cell not in CELLS:
        raise ValueError(f"cell is {cell!r}; expected {', '.join(CELLS[:-1])}, or {CELLS[-1]} for no memory")
    if not isinstance(environment, str):
        raise ValueError(
            f"the environment is {environment!r}; expected an id, since a run names its environment. Vector "
            "environments of your own are for gatel0rd.training.ppo.AgentTrainer"
        )
    check_numbers(frames=frames, hidden_size=hidden_size)
    check_numbers(least=0, seed=seed)
    with make_vector_env(environment, 1, backend=backend) as envs:
        fitting = fitting_agent(envs)
    gated = cell == "gatel0rd"
    agent, ppo = agent_configs(
        CellConfig(name="elman" if cell == "none" else cell, hidden_size=hidden_size),
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
    success_return: float | None = None,
    film: Path | None = None,
    on_episode: Callable[[int], None] = lambda ended: None,
    on_frame: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """How often a trained agent succeeds, where it was trained or elsewhere; as plain data.

    Args:
        directory: of a run, or of an :class:`~gatel0rd.training.ppo.AgentTrainer`.
        success_return: the least return of a successful episode; the default is the environment's own notion.
    """
    check_numbers(episodes=episodes)
    agent, metadata = load_agent(directory)
    place = environment or read_environment(metadata, directory)
    if environment is None and ":" in place:  # Gymnasium imports what comes before the colon
        raise ValueError(
            f"{directory} says that its environment is {place}, which imports a module; if you trust it, name it "
            f"yourself, as in --env {place}"
        )
    network = agent.config.cell.name if agent.config.memory else "none"
    drawn = None if film is None else drawn_environment(place, film)
    with one_thread(), make_vector_env(place, min(episodes, ENVIRONMENTS_AT_ONCE), backend=backend) as envs:
        check_agent_fits(agent.config, envs)
        played = play_episodes(agent, envs, episodes=episodes, seed=seed, greedy=greedy, on_step=on_episode)
        if film is not None and drawn is not None:
            film_agent(agent, drawn, film, name=title_network(network), seed=seed, greedy=greedy, on_frame=on_frame)
    judgement = judge_episodes(played, envs, success_return=success_return)
    successes = judgement.successes
    return {
        "run": str(directory),
        "environment": place,
        "memory": network,
        "episodes": episodes,
        "seed": seed,
        "greedy": greedy,
        **judgement.as_data(),
        "meaning": judgement.words,
        "confidence": None if successes is None else list(wilson(sum(successes), episodes)),
        "return": float(np.mean(played.returns)),
        "length": float(np.mean(played.lengths)),
        "returns": [float(f"{value:.6g}") for value in played.returns],
        "code": {"version": gatel0rd.__version__, "commit": code_commit()},
    }


def read_environment(metadata: dict[str, Any], source: Path) -> str:
    """Where an agent was trained, by a run or by an :class:`~gatel0rd.training.ppo.AgentTrainer`."""
    if "run" in metadata:
        return read_run(metadata, source, AgentRun).environment
    environment = metadata.get("environment")
    if not isinstance(environment, str):
        raise FileError(
            f"{source} does not name an environment that can be made by its id; say with --env where the agent should "
            "be tried out"
        )
    return environment
