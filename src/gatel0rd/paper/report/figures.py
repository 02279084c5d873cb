"""Figures from records: one function each, from lines to a matplotlib figure, in the paper's style."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np

from gatel0rd.files import write_atomically
from gatel0rd.paper.aggregates import performance_profile, stratified_bootstrap
from gatel0rd.paper.records import Line
from gatel0rd.worlds import registry
from gatel0rd.worlds.metrics import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "gatel0rd": "#c0392b",
    "lstm": "#2f6fa7",
    "gru": "#6f9a3e",
    "elman": "#8569b0",
    "clockwork": "#b5772c",
    "none": "#7f7f7f",
}
"""Of cells, and of the agent without a memory."""
MARKERS = {"gatel0rd": "o", "lstm": "s", "gru": "^", "elman": "v", "clockwork": "D", "none": "X"}
"""Of the same: what tells curves apart where there are no colours, as in print."""
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
EVENT_COLORS = ("#e19c24", "#2f6fa7", "#6f9a3e", "#8569b0", "#c0392b")
POCKETS = np.array([(x, y) for x in (-0.9575, 0, 0.9575) for y in (-0.915, 0.915)]).T
"""Where the pool table's holes are in observations, [2, 6]."""


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
    paths = [stem.with_suffix(f".{ending}") for ending in FORMATS]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        _write_figure(figure, path, metadata=metadata)
    return paths


@styled
def save_as(figure: Figure, path: Path) -> None:
    """Write one file, in the format that its ending names."""
    _write_figure(figure, path)
    close(figure)


def _write_figure(figure: Figure, path: Path, **options: Any) -> None:
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.removeprefix("."), dpi=160, **options)
    write_atomically(path, content.getvalue())


def shrink(path: Path, small: Path, width: int = 800) -> Path:
    """Write a figure that was saved once more, with fewer bytes, as PNG or WebP by the ending of ``small``."""
    from PIL import Image

    image = Image.open(path.with_suffix(".png")).convert("RGB")
    image.thumbnail((width, image.height), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    if small.suffix == ".png":
        image.quantize(256, method=Image.Quantize.MEDIANCUT).save(content, "PNG", optimize=True)
    else:
        image.save(content, "WEBP", quality=40, method=6)
    write_atomically(small, content.getvalue())
    return small


def close(figure: Figure) -> None:
    """Free a figure's memory."""
    import matplotlib.pyplot as plt

    plt.close(figure)


def color_of(line: Line, lines: Sequence[Line]) -> str:
    """A network's own colour, also for its dashed variants; further variants get one that no other network has."""
    same_cell = [other for other in lines if other.cell == line.cell and not other.dashed]
    if line.dashed or line is same_cell[0]:
        return COLORS.get(line.name, COLORS[line.cell])
    taken = {COLORS[other.cell] for other in lines}
    free = [color for color in EXTRA_COLORS if color not in taken]
    return free[(same_cell.index(line) - 1) % len(free)]


def mark_line(line: Line, lines: Sequence[Line], points: int) -> dict[str, Any]:
    """How a network's curve is marked: about six times, at other places than those of the other networks."""
    every = max(1, points // 6)
    first = every * next(place for place, other in enumerate(lines) if other is line) // len(lines)
    return {"marker": MARKERS.get(line.name, MARKERS[line.cell]), "markersize": 3.6, "markevery": (first, every)}


def put_legend_below(figure: Figure) -> None:
    """Name the networks under the axes: where every seed has a curve, none is free of them inside."""
    figure.legend(loc="outside lower center", ncols=2, fontsize=6.5)


@styled
def curves(lines: Sequence[Line], shown: Curve, *, title: str, ylabel: str, log: bool = True) -> Figure:
    """Mean over seeds with a shaded standard deviation, over epochs; of agents with every seed, over frames."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.2, 3.0), layout="constrained")
    agents = any(record.kind == "agent" for line in lines for record in line.records)
    for line in lines:
        curve = line.curve(shown)
        if curve is None:
            continue
        times, summaries = curve
        epochs = np.array(times) / (1e6 if agents else 1)
        mean = np.array([summary.mean for summary in summaries])
        deviation = np.array([summary.deviation for summary in summaries])
        color = color_of(line, lines)
        seeds = max(summary.seeds for summary in summaries)
        label = f"{line.label} ({seeds} seed{'s' if seeds > 1 else ''})"
        mark = mark_line(line, lines, len(epochs))
        axes.plot(epochs, mean, "--" if line.dashed else "-", color=color, linewidth=1.6, label=label, **mark)
        if agents and seeds > 1:
            for own in (points for record in line.records if (points := record.curve(shown)) is not None):
                axes.plot(np.array(own[0]) / 1e6, own[1], color=color, linewidth=0.6, alpha=0.45)
        elif seeds > 1:
            low = np.maximum(mean - deviation, mean.min() / 3) if log else mean - deviation
            axes.fill_between(epochs, low, mean + deviation, color=color, alpha=0.18, linewidth=0)
    if axes.has_data():
        axes.set_yscale("log" if log else "linear")
        if agents:
            put_legend_below(figure)
        else:
            axes.legend(fontsize=7.5)
        leave_out_start(axes)
    if shown.measure == "success":
        axes.set_ylim(-0.03, 1.03)
    axes.set(title=title, xlabel="million frames" if agents else "epoch", ylabel=ylabel)
    axes.locator_params(axis="x", nbins=5)  # more numbers of five digits than that would touch
    return figure


def leave_out_start(axes: Axes) -> None:
    """Limits of the vertical axis by what comes after epoch 0: untrained networks would take most of its height."""
    points = np.concatenate([np.asarray(curve.get_xydata(), dtype=float) for curve in axes.lines])  # [K, 2]
    later = points[points[:, 0] > 0, 1]
    if not later.size:
        return
    low, high = later.min(), later.max()
    if axes.get_yscale() == "linear":
        margin = 0.06 * (high - low) or 0.06
        axes.set_ylim(low - margin, high + margin)
    elif low > 0:
        axes.set_ylim(low / 1.5, high * 1.5)


@styled
def latents(lines: Sequence[Line], example: str, *, title: str, max_seeds: int = 2) -> Figure:
    """A column per network: real and predicted positions on top, latent states relative to h_0 below, per seed."""
    import matplotlib.pyplot as plt

    shown = [(line, sorted(line.records, key=lambda record: record.seed)[:max_seeds]) for line in lines]
    shown = [(line, records) for line, records in shown if records]
    panels = registry.get(shown[0][1][0].run["scenario"]).things if shown else ()
    depth = len(panels) + max((len(records) for _, records in shown), default=1)
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
        for row, (name, dims) in enumerate(panels):
            _positions(grid[row][column], first, dims, name)
        grid[0][column].set_title(line.label, color=color_of(line, lines))
        for row in range(len(panels), depth):
            axes = grid[row][column]
            if row - len(panels) >= len(records):
                axes.set_visible(False)
                continue
            record = records[row - len(panels)]
            _latent_states(axes, record.content["measures"]["examples"][example])
            axes.set_ylabel(f"latent change\nseed {record.seed}", fontsize=8)
        grid[depth - 1][column].set_xlabel("time step")
    named = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if named:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=len(named), fontsize=7)
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure


@styled
def planning(lines: Sequence[Line], *, title: str) -> Figure:
    """Success rate over epochs: mean and standard error over seeds, or over episodes where there is one seed.

    Means are of epochs that all seeds have; every seed's own course is a thin line.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.2, 3.0), layout="constrained")
    for line in lines:
        outcomes = [record.content["planning"] for record in line.records if "planning" in record.content]
        if not outcomes:
            continue
        epochs = sorted(set.intersection(*(set(outcome["epochs"]) for outcome in outcomes)))
        if not epochs:
            continue
        places = [[outcome["epochs"].index(epoch) for epoch in epochs] for outcome in outcomes]
        success, episodes = (  # [seeds, epochs]
            np.array([np.array(outcome[name])[place] for outcome, place in zip(outcomes, places, strict=True)])
            for name in ("success", "episodes")
        )
        mean = success.mean(axis=0)
        if len(outcomes) > 1:
            error, kind = success.std(axis=0, ddof=1) / np.sqrt(len(outcomes)), "seeds"
        else:
            error, kind = np.sqrt(mean * (1 - mean) / episodes[0]), "seed"
        color = color_of(line, lines)
        counts = "–".join(str(count) for count in dict.fromkeys((episodes.min(), episodes.max())))
        seeds = f"{len(outcomes)} {kind}, {counts} episodes"
        mark = mark_line(line, lines, len(epochs))
        axes.plot(epochs, mean, color=color, linewidth=1.6, label=f"{line.label} ({seeds})", **mark)
        axes.fill_between(epochs, mean - error, mean + error, color=color, alpha=0.18, linewidth=0)
        for outcome in outcomes if len(outcomes) > 1 else ():
            axes.plot(outcome["epochs"], outcome["success"], color=color, linewidth=0.5, alpha=0.6, marker=".", ms=3)
    if axes.has_data():
        put_legend_below(figure)
    axes.set(title=title, xlabel="epoch", ylabel="success rate", ylim=(-0.03, 1.03))
    return figure


@styled
def profiles(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], labels: Mapping[str, str], *, xlabel: str
) -> Figure:
    """Performance profiles, a panel per kind of score: network -> scores [tasks, seeds]."""
    import matplotlib.pyplot as plt

    thresholds = np.linspace(0, 1, 101)
    figure, grid = plt.subplots(
        1, len(panels), figsize=(3.9 * len(panels), 3.0), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, (title, scores) in zip(grid[0], panels.items(), strict=True):
        for name, own in scores.items():
            statistic = functools.partial(performance_profile, thresholds=thresholds)
            low, high = np.quantile(stratified_bootstrap(statistic, own), [0.025, 0.975], axis=0)
            rows = [np.array(row) for row in own]
            axes.plot(thresholds, statistic(rows), color=COLORS[name], linewidth=1.6, label=labels[name])
            axes.fill_between(thresholds, low, high, color=COLORS[name], alpha=0.15, linewidth=0)
        axes.set(title=title, xlabel=xlabel, ylim=(-0.03, 1.03))
    grid[0][0].set_ylabel("share of runs above that score")
    grid[0][0].legend(fontsize=7.5)
    return figure


@styled
def sampling(lines: Sequence[Line], *, title: str) -> Figure:
    """Probability of feeding the real input, over epochs."""
    figure = curves(lines[:1], Curve("sampling_probability", "train"), title=title, ylabel="probability", log=False)
    legend = figure.axes[0].get_legend()
    if legend is not None:
        legend.remove()
    figure.axes[0].set_ylim(-0.03, 1.03)
    return figure


@styled
def trajectory(lines: Sequence[Line], example: str, *, title: str) -> Figure:
    """The ball on its table, a panel per network: real positions white, given inputs blue, predictions red.

    Predictions become more saturated with time; inputs at which a gate opened are outlined in black.
    """
    import matplotlib.pyplot as plt

    shown = [line for line in lines if line.records]
    figure, grid = plt.subplots(
        1, max(1, len(shown)), figsize=(4.2 * max(1, len(shown)), 2.6), squeeze=False, layout="constrained"
    )
    for axes, line in zip(grid[0], shown, strict=False):
        record = min(line.records, key=lambda record: record.seed)
        content = record.content["measures"]["examples"][example]
        real = np.array([content["start"], *content["observations"]])
        predicted = np.array(content["predictions"])
        given = content["given"]
        inputs = np.concatenate([real[:given], predicted[given - 1 : -1]])  # what was fed in, [T-1, 2]
        axes.set_facecolor("#2f7d5f")
        axes.scatter(*POCKETS, s=130, color="#101514", zorder=1)
        axes.scatter(*real.T, s=16, color="white", zorder=2)
        saturation = plt.get_cmap("Reds")(np.linspace(0.35, 0.9, len(predicted)))
        axes.scatter(*predicted.T, s=9, color=saturation, zorder=3)
        axes.scatter(*real[:given].T, s=16, color="#3d7dd8", zorder=4)
        if content["gates"] is not None:
            opened = (np.array(content["gates"]) > 0).any(axis=1)
            axes.scatter(*inputs[opened].T, s=24, facecolor="none", edgecolor="black", linewidth=0.9, zorder=5)
        axes.set(xlim=(-1, 1), ylim=(-1, 1), xticks=[], yticks=[], aspect=0.5)
        axes.set_title(f"{line.label}, seed {record.seed}", color=color_of(line, lines))
        for spine in axes.spines.values():
            spine.set(visible=True, color="#7a5032", linewidth=5)
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure


def _positions(axes: Axes, example: dict[str, Any], dims: Sequence[int], name: str) -> None:
    observed, predicted = np.array(example["observations"]), np.array(example["predictions"])
    time = np.arange(1, len(observed) + 1)
    for dim, color, letter in zip(dims, ("#9b363e", "#636a86", "#6f9a3e"), "xyz", strict=False):
        axes.plot(time, observed[:, dim], color=color, linewidth=1.2, label=letter)
        axes.plot(time, predicted[:, dim], ".", color=color, markersize=2.6, alpha=0.75, label="predicted")
    if np.abs(observed[:, list(dims)]).max() <= 1:
        axes.set_ylim(-1.25, 1.25)
    axes.set_ylabel(name)
    _mark_events(axes, example)


def _latent_states(axes: Axes, example: dict[str, Any]) -> None:
    values = np.array(example["latents"])
    axes.plot(values, linewidth=1.0)  # at the time of the input that led to them
    axes.set_ylim(-2.1, 2.1)
    if example["gates"] is not None:
        opened = np.flatnonzero((np.array(example["gates"]) > 0).any(axis=1))
        axes.plot(opened, np.full(len(opened), -1.95), "|", color="black", markersize=6, label="a gate is open")
    _mark_events(axes, example)


def _mark_events(axes: Axes, example: dict[str, Any]) -> None:
    """A vertical line at every event; the first records knew one only, ``onset``."""
    events = example.get("events") or {"control": [example["onset"]] if example.get("onset", -1) >= 0 else []}
    for (name, times), color in zip(events.items(), EVENT_COLORS, strict=False):
        for number, time in enumerate(times):
            label = name if number == 0 else None
            axes.axvline(time, color=color, linewidth=0.9, linestyle="--", zorder=0.5, label=label)


@dataclass(frozen=True)
class Part:
    """A box of a diagram: where its middle is, what it says, and whether it is a network, data, or GateL0RD's own."""

    place: tuple[float, float]
    text: str
    kind: Literal["network", "data", "own"] = "network"


PART_COLORS = {"network": ("#eef3f8", "#2f6fa7"), "data": ("#ffffff", "#999999"), "own": ("#fbeceb", "#c0392b")}


@styled
def diagram(parts: Mapping[str, Part], arrows: Sequence[tuple[str, str]], *, title: str) -> Figure:
    """Boxes and arrows between them."""
    import matplotlib.pyplot as plt

    xs, ys = zip(*(part.place for part in parts.values()), strict=True)
    figure, axes = plt.subplots(figsize=(1.75 * (max(xs) - min(xs)) + 2.2, 1.5 * (max(ys) - min(ys)) + 1.6))
    boxes = {}
    for name, part in parts.items():
        fill, edge = PART_COLORS[part.kind]
        box = {"boxstyle": "round,pad=0.5", "facecolor": fill, "edgecolor": edge}
        boxes[name] = axes.text(*part.place, part.text, ha="center", va="center", bbox=box, zorder=3)
    axes.set(xlim=(min(xs) - 0.75, max(xs) + 0.75), ylim=(min(ys) - 0.5, max(ys) + 0.5), title=title)
    axes.axis("off")
    figure.canvas.draw()  # boxes have their sizes only now
    for start, end in arrows:
        ends = (boxes[start].get_bbox_patch(), boxes[end].get_bbox_patch())
        style = {
            "arrowstyle": "-|>",
            "color": "#555555",
            "shrinkA": 2,
            "shrinkB": 3,
            "patchA": ends[0],
            "patchB": ends[1],
        }
        axes.annotate("", xy=parts[end].place, xytext=parts[start].place, arrowprops=style, zorder=2)
    figure.tight_layout()
    return figure


@styled
def gallery(pictures: Mapping[str, Any], *, columns: int = 1) -> Figure:
    """Pictures with titles, side by side."""
    import matplotlib.pyplot as plt

    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    shape = next(iter(pictures.values())).shape
    wide = 3.4 if columns > 1 else 6.0
    figure, axes = plt.subplots(
        rows, columns, squeeze=False, figsize=(wide * columns, (wide * shape[0] / shape[1] + 0.4) * rows)
    )
    for place in axes.flat:
        place.axis("off")
    for place, (title, picture) in zip(axes.flat, pictures.items(), strict=False):
        place.imshow(picture, interpolation="lanczos")
        place.set_title(title)
    figure.tight_layout()
    return figure
