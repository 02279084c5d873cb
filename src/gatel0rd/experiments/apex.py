"""Guided against unguided planning in Fetch Pick&Place, as a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gatel0rd.analysis.records import processor, wilson
from gatel0rd.config import to_json
from gatel0rd.experiments.execute import code_commit, exclusive, one_thread
from gatel0rd.files import save_arrays, write_json
from gatel0rd.planning.apex import ApexConfig, LearnedPolicy, Round, play, train
from gatel0rd.planning.fetch import Placing
from gatel0rd.planning.icem import ICEMConfig

JUDGED = ICEMConfig(horizon=8, samples=4, elites=3, iterations=1, noise_exponent=2.0)
"""The planner with which guided and unguided are compared: so few samples that help is needed."""


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
        world = Placing()
        policy, course, _ = train(
            world,
            config,
            seed=seed,
            tests=tests,
            on_round=on_round,
            on_step=lambda done, total: on_step("training", done, total),
        )
        save_policy(out / "policy.safetensors", policy)
        judged = replace(config, planner=JUDGED)
        outcomes = {}
        for name, guide in (("guided", policy), ("unguided", None)):
            tracks = play(
                world,
                guide,
                judged,
                episodes=tests,
                generator=np.random.default_rng([seed, 2]),
                on_step=lambda done, total, name=name: on_step(name, done, total),  # type: ignore[misc]
            )
            successes = int((tracks.reached >= 0).sum())
            outcomes[name] = {
                "success": successes / tests,
                "confidence": list(wilson(successes, tests)),
                "reached": tracks.reached.tolist(),
                "simulated": tracks.simulated,
                "simulated_per_control_step": round(
                    tracks.simulated / sum(len(moment.rows) for moment in tracks.moments), 1
                ),
            }
        record = {
            "seed": seed,
            "config": to_json(config),
            "judged_with": to_json(JUDGED),
            "rounds": [vars(entry) for entry in course],
            "tests": tests,
            **outcomes,
            "code": {"commit": code_commit()},
            "machine": {"processor": processor(), "threads": world.arms.threads},
            "wall_seconds": round(time.monotonic() - began, 1),
        }
        write_json(out / "apex.json", record)
    return record


def save_policy(path: Path, policy: LearnedPolicy) -> None:
    """Write a policy's weights."""
    arrays = {name: tensor.numpy() for name, tensor in policy.state_dict().items()}
    save_arrays(path, arrays, kind="policy", metadata={})
