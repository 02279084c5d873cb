"""What the defaults of ``gatel0rd fit`` find in the paper's worlds, whose events are known exactly.

The same training data and the same test sequences as in :mod:`gatel0rd.recordings.benchmark`, which judges models that
were trained as in the paper: the two can be compared like for like. Nothing differs between the worlds but the data.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gatel0rd.files import write_atomically, write_json
from gatel0rd.models.events import Agreement, agreement
from gatel0rd.models.fitted import FittedModel
from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.benchmark import AS_IN_THE_PAPER, SEQUENCES, TOLERANCE, choose_sequences, true_boundaries
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.method import MethodName
from gatel0rd.recordings.segmentation import segment
from gatel0rd.tables import Table
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import obtain

WORLDS = ("rrc", "billiard", "shepherd", "fetch")
MOST_SLOW = 3200
"""Sequences at most of a world whose simulator is slow, as in the paper's runs of the committed records."""


@dataclass(frozen=True)
class WorldScore:
    """The defaults in one world: the method that the fit chose, and each method's agreement with the true events.

    ``found`` and ``true`` are boundaries per sequence; ``seconds`` is processor time of the fit.
    """

    scenario: str
    seed: int
    method: str
    precision: float
    recall: float
    f1: float
    gates_f1: float
    changes_f1: float
    found: float
    true: float
    training_sequences: int
    seconds: float


def find_world_recipes(name: str) -> tuple[DataRecipe, DataRecipe]:
    """The data that the paper's runs of a world are trained on, and that they are judged on."""
    world = registry.get(name)
    scenario = world.scenario
    policy, evaluations = next(iter(scenario.evaluations.items()))

    def recipe(policy: str, split: str) -> DataRecipe:
        size = scenario.splits[split]
        sequences = min(size, MOST_SLOW) if world.made_in_parts else size
        return scenario.recipe(policy, split, preset="text", sequences=sequences)

    return recipe(policy, "train"), recipe(*(evaluations.get("generalization") or evaluations["test"]))


def judge_world(
    name: str, train: Dataset, test: Dataset, *, seed: int = 0, config: FitConfig | None = None
) -> WorldScore:
    """Fit a world's training data with the defaults, and judge boundaries on the benchmark's test sequences."""
    rows = choose_sequences(test, SEQUENCES, seed=1)
    rows = rows[len(rows) // 2 :]  # the other half is where methods with labels choose their thresholds
    true = true_boundaries(name, test, rows)
    judged = from_arrays(list(test.observations[rows]), list(test.actions[rows]))
    began = time.process_time()  # what one core needs, whatever else the machine does
    with tempfile.TemporaryDirectory() as place:
        recordings = from_arrays(list(train.observations), list(train.actions))
        fitted = fit(recordings, config or FitConfig(seed=seed), Path(place))
    seconds = time.process_time() - began
    method: MethodName = fitted.info["segmentation"]["method"]

    def judge(fitted: FittedModel, method: MethodName) -> Agreement:
        found = [np.array(entry.boundaries, dtype=np.int64) for entry in segment(fitted, judged, method=method)]
        return agreement(found, true, test.recipe.steps, TOLERANCE)

    outcomes: dict[str, Agreement] = {"gates": judge(fitted, "gates"), "changes": judge(fitted, "changes")}
    chosen = outcomes[method]
    return WorldScore(
        scenario=name,
        seed=seed,
        method=method,
        precision=chosen.precision,
        recall=chosen.recall,
        f1=chosen.f1,
        gates_f1=outcomes["gates"].f1,
        changes_f1=outcomes["changes"].f1,
        found=chosen.found / len(true),
        true=chosen.true / len(true),
        training_sequences=len(train.observations),
        seconds=seconds,
    )


def run_world_benchmark(
    out: Path,
    data: Path,
    *,
    worlds: Sequence[str] = WORLDS,
    seeds: Sequence[int] = (0,),
    on_world: Callable[[str], None] = lambda name: None,
) -> Table:
    """Judge the defaults in worlds, and write ``worlds.json`` and ``worlds.md``; data sets are kept in ``data``."""
    scores = []
    for name in worlds:
        on_world(f"{registry.get(name).title}: data")
        train, test = (obtain(recipe, data) for recipe in find_world_recipes(name))
        for seed in seeds:
            on_world(f"{registry.get(name).title}: seed {seed}")
            scores.append(judge_world(name, train, test, seed=seed))
            write_json(out / "worlds.json", [asdict(score) for score in scores])
    table = results_table(scores)
    write_atomically(out / "worlds.md", table.markdown())
    return table


def find_paper_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """F1 of the models that were trained as in the paper, by world, from the record of the benchmark."""
    return {str(row["scenario"]): float(row["f1"]) for row in rows if row["method"] == AS_IN_THE_PAPER}


def results_table(scores: Sequence[WorldScore], paper: Mapping[str, float] | None = None) -> Table:
    """A row per world: means over its seeds, compared with the paper's training where that was measured."""
    header = ["world", "method", "F1", "precision", "recall", "boundaries (true)", "gates, F1", "changes, F1"]
    header += ["seconds of one core", *(["paper's training, F1"] if paper is not None else [])]
    rows = []
    for name in dict.fromkeys(score.scenario for score in scores):
        own = [score for score in scores if score.scenario == name]

        def mean(field: str, own: list[WorldScore] = own) -> float:
            return float(np.mean([getattr(score, field) for score in own]))

        row = [registry.get(name).title, ", ".join(dict.fromkeys(score.method for score in own))]
        row += [f"{mean(field):.2f}" for field in ("f1", "precision", "recall")]
        row += [f"{mean('found'):.1f} ({mean('true'):.1f})", f"{mean('gates_f1'):.2f}", f"{mean('changes_f1'):.2f}"]
        row += [f"{mean('seconds'):.0f}"]
        if paper is not None:
            row.append(f"{paper[name]:.2f}" if name in paper else "")
        rows.append(row)
    return Table(header, rows)
