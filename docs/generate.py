"""Make the parts of the documentation that come from the registry and from records: run with ``make docs``."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatel0rd.cli.console import format_duration
from gatel0rd.files import write_atomically
from gatel0rd.paper.catalogue import catalogue, costs
from gatel0rd.paper.illustrations import ILLUSTRATIONS, meadow_scene, rooms_scene, table_scene
from gatel0rd.paper.plan import experiments, find, paper_experiments, plan_together
from gatel0rd.paper.profiles import PROFILES
from gatel0rd.paper.records import Line, load_records
from gatel0rd.paper.report.front import verdicts_markdown
from gatel0rd.paper.report.judge import Judged, count_words, judge_all
from gatel0rd.paper.report.length_figures import compare_tasks, lengths_table
from gatel0rd.paper.report.make import count_runs, make_report
from gatel0rd.paper.report.numbers import numbers_table
from gatel0rd.paper.report.select import select_answers
from gatel0rd.paper.report.tables import percentage
from gatel0rd.tables import Table
from gatel0rd.worlds import registry
from gatel0rd.worlds.metrics import FinalValue, short_name

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
PICTURES = (
    ("rrc-generalization", "paper-text", 1),
    ("rrc-latents", "paper-text", 0),
    ("billiard-scheduled-sampling", "quick-text", 0),
    ("billiard-latents", "quick-text", 0),
    ("rrc-planning", "paper-text", 0),
    ("shepherd-prediction", "paper-2500-epochs-text", 1),
    ("shepherd-planning", "paper-2500-epochs-text", 0),
    ("shepherd-latents", "paper-2500-epochs-text", 0),
    ("fetch-generalization", "paper-text", 1),
    ("fetch-latents", "paper-text", 0),
    ("minigrid-doorkey", "paper-text", 0),
    ("minigrid-red-blue-doors", "paper-text", 0),
    ("minigrid-zero-shot-doorkey", "paper-text", 0),
)
"""Experiment, profile with preset, and number of the view of each figure that README and guides show."""
HEADLINE = "memory-length.png"
"""The figure of how long networks remember, which the README shows once there are records of it."""

SHOWN_LENGTHS = (50, 1000, 10**6)
"""Steps after which tables of pages show what is remembered."""


def verdicts_in_short(judged: Sequence[Judged]) -> str:
    """How many claims of the paper hold, in one line."""
    where = "[what holds, what does not, with which seeds and at which scale](results/README.md)"
    return f"{count_words(judged)} Each with our numbers: {where}."


def headline() -> str:
    """The figure of how long networks remember, once there are records of it."""
    if not (DOCS / "images" / HEADLINE).exists():
        return ""
    return (
        "## How long is something remembered?\n\n"
        f"![Right answers over the length of the sequences, for every cell](docs/images/{HEADLINE})\n\n"
        "*Trained on 50 steps with noise at every one of them, eight latent dimensions each, and asked up to a million "
        "steps later: mean and range over seeds (`gatel0rd run memory/length --seeds 0-4`).*\n\n"
        f"{memory_table()}\n"
        "A symbol can be held by a state that settles in one of four places, as an LSTM's does. A number cannot: only "
        "what does not change at all keeps it, and a gate that is shut changes nothing. For that it has to be shut for "
        "certain: in one of the five runs gates open 34 times in a million steps, and the number is lost; the other "
        "four keep it. λ was chosen for GateL0RD with the first seed ([Choosing λ](docs/guides/sparsity.md)); the "
        "others share its learning rate and its number of updates, which were not tuned for any network."
    )


def numbers_markdown() -> str:
    """The numbers that the paper prints, with ours."""
    return numbers_table(list(experiments().values()), load_records([RESULTS])).markdown()


def experiments_page() -> str:
    """The registry as a Markdown page."""
    lines = [
        "# Experiments",
        "",
        "Generated from the registry by `make docs`; `gatel0rd list --json FILE` writes the same as data.",
        "",
        "| profile | what |",
        "| --- | --- |",
        *(f"| `{profile.name}` | {profile.description} |" for profile in PROFILES.values()),
        "",
    ]
    for entry in catalogue():
        lines += [
            f"## `{entry['id']}`: {entry['title']}",
            "",
            f"{entry['question']} The paper: {entry['claim']}" if entry["of_paper"] else entry["question"],
            "",
            f"- In the paper: {', '.join(entry['artefacts'])}" if entry["of_paper"] else "- Not in the paper",
            f"- Networks: {', '.join(entry['variants'])}; {seeds_words(entry)}",
            f"- Run: `gatel0rd run {entry['id']}`",
            "",
        ]
    return "\n".join(lines)


def seeds_words(entry: dict[str, Any]) -> str:
    """How many seeds an experiment has."""
    what = "the paper's number of seeds" if entry["of_paper"] else "seeds"
    return f"{what}: {entry['paper_seeds']}"


def scenes(directory: Path) -> None:
    """A picture of every world in the middle of an episode."""
    from PIL import Image

    drawn = {"robot-remote-control": rooms_scene, "billiard-ball": table_scene, "shepherd": meadow_scene}
    for name, draw in drawn.items():
        Image.fromarray(draw()).save(directory / f"{name}.png", optimize=True)


def experts(path: Path) -> None:
    """A contact sheet: every way of moving the object in Fetch Pick&Place, in six moments."""
    import numpy as np
    from PIL import Image

    from gatel0rd.worlds.fetch_pick_and_place.data import KINDS, Play, sample_expert
    from gatel0rd.worlds.fetch_pick_and_place.drawing import draw_arm
    from gatel0rd.worlds.fetch_pick_and_place.simulation import Arm, sample_object

    arm, generator, rows = Arm(), np.random.default_rng(3), []
    for kind in KINDS[:-1]:
        expert = sample_expert(kind, generator, lifts=kind == "grasp")
        arm.reset(sample_object(generator))
        course, row = Play(expert, generator), []
        for t in range(41):
            if t in (0, 6, 12, 16, 22, 40):
                row.append(draw_arm(arm.data, 150, goal=expert.goal))
            arm.step(course.act(arm.observe(), arm.touching()).astype(np.float32))
        rows.append(np.concatenate(row, axis=1))
    Image.fromarray(np.concatenate(rows)).save(path, optimize=True)


def fill(path: Path, name: str, text: str) -> None:
    """Replace what stands between the marks ``<!-- name -->`` and ``<!-- end of name -->`` of a page."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = path.read_text().partition(first)
    _, found, after = rest.partition(last)
    if not found:
        raise ValueError(f"{path} has no marks {first} and {last}")
    write_atomically(path, f"{before}{first}\n{text.strip()}\n{last}{after}")


def costs_table() -> str:
    """What the paper's seeds cost at the paper's scale, from measured times."""
    lines = [
        "| world | runs | core hours | longest run | at 0.04 $ per core hour |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    total, count = 0.0, 0
    runs, planned = plan_together(paper_experiments(), profile="paper", seeds=None)
    for row in costs(runs, profile="paper", planned=planned, out=Path("nowhere")):
        hours = row["core_seconds"] / 3600
        total, count = total + hours, count + row["runs"]
        longest = format_duration(row["longest_seconds"])
        lines.append(f"| {row['world']} | {row['runs']} | {hours:.1f} | {longest} | {0.04 * hours:.0f} $ |")
    lines.append(f"| all | {count} | {total:.1f} | | {0.04 * total:.0f} $ |")
    return "\n".join(lines)


def segmentation_table() -> str:
    """The benchmark of boundaries, from its record."""
    from gatel0rd.recordings.benchmark import results_table

    return results_table(json.loads((RESULTS / "segmentation" / "segmentation.json").read_text())).markdown()


def families_table() -> str:
    """What the defaults find in generated recordings, from the record."""
    from gatel0rd.recordings.family_benchmark import FamilyScore, results_table

    record = json.loads((RESULTS / "segmentation" / "families.json").read_text())
    return results_table([FamilyScore(**row) for row in record]).markdown()


def worlds_table() -> str:
    """What the defaults find in the paper's worlds, from the record, compared with the paper's training."""
    from gatel0rd.recordings.world_benchmark import WorldScore, find_paper_scores, results_table

    record = json.loads((RESULTS / "segmentation" / "worlds.json").read_text())
    paper = find_paper_scores(json.loads((RESULTS / "segmentation" / "segmentation.json").read_text()))
    return results_table([WorldScore(**row) for row in record], paper).markdown()


def public_table() -> str:
    """Segmentation methods on public recordings, from the record."""
    from gatel0rd.recordings.public_benchmark import PublicScore, results_table

    record = json.loads((RESULTS / "segmentation" / "public.json").read_text())
    return results_table([PublicScore(**row) for row in record]).markdown()


def gate_rate_table() -> str:
    """Targets and errors with and without a tuned λ, from their record."""
    lines = [
        "| world | seed | λ tuned: open gates | error | target held: open gates | error |",
        "| --- | ---: " + "| ---: " * 4 + "|",
    ]
    for row in json.loads((RESULTS / "gate-rate" / "gate-rate.json").read_text()):
        lines.append(
            f"| {registry.get(row['world']).title} | {row['seed']} | {row['target']:.2%} | {row['tuned_error']:.3g} "
            f"| {row['reached']:.2%} | {row['held_error']:.3g} |"
        )
    return "\n".join(lines)


def lines_of(id: str) -> Sequence[Line]:
    """The records of an experiment at its largest scale, by variant."""
    return select_answers([find(id)], load_records([RESULTS / "memory"]), named=True)[0].lines


def memory_table() -> str:
    """How long networks remember, from the records."""
    return compare_tasks(lines_of("memory/length"), SHOWN_LENGTHS).markdown()


def agents_table() -> str:
    """How often agents succeed where they were trained and in longer environments, from the records."""
    parts = []
    for id in ("memory/chain", "memory/t-maze"):
        lines = lines_of(id)
        found = [record.content["final"] for line in lines for record in line.records]
        places = list(dict.fromkeys(place for final in found for place in final))
        metrics = [FinalValue(place, "success") for place in places]
        rows = [[line.label, *(percentage(line.summary(metric)) for metric in metrics)] for line in lines]
        parts.append(Table(["memory", *map(short_name, places)], rows).markdown())
    return "\n".join(parts)


def lambda_table() -> str:
    """What λ does, from the records."""
    return lengths_table(lines_of("memory/lambda"), SHOWN_LENGTHS).markdown()


def speed(*, short: bool = False) -> str:
    """The benchmark's ratios, from the files in benchmarks/cpus."""
    sys.path.insert(0, str(DOCS.parent))
    from benchmarks.table import speed_table

    return speed_table(short=short)


def control_table() -> str:
    """Learned planning compared with other memories and PPO, from the outcomes; draws their figure, too."""
    sys.path.insert(0, str(DOCS.parent))
    from benchmarks.control import read_outcomes
    from benchmarks.control_report import compare_methods, plot_returns

    outcomes = read_outcomes()
    plot_returns(outcomes, DOCS / "images" / "control.png")
    return compare_methods(outcomes)


def main() -> None:
    fill(DOCS.parent / "README.md", "speed", speed(short=True))
    fill(DOCS.parent / "benchmarks" / "README.md", "speed", speed())
    fill(DOCS / "guides" / "sparsity.md", "lambda", lambda_table())
    fill(DOCS / "guides" / "agents.md", "memory", agents_table())
    fill(DOCS / "guides" / "planning.md", "control", control_table())
    fill(DOCS / "guides" / "own-data.md", "segmentation", segmentation_table())
    fill(DOCS / "guides" / "own-data.md", "families", families_table())
    fill(DOCS / "guides" / "own-data.md", "worlds", worlds_table())
    fill(DOCS / "guides" / "own-data.md", "public", public_table())
    fill(DOCS / "guides" / "own-data.md", "gate rate", gate_rate_table())
    write_atomically(DOCS / "experiments.md", experiments_page())
    fill(DOCS / "guides" / "cluster.md", "costs", costs_table())
    scenes(DOCS / "images")
    experts(DOCS / "images" / "fetch-experts.png")
    report, fresh = DOCS / "results", DOCS / ".results"
    shutil.rmtree(fresh, ignore_errors=True)
    make_report([RESULTS], fresh, illustrated=list(ILLUSTRATIONS), light=RESULTS / "report.html")
    shutil.rmtree(report, ignore_errors=True)
    fresh.rename(report)
    records = load_records([RESULTS])
    judged = judge_all(list(experiments().values()), records)
    fill(RESULTS / "README.md", "runs", f"There are {count_runs(records)}.")
    fill(DOCS.parent / "README.md", "verdicts", verdicts_in_short(judged))
    fill(RESULTS / "README.md", "verdicts", verdicts_markdown(judged))
    fill(RESULTS / "README.md", "numbers", numbers_markdown())
    for experiment, profile, view in PICTURES:
        picture = report / "figures" / f"{experiment}-{profile}-{view}.png"
        shutil.copy(picture, DOCS / "images" / f"{experiment}.png")
    for picture in sorted((report / "figures").glob("memory-length-*-0.png")):  # the last one is at the largest scale
        shutil.copy(picture, DOCS / "images" / HEADLINE)
    fill(DOCS.parent / "README.md", "headline", headline())


if __name__ == "__main__":
    main()
