"""Every claim of the paper with its verdict, from the records that answer its experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gatel0rd.paper.bootstrap import FEWEST_SEEDS
from gatel0rd.paper.claims import DECIDED, SINGULAR, VERDICTS, Finding, Verdict, judge
from gatel0rd.paper.plan import find
from gatel0rd.paper.records import Line, Record
from gatel0rd.paper.report.select import Answer, select_answers, select_lines
from gatel0rd.streams import count_of
from gatel0rd.worlds.claims import Of
from gatel0rd.worlds.experiments import Question

TESTED: tuple[Verdict, ...] = (*DECIDED, "not enough seeds", "not enough training")


@dataclass(frozen=True)
class Judged:
    """A claim of the paper with its verdict: one row of the page's first screen.

    Attributes:
        world: where it was seen, in words.
        artefacts: the paper's names of the figures and tables that show it.
        scale: seeds and share of the paper's scale, in words.
        anchor: the section with the details; empty if there is none.
        size: share of the paper's scale, and the preset if it is not the text's.
    """

    world: str
    id: str
    artefacts: str
    words: str
    finding: Finding
    scale: str
    anchor: str = ""
    size: str = ""

    @property
    def short_scale(self) -> str:
        """Seeds and scale in as few words as possible."""
        seeds = count_of(self.finding.seeds, "seed")
        return f"{seeds}, {self.size.replace(' of the steps', '')}" if self.size else seeds


def judge_answer(answer: Answer, records: Sequence[Record]) -> list[Judged]:
    """Every claim of an experiment, judged at one scale."""
    experiment = answer.experiment

    def find_line(number: Of) -> Line | None:
        other = number.experiment
        lines = answer.lines if other is None else select_lines(find(other), records, answer.scale)
        return next((line for line in lines if line.name == number.variant), None)

    judged = []
    for claim in experiment.claims:
        finding = judge(claim, find_line, paper_seeds=experiment.seeds)
        preset = "" if answer.scale.preset == "text" else f", {answer.scale.preset}"
        size = share_words(answer.records) + preset
        judged.append(
            Judged(
                world=experiment.scenario.title,
                id=experiment.id,
                artefacts=", ".join(experiment.artefacts),
                words=claim.words,
                finding=finding,
                scale=f"{finding.seeds} of {experiment.seeds} seeds, {size}" if finding.seeds else size,
                anchor=answer.anchor,
                size=size,
            )
        )
    return judged


def judge_all(chosen: Sequence[Question], records: Sequence[Record]) -> list[Judged]:
    """One verdict per claim and preset: at the largest scale with enough seeds, or else at the largest."""
    judged: list[Judged] = []
    for experiment in chosen:
        by_preset: dict[str, list[list[Judged]]] = {}
        answers = select_answers([experiment], records, named=True)  # the largest scale first
        for answer in sorted(answers, key=lambda answer: answer.scale.preset != "text"):
            by_preset.setdefault(answer.scale.preset, []).append(judge_answer(answer, records))
        for number, claim in enumerate(experiment.claims):
            tested = [prefer([rows[number] for rows in scales], experiment.seeds) for scales in by_preset.values()]
            place = ", ".join(experiment.artefacts)
            missing = Finding("not run", "", 0)
            nothing = Judged(experiment.scenario.title, experiment.id, place, claim.words, missing, "–")
            judged += [row for row in tested if row.finding.verdict in TESTED] or [
                prefer([*tested, nothing], experiment.seeds)
            ]
    return judged


def prefer(rows: Sequence[Judged], paper_seeds: int) -> Judged:
    """The verdict that counts among those at several scales, the largest first, whatever they say.

    That of the largest scale with enough seeds; a scale at which nothing was learned, only if there is no other.
    """
    fewest = min(FEWEST_SEEDS, paper_seeds)

    def lacks(row: Judged) -> tuple[bool, bool, bool]:
        verdict = row.finding.verdict
        return verdict not in TESTED, row.finding.seeds < fewest, verdict == "not enough training"

    return min(rows, key=lacks)


def share_words(records: Sequence[Record]) -> str:
    """How long runs are, as a share of the paper's."""
    shares = sorted({record.share for record in records if record.share is not None})
    if not shares:
        length = records[0].length
        return f"{length / 1e6:.3g} million frames" if records[0].kind == "agent" else count_of(length, "epoch")
    return " to ".join(f"{100 * value:.3g} %" for value in dict.fromkeys(shares[:1] + shares[-1:])) + " of the steps"


def count_verdicts(judged: Sequence[Judged]) -> dict[Verdict, int]:
    """How many claims hold and do not hold, and what the others lack; what none of them lacks is left out."""
    counts = Counter(claim.finding.verdict for claim in judged)
    return {verdict: counts[verdict] for verdict in VERDICTS if verdict in DECIDED or counts[verdict]}


def count_words(judged: Sequence[Judged]) -> str:
    """How many claims there are, and how many hold; one that was tested with two presets has two verdicts."""
    claims = len({(claim.id, claim.words) for claim in judged})
    what = f"{claims} claims" if claims == len(judged) else f"{len(judged)} verdicts on {claims} claims"
    counts = ", ".join(
        f"{count} {(SINGULAR if count == 1 else VERDICTS)[verdict]}{count_marked(judged, verdict)}"
        for verdict, count in count_verdicts(judged).items()
    )
    return f"{what}: {counts}."


def count_marked(judged: Sequence[Judged], verdict: Verdict) -> str:
    """How many of the claims with a verdict Student's t does not confirm, in brackets; nothing if it confirms all."""
    count = sum(claim.finding.verdict == verdict and claim.finding.marked != verdict for claim in judged)
    return f" ({count} of them by the bootstrap alone)" if count else ""
