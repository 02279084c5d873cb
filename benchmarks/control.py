"""``python -m benchmarks.control``: learned planning with several memories, and recurrent PPO, in the same tasks.

In all of them something that matters is hidden: velocities, or what was done a while ago. Every cell (task, method,
seed) is one resumable run; its outcome is added to ``results/control/control.json``, from which the documentation's
table and figure are made.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import tyro
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tyro.conf import arg

import benchmarks.swing_up  # noqa: F401  # registers it
import gatel0rd.worlds
from gatel0rd.cli.options import parse_names, parse_numbers
from gatel0rd.files import write_json
from gatel0rd.nn.config import CellConfig
from gatel0rd.planning import HideColumns, ICEMConfig, LearnConfig, learn
from gatel0rd.planning.dynamics import StepCost
from gatel0rd.training import make_vector_env
from gatel0rd.training.ppo import AgentTrainer, play_episodes
from gatel0rd.training.presets import agent_configs

RESULTS = Path(__file__).parents[1] / "results" / "control" / "control.json"
TESTS = 10
PPO_FRAMES, PPO_ENVIRONMENTS = 500_000, 16


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task in which something that matters is not seen.

    Attributes:
        make: the environment, with what is hidden left out.
        good_return: the return that counts as learned.
        succeeds: of the last observation, the length of an episode, and whether the environment ended it.
        success: the same in words.
        cost: of steps, in place of the environment's reward.
        learning: how it is learned by planning, but for the memory and the seed.
    """

    title: str
    make: Callable[[], gymnasium.Env[Any, Any]]
    good_return: float
    succeeds: Callable[[Any, int, bool], bool]
    success: str
    cost: StepCost | None = None
    learning: LearnConfig = field(default_factory=LearnConfig)


def make_env(name: str, hide: tuple[int, ...] = (), **options: Any) -> gymnasium.Env[Any, Any]:
    """An environment, with some columns hidden if it does not hide anything by itself."""
    env = gymnasium.make(name, disable_env_checker=True, **options)
    return HideColumns(env, hide) if hide else env


def make_step_cost(world: str) -> StepCost:
    """What a step costs in the paper's planning task of a world."""
    task = gatel0rd.worlds.get(world).make_task()

    def cost(observations: Any, actions: Any) -> Any:
        return task.cost(observations[..., None, :], actions[..., None, :])

    return cost


def reaches_goal(seen: Any, length: int, terminated: bool) -> bool:
    """Whether the goal was reached, which ends an episode."""
    return terminated


LONG_SIGHTED = LearnConfig(
    steps=12_000,
    random_steps=4000,
    search=ICEMConfig(horizon=50, samples=128, noise_exponent=3.0),
    dynamics=replace(LearnConfig().dynamics, window=50),
)
"""For a task in which nothing is gained in the first dozens of steps."""
FAR_AWAY = LearnConfig(
    steps=40_000,
    random_steps=20_000,
    random_exponent=3.0,
    fit_every=600,
    search=ICEMConfig(horizon=60, samples=128, noise_exponent=3.0),
    dynamics=replace(LearnConfig().dynamics, window=60, first_updates=8000, updates=1600),
)
"""For one in which random actions rarely get anywhere: they keep their direction, and there are more of them."""

TASKS = {
    "pendulum": Task(
        title="Pendulum without velocity",
        make=partial(make_env, "Pendulum-v1", (2,)),
        good_return=-250.0,
        succeeds=lambda seen, length, terminated: bool(seen[0] > np.cos(np.radians(10))),
        success="within 10° at the end",
    ),
    "cartpole": Task(
        title="CartPole without velocities",
        make=partial(make_env, "CartPole-v1", (1, 3)),
        good_return=400.0,
        succeeds=lambda seen, length, terminated: length == 500,
        success="500 steps",
    ),
    "swing-up": Task(
        title="CartPole swing-up without velocities",
        make=partial(make_env, "CartPoleSwingUp-v0"),
        good_return=60.0,
        succeeds=lambda seen, length, terminated: bool(seen[1] > np.cos(np.radians(10))),
        success="within 10° at the end",
    ),
    "reacher": Task(
        title="Reacher without velocities",
        make=partial(make_env, "Reacher-v5", (6, 7)),
        good_return=-8.0,
        succeeds=lambda seen, length, terminated: bool(np.linalg.norm(seen[-2:]) < 0.05),
        success="within 5 cm at the end",
    ),
    "rrc": Task(
        title="Robot Remote Control",
        make=partial(make_env, "gatel0rd/RobotRemoteControl-v0", control_radius=0.15, goal_radius=0.15),
        good_return=-25.0,
        succeeds=reaches_goal,
        success="robot at its goal",
        cost=make_step_cost("rrc"),
        learning=LONG_SIGHTED,
    ),
    "shepherd": Task(
        title="Shepherd",
        make=partial(make_env, "gatel0rd/Shepherd-v0", lever_radius=0.3, cage_radius=0.15),
        good_return=-88.0,
        succeeds=reaches_goal,
        success="sheep caught",
        cost=make_step_cost("shepherd"),
        learning=FAR_AWAY,
    ),
}
METHODS = {
    "gatel0rd": "planning, GateL0RD",
    "gru": "planning, GRU",
    "lstm": "planning, LSTM",
    "none": "planning, no memory",
    "pets": "planning, 3 models without memory",
    "ensemble": "planning, 3 x GateL0RD",
    "ppo": "PPO, GateL0RD",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a cell came to.

    Attributes:
        steps: of the environment, without tests.
        seconds: wall time, tests included.
        curve: environment steps and returns of the training episodes.
        test_returns, test_successes: of the episodes at the end.
        open_rate: share of open gates in the tests; None without gates.
        summary: the diagnosis.
    """

    task: str
    method: str
    seed: int
    steps: int
    seconds: float
    curve: list[tuple[int, float]]
    test_returns: list[float]
    test_successes: list[bool]
    open_rate: float | None = None
    summary: str | None = None


class TaskWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds ``is_success`` of a task to the info of every step, and pays minus its cost where it has one."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: Task) -> None:
        super().__init__(env)
        self.task = task

    def reset(self, **options: Any) -> Any:
        self.length = 0
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = self.env.step(action)
        self.length += 1
        if self.task.cost is not None:
            reward = -float(self.task.cost(seen, np.asarray(action)))
        success = self.task.succeeds(seen, self.length, bool(terminated))
        return seen, reward, terminated, truncated, info | {"is_success": success}


def make_task(task: Task) -> gymnasium.Env[Any, Any]:
    """The environment of a task."""
    return TaskWrapper(task.make(), task)


def plan_config(task: Task, method: str, seed: int) -> LearnConfig:
    """How a task is learned, with the memory of a method."""
    several = {"pets": ("none", 3), "ensemble": ("gatel0rd", 3)}
    cell, models = several.get(method, (method, 1))
    dynamics = replace(task.learning.dynamics, cell=cell, models=models)  # type: ignore[arg-type]
    return replace(task.learning, seed=seed, tests=TESTS, dynamics=dynamics)


def run_planning(name: str, method: str, seed: int, directory: Path) -> Outcome:
    """Learn a task by planning."""
    task = TASKS[name]
    record = learn(make_task(task), directory, plan_config(task, method, seed), cost=task.cost)
    return read_planning(name, method, record)


def read_planning(name: str, method: str, record: dict[str, Any]) -> Outcome:
    """The outcome of a record that `gatel0rd control` or ``learn`` left."""
    tests = [episode for episode in record["episodes"] if episode["kind"] == "test"][-TESTS:]
    return Outcome(
        task=name,
        method=method,
        seed=record["seed"],
        steps=record["environment_steps"],
        seconds=round(record["seconds"], 1),
        curve=[(e["environment_steps"], round(e["return"], 2)) for e in record["episodes"] if e["kind"] != "test"],
        test_returns=[round(episode["return"], 2) for episode in tests],
        test_successes=[TASKS[name].succeeds(e["last_observation"], e["length"], e["terminated"]) for e in tests],
        open_rate=record["diagnosis"]["open_rate"],
        summary=record["summary"],
    )


def run_ppo(name: str, seed: int, directory: Path) -> Outcome:
    """Learn a task by recurrent PPO."""
    task, began = TASKS[name], time.monotonic()

    def make_envs() -> SyncVectorEnv:
        made = [lambda: make_task(task)] * PPO_ENVIRONMENTS
        return SyncVectorEnv(made, autoreset_mode=AutoresetMode.SAME_STEP)

    space = make_task(task)
    discrete = isinstance(space.action_space, gymnasium.spaces.Discrete)
    agent, config = agent_configs(
        CellConfig(hidden_size=32),
        observation_shape=tuple(space.observation_space.shape or ()),
        actions=int(space.action_space.n) if discrete else int(np.prod(space.action_space.shape or ())),  # type: ignore[attr-defined]
        preset="tuned",
        continuous=not discrete,
    )
    config = replace(
        config,
        environments=PPO_ENVIRONMENTS,
        learning_rate=0.001,
        gamma=0.95,
        gae_lambda=0.95,
        clip_norm=0.5,
        sparsity_weight=0.001,
        normalize_advantages=True,  # returns are of any size here
        clip_values=False,
    )
    trainer = AgentTrainer(make_envs(), agent, config, frames=PPO_FRAMES, seed=seed, directory=directory)
    trained = trainer.run()
    played = play_episodes(trained, make_vector_env(make_envs(), PPO_ENVIRONMENTS), episodes=TESTS, seed=seed + 1)
    rows = [(number, row) for number, row in enumerate(trainer.history, 1) if row["return"] is not None]
    return Outcome(
        task=name,
        method="ppo",
        seed=seed,
        steps=trainer.frames,
        seconds=round(time.monotonic() - began, 1),
        curve=[(number * config.frames, round(row["return"], 2)) for number, row in rows],
        test_returns=[round(value, 2) for value in played.returns],
        test_successes=[bool(value) for value in played.succeeded],
        open_rate=trainer.history[-1].get("open_rate"),
    )


def read_outcomes(path: Path = RESULTS) -> list[Outcome]:
    """All that are recorded."""
    return [Outcome(**row) for row in json.loads(path.read_text())] if path.exists() else []


def add_outcome(outcome: Outcome, path: Path = RESULTS) -> None:
    """Record an outcome, in the place of an older one of the same cell."""
    key = (outcome.task, outcome.method, outcome.seed)
    others = [one for one in read_outcomes(path) if (one.task, one.method, one.seed) != key]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, [asdict(one) for one in sorted([*others, outcome], key=lambda o: (o.task, o.method, o.seed))])


def main(
    tasks: Annotated[str, arg(metavar="A,B", help="Tasks to run.")] = ",".join(TASKS),
    methods: Annotated[str, arg(metavar="A,B", help="Methods to run.")] = ",".join(METHODS),
    seeds: Annotated[str, arg(metavar="SEEDS", help="Random seeds, as in 0-2.")] = "0-2",
    runs: Annotated[Path, arg(metavar="DIR", help="Directory of the runs.")] = Path("runs/benchmark-control"),
) -> None:
    """Run all cells that have no outcome yet."""
    for what, given, known in (("task", parse_names(tasks), TASKS), ("method", parse_names(methods), METHODS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise SystemExit(f"there is no {what} {unknown[0]!r}; there are {', '.join(known)}")
    for method in parse_names(methods):
        for seed in parse_numbers(seeds):
            for name in parse_names(tasks):
                if any((one.task, one.method, one.seed) == (name, method, seed) for one in read_outcomes()):
                    continue
                directory = runs / f"{name}-{method}-{seed}"
                run = run_ppo(name, seed, directory) if method == "ppo" else run_planning(name, method, seed, directory)
                add_outcome(run)
                print(f"{name}, {method}, seed {seed}: mean return {np.mean(run.test_returns):.4g}, {run.seconds} s")


if __name__ == "__main__":
    tyro.cli(main)
