"""Which runs the demo trains."""

from __future__ import annotations

from dataclasses import replace

from gatel0rd.paper.plan import find, plan
from gatel0rd.paper.world_model_run import WorldModelRun

EXPERIMENT = "rrc/generalization"
CELLS = ("gatel0rd", "gru")
"""The two networks that are compared, in the order in which the page shows them."""
PROFILE = "quick"
"""Half of the paper's epochs, with its schedule in proportion: gates need about that long to become clean."""
EVALUATIONS = 12
"""How often errors are measured in the course of training, which takes time, too."""


def plan_demo(seed: int = 0, epochs: int | None = None) -> list[WorldModelRun]:
    """The runs of GateL0RD and of a GRU with one seed; ``epochs`` replaces the demo's number of them.

    They have no validation data, as nothing is chosen by it.
    """
    planned = plan(find(EXPERIMENT), profile=PROFILE, seeds=[seed], cells=CELLS, epochs=epochs)
    return [
        replace(
            run,
            train=replace(run.train, evaluate_every=max(1, run.length // EVALUATIONS)),
            validation_data=(),
            validation_names=(),
        )
        for cell in CELLS
        for run in planned
        if run.network == cell and isinstance(run, WorldModelRun)
    ]
