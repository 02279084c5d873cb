"""The numbers that the paper prints, compared with ours."""

from __future__ import annotations

from collections.abc import Sequence

from gatel0rd.paper.records import Record
from gatel0rd.paper.report.judge import share_words
from gatel0rd.paper.report.select import select_answers
from gatel0rd.paper.report.tables import plus_minus, published
from gatel0rd.tables import Table
from gatel0rd.worlds.experiments import Question
from gatel0rd.worlds.metrics import Metric

TABLES = ("gating_table", "final_table")
"""Views that show the paper's numbers."""


def numbers_table(chosen: Sequence[Question], records: Sequence[Record]) -> Table:
    """Every number of the paper's tables with ours, at each scale for which there are records."""
    rows = []
    for experiment in chosen:
        for answer in select_answers([experiment], records, named=True) if experiment.paper else ():
            preset = "" if answer.scale.preset == "text" else f", {answer.scale.preset}"
            for (name, metric), value in experiment.paper.items():
                line = next((line for line in answer.lines if line.name == name), None)
                ours = None if line is None else line.summary(metric)
                if line is not None and ours is not None:
                    size = share_words(line.records) + preset
                    place, what = name_artefact(experiment, metric), f"{line.label}, {metric.words}"
                    rows.append([place, what, published(value), plus_minus(ours), size])
    return Table(["in the paper", "network and measure", "the paper's", "ours", "scale"], rows, prose=True)


def name_artefact(experiment: Question, metric: Metric) -> str:
    """The table of the paper in which a number stands."""
    shown = [view for view in experiment.views if view.kind in TABLES]
    return next((view.artefact for view in shown if metric in view.values or view.kind == "gating_table"), "text")
