"""From records to a report: which records answer which experiment, shown ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatel0rd import __version__
from gatel0rd.files import write_atomically
from gatel0rd.paper.claims import VERDICTS, Finding, judge
from gatel0rd.paper.plan import AnyExperiment, experiments, find, plan_any
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.records import Line, Record, load_records
from gatel0rd.paper.report import figures, tables
from gatel0rd.paper.report.page import RULE, Block, Judged, Picture, Section, page, verdict_counts, verdict_table
from gatel0rd.training.presets import AgentPreset
from gatel0rd.worlds.experiments import AgentExperiment, View

AXES = {
    "error": ("mean squared error", True),
    "reappearance": ("squared error", True),
    "open_rate": ("share of open gates", False),
    "dims_used": ("share of dimensions", False),
    "success": ("success rate", False),
    "return": ("mean reward", False),
}
"""Measure -> label of its axis, and whether the axis is logarithmic."""


@dataclass(frozen=True)
class Answer:
    """The records that answer an experiment at one scale."""

    experiment: AnyExperiment
    profile: str
    preset: AgentPreset
    length: int
    lines: Sequence[Line]

    @property
    def records(self) -> list[Record]:
        return [record for line in self.lines for record in line.records]

    @property
    def size(self) -> float:
        """How large the scale is: the share of the paper's steps, or frames where it does not state them."""
        return max(record.length if record.share is None else record.share for record in self.records)


def is_comparison(experiment: AnyExperiment, lines: Sequence[Line]) -> bool:
    """Whether there is enough to compare: two networks, or two settings of one in a search or an ablation."""
    if any(view.kind in ("grid_table", "layers_table") for view in experiment.views):
        return len(lines) > len({line.label for line in lines})
    if all(view.kind in ("events_table", "dims_table", "gate_table", "gating_table") for view in experiment.views):
        return True  # gates are shown beside chance, or beside the paper's numbers
    if any(variant.dashed for variant in experiment.variants):
        return any(line.dashed for line in lines)
    return len(lines) >= min(2, len(experiment.variants))


def answers(chosen: Sequence[AnyExperiment], records: Sequence[Record], *, named: bool) -> list[Answer]:
    """Every experiment at every scale for which there are records, the largest scale first.

    Experiments that were not asked for by name appear only if there is something to compare.
    """
    found: list[Answer] = []
    for experiment in chosen:
        own = []
        related = [record for record in records if record.run["scenario"] == experiment.scenario.name]
        scales = {(record.run["profile"], record.run["preset"], record.length) for record in related}
        for profile, preset, length in sorted(scales):
            answered = lines_of(experiment, records, profile, preset, length)
            if answered and (named or is_comparison(experiment, answered)):
                own.append(Answer(experiment, profile, preset, length, answered))
        distinct = {id_lines(answer): answer for answer in own}.values()
        found += sorted(distinct, key=lambda answer: -answer.size)
    return found


def lines_of(
    experiment: AnyExperiment, records: Sequence[Record], profile: str, preset: AgentPreset, length: int
) -> list[Line]:
    """The variants of an experiment that have records at one scale."""
    base, comma, _ = profile.partition(",")
    lines = []
    for variant in experiment.variants:
        run = plan_any(
            experiment, variant, seed=0, profile=PROFILES[base], preset=preset, length=length if comma else None
        )
        matching = [record for record in records if record.group == run.group]
        if experiment.plans:  # records of shared runs that were not planned with have nothing to show
            matching = [record for record in matching if "planning" in record.content]
        lines.append(Line(variant.name, variant.label, variant.cell.name, matching, variant.dashed))
    return [line for line in lines if line.records]


def judge_answer(answer: Answer, records: Sequence[Record]) -> list[Judged]:
    """Every claim of an experiment, judged at one scale."""
    experiment = answer.experiment
    scale = (answer.profile, answer.preset, answer.length)

    def find_line(name: str) -> Line | None:
        other, colon, variant = name.rpartition(":")
        lines = lines_of(find(other), records, *scale) if colon else answer.lines
        return next((line for line in lines if line.name == variant), None)

    judged = []
    for claim in experiment.claims:
        finding = judge(claim, find_line, paper_seeds=experiment.seeds)
        seeds = f"{finding.seeds} of {experiment.seeds} seeds"
        where = f"{seeds}, {share_words(answer.records)}" + ("" if answer.preset == "text" else f", {answer.preset}")
        judged.append(
            Judged(
                world=experiment.scenario.title,
                id=experiment.id,
                artefacts=", ".join(experiment.artefacts),
                words=claim.words,
                finding=finding,
                scale=where,
                anchor=anchor_of(answer),
            )
        )
    return judged


def verdicts(chosen: Sequence[AnyExperiment], records: Sequence[Record]) -> list[Judged]:
    """One verdict per claim and preset: at the largest scale with enough seeds, or else at the largest."""
    judged: list[Judged] = []
    for experiment in chosen:
        found = answers([experiment], records, named=True)
        by_preset: dict[str, list[list[Judged]]] = {}
        for answer in found:  # the largest scale first
            by_preset.setdefault(answer.preset, []).append(judge_answer(answer, records))
        for number, claim in enumerate(experiment.claims):
            tested = []
            for scales in by_preset.values():
                rows = [rows[number] for rows in scales]
                order = ["holds", "does not hold"], ["not enough seeds"], ["not run"]
                tested.append(next(row for kinds in order for row in rows if row.finding.verdict in kinds))
            place = ", ".join(experiment.artefacts)
            missing = Finding("not run", "", 0)
            nothing = Judged(experiment.scenario.title, experiment.id, place, claim.words, missing, "–")
            run = [row for row in tested if row.finding.verdict != "not run"]
            judged += run or tested[:1] or [nothing]
    return judged


def anchor_of(answer: Answer) -> str:
    """What names an experiment at one scale, in file names and links."""
    profile = answer.profile.replace(", ", "-").replace(" ", "-")
    return f"{answer.experiment.id.replace('/', '-')}-{profile}-{answer.preset}"


def share_words(records: Sequence[Record]) -> str:
    """How long runs are, as a share of the paper's."""
    shares = sorted({record.share for record in records if record.share is not None})
    if not shares:
        return f"{records[0].length / 1e6:.3g} million frames"
    return " to ".join(f"{100 * value:.3g} %" for value in dict.fromkeys(shares[:1] + shares[-1:])) + " of the steps"


def id_lines(answer: Answer) -> frozenset[Path]:
    """Two scales with the same records are one answer."""
    return frozenset(record.path for record in answer.records)


def make_report(
    sources: Sequence[Path],
    out: Path,
    ids: Sequence[str] = (),
    *,
    illustrated: Sequence[str] = (),
    only_drawn: bool = False,
    title: str = "GateL0RD, reproduced",
    light: Path | None = None,
) -> Path:
    """Write ``out/report.html``, ``out/report.md`` and ``out/figures/``; returns the page's path.

    Args:
        sources: directories with records.
        ids: experiments to show; all for which there are records if empty.
        illustrated: ids of figures that need no records.
        only_drawn: show those and no experiment, if no ids are given.
        light: where to write the page once more with small pictures, so that it can be sent and committed.
    """
    records = load_records(sources)
    guided = [] if ids else sorted(path for source in sources for path in source.rglob("apex.json"))
    if not records and not guided and not illustrated:
        places = ", ".join(str(source) for source in sources)
        raise ValueError(f"there are no records in {places}; make some with `gatel0rd run`")
    everything = list(experiments().values())
    chosen = [find(id) for id in ids] or ([] if illustrated and (only_drawn or not records) else everything)
    found = answers(chosen, records, named=bool(ids))
    if not found and not guided and not illustrated:
        if ids:
            raise ValueError(f"no record belongs to {', '.join(ids)}; run it first with `gatel0rd run {ids[0]}`")
        raise ValueError("the records hold nothing to compare yet; name an experiment to see it anyway")
    judged = verdicts(chosen, records)
    sections = [section(answer, records, out / "figures") for answer in found]
    shown = {part.anchor for part in sections}
    judged = [claim if claim.anchor in shown else replace(claim, anchor="") for claim in judged]
    if guided:
        from gatel0rd.paper import apex

        sections += [apex.section(path) for path in guided]
    sections += [illustration(id, out / "figures") for id in illustrated]
    introduction = [
        "Sparsely Changing Latent States for Prediction and Planning in Partially Observable Domains "
        "(Gumbsch, Butz, Martius, NeurIPS 2021): our runs beside the paper's numbers."
    ]
    if found:
        introduction.append(
            f"{len(records)} finished runs with up to {len({record.seed for record in records})} seeds; {len(chosen)} "
            f"experiments. Every figure and number below was made from their records; "
            "shaded areas and ± are standard deviations over seeds; of success rates in planning, standard errors over "
            "seeds, or over episodes where there is one seed; ranges are 95 % bootstrap intervals of means."
        )
    for scenario in {answer.experiment.scenario.name: answer.experiment.scenario for answer in found}.values():
        shares = [record.share or 0.0 for record in records if record.run["scenario"] == scenario.name]
        if max(shares) < scenario.effect_share:
            introduction.append(
                f"The runs of {scenario.title} are too short for the paper's effect: the networks' errors part only "
                f"after about {scenario.effect_share:.0%} of its training."
            )
    commits = sorted({str(record.content["code"]["commit"]) for record in records})
    machines = sorted({record.content["machine"]["processor"] for record in records})
    footer = f"gatel0rd {__version__}" + (f", commit {', '.join(commits)}, on {', '.join(machines)}." if found else ".")
    path = out / "report.html"
    write_atomically(path, page(title, introduction, judged, sections, footer))
    if light is not None:
        small = [with_small_pictures(part) for part in sections]
        write_atomically(light, page(title, introduction, judged, small, footer))
    write_atomically(out / "verdicts.md", verdicts_markdown(judged))
    parts = [f"# {title}\n", *introduction, verdicts_markdown(judged), *(part.markdown() for part in sections)]
    write_atomically(out / "report.md", "\n\n".join(parts))
    return path


def with_small_pictures(part: Section) -> Section:
    """The same with pictures of few pixels and colours."""

    def lighter(entry: Block) -> Block:
        if entry.picture is None:
            return entry
        return replace(entry, picture=replace(entry.picture, path=figures.shrink(entry.picture.path)))

    return replace(part, blocks=[lighter(entry) for entry in part.blocks])


def illustration(id: str, directory: Path) -> Section:
    """A figure without records, drawn to ``directory``."""
    from gatel0rd.paper.illustrations import ILLUSTRATIONS

    entry = ILLUSTRATIONS[id]
    stem = id.replace("/", "-")
    figure = entry.draw()
    paths = figures.save(figure, directory / stem)
    figures.close(figure)
    picture = Picture(next(path for path in paths if path.suffix == ".png"), entry.caption)
    return Section(
        id=id,
        anchor=stem,
        title=f"{entry.title} ({entry.artefact})",
        question="",
        claims=(),
        scale="Drawn from this code; there are no runs behind it.",
        command=f"gatel0rd reproduce {id}",
        blocks=[Block(entry.artefact, picture=picture)],
    )


def verdicts_markdown(judged: Sequence[Judged]) -> str:
    """How many claims hold, and the table of all that were tested."""
    tested = [claim for claim in judged if claim.finding.verdict != "not run"]
    return f"**{how_many_hold(judged)}** {RULE}\n\n{verdict_table(tested).markdown()}"


def how_many_hold(judged: Sequence[Judged]) -> str:
    """How many claims there are, and how many hold; one that was tested with two presets has two verdicts."""
    claims = len({(claim.id, claim.words) for claim in judged})
    what = f"{claims} claims" if claims == len(judged) else f"{len(judged)} verdicts on {claims} claims"
    counts = ", ".join(f"{count} {VERDICTS[verdict]}" for verdict, count in verdict_counts(judged).items())
    return f"{what}: {counts}."


def section(answer: Answer, records: Sequence[Record], directory: Path) -> Section:
    """An experiment's part of the page; its figures are written to ``directory``."""
    experiment = answer.experiment
    scale = answer.profile if answer.preset == "text" else f"{answer.profile}, {answer.preset}"
    stem = anchor_of(answer)
    cells = dict.fromkeys(line.cell for line in answer.lines)
    known = dict.fromkeys(variant.cell.name for variant in experiment.variants)
    profile, with_length, _ = answer.profile.partition(",")
    command = f"gatel0rd run {experiment.id} --profile {profile}"
    unit = "frames" if isinstance(experiment, AgentExperiment) else "epochs"
    command += f" --{unit} {answer.records[0].length}" if with_length else ""
    command += "" if answer.preset == "text" else f" --preset {answer.preset}"
    command += "" if set(cells) == set(known) else f" --cells {','.join(cells)}"
    return Section(
        id=experiment.id,
        anchor=stem,
        title=f"{experiment.scenario.title}: {experiment.title} ({scale})",
        question=experiment.question,
        claims=judge_answer(answer, records),
        scale=scale_note(answer),
        command=command,
        blocks=[block(view, answer, directory / f"{stem}-{index}") for index, view in enumerate(experiment.views)],
    )


def scale_note(answer: Answer) -> str:
    """Seeds and share of the paper's scale, in words."""
    seeds = sorted({len(line.records) for line in answer.lines})
    count = " to ".join(str(value) for value in dict.fromkeys((seeds[0], seeds[-1])))
    hours = sum(record.content["wall_seconds"] for record in answer.records) / 3600
    note = f"Profile {answer.profile}, preset {answer.preset}: {count} of the paper's {answer.experiment.seeds} seeds, "
    note += f"{share_words(answer.records)} per run"
    note += " (the paper does not state its number)" if answer.records[0].share is None else ""
    note += f"; {hours:.2f} core hours of training in all"
    if not answer.experiment.plans:
        return f"{note}."
    planned = [record.content["planning"] for record in answer.records if "planning" in record.content]
    hours = sum(sum(outcome["seconds"]) for outcome in planned) / 3600
    return f"{note}, {hours:.2f} of planning. All models meet the same starts."


def block(view: View, answer: Answer, stem: Path) -> Block:
    """One figure or table of an experiment."""
    title = f"{view.title} ({view.artefact})"
    lines = answer.lines
    match view.kind:
        case "final_table":
            return Block(title, table=tables.final_table(lines, view.metrics, answer.experiment.paper))
        case "gating_table":
            return Block(title, table=tables.gating_table(lines, answer.experiment.paper))
        case "gate_table":
            return Block(title, table=tables.gate_table(lines, view.metrics))
        case "grid_table":
            return Block(title, table=tables.grid_table(lines, view.metrics[0]))
        case "layers_table":
            return Block(title, table=tables.layers_table(lines, view.metrics[0]))
        case "events_table":
            return Block(title, table=tables.events_table(lines))
        case "planning_table":
            return Block(title, table=tables.planning_table(lines))
        case "dims_table":
            return Block(title, table=tables.dims_table(lines))
        case "agent_table":
            return Block(title, table=tables.agent_table(lines))
        case "curves":
            (metric,) = view.metrics
            ylabel, log = AXES[metric.rpartition(".")[2]]
            figure = figures.curves(lines, metric, title=view.title, ylabel=ylabel, log=log)
        case "loss":
            figure = figures.curves(lines, "train.loss", title=view.title, ylabel="loss")
        case "sampling":
            figure = figures.sampling(lines, title=view.title)
        case "latents":
            figure = figures.latents(lines, view.metrics[0], title=view.title)
        case "planning":
            figure = figures.planning(lines, title=view.title)
        case "trajectory":
            figure = figures.trajectory(lines, view.metrics[0], title=view.title)
    paths = figures.save(figure, stem)
    figures.close(figure)
    caption = f"{view.artefact} of the paper, ours: {', '.join(line.label for line in lines)}"
    return Block(title, picture=Picture(next(path for path in paths if path.suffix == ".svg"), caption))
