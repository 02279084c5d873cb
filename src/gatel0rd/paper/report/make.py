"""From records to a report: ours compared with the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatel0rd import __version__
from gatel0rd.files import FileError, find_files, write_atomically
from gatel0rd.paper.plan import experiments, find
from gatel0rd.paper.records import Record, load_records
from gatel0rd.paper.report.build import build_illustration, build_section, describe_hours, with_small_pictures
from gatel0rd.paper.report.front import verdicts_markdown
from gatel0rd.paper.report.judge import Judged, judge_all
from gatel0rd.paper.report.overall import build_overall
from gatel0rd.paper.report.page import ReportSection, page
from gatel0rd.paper.report.select import Answer, select_answers
from gatel0rd.streams import count_of


@dataclass(frozen=True)
class Report:
    """All that a report says, as a web page or as Markdown."""

    title: str
    introduction: Sequence[str]
    judged: Sequence[Judged]
    sections: Sequence[ReportSection]
    footer: str

    def html(self) -> str:
        return page(self.title, self.introduction, self.judged, self.sections, self.footer)

    def markdown(self) -> str:
        sections = [section.markdown() for section in self.sections]
        verdicts = [verdicts_markdown(self.judged)] if self.judged else []
        return "\n\n".join([f"# {self.title}\n", *self.introduction, *verdicts, *sections])


def make_report(
    sources: Sequence[Path],
    out: Path,
    ids: Sequence[str] = (),
    *,
    illustrated: Sequence[str] = (),
    only_drawn: bool = False,
    title: str = "GateL0RD, reproduced",
    light: Path | None = None,
    on_left_out: Callable[[str], None] = lambda what: None,
    on_section: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write ``out/report.html``, ``out/report.md`` and ``out/figures/``; returns the page's path.

    Args:
        sources: directories with records.
        ids: experiments to show; all for which there are records if empty.
        illustrated: ids of figures that need no records.
        only_drawn: show those and no experiment, if no ids are given.
        light: where to write the page once more with small pictures, so that it can be sent and committed.
        on_left_out: sees what is wrong with every file that cannot be read; the page says it, too.
        on_section: is told how many sections are done, of how many, before each of them.
    """
    damaged: list[str] = []
    records = load_records(sources, damaged)
    guided = [] if ids else sorted(path for source in sources for path in find_files(source, "apex.json"))
    if not records and not guided and not illustrated:
        places = ", ".join(str(source) for source in sources)
        found = f"; {damaged[0]}" if damaged else "; make some with `gatel0rd run`"
        raise ValueError(f"there are no records in {places}{found}")
    without_experiments = illustrated and (only_drawn or not records)
    chosen = [find(id) for id in ids] or ([] if without_experiments else list(experiments().values()))
    answers = select_answers(chosen, records, named=bool(ids))
    if not answers and not guided and not illustrated:
        if ids:
            raise ValueError(f"no record belongs to {', '.join(ids)}; run it first with `gatel0rd run {ids[0]}`")
        raise ValueError("the records hold nothing to compare yet; name an experiment to see it anyway")
    sections = build_overall(answers, out / "figures")
    for done, answer in enumerate(answers):
        on_section(done, len(answers))
        sections.append(build_section(answer, records, out / "figures"))
    judged = unlink_missing(judge_all(chosen, records), sections)
    sections += build_guided(guided, damaged)
    sections += [build_illustration(id, out / "figures") for id in illustrated]
    for what in damaged:
        on_left_out(what)
    shown = {record.path for answer in answers for record in answer.records}
    used = [record for record in records if record.path in shown]
    introduction = [*introduce(answers, used), *(f"Left out: {what}." for what in damaged)]
    report = Report(title, introduction, judged, sections, describe_origin(used))
    return write_report(report, out, light)


def write_report(report: Report, out: Path, light: Path | None) -> Path:
    """Write the report in all its forms; returns the page's path."""
    path = out / "report.html"
    write_atomically(path, report.html())
    if light is not None:
        small = replace(report, sections=[with_small_pictures(section) for section in report.sections])
        write_atomically(light, small.html())
    write_atomically(out / "verdicts.md", verdicts_markdown(report.judged))
    write_atomically(out / "report.md", report.markdown())
    return path


def unlink_missing(judged: Sequence[Judged], sections: Sequence[ReportSection]) -> list[Judged]:
    """Claims without a link where the section that it would lead to is not shown."""
    shown = {section.anchor for section in sections}
    return [claim if claim.anchor in shown else replace(claim, anchor="") for claim in judged]


def build_guided(paths: Sequence[Path], damaged: list[str]) -> list[ReportSection]:
    """A section per comparison of guided with unguided planning; what is wrong with others is added to ``damaged``."""
    if not paths:
        return []
    from gatel0rd.paper import apex

    sections = []
    for path in paths:
        try:
            sections.append(apex.section(path))
        except FileError as error:
            damaged.append(str(error))
    return sections


def introduce(answers: Sequence[Answer], records: Sequence[Record]) -> list[str]:
    """The paragraphs at the top of the page, about the records that it shows."""
    paragraphs = []
    if not answers or any(answer.experiment.scenario.of_paper for answer in answers):
        paragraphs.append(
            "Sparsely Changing Latent States for Prediction and Planning in Partially Observable Domains "
            "(Gumbsch, Butz, Martius, NeurIPS 2021): our runs compared with the paper's numbers."
        )
    if answers:
        shown = len({answer.experiment.id for answer in answers})
        paragraphs.append(
            f"{count_runs(records)}; {count_of(shown, 'experiment')}. Every figure and number below was made "
            "from their records; shaded areas and ± are standard deviations over seeds; of success rates in planning, "
            "standard errors over seeds, or over episodes where there is one seed; ranges are 95 % bootstrap intervals "
            "of means."
        )
    for world in {answer.experiment.scenario.name: answer.experiment.scenario for answer in answers}.values():
        shares = [record.share or 0.0 for record in records if record.run["scenario"] == world.name]
        if max(shares) < world.effect_share:
            paragraphs.append(
                f"The runs of {world.title} are too short for the paper's effect: the networks' errors part only "
                f"after about {world.effect_share:.0%} of its training."
            )
    return paragraphs


def count_runs(records: Sequence[Record]) -> str:
    """How many runs there are, with how many seeds, and how long they took."""
    hours = sum(record.training_hours + record.planning_hours for record in records)
    seeds = len({record.seed for record in records})
    runs = f"{count_of(len(records), 'finished run')} with "
    runs += f"up to {seeds} seeds" if seeds > 1 else "one seed"
    each = " each" if len(records) > 1 else ""
    return f"{runs}, {describe_hours(hours)} of training and planning on one core{each}"


def describe_origin(records: Sequence[Record]) -> str:
    """Which code made the report, and which code and machines made the records."""
    if not records:
        return f"gatel0rd {__version__}."
    commits = sorted({str(record.content["code"]["commit"]) for record in records})
    machines = sorted({record.content["machine"]["processor"] for record in records})
    return f"gatel0rd {__version__}, commit {', '.join(commits)}, on {', '.join(machines)}."
