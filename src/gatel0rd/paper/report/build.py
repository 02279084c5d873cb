"""Sections of a report: an experiment's claims, figures and tables, from the records that answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gatel0rd.paper.records import Record
from gatel0rd.paper.report import figures, length_figures, tables
from gatel0rd.paper.report.judge import judge_answer, share_words
from gatel0rd.paper.report.page import Block, Picture, ReportSection
from gatel0rd.paper.report.select import Answer
from gatel0rd.tables import Table
from gatel0rd.worlds.experiments import View
from gatel0rd.worlds.metrics import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Axis:
    """How a measure is drawn."""

    label: str
    log: bool = False


AXES = {
    "error": Axis("mean squared error", log=True),
    "reappearance": Axis("squared error", log=True),
    "open_rate": Axis("share of open gates"),
    "dims_used": Axis("share of dimensions"),
    "success": Axis("success rate"),
    "return": Axis("mean reward"),
}
"""Measure -> its axis; others are called by their name."""


def build_section(answer: Answer, records: Sequence[Record], directory: Path) -> ReportSection:
    """An experiment's part of the page; its figures are written to ``directory``."""
    experiment, scale = answer.experiment, answer.scale
    size = scale.words if scale.preset == "text" else f"{scale.words}, {scale.preset}"
    return ReportSection(
        id=experiment.id,
        anchor=answer.anchor,
        title=experiment.title,
        question=experiment.question,
        claims=judge_answer(answer, records),
        scale=describe_scale(answer),
        command=command_for(answer),
        blocks=[
            build_block(view, answer, directory / f"{answer.anchor}-{index}")
            for index, view in enumerate(experiment.views)
        ],
        world=experiment.scenario.title,
        size=size,
    )


def command_for(answer: Answer) -> str:
    """What makes the runs of an answer."""
    experiment, scale = answer.experiment, answer.scale
    there = {line.name for line in answer.lines}
    command = f"gatel0rd run {experiment.id} --profile {scale.profile}"
    command += "" if scale.length is None else f" --{scale.unit} {scale.length}"
    command += "" if scale.preset == "text" else f" --preset {scale.preset}"
    if len(there) == len(experiment.variants):
        return command
    names: dict[str, None] = {}
    for line in answer.lines:  # the name of a cell stands for all variants of it
        siblings = {variant.name for variant in experiment.variants if variant.cell.name == line.cell}
        names[line.cell if len(siblings) > 1 and siblings <= there else line.name] = None
    return f"{command} --cells {','.join(names)}"


def describe_scale(answer: Answer) -> str:
    """Seeds and share of the paper's scale, in words."""
    seeds = sorted({len(line.records) for line in answer.lines})
    count = " to ".join(str(value) for value in dict.fromkeys((seeds[0], seeds[-1])))
    of_paper = answer.experiment.scenario.of_paper
    asked = f"the paper's {answer.experiment.seeds}" if of_paper else str(answer.experiment.seeds)
    note = f"Profile {answer.scale.words}, preset {answer.scale.preset}: {count} of {asked} seeds, "
    note += f"{share_words(answer.records)} per run"
    note += " (the paper does not state its number)" if of_paper and answer.records[0].share is None else ""
    trained = sum(record.training_hours for record in answer.records)
    note += f"; {describe_hours(trained)} of one core for training in all"
    if not answer.experiment.plans:
        return f"{note}."
    hours = sum(record.planning_hours for record in answer.records)
    return f"{note}, {describe_hours(hours)} for planning. All models meet the same starts."


def describe_hours(hours: float) -> str:
    """A time span in words: below an hour in minutes or seconds."""
    if hours >= 1:
        return f"{hours:.0f} hours" if hours >= 100 else f"{hours:.3g} hours"
    return f"{60 * hours:.2g} minutes" if hours >= 1 / 60 else f"{3600 * hours:.2g} seconds"


def build_block(view: View, answer: Answer, stem: Path) -> Block:
    """One figure or table of an experiment."""
    title = f"{view.title} ({view.artefact})" if answer.experiment.scenario.of_paper else view.title
    table = build_table(view, answer)
    if table is not None:
        return Block(title, table=table)
    picture = save_picture(draw_figure(view, answer), stem, describe_picture(view, answer))
    return Block(title, picture=picture)


def describe_picture(view: View, answer: Answer) -> str:
    """What a figure shows, and whose networks."""
    names = dict.fromkeys(line.label for line in answer.lines)
    labels = ("; " if any("," in name for name in names) else ", ").join(names)
    return f"{view.artefact} of the paper, ours: {labels}" if answer.experiment.scenario.of_paper else labels


def build_table(view: View, answer: Answer) -> Table | None:
    """The view as a table; None if it is a figure."""
    lines, paper = answer.lines, answer.experiment.paper
    match view.kind:
        case "final_table":
            return tables.final_table(lines, view.values, paper)
        case "gating_table":
            return tables.gating_table(lines, paper)
        case "gate_table":
            return tables.gate_table(lines, view.datasets)
        case "grid_table":
            return tables.grid_table(lines, view.values[0])
        case "layers_table":
            return tables.layers_table(lines, view.values[0])
        case "events_table":
            return tables.events_table(lines)
        case "planning_table":
            return tables.planning_table(lines)
        case "dims_table":
            return tables.dims_table(lines)
        case "latents_table":
            assert view.event is not None
            return tables.latents_table(lines, view.event, view.example)
        case "frames_table":
            return tables.frames_table(lines)
        case "agent_table":
            return tables.agent_table(lines)
        case "lengths_table":
            return length_figures.lengths_table(lines)
    return None


def draw_figure(view: View, answer: Answer) -> Figure:
    """The view as a figure."""
    lines, title = answer.lines, view.title
    match view.kind:
        case "curves":
            assert view.curve is not None
            axis = AXES.get(view.curve.measure, Axis(view.curve.words))
            return figures.curves(lines, view.curve, title=title, ylabel=axis.label, log=axis.log)
        case "loss":
            return figures.curves(lines, Curve("loss", "train"), title=title, ylabel="loss")
        case "sampling":
            return figures.sampling(lines, title=title)
        case "planning":
            return figures.planning(lines, title=title)
        case "latents":
            assert view.example is not None
            return figures.latents(lines, view.example, title=title)
        case "trajectory":
            assert view.example is not None
            return figures.trajectory(lines, view.example, title=title)
        case "lengths":
            return length_figures.lengths(lines, title=title)
    raise ValueError(f"there is no figure of the kind {view.kind!r}")


def save_picture(figure: Figure, stem: Path, caption: str, suffix: str = ".svg") -> Picture:
    """Write a figure in all formats; the page shows the one with this ending."""
    paths = figures.save(figure, stem)
    width = round(96 * figure.get_figwidth()) if suffix == ".svg" else None
    figures.close(figure)
    return Picture(next(path for path in paths if path.suffix == suffix), caption, width)


def with_small_pictures(part: ReportSection) -> ReportSection:
    """The same with pictures of few pixels and bytes."""

    def lighter(entry: Block) -> Block:
        if entry.picture is None:
            return entry
        path = entry.picture.path
        small = figures.shrink(path, path.with_name(f"{path.stem}-small.webp"))
        return replace(entry, picture=replace(entry.picture, path=small))

    return replace(part, blocks=[lighter(entry) for entry in part.blocks])


def build_illustration(id: str, directory: Path) -> ReportSection:
    """A figure without records, drawn to ``directory``."""
    from gatel0rd.paper.illustrations import ILLUSTRATIONS

    entry = ILLUSTRATIONS[id]
    stem = id.replace("/", "-")
    picture = save_picture(entry.draw(), directory / stem, entry.caption, suffix=".png")
    return ReportSection(
        id=id,
        anchor=stem,
        title=f"{entry.title} ({entry.artefact})",
        world="Drawings",
        question="",
        claims=(),
        scale="Drawn from this code; there are no runs behind it.",
        command=f"gatel0rd reproduce {id}",
        blocks=[Block(entry.artefact, picture=picture)],
    )
