"""A page about an environment that `gatel0rd control` has learned: returns over time, and where plans go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gatel0rd.files import write_atomically
from gatel0rd.paper.report.figures import COLORS, close, save, styled
from gatel0rd.paper.report.page import Block, Picture, simple_page
from gatel0rd.planning.diagnosis import AWAY, Diagnosis
from gatel0rd.planning.learning import RECORD_FILE
from gatel0rd.streams import count_of
from gatel0rd.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "control.html"
KINDS = {"random": "#9a9a9a", "planned": COLORS["lstm"], "test": COLORS["gatel0rd"]}
"""Episodes by how their actions were chosen, and their colours."""


def write_control_page(record: dict[str, Any], directory: Path) -> Path:
    """Write ``control.html``, one file that needs no other, and its figures; returns the page's path.

    Args:
        record: what :func:`gatel0rd.planning.learn` returned.
    """
    figures = directory / "figures"
    _, returns = save(plot_returns(record), figures / "returns")
    blocks = [
        Block(
            "Return of each episode",
            Picture(returns, "Tests come after training and are not counted as environment steps."),
        )
    ]
    if record["diagnosis"] is not None:
        _, horizon = save(plot_diagnosis(Diagnosis(**record["diagnosis"])), figures / "diagnosis")
        caption = (
            "By steps ahead, from each step of an episode. Above the dotted line, errors are too large to plan with; "
            "so is a gap of that size between promised and real costs."
        )
        blocks.append(Block("How far predictions and plans hold", Picture(horizon, caption)))
    blocks += [Block("Test episodes", table=tests_table(record)), Block("Settings", table=settings_table(record))]
    path = directory / PAGE
    title = f"{record['environment'] or 'An environment'}, learned by planning"
    footer = f"Everything on this page is from {RECORD_FILE} next to it."
    write_atomically(path, simple_page(title, describe_record(record), blocks, footer))
    return path


def describe_record(record: dict[str, Any]) -> list[str]:
    """The outcome in a few sentences, the diagnosis first."""
    said = [] if record["summary"] is None else [f"Diagnosis: {record['summary']}."]
    minutes = record["seconds"] / 60
    said.append(f"{record['environment_steps']} environment steps, {minutes:.1f} minutes, seed {record['seed']}.")
    tests = record["test_returns"]
    if tests:
        spread = f"{min(tests):.4g} to {max(tests):.4g}"
        text = f"Mean return of {count_of(len(tests), 'test episode')}: {record['test_return']:.4g} ({spread})."
        if record["test_success"] is not None:
            text += f" The environment calls {record['test_success']:.0%} of them a success."
        said.append(text)
    return [*said, *([] if record["gates"] is None else [f"{record['gates']}."])]


@styled
def plot_returns(record: dict[str, Any]) -> Figure:
    """Returns of all episodes over environment steps; tests of the last model stand behind the last one."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    last = max(record["environment_steps"], 1)
    for kind, color in KINDS.items():
        own = [episode for episode in record["episodes"] if episode["kind"] == kind]
        steps = [episode["environment_steps"] for episode in own]
        if kind == "test":
            newest = len(record["test_returns"])
            behind = [last * (1.02 + 0.04 * place) for place in np.linspace(0, 1, newest)]
            steps = [*steps[: len(own) - newest], *behind]
        if own:
            axes.plot(steps, [episode["return"] for episode in own], "o", color=color, markersize=3.5, label=kind)
    axes.set(xlabel="environment steps", ylabel="return")
    axes.legend()
    close(figure)
    return figure


@styled
def plot_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Costs, errors and distance from the data by steps ahead."""
    import matplotlib.pyplot as plt

    figure, (costs, errors, away) = plt.subplots(1, 3, figsize=(10.8, 3.0), layout="constrained")
    ahead = np.arange(1, len(diagnosis.real) + 1)
    costs.plot(ahead, diagnosis.real, color="#23272f", label="real")
    costs.plot(ahead, diagnosis.planned, "--", color=COLORS["gatel0rd"], label="promised by plans")
    costs.plot(ahead, diagnosis.replayed, ":", color=COLORS["lstm"], label="predicted for the actions taken")
    costs.set(title="cost of a step", xlabel="steps ahead")
    costs.legend(fontsize=7)
    errors.plot(ahead, diagnosis.error, color=COLORS["lstm"])
    errors.axhline(diagnosis.limit, color="#444444", linewidth=1.4, linestyle=":")
    errors.set(title="error of predicted costs", xlabel="steps ahead", ylim=(0, None))
    away.plot(ahead, diagnosis.away, color=COLORS["gru"])
    away.axhline(AWAY, color="#444444", linewidth=1.4, linestyle=":")
    away.set(title="share of plans far from the data", xlabel="steps ahead", ylim=(0, 1))
    close(figure)
    return figure


def tests_table(record: dict[str, Any]) -> Table:
    """The test episodes of the last model, one a row."""
    tests = [episode for episode in record["episodes"] if episode["kind"] == "test"]
    rows = []
    for episode in tests[len(tests) - len(record["test_returns"]) :]:
        success = {None: "–", True: "yes", False: "no"}[episode["success"]]
        numbers = [f"{episode['return']:.4g}", str(episode["length"]), success]
        rows.append([str(episode["number"]), *numbers, episode["diagnosis"] or "–"])
    return Table(["episode", "return", "steps", "success", "diagnosis"], rows, prose=True)


def settings_table(record: dict[str, Any]) -> Table:
    """All settings by their names in Python."""
    settings = record["settings"]
    rows = [[name, str(value)] for name, value in settings.items() if not isinstance(value, dict)]
    rows += [
        [f"{part}.{name}", str(value)] for part in ("dynamics", "search") for name, value in settings[part].items()
    ]
    return Table(["setting", "value"], rows, prose=True)
