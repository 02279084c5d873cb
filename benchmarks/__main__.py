"""``python -m benchmarks``: measure ours and peers in turns, print medians and ratios."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from tyro.conf import arg

from benchmarks import agents, data, layers, planning, steps
from benchmarks.measure import (
    Row,
    choose,
    describe_machine,
    limited_environment,
    list_comparisons,
    processor_slug,
    read_results,
    write_results,
)
from benchmarks.plot import plot_ratios
from benchmarks.sizes import BATCH
from gatel0rd.engine import native

GROUPS = tuple(group for module in (steps, data, layers, planning, agents) for group in module.GROUPS)

console = Console()


RESULTS = Path(__file__).parent / "cpus"
WITH_EVERY_SET = ("step", "peak", "threads", "busy", "layer", "large", "planning", "agent")
"""Groups that depend on the instruction set, which are measured with each one that the machine has."""


def print_row(row: Row) -> None:
    ours = f"{row.name:<20} {row.threads} thr. {row.ours_ms:9.3f}"
    peer = f"{row.peer:<20} {row.peer_ms:9.3f}"
    console.print(f"{ours}  {peer}  x {row.ratio:6.2f}", highlight=False)


def measure_all(only: str | None) -> list[Row]:
    """Measure all groups, or the rows whose names start with ``only``; print each row when it is there."""
    chosen, before, rows, names = choose(GROUPS, only), torch.get_num_threads(), [], []
    try:
        for threads, comparison in list_comparisons(chosen):
            names.append(comparison.name)
            if not comparison.name.startswith(only or ""):
                continue
            torch.set_num_threads(threads)
            try:
                rows.append(comparison.measure(threads))
            except ModuleNotFoundError as error:
                console.print(f"{comparison.name:<24} left out: {error}", highlight=False)
            else:
                print_row(rows[-1])
    finally:
        torch.set_num_threads(before)
    if not any(name.startswith(only or "") for name in names):
        raise ValueError(f"the name of no row starts with {only!r}; there are {', '.join(dict.fromkeys(names))}")
    return rows


def main(
    only: Annotated[
        str | None, arg(metavar="NAME", help="Measure only rows whose name starts with this, as in step/rrc.")
    ] = None,
    json: Annotated[
        Path | None, arg(metavar="FILE", help="Write the machine and the rows to this file as JSON.")
    ] = None,
    plot: Annotated[Path | None, arg(metavar="FILE", help="Draw the ratios to this file, PNG or SVG.")] = None,
    isa: Annotated[
        str | None,
        arg(
            metavar="NAME",
            help="Limit the engine and its peers to this instruction set; 'all': one after the other, each in a "
            "process of its own. By default, the widest that the machine has.",
        ),
    ] = None,
    save: Annotated[bool, arg(help="Write JSON and plot to benchmarks/cpus, named after the processor.")] = False,
) -> None:
    """Measure speed as ratios against peers, in one run: PyTorch's loop, nn.GRU and nn.LSTM, torch.compile, JAX."""
    if save:
        RESULTS.mkdir(exist_ok=True)
        json, plot = (RESULTS / f"{processor_slug()}{end}" for end in (".json", ".png"))
    machine = describe_machine()
    used = machine["instruction_set"]
    if isa is None or isa == used:
        console.print(
            f"medians in ms, B = {BATCH}, on {machine['processor']} ({used}); a ratio above 1: ours is faster"
        )
        rows = measure_all(only)
    else:
        rows = [row for name in choose_sets(isa) for row in measure_apart(name, only)]
        machine["instruction_set"] = ", ".join(dict.fromkeys(str(row.instruction_set) for row in rows))
    if json is not None:
        write_results(json, machine, rows)
    if plot is not None:
        plot_ratios(rows, plot, title=f"Ratios on {machine['processor']}")


def choose_sets(isa: str) -> list[str]:
    """The instruction sets that are meant, the widest first."""
    known = native.module().available()
    if isa == "all":
        return [name for name in reversed(known) if name != "baseline"] or known
    native.check_instruction_set(isa, known)
    return [isa]


def measure_apart(isa: str, only: str | None) -> list[Row]:
    """Measure in a process whose libraries are limited to one instruction set."""
    widest = isa == choose_sets("all")[0]
    groups = [only] if only else [group.name for group in GROUPS if widest or group.name in WITH_EVERY_SET]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for group in groups:
            path = Path(folder) / "rows.json"
            command = [sys.executable, "-m", "benchmarks", "--only", group, "--json", str(path)]
            subprocess.run(command, env=limited_environment(isa), check=True)
            rows += read_results(path).rows
    return rows


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except ValueError as error:
        sys.exit(str(error))
