"""Commands for the paper's experiments: list, run, reproduce, report, measure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich import box
from rich.table import Column, Table
from tyro.conf import Positional, arg

from gatel0rd.cli.command import CommandError
from gatel0rd.cli.console import console, format_core_time, format_duration, show_progress
from gatel0rd.cli.options import (
    COUNT,
    AgentPreset,
    CellList,
    OutDirectory,
    PresetOption,
    Profile,
    SeedList,
    optional,
    parse_names,
    parse_options,
    parse_seeds,
)
from gatel0rd.streams import count_of

if TYPE_CHECKING:
    from gatel0rd.paper.executors.config import ExecutorConfig


def list_experiments() -> list[dict[str, Any]]:
    """List the experiments: ids, figures of the paper, and costs."""
    from gatel0rd.paper.catalogue import catalogue
    from gatel0rd.paper.illustrations import ILLUSTRATIONS
    from gatel0rd.paper.report.front import shorten_artefacts
    from gatel0rd.worlds import names

    entries = catalogue()
    table = Table(
        Column("id", no_wrap=True),
        Column("in the paper"),
        Column("runs", justify="right"),
        *(Column(profile, justify="right", no_wrap=True) for profile in ("smoke", "quick", "paper")),
        title="Experiments, and the core time of one seed",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # 80 columns have to do
    )
    for entry in entries:
        costs = (format_duration(entry["core_seconds_per_seed"][profile]) for profile in ("smoke", "quick", "paper"))
        table.add_row(
            entry["id"], shorten_artefacts(", ".join(entry["artefacts"])), str(len(entry["variants"])), *costs
        )
    console.print(table)
    console.print("Run one with `gatel0rd run ID --profile quick`, then `gatel0rd report`.")
    console.print(f"Worlds: {', '.join(names())}")
    drawn = ", ".join(f"{entry.id} ({entry.artefact})" for entry in ILLUSTRATIONS.values())
    console.print(f"Figures that need no runs, for `gatel0rd reproduce`: {drawn}")
    return entries


def run(
    id: Positional[Annotated[str, arg(metavar="ID", help="Id of the experiment; `gatel0rd list` shows them all.")]],
    profile: Profile = "quick",
    seeds: SeedList = "0-1",
    cells: CellList = None,
    preset: Annotated[
        AgentPreset,
        arg(
            help="The paper's text, or the authors' code where the two differ; tuned is for agents, and needs fewer "
            "frames."
        ),
    ] = "text",
    epochs: Annotated[int | None, COUNT, optional("N", "Train for N epochs, whatever the profile says.")] = None,
    frames: Annotated[int | None, COUNT, optional("N", "Train agents on N frames, whatever the profile says.")] = None,
    workers: Annotated[
        int | None, COUNT, optional("N", "Number of parallel runs. The default is one per core.")
    ] = None,
    out: OutDirectory = Path("runs"),
    resume: Annotated[bool, arg(help="Resume runs that were interrupted.")] = False,
    dry_run: Annotated[bool, arg(help="Only say what would be run and what it would cost.")] = False,
) -> dict[str, Any]:
    """Run an experiment; `gatel0rd report` shows the results.

    Finished runs are kept and never repeated.
    """
    from gatel0rd.paper.catalogue import costs
    from gatel0rd.paper.executors.config import ExecutorConfig
    from gatel0rd.paper.plan import find, plan

    experiment = find(id)
    runs = plan(
        experiment,
        profile=profile,
        seeds=parse_seeds(seeds),
        cells=None if cells is None else parse_names(cells),
        preset=preset,
        epochs=epochs,
        frames=frames,
    )
    if dry_run:
        planned = frozenset(entry.directory_name for entry in runs if experiment.plans)
        return show_costs(costs(runs, profile=profile, planned=planned, out=out))
    executor = ExecutorConfig(workers=workers)
    failed = execute_runs(runs, out, executor=executor, resume=resume, planning=profile if experiment.plans else None)
    outcome = describe_outcome(runs, out, failed)
    if failed:
        raise CommandError(f"{count_of(failed, 'run')} failed; the others are finished", outcome)
    console.print(f"Look at the results: gatel0rd report {id} --out {out}")
    return outcome


def reproduce(
    ids: Positional[
        Annotated[tuple[str, ...], optional("IDS", "Ids of experiments (`gatel0rd list` shows them); or give --all.")]
    ] = (),
    all: Annotated[bool, arg(help="Reproduce every experiment of the paper.")] = False,
    profile: Profile = "quick",
    seeds: SeedList = "0-1",
    preset: PresetOption = "text",
    workers: Annotated[
        int | None,
        COUNT,
        optional("N", "Number of parallel runs. The default is one per core, or what the cluster has room for."),
    ] = None,
    executor: Annotated[
        Literal["local", "ray", "slurm"], arg(help="Run on this machine, on a Ray cluster, or on SLURM (by submitit).")
    ] = "local",
    address: Annotated[
        str | None, optional("A", "Address of the Ray cluster. By default one is started on this machine.")
    ] = None,
    slurm: Annotated[
        str | None, optional("K=V,…", "Options of the SLURM jobs, as in partition=cpu,account=me.")
    ] = None,
    dry_run: Annotated[bool, arg(help="Only say what would be run and what it would cost.")] = False,
    out: OutDirectory = Path("runs"),
) -> dict[str, Any]:
    """Make figures and tables of the paper.

    Missing runs are done and interrupted ones resumed, then the report is made.

    However it is interrupted (Ctrl-C, kill, reboot), the same command resumes.
    """
    from gatel0rd.paper.catalogue import costs
    from gatel0rd.paper.executors.config import ExecutorConfig
    from gatel0rd.paper.illustrations import ILLUSTRATIONS
    from gatel0rd.paper.plan import find, paper_experiments, plan_together
    from gatel0rd.paper.profiles import PROFILES
    from gatel0rd.paper.report.make import make_report

    if all == bool(ids):
        raise ValueError("expected the ids of experiments, or --all; `gatel0rd list` shows them")
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    drawn = [id for id in (ILLUSTRATIONS if all else ids) if id in ILLUSTRATIONS]
    chosen = paper_experiments() if all else [find(id) for id in ids if id not in ILLUSTRATIONS]
    runs, planned = plan_together(chosen, profile=profile, seeds=parse_seeds(seeds), preset=preset)
    where = ExecutorConfig(kind=executor, workers=workers, address=address, slurm=parse_options(slurm))
    if dry_run:
        return show_costs(costs(runs, profile=profile, planned=planned, out=out))
    failed = execute_runs(runs, out, executor=where, resume=True, planning=profile, planned=planned) if runs else 0
    outcome = {**describe_outcome(runs, out, failed), "left_out": []}
    try:
        path = make_report(
            [out],
            out,
            [entry.id for entry in chosen],
            illustrated=drawn,
            only_drawn=True,
            on_left_out=outcome["left_out"].append,
        )
    except ValueError as error:
        if not failed:
            raise
        raise CommandError(f"{count_of(failed, 'run')} failed, and there is no report: {error}", outcome) from error
    print_left_out(outcome["left_out"])
    console.print(f"Open the report in a browser: {path}")
    outcome["report"] = str(path)
    if failed:
        raise CommandError(
            f"{count_of(failed, 'run')} failed, and the report is made of the others; the same command tries "
            "them again",
            outcome,
        )
    return outcome


def report(
    ids: Positional[
        Annotated[tuple[str, ...], optional("IDS", "Ids of the experiments to show. The default is all.")]
    ] = (),
    out: OutDirectory = Path("runs"),
    records: Annotated[
        tuple[Path, ...],
        optional("DIR", "Directories in which to look for records. The default is the --out directory."),
    ] = (),
) -> dict[str, Any]:
    """Make a report from finished runs, compared with the paper's results.

    It consists of report.html, report.md and figures.
    """
    from gatel0rd.files import FileError
    from gatel0rd.paper.report.make import make_report

    for directory in records:
        if not directory.is_dir():
            raise FileError(f"{directory} is not a directory; expected one with records, as runs/ or results/")
    left_out: list[str] = []
    with show_progress() as progress:
        task = progress.add_task("sections", total=None)
        path = make_report(
            records or (out,),
            out,
            ids,
            on_left_out=left_out.append,
            on_section=lambda done, total: progress.update(task, completed=done, total=total),
        )
    print_left_out(left_out)
    console.print(f"wrote {path}")
    return {"report": str(path), "left_out": left_out}


def print_left_out(left_out: Sequence[str]) -> None:
    """Say which files a report could not read."""
    for what in left_out:
        console.print(f"left out: {what}")


def migrate(
    records: Positional[Annotated[Path, arg(metavar="DIR", help="Directory with records, for example results.")]],
    to: Annotated[
        Path | None, optional("DIR", "Where to write the records. By default they are changed in place.")
    ] = None,
    measure: Annotated[
        bool, arg(help="Add measures that older versions did not know, if the run's model is there.")
    ] = False,
) -> dict[str, Any]:
    """Bring records of older versions up to date.

    Reports and runs of this version then find them. No number changes.
    """
    from gatel0rd.paper.migrate import migrate as migrate_records

    changed, count = migrate_records(records, to, measure=measure)
    console.print(f"{changed} of {count} records were {'brought up to date' if to is None else f'written to {to}'}")
    return {"changed": changed, "records": count}


def measure(
    runs: Positional[Annotated[tuple[Path, ...], optional("RUN", "Directories of finished runs.")]],
) -> dict[str, Any]:
    """Measure finished runs again with this version.

    This brings records up to date that an older version measured.
    """
    from gatel0rd.paper.execute import measure_again

    if not runs:
        raise ValueError("no runs were given; expected directories of finished runs, as in runs/rrc/*")
    updated = []
    for directory in runs:
        updated.append(str(measure_again(directory)))
        console.print(f"updated {updated[-1]}")
    return {"updated": updated}


def execute_runs(
    runs: Sequence[Any],
    out: Path,
    *,
    executor: ExecutorConfig,
    resume: bool,
    planning: str | None = None,
    planned: frozenset[str] | None = None,
) -> int:
    """Say what is to come, and execute the runs with a live display; returns how many of them failed.

    Args:
        executor: what does the work.
        planning: a profile, which says how many episodes are planned with each run.
        planned: names of the runs whose models are planned with; all if not given.
    """
    from gatel0rd.paper.display import LiveDisplay
    from gatel0rd.paper.executors.base import Work
    from gatel0rd.paper.executors.coordinator import run_all
    from gatel0rd.paper.profiles import PROFILES

    profile = None if planning is None else PROFILES[planning]
    work = Work(out=out, resume=resume, planning=profile, planned=planned)
    seconds = {index: work.remaining_seconds(entry) for index, entry in enumerate(runs)}
    missing = [entry for index, entry in enumerate(runs) if seconds[index] > 0]
    total, finished = sum(seconds.values()), len(runs) - len(missing)
    time_left = f"about {format_core_time(total)} on {executor.kind}"
    if executor.kind == "local":
        count = min(executor.workers or os.cpu_count() or 1, max(1, len(missing)))
        time_left = f"about {format_duration(total / count)} on {count} process{'es' if count > 1 else ''}"
    console.print(f"{len(runs)} runs, {finished} of them finished before; {time_left}, in {out}")
    if not missing:
        return 0
    with LiveDisplay(len(missing), console) as display:
        failures = run_all(missing, work, executor=executor, display=display)
    return len(failures)


def describe_outcome(runs: Sequence[Any], out: Path, failed: int) -> dict[str, Any]:
    """How many runs there are and where, for ``--json``."""
    return {"runs": len(runs), "failed": failed, "directories": [str(out / entry.directory_name) for entry in runs]}


def show_costs(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Show what a plan would take, world by world; returns the same for ``--json``."""
    table = Table(
        Column("world"),
        *(Column(name, justify="right") for name in ("runs", "finished", "core time left", "longest run")),
        title="What would be run",
        box=box.SIMPLE_HEAD,
    )
    for row in rows:
        times = (format_duration(row[name]) for name in ("core_seconds", "longest_seconds"))
        table.add_row(row["world"], str(row["runs"]), str(row["finished"]), *times)
    console.print(table)
    total = sum(row["core_seconds"] for row in rows)
    least = max((row["longest_seconds"] for row in rows), default=0.0)
    waits = ", ".join(f"{format_duration(max(total / cores, least))} on {cores} cores" for cores in (2, 16, 128))
    console.print(f"{format_core_time(total)} in all: about {waits}, from measured times on one AMD EPYC core")
    return {"costs": list(rows)}
