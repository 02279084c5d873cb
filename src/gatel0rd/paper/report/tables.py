"""Tables from records, as Markdown or HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gatel0rd.paper.bootstrap import censored_median
from gatel0rd.paper.records import Line, Summary, summarise, wilson
from gatel0rd.streams import count_of
from gatel0rd.tables import Table
from gatel0rd.worlds.metrics import (
    ChangedDimensions,
    FinalValue,
    FramesToSuccess,
    GatingRate,
    LatentChange,
    LatentMeasure,
    Metric,
    short_name,
)


class Published(Protocol):
    """A number of the paper."""

    @property
    def mean(self) -> float: ...

    @property
    def deviation(self) -> float: ...


PaperValues = Mapping[tuple[str, Metric], Published]


def format_number(value: float) -> str:
    """Two significant digits, without an exponent for everyday sizes."""
    if value == 0:
        return "0"
    text = f"{value:.2g}"
    return f"{float(text):.8f}".rstrip("0") if "e-" in text and value >= 1e-6 else text


def plus_minus(summary: Summary | None) -> str:
    """Mean ± deviation with the number of seeds, and the mean's 95 % interval if there are enough for one."""
    if summary is None:
        return "–"
    if summary.seeds == 1:
        return f"{format_number(summary.mean)} (1 seed)"
    sure = (
        ""
        if summary.interval is None
        else f"; {format_number(summary.interval[0])} to {format_number(summary.interval[1])}"
    )
    return f"{format_number(summary.mean)} ± {format_number(summary.deviation)} ({summary.seeds} seeds{sure})"


def published(value: Published | None) -> str:
    return "–" if value is None else f"{value.mean:g} ± {value.deviation:g}"


def final_table(lines: Sequence[Line], values: Sequence[FinalValue], paper: PaperValues) -> Table:
    """Final values, ours compared with the paper's."""
    header = ["network"]
    for value in values:
        header += [f"{value.words}, ours", "the paper's"]
    rows = []
    for line in lines:
        row = [line.label]
        for value in values:
            row += [plus_minus(line.summary(value)), published(paper.get((line.name, value)))]
        rows.append(row)
    return Table(header, rows)


GATING_ROWS = (
    ("control", (GatingRate("hits"), GatingRate("misses"))),
    ("no control", (GatingRate("false_alarms"), GatingRate("correct_rejections"))),
)


def gating_table(lines: Sequence[Line], paper: PaperValues) -> Table:
    """Share of inputs with an open gate, at the event and elsewhere (Table 2)."""
    rows = []
    for line in lines:
        for title, rates in GATING_ROWS:
            row = [f"{line.label}, {title}"]
            for rate in rates:
                row += [f"{rate.words}: {plus_minus(line.summary(rate))}", published(paper.get((line.name, rate)))]
            rows.append(row)
    return Table(["input", "gate open, ours", "the paper's", "gate closed, ours", "the paper's"], rows)


GATE_STATISTICS = {
    "open_rate": "open gates (time, sequence, dimension)",
    "open_times": "steps with any open gate",
    "dims_used": "dimensions used per sequence",
}


def gate_table(lines: Sequence[Line], datasets: Sequence[str]) -> Table:
    """How often gates are open, as shares."""
    rows = [
        [
            f"{line.label}, {dataset}",
            *(plus_minus(line.summary(FinalValue(dataset, name))) for name in GATE_STATISTICS),
        ]
        for line in lines
        for dataset in datasets
    ]
    return Table(["data set", *GATE_STATISTICS.values()], rows)


EVENT_MEASURES = {
    "opening_precision": "precision of openings",
    "precision": "of open inputs",
    "precision_by_chance": "by chance",
    "recall": "recall of events",
    "recall_by_chance": "by chance",
}


def events_table(lines: Sequence[Line]) -> Table:
    """How open gates and labelled events coincide: precision and recall, with what chance would reach."""
    rows = []
    for line in lines:
        measured = [gating for record in line.records if (gating := record.content["measures"]["gating"]) is not None]
        for feeding in measured[0] if measured else ():
            for kind, first in measured[0][feeding]["events"].items():
                for tolerance in sorted(first.keys() - {"count"}):
                    found = [gating[feeding]["events"][kind][tolerance] for gating in measured]
                    summaries = [
                        summarise([entry[name] for entry in found if entry[name] is not None])
                        for name in EVENT_MEASURES
                    ]
                    rows.append([f"{line.label}, {feeding}, {kind}, ± {tolerance}", *map(plus_minus, summaries)])
    return Table(["gates and events", *EVENT_MEASURES.values()], rows)


def dims_table(lines: Sequence[Line], most: int = 5) -> Table:
    """Share of free-running sequences in which that many dimensions of the latent state change."""
    rows = []
    for line in lines:
        histograms = [
            gating["free-running"]["dims_histogram"]
            for record in line.records
            if (gating := record.content["measures"]["gating"]) is not None
        ]
        row = [line.label]
        for dims in range(most + 1):
            shares = [sum(histogram[dims:]) if dims == most else histogram[dims] for histogram in histograms]
            row.append(plus_minus(summarise(shares)))
        rows.append(row)
    return Table(["network", *map(str, range(most)), f"{most} or more"], rows)


LATENT_COLUMNS: dict[tuple[LatentMeasure, bool], str] = {
    ("dimensions", True): "with {}: dimensions that change (median)",
    ("dimensions_near_event", True): "of them within 3 steps of it (median)",
    ("changed_share", True): "with {}: share of the state that changes per step",
    ("unchanged", False): "without {}: sequences in which nothing changes",
    ("changed_share", False): "without {}: share of the state that changes per step",
}


def latents_table(lines: Sequence[Line], event: str, example: str | None) -> Table:
    """How latent states change, free-running, over all test sequences with an event and without it.

    The last column is the one sequence that the figure shows.
    """
    metrics = {LatentChange(measure, event, happens): text for (measure, happens), text in LATENT_COLUMNS.items()}
    found = {metric: [line.summary(metric) for line in lines] for metric in metrics}
    shown = [metric for metric, values in found.items() if metric.happens or any(values)]
    rows = [[line.label, *(plus_minus(found[metric][k]) for metric in shown)] for k, line in enumerate(lines)]
    header = ["network", *(metrics[metric].format(event) for metric in shown)]
    if example is not None:
        header.append(f"dimensions that change in the example ({example})")
        for row, line in zip(rows, lines, strict=True):
            row.append(plus_minus(line.summary(ChangedDimensions(example))))
    return Table(header, rows)


def planning_table(lines: Sequence[Line]) -> Table:
    """Success rates after training: every seed with the 95 % interval of its episodes, and their mean."""
    rows = []
    for line in lines:
        cells, rates = [], []
        for record in sorted(line.records, key=lambda record: record.seed):
            outcome = record.content.get("planning")
            if outcome is None or outcome["epochs"][-1] != record.length:
                continue
            rate, episodes = outcome["success"][-1], outcome["episodes"][-1]
            low, high = wilson(rate * episodes, episodes)
            cells.append(f"{rate:.0%} ({low:.0%} to {high:.0%}, {episodes} episodes)")
            rates.append(rate)
        summary = summarise(rates)
        mean = "–" if summary is None else f"{summary.mean:.0%}"
        if summary is not None and summary.seeds > 1:
            mean += f" ± {summary.deviation / math.sqrt(summary.seeds):.0%}"
        rows.append([line.label, f"{mean} ({count_of(len(rates), 'seed')})", "; ".join(cells) or "–"])
    return Table(["network", "success, mean ± standard error", "every seed, with its 95 % interval"], rows)


def grid_table(lines: Sequence[Line], metric: Metric) -> Table:
    """A row per network, a column per learning rate; the lowest mean of each row is marked."""

    def rate(line: Line) -> float:
        return float(line.records[0].run["train"]["learning_rate"])

    return _search_table(lines, metric, lambda line: f"rate {rate(line):g}", lambda line: -rate(line))


def layers_table(lines: Sequence[Line], metric: Metric) -> Table:
    """A row per network, a column per number of layers; the lowest mean of each row is marked."""

    def layers(line: Line) -> int:
        cell = line.records[0].run["model"]["cell"]
        return int(max(cell["num_layers"], cell["net_layers"]))

    return _search_table(lines, metric, lambda line: f"{layers(line)} layers", layers)


def _search_table(
    lines: Sequence[Line], metric: Metric, column: Callable[[Line], str], order: Callable[[Line], float]
) -> Table:
    lines = [line for line in lines if line.records]
    columns = list(dict.fromkeys(column(line) for line in sorted(lines, key=order)))
    rows = []
    for label in dict.fromkeys(line.label for line in lines):
        found = {column(line): line.summary(metric) for line in lines if line.label == label}
        means = [summary.mean for summary in found.values() if summary is not None]
        row = [label]
        for name in columns:
            summary = found.get(name)
            best = summary is not None and len(means) > 1 and summary.mean == min(means)
            row.append(plus_minus(summary) + (" ◀ best" if best else ""))
        rows.append(row)
    return Table(["network", *columns], rows)


def agent_table(lines: Sequence[Line]) -> Table:
    """How often trained agents succeed, and their mean reward, where they were trained and elsewhere."""
    places = list(
        dict.fromkeys(place for line in lines for record in line.records for place in record.content["final"])
    )
    header = ["memory"]
    for place in places:
        header += [f"{short_name(place)}, success", "reward"]
    rows = []
    for line in lines:
        rates = [line.summary(FinalValue(place, "success")) for place in places]
        rewards = [line.summary(FinalValue(place, "return")) for place in places]
        cells = [f for pair in zip(map(percentage, rates), map(plus_minus, rewards), strict=True) for f in pair]
        rows.append([line.label, *cells])
    return Table(header, rows)


def frames_table(lines: Sequence[Line]) -> Table:
    """How much experience agents need: a run that never comes to 95 % counts as later than its end (censored)."""
    rows = []
    for line in lines:
        values = line.read(FramesToSuccess())
        end = max(record.length for record in line.records)
        every = ", ".join(format_frames(value, end) for value in values) or "–"
        rows.append([line.label, *describe_frames(values, end), every])
    return Table(["memory", "runs that come to it", "median, million frames", "every seed"], rows)


def describe_frames(values: Sequence[float], end: float) -> tuple[str, str]:
    """How many runs succeed, and the median number of frames that they need, with its 95 % interval."""
    if not values:
        return "–", "–"
    middle, sure = censored_median(values)
    text = format_frames(middle, end)
    text += "" if sure is None else f" ({format_frames(sure[0], end)} to {format_frames(sure[1], end)})"
    return f"{sum(map(math.isfinite, values))} of {len(values)}", text


def format_frames(frames: float, end: float) -> str:
    """Millions; of a run that ended before, that it takes more than its length."""
    return f"{frames / 1e6:.2f}" if math.isfinite(frames) else f"more than {end / 1e6:.3g}"


def percentage(summary: Summary | None) -> str:
    """A rate in percent, with its standard deviation over seeds."""
    if summary is None:
        return "–"
    if summary.seeds == 1:
        return f"{summary.mean:.0%} (1 seed)"
    return f"{summary.mean:.0%} ± {summary.deviation:.0%} ({summary.seeds} seeds)"
