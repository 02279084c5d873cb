"""Learned planning compared with other memories and with PPO: a table and a figure, from the recorded outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.control import METHODS, TASKS, Outcome
from gatel0rd.cli.console import format_duration
from gatel0rd.paper.report.figures import COLORS, save_as, shrink, styled
from gatel0rd.tables import Table

IN_A_ROW = 5
"""Training episodes whose mean return has to be good; of PPO, those that ended in a rollout."""
DRAWN = 20
"""A point of the figure is the mean of as many episodes as this part of a run has, if those are more."""
METHOD_COLORS = {**COLORS, "pets": "#4d4d4d", "ensemble": "#e19c24", "ppo": "#8b4fb8"}
WITHOUT_MEMORY = ("none", "pets")
"""Methods that are drawn with dashes."""


def smooth(outcome: Outcome, in_a_row: int = IN_A_ROW) -> tuple[np.ndarray, np.ndarray]:
    """Environment steps, and the mean return of the last training episodes until then."""
    steps, returns = (np.array(column, dtype=np.float64) for column in zip(*outcome.curve, strict=True))
    count = 1 if outcome.method == "ppo" else min(in_a_row, len(returns))  # of PPO each value is a mean already
    return steps[count - 1 :], np.convolve(returns, np.full(count, 1 / count), mode="valid")


def steps_to(outcome: Outcome, good_return: float) -> int | None:
    """Environment steps until the mean return was good; None if it never was."""
    steps, returns = smooth(outcome)
    good = np.flatnonzero(returns >= good_return)
    return int(steps[good[0]]) if len(good) else None


def compare_methods(outcomes: Sequence[Outcome]) -> str:
    """A table of all tasks, and one for each, as Markdown."""
    parts = [f"Successful tests, and in brackets the number of seeds:\n\n{compare_successes(outcomes).markdown()}"]
    for name, task in TASKS.items():
        rows = []
        for method, title in METHODS.items():
            own = [one for one in outcomes if (one.task, one.method) == (name, method)]
            if own:
                rows.append([title, *_describe(own, task.good_return)])
        header = ["method", "seeds", task.success, "return", f"steps to {task.good_return:g}", "steps", "wall time"]
        if rows:
            parts.append(f"{task.title}:\n\n{Table(header, rows).markdown()}")
    return "\n".join(parts)


def compare_successes(outcomes: Sequence[Outcome]) -> Table:
    """Successes of all tests, a row for each method and a column for each task."""
    shown = {name: task for name, task in TASKS.items() if any(one.task == name for one in outcomes)}
    rows = []
    for method, title in METHODS.items():
        cells = []
        for name in shown:
            own = [one for one in outcomes if (one.task, one.method) == (name, method)]
            tests = [success for one in own for success in one.test_successes]
            cells.append(f"{sum(tests)} of {len(tests)} ({len(own)})" if own else "–")
        if any(one.method == method for one in outcomes):
            rows.append([title, *cells])
    return Table(["method", *(f"{task.title}: {task.success}" for task in shown.values())], rows)


def _describe(own: Sequence[Outcome], good_return: float) -> list[str]:
    """One row: successes of all tests, mean returns, steps until learned, budget and time of a run."""
    successes = [success for one in own for success in one.test_successes]
    means = [float(np.mean(one.test_returns)) for one in own]
    reached = [steps_to(one, good_return) for one in own]
    return [
        str(len(own)),
        f"{sum(successes)} of {len(successes)}",
        f"{np.mean(means):.4g} ({min(means):.4g} to {max(means):.4g})",
        ", ".join("never" if steps is None else str(steps) for steps in reached),
        str(max(one.steps for one in own)),
        format_duration(float(np.mean([one.seconds for one in own]))),
    ]


@styled
def plot_returns(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw returns of training episodes over environment steps, each seed as a line, to a PNG or SVG file."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    shown = {name: task for name, task in TASKS.items() if any(one.task == name for one in outcomes)}
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure, places = plt.subplots(
        rows, columns, figsize=(4.2 * columns, 3.1 * rows + 0.5), layout="constrained", squeeze=False
    )
    for axes in places.flat[len(shown) :]:
        axes.set_visible(False)
    lines: dict[str, Any] = {}
    for axes, (name, task) in zip(places.flat, shown.items(), strict=False):
        for method, title in METHODS.items():
            for one in outcomes:
                if (one.task, one.method) != (name, method):
                    continue
                steps, returns = smooth(one, max(IN_A_ROW, len(one.curve) // DRAWN))
                style = "--" if method in WITHOUT_MEMORY else "-"
                (lines[title],) = axes.plot(
                    steps, returns, style, color=METHOD_COLORS[method], linewidth=1.1, alpha=0.8
                )
        axes.axhline(task.good_return, color="#444444", linewidth=0.8, linestyle=":")
        axes.set(title=task.title, xlabel="environment steps", ylabel="return", xscale="log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    ordered = [title for title in METHODS.values() if title in lines]
    figure.legend([lines[title] for title in ordered], ordered, loc="outside lower center", ncols=4, fontsize=8)
    save_as(figure, path)
    if path.suffix == ".png":
        shrink(path, path, width=1200)
