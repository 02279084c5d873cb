"""The registry as plain data, for lists and documentation, and the data sets that scenarios need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatel0rd.paper.executors.base import Work
from gatel0rd.paper.plan import experiments, plan
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.run import Run
from gatel0rd.training.recipe import DataRecipe, Preset
from gatel0rd.worlds import registry
from gatel0rd.worlds.experiments import Question


def catalogue() -> list[dict[str, Any]]:
    """Every experiment with its place in the paper and its cost."""
    return [
        {
            "id": experiment.id,
            "title": experiment.title,
            "question": experiment.question,
            "claim": experiment.claim,
            "of_paper": experiment.scenario.of_paper,
            "artefacts": list(experiment.artefacts),
            "variants": [variant.name for variant in experiment.variants],
            "paper_seeds": experiment.seeds,
            "core_seconds_per_seed": {profile: round(core_seconds(experiment, profile)) for profile in PROFILES},
        }
        for experiment in experiments().values()
    ]


def core_seconds(experiment: Question, profile: str) -> float:
    """About how long one seed of an experiment takes on one core, with planning where there is any."""
    runs = plan(experiment, profile=profile, seeds=[0])
    planned = runs if experiment.plans else []
    training = sum(run.estimate_seconds() for run in runs)
    return training + sum(run.estimate_planning_seconds(PROFILES[profile]) for run in planned)


def costs(
    runs: Sequence[Run], *, profile: str, planned: frozenset[str] = frozenset(), out: Path
) -> list[dict[str, Any]]:
    """What a plan would take, world by world, from measured times of one core."""
    work = Work(out=out, planning=PROFILES[profile], planned=planned)
    rows = []
    for world in dict.fromkeys(run.scenario for run in runs):
        seconds = {run.directory_name: work.remaining_seconds(run) for run in runs if run.scenario == world}
        left = [name for name in seconds if seconds[name] > 0]
        rows.append(
            {
                "world": world,
                "runs": len(seconds),
                "finished": len(seconds) - len(left),
                "left": left,
                "core_seconds": sum(seconds.values()),
                "longest_seconds": max(seconds.values()),
            }
        )
    return rows


def recipes(name: str, *, sequences: int | None, preset: Preset, seed: int) -> list[DataRecipe]:
    """The recipes behind ``world`` or ``world/policy``."""
    scenario_name, _, policy = name.partition("/")
    scenario = registry.get(scenario_name).scenario
    policies = list(scenario.evaluations)
    if policy and policy not in policies:
        raise ValueError(f"{scenario_name} has no policy {policy!r}; it has {', '.join(policies)}")
    return [
        scenario.recipe(chosen, split, preset=preset, sequences=sequences, seed=seed)
        for chosen in ([policy] if policy else policies)
        for split in scenario.splits
    ]
