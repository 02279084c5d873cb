"""``python -m benchmarks``: measure ours and peers in turns, print medians and ratios."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from tyro.conf import arg

from benchmarks import agents, data, layers, planning, steps
from benchmarks.measure import Row, choose, describe_machine, list_comparisons, write_results
from benchmarks.plot import plot_ratios
from benchmarks.sizes import BATCH

GROUPS = tuple(group for module in (steps, data, layers, planning, agents) for group in module.GROUPS)

console = Console()


def print_row(row: Row) -> None:
    ours = f"{row.name:<24} {row.threads} thr.  ours {row.ours_ms:9.3f}"
    peer = f"{row.peer:<24} {row.peer_ms:9.3f}"
    console.print(f"{ours}  {peer}  ratio {row.ratio:7.2f}", highlight=False)


def measure_all(only: str | None) -> list[Row]:
    """Measure all groups, or the rows whose names start with ``only``; print each row when it is there."""
    chosen, before, rows = choose(GROUPS, only), torch.get_num_threads(), []
    try:
        for threads, comparison in list_comparisons(chosen):
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
    return rows


def main(
    only: Annotated[
        str | None, arg(metavar="NAME", help="Measure only rows whose name starts with this, as in step/rrc.")
    ] = None,
    json: Annotated[
        Path | None, arg(metavar="FILE", help="Write the machine and the rows to this file as JSON.")
    ] = None,
    plot: Annotated[Path | None, arg(metavar="FILE", help="Draw the ratios to this file, PNG or SVG.")] = None,
) -> None:
    """Measure speed as ratios against peers, in one run: PyTorch's loop, nn.GRU and nn.LSTM, torch.compile, JAX."""
    machine = describe_machine()
    where = f"{machine['processor']} ({machine['instruction_set']})"
    console.print(f"medians in ms, B = {BATCH}, on {where}; a ratio above 1: ours is faster")
    rows = measure_all(only)
    if json is not None:
        write_results(json, machine, rows)
    if plot is not None:
        plot_ratios(rows, plot, title=f"Ratios on {where}")


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except ValueError as error:
        sys.exit(str(error))
