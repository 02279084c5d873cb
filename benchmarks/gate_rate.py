"""Hold the share of open gates instead of tuning λ: are targets met, and is the error as low?

For Robot Remote Control and Billiard Ball: fit with the paper's λ, look how many gates are open, then fit again with
that share as the target (`gate_rate`) and no λ given. Run: ``python -m benchmarks.gate_rate [--seeds 0,1]``; writes
``results/gate-rate/gate-rate.json``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from gatel0rd.files import write_json
from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.provenance import code_commit
from gatel0rd.paper.world_model_run import WorldModelRun
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.worlds.data import obtain

WORLDS = {"rrc/generalization": 0.001, "billiard/scheduled-sampling": 0.001}
"""Experiment -> the λ that the paper tuned for it, for errors that are not divided by the variance."""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seeds", default="0,1")
    words.add_argument("--only", choices=[name.partition("/")[0] for name in WORLDS], help="Fit in this world only.")
    words.add_argument("--data", type=Path, default=Path("runs/data"))
    words.add_argument("--out", type=Path, default=Path("results/gate-rate/gate-rate.json"))
    given = words.parse_args()
    torch.set_num_threads(1)
    rows = []
    for experiment, weight in WORLDS.items():
        if given.only and not experiment.startswith(given.only):
            continue
        (run,) = plan(find(experiment), profile="paper", seeds=[0], cells=["gatel0rd"])[:1]
        assert isinstance(run, WorldModelRun)
        data = obtain(run.train_data, given.data)
        recordings = from_arrays(list(data.observations), list(data.actions))
        scaled = weight / float(recordings.observations.var(axis=0).mean())
        for seed in map(int, given.seeds.split(",")):
            with tempfile.TemporaryDirectory() as place:
                tuned = fit(
                    recordings, FitConfig(gate_rate=None, sparsity_weight=scaled, seed=seed), Path(place) / "tuned"
                )
                target = tuned.info["open_rate"]
                held = fit(recordings, FitConfig(gate_rate=target, seed=seed), Path(place) / "held")
            row = {
                "world": run.scenario,
                "seed": seed,
                "paper_weight": weight,
                "tuned_weight": scaled,
                "tuned_error": tuned.info["error"],
                "target": target,
                "reached": held.info["open_rate"],
                "held_weight": held.info["sparsity_weight"],
                "held_error": held.info["error"],
                "rounds": held.info["rounds"],
                "commit": code_commit(),
            }
            rows.append(row)
            print(row, flush=True)
            write_json(given.out, rows)


if __name__ == "__main__":
    main()
