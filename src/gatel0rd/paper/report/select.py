"""Which records answer which experiment, at which scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatel0rd.paper.plan import plan_run
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.records import Line, Record
from gatel0rd.paper.run import Scale
from gatel0rd.worlds.experiments import Question

SEARCHES = ("grid_table", "layers_table")
"""Views that compare settings of the same network."""
GATE_VIEWS = ("events_table", "dims_table", "gate_table", "gating_table")
"""Views of gates, compared with chance or with the paper's numbers."""


@dataclass(frozen=True)
class Answer:
    """The records that answer an experiment at one scale."""

    experiment: Question
    scale: Scale
    lines: Sequence[Line]

    @property
    def records(self) -> list[Record]:
        return [record for line in self.lines for record in line.records]

    @property
    def size(self) -> float:
        """How large the scale is: the share of the paper's steps, or frames where it does not state them."""
        return max(record.length if record.share is None else record.share for record in self.records)

    @property
    def anchor(self) -> str:
        """What names an experiment at one scale, in file names and links."""
        return f"{self.experiment.id.replace('/', '-')}-{self.scale.slug}"


def select_answers(chosen: Sequence[Question], records: Sequence[Record], *, named: bool) -> list[Answer]:
    """Every experiment at every scale for which there are records, the largest scale first, and the text's rules first.

    Experiments that were not asked for by name appear only if there is something to compare.
    """
    found: list[Answer] = []
    for experiment in chosen:
        related = [record for record in records if record.run["scenario"] == experiment.scenario.name]
        own = []
        for scale in sorted({record.scale for record in related}, key=lambda scale: (scale.words, scale.preset)):
            lines = select_lines(experiment, records, scale)
            if lines and (named or is_comparison(experiment, lines)):
                own.append(Answer(experiment, scale, lines))
        # two scales with the same records are one answer
        distinct = {frozenset(record.path for record in answer.records): answer for answer in own}
        found += sorted(distinct.values(), key=lambda answer: (-answer.size, answer.scale.preset != "text"))
    return found


def select_lines(experiment: Question, records: Sequence[Record], scale: Scale) -> list[Line]:
    """The variants of an experiment that have records at one scale."""
    if scale.preset not in experiment.presets or scale.profile not in PROFILES:
        return []
    lines = []
    for variant in experiment.variants:
        profile = PROFILES[scale.profile]
        group = plan_run(experiment, variant, seed=0, profile=profile, preset=scale.preset, length=scale.length).group
        matching = [record for record in records if record.group == group]
        if experiment.plans:  # records of shared runs that were not planned with have nothing to show
            matching = [record for record in matching if "planning" in record.content]
        lines.append(Line(variant.name, variant.label, variant.cell.name, matching, variant.dashed))
    return [line for line in lines if line.records]


def is_comparison(experiment: Question, lines: Sequence[Line]) -> bool:
    """Whether there is enough to compare: two networks, or two settings of one in a search or an ablation."""
    if any(view.kind in SEARCHES for view in experiment.views):
        return len(lines) > len({line.label for line in lines})
    if all(view.kind in GATE_VIEWS for view in experiment.views):
        return True
    if any(variant.dashed for variant in experiment.variants):
        return any(line.dashed for line in lines)
    return len(lines) >= min(2, len(experiment.variants))
