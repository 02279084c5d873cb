"""How long networks remember: a figure and a table, from lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gatel0rd.paper.records import Line
from gatel0rd.paper.report.figures import color_of, styled
from gatel0rd.paper.report.tables import percentage
from gatel0rd.streams import count_of
from gatel0rd.tables import Table
from gatel0rd.worlds.memory.sizes import SIZES, TaskName
from gatel0rd.worlds.metrics import Curve, CurveAt, FinalValue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK_TITLES: dict[TaskName, str] = {
    "symbol": "One of four symbols",
    "bits": "Three bits, switched now and then",
    "number": "A number, up to ± 0.1",
}
MARKERS = {"gatel0rd": "o", "lstm": "s", "gru": "^", "elman": "v", "clockwork": "D"}
"""Of cells: lines that coincide, or that are printed in grey, can still be told apart."""


def task_of(line: Line) -> TaskName:
    """What the networks of a line remember."""
    task: TaskName = line.records[0].run["task"]
    return task


def asked_lengths(lines: Sequence[Line]) -> list[int]:
    """After how many steps networks were asked, in ascending order; those of training among them."""
    return sorted({int(steps) for line in lines for record in line.records for steps in record.content["final"]})


@styled
def lengths(lines: Sequence[Line], *, title: str) -> Figure:
    """Right answers over the length of the sequences, a panel per task: mean over seeds, and their range."""
    import matplotlib.pyplot as plt

    tasks = [task for task in TASK_TITLES if any(task_of(line) == task for line in lines)]
    figure, grid = plt.subplots(
        1, len(tasks), figsize=(1.0 + 2.9 * len(tasks), 3.7), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, task in zip(grid[0], tasks, strict=True):
        _draw_task(axes, [line for line in lines if task_of(line) == task])
        axes.axhline(SIZES[task].chance, color="#666666", linewidth=0.9, linestyle=":", label="by chance")
        axes.set(title=TASK_TITLES[task], xlabel="steps (trained on 50)")
    grid[0][0].set_ylabel("right answers")
    grid[0][0].yaxis.set_major_formatter("{x:.0%}")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=7.5)
    seeds = sorted({len(line.records) for line in lines})
    count = " to ".join(str(number) for number in dict.fromkeys((seeds[0], seeds[-1])))
    figure.suptitle(f"{title} (mean and range, seeds: {count})", fontsize=11, fontweight="bold")
    return figure


def _draw_task(axes: Axes, lines: Sequence[Line]) -> None:
    steps = asked_lengths(lines)
    for line in lines:
        rates = [line.read(FinalValue(str(length), "accuracy")) for length in steps]
        color, first = color_of(line, lines), line is lines[0]  # wide and below: others that coincide with it are seen
        axes.plot(
            steps,
            [np.mean(values) for values in rates],
            marker=MARKERS[line.cell],
            markersize=9 if first else 4,
            linestyle="--" if line.dashed else "-",
            linewidth=4.5 if first else 1.3,
            color=color,
            markerfacecolor="white" if line.dashed else color,
            label=line.label,
            zorder=2 if first else 3,
        )
        low, high = [min(values) for values in rates], [max(values) for values in rates]
        axes.fill_between(steps, low, high, color=color, alpha=0.1, linewidth=0)
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.05)


def lengths_table(lines: Sequence[Line], shown: Sequence[int] | None = None) -> Table:
    """Right answers after many steps, and how often the memory changes while there is nothing to remember.

    Args:
        shown: after how many steps; all lengths that there are if not given.
    """
    asked = asked_lengths(lines)
    header = ["network", "open gates", *(f"right after {length:,} steps" for length in shown or asked)]
    header.append(f"memory changes, of {asked[-1]:,} steps")
    rows = []
    for line in lines:
        opened = line.summary(CurveAt(Curve("open_rate", "train"), 1.0))
        changed = line.summary(FinalValue(str(asked[-1]), "changed"))
        rows.append(
            [
                f"{TASK_TITLES[task_of(line)]}: {line.label}",
                "–" if opened is None else f"{opened.mean:.1%}",
                *(percentage(line.summary(FinalValue(str(length), "accuracy"))) for length in shown or asked),
                "–" if changed is None else f"{changed.mean * asked[-1]:,.0f}",
            ]
        )
    return Table(header, rows)


def compare_tasks(lines: Sequence[Line], shown: Sequence[int]) -> Table:
    """A row per network, and a column per task: right answers after some numbers of steps, and how many seeds."""
    header = ["right answers after " + " / ".join(f"{length:,}" for length in shown) + " steps"]
    header += [TASK_TITLES[task] for task in TASK_TITLES]
    rows = []
    for label in dict.fromkeys(line.label for line in lines):
        own = {task_of(line): line for line in lines if line.label == label}
        rows.append([label, *(_rates(own[task], shown) if task in own else "–" for task in TASK_TITLES)])
    return Table(header, rows)


def _rates(line: Line, shown: Sequence[int]) -> str:
    rates = [line.summary(FinalValue(str(length), "accuracy")) for length in shown]
    text = " / ".join("–" if rate is None else f"{100 * rate.mean:.0f}" for rate in rates)
    return f"{text} % ({count_of(len(line.records), 'seed')})"
