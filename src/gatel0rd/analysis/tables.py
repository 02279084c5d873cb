"""Tables from records, as Markdown or HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gatel0rd.analysis.records import Line, Summary, summarise


class Published(Protocol):
    """A number of the paper."""

    @property
    def mean(self) -> float: ...

    @property
    def deviation(self) -> float: ...


PaperValues = Mapping[tuple[str, str], Published]


@dataclass(frozen=True)
class Table:
    """A header and rows of text; the first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def html(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self.rows)
        return f"<table><thead>{row(self.header, 'th')}</thead><tbody>{body}</tbody></table>"


def number(value: float) -> str:
    """Two significant digits, without an exponent for everyday sizes."""
    if value == 0:
        return "0"
    text = f"{value:.2g}"
    return f"{float(text):.8f}".rstrip("0") if "e-" in text and value >= 1e-6 else text


def plus_minus(summary: Summary | None) -> str:
    """Mean ± deviation with the number of seeds; one seed has no deviation."""
    if summary is None:
        return "–"
    if summary.seeds == 1:
        return f"{number(summary.mean)} (1 seed)"
    return f"{number(summary.mean)} ± {number(summary.deviation)} ({summary.seeds} seeds)"


def published(value: Published | None) -> str:
    return "–" if value is None else f"{value.mean:g} ± {value.deviation:g}"


def final_table(lines: Sequence[Line], metrics: Sequence[str], paper: PaperValues) -> Table:
    """Final values, ours beside the paper's."""
    header = ["network"]
    for metric in metrics:
        header += [f"{metric.replace('.', ' ')}, ours", "the paper's"]
    rows = []
    for line in lines:
        row = [line.label]
        for metric in metrics:
            row += [plus_minus(line.summary(metric)), published(paper.get((line.name, metric)))]
        rows.append(row)
    return Table(header, rows)


GATING_ROWS = (("control", ("hits", "misses")), ("no control", ("false_alarms", "correct_rejections")))


def gating_table(lines: Sequence[Line], paper: PaperValues) -> Table:
    """Share of inputs with an open gate, at the event and elsewhere (Table 2)."""
    rows = []
    for line in lines:
        gatings = [record.content["measures"]["gating"] for record in line.records]
        for title, names in GATING_ROWS:
            row = [f"{line.label}, {title}"]
            for name in names:
                summary = summarise([gating[name] for gating in gatings if gating is not None])
                row += [f"{name.replace('_', ' ')}: {plus_minus(summary)}", published(paper.get((line.name, name)))]
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
        [f"{line.label}, {dataset}", *(plus_minus(line.summary(f"{dataset}.{name}")) for name in GATE_STATISTICS)]
        for line in lines
        for dataset in datasets
    ]
    return Table(["data set", *GATE_STATISTICS.values()], rows)


def grid_table(lines: Sequence[Line], metric: str) -> Table:
    """A row per network, a column per learning rate; the lowest mean of each row is marked."""
    rates = sorted({rate for line in lines for rate in _rates(line)}, reverse=True)
    labels = list(dict.fromkeys(line.label for line in lines))
    rows = []
    for label in labels:
        found = {rate: line.summary(metric) for line in lines if line.label == label for rate in _rates(line)}
        means = [summary.mean for summary in found.values() if summary is not None]
        row = [label]
        for rate in rates:
            summary = found.get(rate)
            best = summary is not None and len(means) > 1 and summary.mean == min(means)
            row.append(plus_minus(summary) + (" ◀ best" if best else ""))
        rows.append(row)
    return Table(["network", *(f"rate {rate:g}" for rate in rates)], rows)


def _rates(line: Line) -> list[float]:
    return [line.records[0].run["train"]["learning_rate"]] if line.records else []
