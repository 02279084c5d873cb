"""What several tasks say together: sections with aggregates over tasks, where there are enough tasks and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatel0rd.paper.aggregates import Estimate, estimate, interquartile_mean, normalize, probability_of_improvement
from gatel0rd.paper.bootstrap import FEWEST_SEEDS
from gatel0rd.paper.plan import plan_run
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.records import Line
from gatel0rd.paper.report import figures, tables
from gatel0rd.paper.report.build import save_picture
from gatel0rd.paper.report.judge import share_words
from gatel0rd.paper.report.page import Block, ReportSection
from gatel0rd.paper.report.select import Answer
from gatel0rd.tables import Table
from gatel0rd.worlds.experiments import Question
from gatel0rd.worlds.metrics import Curve, CurveMean, FinalValue, FramesToSuccess, Metric, short_name

FEWEST_TASKS = 3
"""With fewer tasks there is nothing to aggregate."""
OURS = "gatel0rd"
WORLD_MODELS = (OURS, "lstm", "gru", "elman")
"""The networks that a task of prediction has to compare."""
AGENTS = (OURS, "lstm")
TITLE = "All tasks together"
METHOD = (
    "Interquartile means leave out the best and the worst quarter of all runs. Intervals (95 %) come from seeds that "
    "are resampled for every task on its own. The probability of improvement is that of a run of GateL0RD having a "
    "better score than a run of the other network on a task chosen at random; ties count half."
)


@dataclass(frozen=True)
class Task:
    """What networks reach in one task, at one scale.

    Attributes:
        title: what is asked.
        scale: seeds and share of the paper's scale, in words.
        lines: network -> its records.
        metric: what is compared.
    """

    title: str
    scale: str
    lines: Mapping[str, Line]
    metric: Metric

    def scores(self, network: str, metric: Metric | None = None) -> list[float]:
        """The number of every seed."""
        return self.lines[network].read(metric or self.metric)


def build_overall(answers: Sequence[Answer], directory: Path) -> list[ReportSection]:
    """A section for agents and one for prediction errors, per preset; those that have enough tasks and seeds."""
    sections = []
    for preset in dict.fromkeys(answer.scale.preset for answer in answers):
        own = [answer for answer in answers if answer.scale.preset == preset]
        agents, predictions = agent_tasks(own), prediction_tasks(own)
        if len(agents) >= FEWEST_TASKS:
            sections.append(agent_section(agents, preset, directory))
        if len(predictions) >= FEWEST_TASKS:
            sections.append(prediction_section(predictions, preset, directory))
    return sections


def prediction_tasks(answers: Sequence[Answer]) -> list[Task]:
    """Every error that a table of an experiment shows, at the largest scale at which all networks have enough seeds.

    The same training at another length, or asked about by another experiment, is no further task.
    """
    tasks: dict[tuple[str, Metric], Task] = {}
    for answer in answers:
        if answer.experiment.unit != "epochs":
            continue
        lines = first_lines(answer.lines)
        values = [value for view in answer.experiment.views if view.kind == "final_table" for value in view.values]
        for value in dict.fromkeys(values):
            if not all(name in lines and has_enough(lines[name], value) for name in WORLD_MODELS):
                continue
            known = (paper_group(answer.experiment, lines[OURS].name), value)
            title = f"{answer.experiment.scenario.title}: {answer.experiment.title}, {value.words}"
            chosen = {name: lines[name] for name in WORLD_MODELS}
            tasks.setdefault(known, Task(title, describe_seeds(chosen), chosen, value))
    return list(tasks.values())


def agent_tasks(answers: Sequence[Answer]) -> list[Task]:
    """Success in every environment in which agents were trained, at the largest scale with enough seeds."""
    tasks: dict[str, Task] = {}
    for answer in answers:
        if answer.experiment.unit != "frames" or not answer.experiment.scenario.of_paper:
            continue
        environment = answer.records[0].run["environment"]
        lines, metric = {line.name: line for line in answer.lines}, FinalValue(environment, "success")
        if not all(name in lines and has_enough(lines[name], metric) for name in AGENTS):
            continue
        shown = {name: line for name, line in lines.items() if not line.dashed}
        tasks.setdefault(environment, Task(short_name(environment), describe_seeds(shown), shown, metric))
    return list(tasks.values())


def first_lines(lines: Sequence[Line]) -> dict[str, Line]:
    """Cell -> its first line that is no dashed variant."""
    found: dict[str, Line] = {}
    for line in lines:
        if not line.dashed:
            found.setdefault(line.cell, line)
    return found


def has_enough(line: Line, metric: Metric) -> bool:
    return len(line.read(metric)) >= FEWEST_SEEDS


def describe_seeds(lines: Mapping[str, Line]) -> str:
    """Seeds and share of the paper's scale, in words."""
    counts = sorted({len(line.records) for line in lines.values()})
    seeds = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return f"{seeds} seeds, {share_words([record for line in lines.values() for record in line.records])}"


def paper_group(experiment: Question, name: str) -> str:
    """What tells the training of a variant from others, whatever its length."""
    variant = next(variant for variant in experiment.variants if variant.name == name)
    return plan_run(experiment, variant, seed=0, profile=PROFILES["paper"], preset="text").group


def agent_section(tasks: Sequence[Task], preset: str, directory: Path) -> ReportSection:
    """How agents do over all environments: in the end, on the way there, and how much experience they need."""
    learning = CurveMean(Curve("success"))
    networks = [
        name for name in common_networks(tasks) if all(has_enough(task.lines[name], learning) for task in tasks)
    ]
    after = {name: [task.scores(name) for task in tasks] for name in networks}
    course = {name: [task.scores(name, learning) for task in tasks] for name in networks}
    labels = {name: tasks[0].lines[name].label for name in networks}
    return build_section(
        id=f"overall/agents-{preset}",
        title=f"Agents over {len(tasks)} environments",
        question="Which memory succeeds more often, and with less experience, over all environments?",
        blocks=[
            Block("Success after training", table=aggregate_table(after, labels)),
            Block("Success over the whole of training (experience)", table=aggregate_table(course, labels)),
            profile_block(
                {"after training": after, "over the whole of training": course},
                labels,
                directory / f"overall-agents-{preset}",
                xlabel="success rate τ",
            ),
            Block("Frames until 95 % of the episodes succeed", table=experience_table(tasks)),
            Block("The tasks", table=tasks_table(tasks)),
        ],
        tasks=tasks,
        preset=preset,
        note="A run that never comes to 95 % counts as later than its end (censored) and is not dropped. Networks "
        f"with fewer than {FEWEST_SEEDS} seeds in an environment have no aggregate.",
    )


def prediction_section(tasks: Sequence[Task], preset: str, directory: Path) -> ReportSection:
    """Prediction errors of all tasks, on one scale."""
    errors = {name: [task.scores(name) for task in tasks] for name in WORLD_MODELS}
    scores = normalize(errors)
    labels = {name: label_without_setting(tasks[0].lines[name].label) for name in WORLD_MODELS}
    return build_section(
        id=f"overall/prediction-{preset}",
        title=f"Prediction errors over {len(tasks)} tasks",
        question="Which network predicts best over all tasks?",
        blocks=[
            Block("Normalised prediction errors", table=aggregate_table(scores, labels)),
            profile_block(
                {"normalised errors": scores}, labels, directory / f"overall-prediction-{preset}", xlabel="score τ"
            ),
            Block("The tasks", table=tasks_table(tasks)),
        ],
        tasks=tasks,
        preset=preset,
        note="Errors are normalised task by task: 1 is the lowest mean of a network, 0 the highest; single "
        "runs may lie outside.",
    )


def common_networks(tasks: Sequence[Task]) -> list[str]:
    """Networks that all tasks have, in the order of the first."""
    return [name for name in tasks[0].lines if all(name in task.lines for task in tasks)]


def label_without_setting(label: str) -> str:
    """A network's label in one task names its λ there, which differs between tasks."""
    return label.partition(",")[0]


def build_section(
    *, id: str, title: str, question: str, blocks: list[Block], tasks: Sequence[Task], preset: str, note: str
) -> ReportSection:
    return ReportSection(
        id=id,
        anchor=id.replace("/", "-"),
        title=title,
        question=question,
        claims=(),
        scale=f"Preset {preset}; seeds and scale of every task are in the last table. {METHOD}",
        command="gatel0rd report",
        blocks=blocks,
        note=note,
        world=TITLE,
        size="" if preset == "text" else f"preset {preset}",
    )


def format_estimate(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def aggregate_table(scores: Mapping[str, Sequence[Sequence[float]]], labels: Mapping[str, str]) -> Table:
    """Interquartile mean of every network, and the probability that GateL0RD is better."""
    rows = []
    for name, own in scores.items():
        mean = format_estimate(estimate(interquartile_mean, own))
        better = "–" if name == OURS else format_estimate(estimate(probability_of_improvement, scores[OURS], own))
        rows.append([labels[name], mean, better, str(sum(map(len, own)))])
    return Table(["network", "interquartile mean", "probability that GateL0RD is better", "runs"], rows)


def profile_block(
    panels: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], labels: Mapping[str, str], stem: Path, *, xlabel: str
) -> Block:
    """Performance profiles: the share of runs with a score above every threshold."""
    caption = "Share of runs with a score above τ, mean over tasks; shaded: 95 % intervals over resampled seeds"
    return Block(
        "Performance profiles", picture=save_picture(figures.profiles(panels, labels, xlabel=xlabel), stem, caption)
    )


def experience_table(tasks: Sequence[Task]) -> Table:
    """A row per environment and network: how many runs come to 95 % success, and after how many million frames."""
    rows = []
    for task in tasks:
        for line in task.lines.values():
            end = max(record.length for record in line.records)
            rows.append(
                [
                    f"{task.title}, {line.label}",
                    *tables.describe_frames(line.read(FramesToSuccess()), end),
                    f"{end / 1e6:.3g}",
                ]
            )
    return Table(["environment and memory", "runs that come to it", "median, million frames", "trained for"], rows)


def tasks_table(tasks: Sequence[Task]) -> Table:
    """Which tasks there are, what networks reach in them, and at which scale."""
    networks = tasks[0].lines
    rows = []
    for task in tasks:
        summaries = [task.lines[name].summary(task.metric) if name in task.lines else None for name in networks]
        rows.append([task.title, *map(tables.plus_minus, summaries), task.scale])
    return Table(["task", *(label_without_setting(line.label) for line in networks.values()), "scale"], rows)
