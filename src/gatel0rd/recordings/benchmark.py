"""Which method finds the events? Boundaries against exact labels of the paper's worlds, GateL0RD and other methods.

GateL0RD's gates are used as they are. The others have a threshold, a penalty or a number of boundaries, which is chosen
with the true labels of one half of the sequences; all are judged on the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.config import from_json
from gatel0rd.files import load_arrays, write_atomically, write_json
from gatel0rd.models import WorldModel, load_model
from gatel0rd.models.events import APART, Agreement, Times, agreement, boundaries, find_events, keep_apart, peaks
from gatel0rd.models.fitted import FittedModel
from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.segmentation import segment
from gatel0rd.tables import Table
from gatel0rd.training import time_first
from gatel0rd.training.dataset import Dataset
from gatel0rd.training.recipe import DataRecipe
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import obtain

TOLERANCE, SEQUENCES = 3, 200
ROUNDS = FitConfig().rounds
THRESHOLDS = 40
AS_IN_THE_PAPER = "GateL0RD, as in the paper"
PENALTIES = tuple(np.geomspace(0.01, 1000, 21).tolist())
Cuts = list[Times]


def find_runs(directory: Path) -> dict[str, dict[str, Path]]:
    """Scenario -> cell -> the longest finished run of it below a directory."""
    found: dict[str, dict[str, tuple[float, Path]]] = {}
    for path in sorted(directory.rglob("model.safetensors")):
        run = load_arrays(path, kind="model")[1].get("run", {})
        world = registry.find(run.get("scenario"))
        if world is None or not world.boundaries:
            continue
        cell, weight = run["model"]["cell"], run["train"]["sparsity_weight"]
        if cell["name"] not in ("gatel0rd", "gru") or (cell["name"] == "gatel0rd" and weight == 0):
            continue
        rank = (run["train"]["epochs"], weight, -run["seed"])
        best = found.setdefault(run["scenario"], {})
        if cell["name"] not in best or rank > best[cell["name"]][0]:  # type: ignore[operator]
            best[cell["name"]] = (rank, path.parent)  # type: ignore[assignment]
    return {scenario: {cell: place for cell, (_, place) in cells.items()} for scenario, cells in found.items()}


def find_recipes(run: Path) -> tuple[DataRecipe, DataRecipe]:
    """The data that a run was trained on, and that it was evaluated on; its model file says so."""
    content = load_arrays(run / "model.safetensors", kind="model")[1]["run"]
    evaluations = dict(zip(content["evaluation_names"], content["evaluation_data"], strict=True))
    evaluation = evaluations.get("generalization") or evaluations["test"]
    return from_json(DataRecipe, content["train_data"]), from_json(DataRecipe, evaluation)


def choose_sequences(data: Dataset, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Numbers of ``count`` sequences, drawn at random."""
    return np.random.default_rng(seed).permutation(data.recipe.sequences)[:count]


@torch.no_grad()
def run_model(model: WorldModel, data: Dataset, rows: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """Real inputs fed in: errors [N, T-1], latents [N, T-1, H] and gates [N, T-1, G] (None without gates)."""
    observations, actions = (tensor[:, rows] for tensor in time_first(data, model.config))
    rollout = model(observations[:-1], actions[:-1])
    errors = (rollout.predictions - observations[1:]).square().sum(-1).T.numpy()
    gates = None if rollout.gates is None else rollout.gates.transpose(0, 1).numpy()
    return errors, rollout.latents.transpose(0, 1).numpy(), gates


def true_boundaries(scenario: str, data: Dataset, rows: NDArray[np.int64]) -> Cuts:
    """When labelled events happen, those that follow within :data:`APART` steps left out."""
    world = registry.get(scenario)
    events = world.events(data)
    flags = np.logical_or.reduce([events[name] for name in world.boundaries])[rows]
    return [keep_apart(np.flatnonzero(row[1:]) + 1, APART) for row in flags]  # nothing happens before the first step


def choose_and_judge(
    candidates: Sequence[Any], cut: Callable[[Any, Sequence[int]], Cuts], true: Cuts, length: int
) -> tuple[Agreement, Any]:
    """Choose by F1 on the first half of the sequences, judge on the second."""
    half = len(true) // 2
    first, second = range(half), range(half, len(true))
    best = max(candidates, key=lambda value: agreement(cut(value, first), true[:half], length, TOLERANCE).f1)
    return agreement(cut(best, second), true[half:], length, TOLERANCE), best


def propose_thresholds(signal: NDArray[Any]) -> list[float]:
    """Candidates for a threshold: quantiles of the signal."""
    found: list[float] = np.unique(np.quantile(signal, np.linspace(0.3, 0.999, THRESHOLDS))).tolist()
    return found


def peak_cuts(signal: NDArray[Any], shift: int) -> Callable[[float, Sequence[int]], Cuts]:
    """Boundaries at peaks of a signal [N, T-1]; ``shift``: from an entry's index to the observation it is about."""
    return lambda threshold, rows: [keep_apart(peaks(signal[row], threshold) + shift, APART) for row in rows]


def gate_cuts(gates: Sequence[Any]) -> Cuts:
    """Boundaries where events begin, from gates [T-1, G] of each sequence."""
    return [boundaries(find_events(own)) for own in gates]


def change_points(kind: str, series: NDArray[Any]) -> Callable[[Any, Sequence[int]], Cuts]:
    """PELT with a penalty, or binary segmentation with a number of boundaries, on standardized observations."""
    import ruptures

    def cut(value: Any, rows: Sequence[int]) -> Cuts:
        found = []
        for row in rows:
            if kind == "pelt":
                ends = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(series[row]).predict(pen=value)
            else:
                ends = ruptures.Binseg(model="l2", min_size=2, jump=1).fit(series[row]).predict(n_bkps=value)
            found.append(keep_apart(ends[:-1], APART))
        return found

    return cut


def fit_without_tuning(train: Dataset, directory: Path) -> FittedModel:
    """What ``gatel0rd fit`` makes of a world's training data, with nothing but its defaults."""
    recordings = from_arrays(list(train.observations), list(train.actions))
    return fit(recordings, FitConfig(rounds=ROUNDS), directory)


def compare(
    scenario: str,
    places: dict[str, Path],
    data: Dataset,
    fitted: FittedModel | None = None,
    on_method: Callable[[str], None] = lambda name: None,
) -> list[dict[str, Any]]:
    """All methods in one world."""
    rows = choose_sequences(data, SEQUENCES, seed=1)
    true = true_boundaries(scenario, data, rows)
    length, half = data.recipe.steps, len(rows) // 2
    series = data.observations[rows].astype(np.float64)
    series = (series - series.mean(axis=(0, 1))) / (series.std(axis=(0, 1)) + 1e-12)
    outcomes: list[tuple[str, Agreement, Any]] = []
    on_method("GateL0RD")
    _, _, gates = run_model(load_model(places["gatel0rd"] / "model.safetensors"), data, rows)
    cuts = gate_cuts([gates[row] for row in range(half, len(rows))])
    outcomes.append((AS_IN_THE_PAPER, agreement(cuts, true[half:], length, TOLERANCE), None))
    if fitted is not None:
        judged = from_arrays(list(data.observations[rows[half:]]), list(data.actions[rows[half:]]))
        found = segment(fitted, judged)
        cuts = [np.array(entry.boundaries, dtype=np.int64) for entry in found]
        name = f"GateL0RD, gatel0rd fit (its method: {found[0].method})"
        outcomes.append((name, agreement(cuts, true[half:], length, TOLERANCE), None))
    if "gru" in places:
        on_method("GRU")
        errors, latents, _ = run_model(load_model(places["gru"] / "model.safetensors"), data, rows)
        change = np.linalg.norm(np.diff(latents, axis=1, prepend=latents[:, :1]), axis=2)
        outcomes.append(
            ("GRU, change of state", *choose_and_judge(propose_thresholds(change), peak_cuts(change, 0), true, length))
        )
        outcomes.append(
            ("GRU, surprise", *choose_and_judge(propose_thresholds(errors), peak_cuts(errors, 1), true, length))
        )
    on_method("PELT")
    outcomes.append(("PELT (ruptures)", *choose_and_judge(PENALTIES, change_points("pelt", series), true, length)))
    on_method("BinSeg")
    counts = range(1, 2 + int(np.ceil(np.mean([len(entry) for entry in true]) * 2)))
    outcomes.append(
        ("BinSeg (ruptures)", *choose_and_judge(list(counts), change_points("binseg", series), true, length))
    )
    every = [np.arange(2, length, 2 * TOLERANCE + 1) for _ in range(half, len(rows))]
    outcomes.append(("a boundary every 7 steps", agreement(every, true[half:], length, TOLERANCE), None))
    return [
        {
            "scenario": scenario,
            "method": name,
            "precision": outcome.precision,
            "recall": outcome.recall,
            "f1": outcome.f1,
            "covering": outcome.covering,
            "found_per_sequence": outcome.found / max(1, len(true) - half),
            "true_per_sequence": outcome.true / max(1, len(true) - half),
            "chosen": chosen,
        }
        for name, outcome, chosen in outcomes
    ]


def benchmark(
    runs: Path, out: Path, on_method: Callable[[str], None] = lambda name: None
) -> tuple[list[dict[str, Any]], Table]:
    """Every world with a finished GateL0RD run below ``runs``; writes ``segmentation.json`` and ``.md`` to ``out``."""
    found = {scenario: cells for scenario, cells in find_runs(runs).items() if "gatel0rd" in cells}
    if not found:
        raise ValueError(f"there is no finished run of GateL0RD below {runs}; make some with `gatel0rd run`")
    rows: list[dict[str, Any]] = []
    for scenario, places in found.items():
        train_recipe, evaluation_recipe = find_recipes(places["gatel0rd"])
        data = obtain(evaluation_recipe, runs / "data")
        title = registry.get(scenario).title
        on_method(f"{title}: gatel0rd fit")
        fitted = fit_without_tuning(obtain(train_recipe, runs / "data"), out / "fits" / scenario)
        for row in compare(scenario, places, data, fitted, lambda name, title=title: on_method(f"{title}: {name}")):  # type: ignore[misc]
            rows.append({**row, "runs": {cell: place.name for cell, place in places.items()}})
    table = results_table(rows)
    write_json(out / "segmentation.json", rows)
    write_atomically(out / "segmentation.md", table.markdown())
    return rows, table


def results_table(rows: Sequence[dict[str, Any]]) -> Table:
    """A row per world and method."""
    header = [
        "world, method",
        "precision",
        "recall",
        f"F1 (± {TOLERANCE})",
        "covering",
        "boundaries per sequence (true)",
    ]
    return Table(
        header,
        [
            [
                f"{registry.get(row['scenario']).title}, {row['method']}",
                *(f"{row[name]:.2f}" for name in ("precision", "recall", "f1", "covering")),
                f"{row['found_per_sequence']:.1f} ({row['true_per_sequence']:.1f})",
            ]
            for row in rows
        ],
    )
