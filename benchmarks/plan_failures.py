"""Why do plans with a learned model fail? Plans are carried out in the true world, too, and both futures compared.

Run: ``python -m benchmarks.plan_failures shepherd MODEL …``, each a file of weights, such as a run's
``model.safetensors`` and its ``snapshots/*.safetensors``; ``--average`` plans with the mean of their weights instead.
Adds a row per model to ``results/plan-failures/WORLD.json``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gatel0rd.files import read_json, write_json
from gatel0rd.models import WorldModel, load_model
from gatel0rd.paper.planning import world_with_task
from gatel0rd.paper.provenance import code_commit
from gatel0rd.paper.records import wilson
from gatel0rd.planning import CorrectedForesight, Foresight, LearnedForesight, PlanAudit, control
from gatel0rd.planning.mpc import Episodes
from gatel0rd.worlds import World
from gatel0rd.worlds.shepherd.outcomes import describe_ends, measure_plans
from gatel0rd.worlds.shepherd.task import Herding


def average_weights(models: Sequence[WorldModel]) -> WorldModel:
    """The first model, with the mean of all models' weights."""
    mean = {
        name: torch.stack([model.state_dict()[name] for model in models]).mean(dim=0) for name in models[0].state_dict()
    }
    models[0].load_state_dict(mean)
    return models[0]


def audit_model(
    world: World,
    model: WorldModel,
    *,
    episodes: int,
    seed: int,
    horizon: int | None = None,
    right: Sequence[str] = (),
) -> dict[str, Any]:
    """Plan episodes, and say how they ended and what their plans promised, as plain data.

    Args:
        right: names of things that are predicted by the true world instead.
    """
    task = world.make_task("text")
    config = task.search if horizon is None else replace(task.search, horizon=horizon)
    foresight: Foresight = LearnedForesight(model)
    if right:
        columns = [column for thing in world.things if thing.name in right for column in thing.columns]
        foresight = CorrectedForesight(task, foresight, columns=columns)
    audit = PlanAudit(
        task,
        foresight,
        episodes=episodes,
        parts={thing.name: thing.columns for thing in world.things},
        **({"measure": measure_plans} if isinstance(task, Herding) else {}),
    )
    done = control(
        task,
        foresight,
        episodes=episodes,
        generator=np.random.default_rng(seed),
        config=config,
        watch=audit.watch,
    )
    plans = audit.plans()
    reached = done.reached >= 0
    low, high = wilson(int(reached.sum()), episodes)
    row: dict[str, Any] = {
        "episodes": episodes,
        "seed": seed,
        "horizon": config.horizon,
        "right": list(right),
        "success": float(reached.mean()),
        "confidence": [float(low), float(high)],
        "reached": done.reached.tolist(),
        "plans": {
            name: summarize(plans, which) for name, which in (("reached", reached), ("failed", ~reached)) if which.any()
        },
    }
    if isinstance(task, Herding):
        row |= describe_herding(task, done, seed)
    return row


def summarize(plans: Any, which: Any) -> dict[str, Any]:
    """Means over all plans of some episodes."""

    def mean(rows: Any) -> float:
        return round(float(np.nanmean(rows[:, which])), 4)

    return {
        "predicted": mean(plans.predicted),
        "real": mean(plans.real),
        "if_right": {name: mean(rows) for name, rows in plans.corrected.items()},
        **{name: mean(rows) for name, rows in plans.measured.items()},
    }


def describe_herding(task: Herding, done: Episodes, seed: int) -> Mapping[str, Any]:
    ends = describe_ends(task, done, np.random.default_rng(seed).spawn(len(done.reached)))
    opened = ends.opened >= 0
    return {
        "outcomes": dict(Counter(map(str, ends.outcomes)).most_common()),
        "median_opened": float(np.median(ends.opened[opened])) if opened.any() else None,
        "median_offset": float(np.median(np.abs(ends.offset[opened]))) if opened.any() else None,
    }


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("world", choices=["rrc", "shepherd"])
    words.add_argument("models", nargs="+", type=Path)
    words.add_argument("--average", action="store_true", help="Plan with the mean of the models' weights.")
    words.add_argument("--episodes", type=int, default=100)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--horizon", type=int, help="Plan this many steps ahead instead of the task's own number.")
    words.add_argument("--right", nargs="*", default=[], help="Things whose true future is given, as in cage.")
    words.add_argument("--name", help="What the record calls the models; by default the path.")
    words.add_argument("--out", type=Path, help="The record; results/plan-failures/WORLD.json by default.")
    given = words.parse_args()
    out = given.out or Path("results/plan-failures") / f"{given.world}.json"
    torch.set_num_threads(1)
    world = world_with_task(given.world)
    groups = [given.models] if given.average else [[path] for path in given.models]
    for group in groups:
        model = average_weights([load_model(path) for path in group])
        name = given.name or (f"mean of {len(group)}: " if given.average else "") + "/".join(group[-1].parts[-3:])
        row = audit_model(
            world, model, episodes=given.episodes, seed=given.seed, horizon=given.horizon, right=given.right
        )
        before = read_json(out)["rows"] if out.exists() else []
        write_json(out, {"rows": [*before, {"model": name, **row, "commit": code_commit()}]})
        print(name, {key: value for key, value in row.items() if key != "reached"}, flush=True)


if __name__ == "__main__":
    main()
