"""Guided against unguided planning in Fetch Pick&Place, as a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.config import to_json
from gatel0rd.files import FileError, exclusive, load_arrays, read_json, save_arrays, write_sealed_json
from gatel0rd.models.io import check_finite, load_weights
from gatel0rd.paper.execute import one_thread
from gatel0rd.paper.provenance import code_commit, processor
from gatel0rd.paper.records import wilson
from gatel0rd.paper.report.page import Block, ReportSection
from gatel0rd.planning.icem import ICEMConfig
from gatel0rd.tables import Table
from gatel0rd.worlds.fetch_pick_and_place.apex import ApexConfig, LearnedPolicy, Round, follow_alone, play, train
from gatel0rd.worlds.fetch_pick_and_place.task import SMALL_BUDGET, Placing

BUDGETS = {
    "tiny": ICEMConfig(horizon=8, samples=4, elites=4, iterations=1, noise_exponent=2.0),
    "small": SMALL_BUDGET,
}
"""Planners with which guided and unguided are compared."""


def compare(
    out: Path,
    *,
    seed: int,
    rounds: int,
    episodes: int,
    tests: int,
    on_step: Callable[[str, int, int], None] = lambda what, done, total: None,
    on_round: Callable[[Round], None] = lambda done: None,
) -> dict[str, Any]:
    """Train a policy by APEX, then plan the same episodes with and without its guidance.

    Writes ``policy.safetensors`` and ``apex.json`` to ``out``.

    Args:
        rounds, episodes: of training, see :class:`ApexConfig`.
        tests: episodes of the comparison, and of the policy alone after each round.
    """
    for name, value in (("rounds", rounds), ("episodes", episodes), ("tests", tests)):
        if value < (2 if name == "episodes" else 1):
            raise ValueError(f"{name} is {value}; expected at least {2 if name == 'episodes' else 1}")
    began = time.monotonic()
    config = ApexConfig(rounds=rounds, episodes=episodes)
    with exclusive(out), one_thread():
        task = Placing()
        policy, course, _ = train(
            task,
            config,
            seed=seed,
            tests=tests,
            on_round=on_round,
            on_step=lambda done, total: on_step("training", done, total),
        )
        save_policy(out / "policy.safetensors", policy)
        judged = {name: _judge(task, policy, config, name, seed, tests, course[-1].policy, on_step) for name in BUDGETS}
        alone = follow_alone(task, policy, episodes=tests, generator=np.random.default_rng([seed, 2]))
        record = {
            "seed": seed,
            "config": to_json(config),
            "budgets": {name: to_json(budget) for name, budget in BUDGETS.items()},
            "rounds": [vars(entry) for entry in course],
            "tests": tests,
            "planned": judged,
            "policy alone": _outcome(alone),
            "code": {"commit": code_commit()},
            "machine": {"processor": processor(), "threads": task.arms.threads},
            "wall_seconds": round(time.monotonic() - began, 1),
        }
        write_sealed_json(out / "apex.json", record)
    return record


def save_policy(path: Path, policy: LearnedPolicy) -> None:
    """Write a policy's weights."""
    arrays = {name: tensor.numpy() for name, tensor in policy.state_dict().items()}
    save_arrays(path, arrays, kind="policy", metadata={})


def load_policy(path: Path) -> LearnedPolicy:
    """Read a policy's weights."""
    arrays, _ = load_arrays(path, kind="policy")
    policy = LearnedPolicy(torch.Generator())
    load_weights(policy, arrays, path)
    check_finite(arrays, path)
    return policy


def _judge(
    task: Placing,
    policy: LearnedPolicy,
    config: ApexConfig,
    budget: str,
    seed: int,
    tests: int,
    trust: float,
    on_step: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """The same episodes with and without guidance, at one budget."""
    outcomes = {}
    for name, guide in (("guided", policy), ("unguided", None)):
        tracks = play(
            task,
            guide,
            replace(config, planner=BUDGETS[budget]),
            episodes=tests,
            trust=trust,
            generator=np.random.default_rng([seed, 2]),
            on_step=lambda done, total, name=name: on_step(f"{budget} budget, {name}", done, total),  # type: ignore[misc]
        )
        steps = sum(len(moment.rows) for moment in tracks.moments)
        outcomes[name] = {**_outcome(tracks.reached), "simulated_per_control_step": round(tracks.simulated / steps, 1)}
    return outcomes


def _outcome(reached: NDArray[np.int64]) -> dict[str, Any]:
    successes = int((reached >= 0).sum())
    low, high = wilson(successes, len(reached))
    return {"success": successes / len(reached), "confidence": [low, high], "reached": reached.tolist()}


def section(path: Path) -> ReportSection:
    """What the report says about a comparison: how planner and policy learned, and what guidance is worth.

    A file that is damaged, or that holds something else, is a :class:`FileError`.
    """
    record = read_json(path)
    try:
        return _describe(record)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FileError(f"{path} is no outcome of `gatel0rd apex` ({error!r}); make it again") from error


def _describe(record: dict[str, Any]) -> ReportSection:
    course = [
        [str(number), f"{entry['planner']:.0%}", f"{entry['policy']:.0%}", str(entry["examples"])]
        for number, entry in enumerate(record["rounds"], start=1)
    ]
    outcomes = {
        f"{budget}, {name}": found for budget, pair in record["planned"].items() for name, found in pair.items()
    }
    outcomes["policy alone"] = record["policy alone"]
    compared = [
        [
            name,
            f"{found['success']:.0%} ({found['confidence'][0]:.0%} to {found['confidence'][1]:.0%})",
            f"{found.get('simulated_per_control_step', 1):.0f}",
        ]
        for name, found in outcomes.items()
    ]
    config = record["config"]
    return ReportSection(
        id="apex",
        anchor=f"apex-seed{record['seed']}",
        world="Fetch Pick&Place",
        title="A planner guided by a policy that learns from it",
        question="Does guidance by a policy, distilled from the planner's own best trajectories, help the planner?",
        claims=(),
        note="The paper: its data was made by APEX, the policy-guided planner of Pinneri et al. (2021); it gives no "
        "number.",
        scale=f"Seed {record['seed']}, {config['rounds']} rounds of {config['episodes']} episodes; {record['tests']} "
        f"episodes each, the same starts, with 95 % intervals; {record['wall_seconds'] / 60:.0f} min on "
        f"{record['machine']['threads']} threads.",
        command=f"gatel0rd apex --rounds {config['rounds']} --episodes {config['episodes']} --tests {record['tests']}",
        blocks=[
            Block("Success round by round", table=Table(["round", "planner", "policy alone", "examples"], course)),
            Block(
                "Guided against unguided, at the same number of simulated steps",
                table=Table(["budget", "success", "simulated steps per control step"], compared),
            ),
        ],
    )
