"""Does what stands still drift in a model's predictions while the agent walks, and do plans fail by it?

Test errors are measured with random actions, in which small leaks from the agent's moves into other things cancel out.
Plans walk in one direction for dozens of steps, and leaks add up. Run: ``python -m benchmarks.plan_drift rrc RUN …``
with directories of finished runs that were planned with (writes ``results/plan-failures/rrc-drift.json``, a row per
snapshot), or ``python -m benchmarks.plan_drift shepherd MODEL …`` with files of weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.files import read_json, write_json
from gatel0rd.models import WorldModel, load_model
from gatel0rd.paper.provenance import code_commit
from gatel0rd.worlds.robot_remote_control import dynamics as rooms
from gatel0rd.worlds.shepherd import dynamics as meadow

Array = NDArray[np.float64]
WALK = 40
"""Steps that the shepherd walks after leaving the cage; from the sheep to the lever it takes 20 to 35."""


def measure_robot_drift(model: WorldModel, *, sustained: bool, steps: int = 50, starts: int = 200) -> float:
    """How far a robot that nobody controls is predicted to move, on average.

    The agent pushes in one of eight directions all the time, on a way that stays clear of the computer, or moves at
    random from the same places.
    """
    rng = np.random.default_rng(0)
    first = rng.uniform(-1, 1, (starts, 4))
    signs = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y])
    ways = first[:, None, None, :2] + rooms.STEP * signs[:, None] * np.arange(steps + 1)[:, None]  # [S, 8, T+1, 2]
    distance = np.linalg.norm(np.clip(ways, -rooms.WALL, rooms.WALL) - rooms.COMPUTER, axis=-1).min(axis=-1)
    start, direction = np.nonzero(distance > 3 * rooms.CONTROL_RADIUS)
    pushes = np.broadcast_to(signs[direction], (steps, len(start), 2))
    actions = _tensor(pushes if sustained else rng.uniform(-1, 1, pushes.shape))
    observations = _tensor(np.broadcast_to(first[start], (steps, len(start), 4)))  # only the first is fed
    moved = model.free_run(observations, actions).predictions[-1, :, 2:] - observations[0, :, 2:]
    return float(moved.norm(dim=-1).mean())


def measure_cage_drift(model: WorldModel, *, sustained: bool, starts: int = 200) -> tuple[float, float]:
    """How far in x a cage that was left is predicted to move in 40 steps: mean and standard deviation.

    The shepherd carries the cage from the right to about where the sheep is, leaves it, and walks left at full speed or
    at random. The model sees the truth until two steps after the cage was left.
    """
    rng, rules = np.random.default_rng(0), meadow.rules_of("text")
    agent = np.stack([np.full(starts, meadow.START_X), rng.uniform(-0.95, -0.05, starts)], axis=-1)
    state = meadow.start(agent, *meadow.sample_sheep(rng, rules, (starts,)))
    left = np.ceil((state.agent[:, 0] - state.sheep[:, 0]) / meadow.STEP).astype(int)
    steps = left.max() + 2 + WALK
    carries = np.arange(steps)[:, None] < left  # [T, N]
    actions = rng.uniform(-1, 1, (steps, starts, 3))
    actions[..., 0] = np.where(carries | sustained, -1, actions[..., 0])
    actions[..., 1] *= 0.3
    actions[..., 2] = np.where(carries, 0.5, -0.5)
    observations = []
    for action in actions:
        observations.append(meadow.observe(state, rules.mask))
        state = meadow.transition(state, action)
    seen = np.stack(observations)
    moved: list[Array] = []
    for number in np.unique(left):
        who, real = left == number, number + 2
        inputs, moves = (_tensor(array[: real + WALK, who]) for array in (seen, actions))
        cage = model.free_run(inputs, moves, int(real)).predictions[:, :, 2].numpy() / meadow.MEADOW_SCALE
        moved.append(cage[-1] - cage[real - 1])
    every = np.concatenate(moved)
    return float(every.mean()), float(every.std())


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def correlate_ranks(first: Array, second: Array) -> float:
    """Spearman's rank correlation; equal numbers share their mean rank."""

    def rank(values: Array) -> Array:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[place]
        return ranks

    return float(np.corrcoef(rank(first), rank(second))[0, 1])


def compare_snapshots(directory: Path) -> list[dict[str, Any]]:
    """A row per snapshot of a run of Robot Remote Control: success, test error, drift."""
    record = read_json(directory / "record.json")
    planning, curves = record["planning"], record["curves"]
    errors = dict(zip(curves["epoch"], curves["test.error"], strict=True))
    rows = []
    for epoch, success in zip(planning["epochs"], planning["success"], strict=True):
        model = load_model(directory / "snapshots" / f"{epoch:06d}.safetensors").eval()
        row = {"seed": record["run"]["seed"], "epoch": epoch, "success": success, "error": errors[epoch]}
        for name, sustained in (("sustained_drift", True), ("random_drift", False)):
            row[name] = round(measure_robot_drift(model, sustained=sustained), 5)
        rows.append(row)
        print(row, flush=True)
    return rows


@torch.no_grad()
def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("world", choices=["rrc", "shepherd"])
    words.add_argument("paths", nargs="+", type=Path)
    words.add_argument("--since", type=int, default=2000, help="Correlations are over snapshots from this epoch on.")
    words.add_argument("--out", type=Path, default=Path("results/plan-failures/rrc-drift.json"))
    given = words.parse_args()
    torch.set_num_threads(1)
    if given.world == "shepherd":
        for path in given.paths:
            model = load_model(path).eval()
            for moves, sustained in (("walks left", True), ("moves at random", False)):
                mean, std = measure_cage_drift(model, sustained=sustained)
                print(f"{'/'.join(path.parts[-3:])}  {moves}: {mean:+.3f} ± {std:.3f}", flush=True)
        return
    rows = [row for path in given.paths for row in compare_snapshots(path)]
    late = [row for row in rows if row["epoch"] >= given.since]
    success, *others = (np.array([row[name] for row in late]) for name in ("success", "sustained_drift", "error"))
    drift, error = (round(correlate_ranks(success, other), 3) for other in others)
    found = {
        "since": given.since,
        "models": len(late),
        "success_and_sustained_drift": drift,
        "success_and_error": error,
    }
    print(found)
    write_json(given.out, {"rank_correlations": found, "commit": code_commit(), "rows": rows})


if __name__ == "__main__":
    main()
