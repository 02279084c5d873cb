"""One run of an agent from configuration to record, in a directory of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gatel0rd
from gatel0rd.config import from_json, to_json
from gatel0rd.engine import status
from gatel0rd.files import FileError, exclusive, write_json
from gatel0rd.models.io import AGENT_FILE, load_agent, save_agent
from gatel0rd.nn.config import CellConfig
from gatel0rd.paper.agent_film import drawn_environment, film_agent
from gatel0rd.paper.agents import AgentRun
from gatel0rd.paper.execute import code_commit, one_thread, rounded
from gatel0rd.paper.films import CELL_TITLES
from gatel0rd.paper.records import processor, wilson
from gatel0rd.training.ppo.evaluation import ENVIRONMENTS_AT_ONCE, play_episodes
from gatel0rd.training.ppo.trainer import AgentTrainer, check_agent_fits, fitting_agent
from gatel0rd.training.presets import AgentPreset, agent_configs
from gatel0rd.training.vector_env import BackendName, make_vector_env

POINTS = 100
"""Points of a learning curve."""


def execute_agent(
    run: AgentRun,
    directory: Path,
    *,
    resume: bool = False,
    backend: BackendName = "auto",
    on_update: Callable[[dict[str, Any]], None] = lambda metrics: None,
) -> Path:
    """Train, try out and write ``record.json``; a finished run is left as it is. Returns the run's directory."""
    with exclusive(directory), one_thread():
        if (directory / "record.json").exists():
            earlier = json.loads((directory / "record.json").read_text())
            if earlier["group"] != run.group or earlier["run"]["seed"] != run.seed:
                raise FileError(f"{directory} holds another finished run; choose another directory")
            return directory
        if (directory / "config.json").exists():
            if not resume:
                raise FileError(
                    f"{directory} holds an unfinished run; continue it with --resume, or delete it to start over"
                )
            earlier, now = json.loads((directory / "config.json").read_text()), to_json(run)
            other = [name for name in now if name != "profile" and earlier.get(name) != now[name]]
            if other:
                raise FileError(f"{directory} holds an unfinished run with another {', '.join(other)}; give the same")
        write_json(directory / "config.json", to_json(run))
        trainer = AgentTrainer(
            run.environment,
            run.agent,
            run.ppo,
            frames=run.frames,
            seed=run.seed,
            directory=directory,
            backend=backend,
            evaluations=(run.environment, *run.transfers),
            evaluate_every=run.evaluate_every,
            trials=run.trials,
        )
        agent = trainer.run(on_update)
        save_agent(directory / AGENT_FILE, agent, {"run": to_json(run)})
        record = {
            "run": to_json(run),
            "group": run.group,
            "share_of_paper": None,
            "code": {"version": gatel0rd.__version__, "commit": code_commit(), "torch": torch.__version__},
            "machine": {
                "processor": processor(),
                "threads": torch.get_num_threads(),
                "engine": status()["engine"],
                "environments": type(trainer.envs).__name__,
            },
            "parameters": sum(parameter.numel() for parameter in agent.parameters()),
            "wall_seconds": round(trainer.seconds, 2),
            "curves": learning_curves(trainer.history),
            "final": trainer.history[-1]["evaluation"],
        }
        write_json(directory / "record.json", rounded(record))
    return directory


def plan_single(
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
    run = from_json(AgentRun, metadata["run"])
    place = environment or run.environment
    drawn = None if film is None else drawn_environment(place, film)
    with one_thread(), make_vector_env(place, min(episodes, ENVIRONMENTS_AT_ONCE), backend=backend) as envs:
        check_agent_fits(agent.config, envs)
        played = play_episodes(agent, envs, episodes=episodes, seed=seed, greedy=greedy, on_step=on_episode)
        if film is not None and drawn is not None:
            name = CELL_TITLES.get(run.memory_name, run.memory_name.upper())
            film_agent(agent, drawn, film, name=name, seed=seed, greedy=greedy, on_frame=on_frame)
    low, high = wilson(sum(played.rewarded), episodes)
    return {
        "run": str(directory),
        "environment": place,
        "memory": run.memory_name,
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


def learning_curves(history: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Metrics over frames, in some hundred pieces: of episodes, means over those that ended in a piece."""
    columns: dict[str, list[Any]] = {}
    pieces = [piece for piece in np.array_split(np.arange(len(history)), min(POINTS, len(history))) if len(piece)]
    evaluated = sorted({name for entry in history for name in entry.get("evaluation", {})})
    for piece in pieces:
        entries = [history[index] for index in piece]
        ended = [entry for entry in entries if entry["episodes"]]
        count = sum(entry["episodes"] for entry in ended)
        row: dict[str, Any] = {"frames": entries[-1]["frames"], "episodes": count}
        for name, source in (("success", "rewarded"), ("return", "return"), ("length", "length")):
            total = sum(entry["episodes"] * entry[source] for entry in ended)
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
