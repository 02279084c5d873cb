"""The command demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gatel0rd.cli.console import console
from gatel0rd.cli.experiments import execute_runs
from gatel0rd.cli.options import OutDirectory, optional


def demo(
    out: OutDirectory = Path("runs/demo"),
    workers: Annotated[int | None, optional("N", "Number of parallel runs. The default is one per core.")] = None,
) -> None:
    """Train GateL0RD and a GRU on Robot Remote Control, and report.

    This takes some minutes on two cores.
    """
    import matplotlib  # noqa: F401  # if it is missing, say so before training

    from gatel0rd.paper.executors.config import ExecutorConfig
    from gatel0rd.paper.plan import find, plan
    from gatel0rd.paper.report.make import make_report

    runs = plan(find("rrc/generalization"), profile="demo", seeds=[0], cells=["gatel0rd", "gru"])
    if execute_runs(runs, out, executor=ExecutorConfig(workers=workers), resume=True):
        raise SystemExit("gatel0rd: the demo's runs failed; the same command tries them again")
    shown = ("rrc/generalization", "rrc/gating", "rrc/latents", "rrc/loss")
    path = make_report([out], out, shown, title="GateL0RD demo: Robot Remote Control")
    console.print(f"Open the report in a browser: {path}")
