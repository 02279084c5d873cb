"""The ratios as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.measure import Row
from gatel0rd.paper.report.figures import save_as, styled
from gatel0rd.streams import count_of


@styled
def plot_ratios(rows: Sequence[Row], path: Path, *, title: str) -> None:
    """Draw how many times faster than the peer each row is, as bars on a logarithmic axis, to a PNG or SVG file."""
    import matplotlib.pyplot as plt

    shown = [row for row in rows if not row.name.startswith("growth")]
    figure, axes = plt.subplots(figsize=(7.5, 0.8 + 0.21 * len(shown)), layout="constrained")
    places = np.arange(len(shown))[::-1]
    values = [row.ratio for row in shown]
    colors = ["#6f9a3e" if value >= 1 else "#c0392b" for value in values]
    axes.barh(places, values, left=0, color=colors, height=0.7)
    sets = {row.instruction_set for row in shown}
    labels = [
        f"{row.name} vs. {row.peer}, {count_of(row.threads, 'thread')}"
        + (f", {row.instruction_set}" if len(sets) > 1 else "")
        for row in shown
    ]
    axes.set_yticks(places, labels, fontsize=7)
    for place, value in zip(places, values, strict=True):
        axes.text(value * 1.05, place, f"{value:.3g}", va="center", fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set(title=title, xlabel="times faster than the peer", xlim=(0.2, max([2, *values]) * 2))
    save_as(figure, path)
