"""From experiments to runs: which runs answer a question of the paper, and what the questions are."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from gatel0rd.paper.agent_run import plan_agent
from gatel0rd.paper.memory_run import plan_memory
from gatel0rd.paper.profiles import PROFILES, Profile
from gatel0rd.paper.run import Run
from gatel0rd.paper.world_model_run import plan_world_model
from gatel0rd.training.presets import AgentPreset
from gatel0rd.worlds import all_worlds
from gatel0rd.worlds.experiments import AgentExperiment, BaseVariant, Experiment, Question
from gatel0rd.worlds.memory.experiments import MemoryExperiment

PLANNERS: dict[type[Question], Callable[..., Run]] = {
    Experiment: plan_world_model,
    AgentExperiment: plan_agent,
    MemoryExperiment: plan_memory,
}
"""Kind of experiment -> what makes a run of it; experiments themselves know nothing of runs."""


def plan(
    experiment: Question,
    *,
    profile: str,
    seeds: Sequence[int] | None,
    cells: Sequence[str] | None = None,
    preset: AgentPreset = "text",
    epochs: int | None = None,
    frames: int | None = None,
) -> list[Run]:
    """All runs of an experiment, optionally only those of some cells or variants, by name.

    Args:
        seeds: None for as many as the paper used.
        epochs, frames: replace the profile's number.
    """
    given = {"epochs": epochs, "frames": frames}
    length = given.pop(experiment.unit)
    for unit, value in given.items():
        if value is not None:
            raise ValueError(f"{experiment.id} is not counted in {unit}; give the number of {experiment.unit}")
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    known = {name for variant in experiment.variants for name in (variant.cell.name, variant.name)}
    unknown = set(cells or ()) - known
    if cells is not None and not cells:
        raise ValueError(f"no cells or variants were given; {experiment.id} has {', '.join(sorted(known))}")
    if unknown:
        raise ValueError(
            f"{experiment.id} has no cell or variant {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}"
        )
    return [
        plan_run(experiment, variant, seed=seed, profile=PROFILES[profile], preset=preset, length=length)
        for seed in (range(experiment.seeds) if seeds is None else seeds)
        for variant in experiment.variants
        if cells is None or {variant.cell.name, variant.name} & set(cells)
    ]


def plan_run(
    experiment: Question,
    variant: BaseVariant,
    *,
    seed: int,
    profile: Profile,
    preset: AgentPreset,
    length: int | None = None,
) -> Run:
    """The run of one variant and seed; ``length`` replaces the profile's number of epochs or frames."""
    if preset not in experiment.presets:
        raise ValueError(f"there is no preset {preset} for {experiment.id}; it has {', '.join(experiment.presets)}")
    planner = PLANNERS[type(experiment)]
    return planner(experiment, variant, seed=seed, profile=profile, preset=preset, length=length)


def plan_together(
    chosen: Sequence[Question], *, profile: str, seeds: Sequence[int] | None, preset: AgentPreset = "text"
) -> tuple[list[Run], frozenset[str]]:
    """The runs of several experiments, shared ones once; and the names of those whose models are planned with.

    ``seeds``: None for as many as the paper used.
    """
    runs: dict[str, Run] = {}
    planned: set[str] = set()
    for experiment in chosen:
        own = {run.directory_name: run for run in plan(experiment, profile=profile, seeds=seeds, preset=preset)}
        runs = own | runs
        planned |= set(own) if experiment.plans else set()
    return list(runs.values()), frozenset(planned)


def experiments() -> dict[str, Question]:
    """Every experiment of every world, by id."""
    return {experiment.id: experiment for world in all_worlds() for experiment in world.experiments()}


def paper_experiments() -> list[Question]:
    """The experiments whose questions are the paper's."""
    return [experiment for experiment in experiments().values() if experiment.scenario.of_paper]


def find(experiment_id: str) -> Question:
    """The experiment with this id; an unknown id is an error that suggests the nearest."""
    known = experiments()
    if experiment_id not in known:
        near = difflib.get_close_matches(experiment_id, known, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"there is no experiment {experiment_id!r}; {hint}`gatel0rd list` shows all")
    return known[experiment_id]
