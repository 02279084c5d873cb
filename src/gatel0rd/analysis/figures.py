"""Figures from records: one function each, from lines to a matplotlib figure, in the paper's style."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from gatel0rd.analysis.records import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "gatel0rd": "#c0392b",
    "lstm": "#2f6fa7",
    "gru": "#6f9a3e",
    "elman": "#8569b0",
    "clockwork": "#b5772c",
}
EXTRA_COLORS = ("#2f6fa7", "#6f9a3e", "#8569b0", "#b5772c", "#4d4d4d")
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "gatel0rd",
}
FORMATS = ("png", "svg")


P = ParamSpec("P")
R = TypeVar("R")


def styled(make: Callable[P, R]) -> Callable[P, R]:
    """Let a function draw or save in our style."""

    @functools.wraps(make)
    def draw(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib.pyplot as plt

        with plt.rc_context(STYLE):
            return make(*args, **kwargs)

    return draw


@styled
def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG next to each other; the same figure gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(f".{ending}") for ending in FORMATS]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=160, metadata=metadata)
    return paths


@styled
def save_as(figure: Figure, path: Path) -> None:
    """Write one file, in the format that its ending names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    close(figure)


@styled
def ratios(rows: Sequence[dict[str, Any]], *, title: str) -> Figure:
    """Benchmarks as bars: how many times faster than the peer, on a logarithmic axis."""
    import matplotlib.pyplot as plt

    shown = [row for row in rows if not row["name"].startswith("growth")]
    figure, axes = plt.subplots(figsize=(7.5, 0.8 + 0.21 * len(shown)), layout="constrained")
    places = np.arange(len(shown))[::-1]
    values = [row["ratio"] for row in shown]
    colors = ["#6f9a3e" if value >= 1 else "#c0392b" for value in values]
    axes.barh(places, values, left=0, color=colors, height=0.7)
    labels = [f"{row['name']} vs. {row['peer']}, {row['threads']} thread{'s' * (row['threads'] > 1)}" for row in shown]
    axes.set_yticks(places, labels, fontsize=7)
    for place, value in zip(places, values, strict=True):
        axes.text(value * 1.05, place, f"{value:.3g}", va="center", fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set(title=title, xlabel="times faster than the peer", xlim=(0.2, max([2, *values]) * 2))
    return figure


def close(figure: Figure) -> None:
    """Free a figure's memory."""
    import matplotlib.pyplot as plt

    plt.close(figure)


def color_of(line: Line, lines: Sequence[Line]) -> str:
    """A network's own colour; further variants of the same cell get one of their own."""
    same_cell = [other for other in lines if other.cell == line.cell]
    position = same_cell.index(line)
    return COLORS[line.cell] if position == 0 else EXTRA_COLORS[(position - 1) % len(EXTRA_COLORS)]


@styled
def curves(lines: Sequence[Line], metric: str, *, title: str, ylabel: str, log: bool = True) -> Figure:
    """Mean over seeds with a shaded standard deviation, over epochs."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.2, 3.0), layout="constrained")
    for line in lines:
        curve = line.curve(metric)
        if curve is None:
            continue
        epochs, summaries = curve
        mean = np.array([summary.mean for summary in summaries])
        deviation = np.array([summary.deviation for summary in summaries])
        color = color_of(line, lines)
        seeds = summaries[0].seeds
        label = f"{line.label} ({seeds} seed{'s' if seeds > 1 else ''})"
        axes.plot(epochs, mean, color=color, linewidth=1.6, label=label)
        if seeds > 1:
            floor = mean.min() / 3 if log else -np.inf
            axes.fill_between(
                epochs, np.maximum(mean - deviation, floor), mean + deviation, color=color, alpha=0.18, linewidth=0
            )
    if axes.has_data():
        axes.set_yscale("log" if log else "linear")
        axes.legend(fontsize=7.5)
    axes.set(title=title, xlabel="epoch", ylabel=ylabel)
    return figure


@styled
def latents(lines: Sequence[Line], example: str, *, title: str, max_seeds: int = 2) -> Figure:
    """A column per network: real and predicted positions on top, latent states relative to h_0 below, per seed."""
    import matplotlib.pyplot as plt

    shown = [(line, sorted(line.records, key=lambda record: record.seed)[:max_seeds]) for line in lines]
    shown = [(line, records) for line, records in shown if records]
    depth = 2 + max((len(records) for _, records in shown), default=1)
    figure, grid = plt.subplots(
        depth,
        max(1, len(shown)),
        figsize=(3.1 * max(1, len(shown)), 1.35 * depth),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for column, (line, records) in enumerate(shown):
        first = records[0].content["measures"]["examples"][example]
        for row, (name, dims) in enumerate((("agent", (0, 1)), ("robot", (2, 3)))):
            _positions(grid[row][column], first, dims, name if column == 0 else "")
        grid[0][column].set_title(line.label, color=color_of(line, lines))
        for row in range(2, depth):
            axes = grid[row][column]
            if row - 2 >= len(records):
                axes.set_visible(False)
                continue
            record = records[row - 2]
            _latent_states(axes, record.content["measures"]["examples"][example])
            axes.set_ylabel(f"$h_t - h_0$\nseed {record.seed}", fontsize=8)
        grid[depth - 1][column].set_xlabel("time step")
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure


@styled
def sampling(lines: Sequence[Line], *, title: str) -> Figure:
    """Probability of feeding the real input, over epochs."""
    figure = curves(lines[:1], "train.sampling_probability", title=title, ylabel="probability", log=False)
    legend = figure.axes[0].get_legend()
    if legend is not None:
        legend.remove()
    return figure


def _positions(axes: Axes, example: dict[str, list[list[float]]], dims: Sequence[int], name: str) -> None:
    observed, predicted = np.array(example["observations"]), np.array(example["predictions"])
    time = np.arange(1, len(observed) + 1)
    for dim, color in zip(dims, ("#9b363e", "#636a86"), strict=True):
        axes.plot(time, observed[:, dim], color=color, linewidth=1.2, label="xy"[dim % 2])
        axes.plot(time, predicted[:, dim], ".", color=color, markersize=2.6, alpha=0.75, label="predicted")
    axes.set(ylim=(-1.25, 1.25), ylabel=name)
    if name == "agent":
        axes.legend(fontsize=6, ncols=4, loc="upper left", borderaxespad=0, columnspacing=1, handlelength=1)
    _mark_onset(axes, example)


def _latent_states(axes: Axes, example: dict[str, list[list[float]]]) -> None:
    values = np.array(example["latents"])
    axes.plot(values, linewidth=1.0)  # at the time of the input that led to them
    axes.set_ylim(-2.1, 2.1)
    if example["gates"] is not None:
        opened = np.flatnonzero((np.array(example["gates"]) > 0).any(axis=1))
        axes.plot(opened, np.full(len(opened), -1.95), "|", color="black", markersize=6, label="a gate is open")
        axes.legend(fontsize=6, loc="upper left", borderaxespad=0, handletextpad=0.2)
    _mark_onset(axes, example)


def _mark_onset(axes: Axes, example: dict[str, list[list[float]]]) -> None:
    onset = int(example["onset"])  # type: ignore[call-overload]
    if onset >= 0:
        axes.axvline(onset, color="#e19c24", linewidth=1.0, linestyle="--")
