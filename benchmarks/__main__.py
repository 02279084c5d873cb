"""``python -m benchmarks``: ours and peers in turns, medians and ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import arg

from benchmarks import bench
from gatel0rd.files import write_json
from gatel0rd.paper.records import processor
from gatel0rd.paper.report.figures import ratios, save_as

console = Console()


def main(
    only: Annotated[
        str | None, arg(metavar="NAME", help="Only benchmarks whose name starts so, as in step/rrc.")
    ] = None,
    json: Annotated[Path | None, arg(metavar="FILE", help="Write the rows to this file as JSON.")] = None,
    plot: Annotated[Path | None, arg(metavar="FILE", help="Draw the ratios to this file, PNG or SVG.")] = None,
) -> None:
    """Measure speed as ratios against peers, in one run: PyTorch's loop, nn.GRU and nn.LSTM, torch.compile, JAX."""
    console.print(f"medians in ms, B = {bench.BATCH}, on {processor()}; a ratio above 1: ours is faster")

    def show(row: bench.Row) -> None:
        ours = f"{row['name']:<24} {row['threads']} thr.  ours {row['ours_ms']:9.3f}"
        peer = f"{row['peer']:<24} {row['peer_ms']:9.3f}"
        console.print(f"{ours}  {peer}  ratio {row['ratio']:7.2f}", highlight=False)

    rows = bench.run(only, show)
    if json is not None:
        write_json(json, rows)
    if plot is not None:
        save_as(ratios(rows, title=f"Ratios on {processor()}"), plot)


if __name__ == "__main__":
    tyro.cli(main)
