"""The command demo."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from gatel0rd.cli.command import CommandError
from gatel0rd.cli.console import console, format_duration, print_written, show_progress
from gatel0rd.cli.experiments import execute_runs
from gatel0rd.cli.options import COUNT, OutDirectory, Seed, optional


def demo(
    out: OutDirectory = Path("runs/demo"),
    seed: Seed = 0,
    epochs: Annotated[
        int | None, COUNT, optional("N", "Train for N epochs. The default is what clean gates take.")
    ] = None,
    workers: Annotated[
        int | None, COUNT, optional("N", "Number of parallel runs. The default is one per core.")
    ] = None,
) -> dict[str, Any]:
    """Train GateL0RD and a GRU on Robot Remote Control, and show them on a page.

    This takes less than four minutes on two cores.
    """
    import PIL  # noqa: F401  # if it is missing, say so before training

    from gatel0rd.paper.demo.content import make_content
    from gatel0rd.paper.demo.render import write_page
    from gatel0rd.paper.demo.training import plan_demo
    from gatel0rd.paper.executors.config import ExecutorConfig

    began = time.monotonic()
    runs = plan_demo(seed, epochs)
    if execute_runs(runs, out, executor=ExecutorConfig(workers=workers), resume=True):
        raise CommandError("the demo's runs failed; the same command tries them again")
    with show_progress() as progress:
        task = progress.add_task("drawing sequences")
        content = make_content(
            runs, out, on_sequence=lambda done, total: progress.update(task, completed=done, total=total)
        )
    path = write_page(content, out / "demo.html")
    gating, (ours, theirs) = content["gating"], content["errors"]
    console.print(
        f"A gate opens at {gating['hits']['ours']:.1%} of the events and {gating['false_alarms']['ours']:.1%} of all "
        f"other inputs; with other actions than in training, the GRU's error is "
        f"{theirs['unlike']['ours'] / ours['unlike']['ours']:.1f} times GateL0RD's.",
    )
    print_written(path)
    console.print(
        f"Open it in a browser: {path.resolve().as_uri()} ({format_duration(time.monotonic() - began)})",
    )
    for command, words in content["commands"][:2]:
        console.print(f"Next: {command}  # {words}")
    return {"page": str(path), "gating": gating, "errors": content["errors"]}
