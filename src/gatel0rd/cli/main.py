"""The command line: parses, calls, prints. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from gatel0rd.paper.executors.config import ExecutorConfig

Preset = Literal["text", "reference"]
AgentPreset = Literal["text", "reference", "tuned"]

console = Console(soft_wrap=not sys.stdout.isatty())

EXTRAS = {
    "gymnasium": "envs",
    "PIL": "envs",
    "panda3d": "billiard",
    "mujoco": "fetch",
    "gymnasium_robotics": "fetch",
    "pygame": "human",
    "matplotlib": "report",
    "minigrid": "rl",
    "envpool": "fast",
    "ray": "ray",
    "submitit": "slurm",
    "pyarrow": "own",
    "minari": "own",
    "h5py": "own",
    "ruptures": "segment",
    "starlette": "explore",
    "uvicorn": "explore",
    "plotly": "explore",
    "onnx": "onnx",
}
"""Module -> the extra that brings it."""

SeedList = Annotated[str, arg(metavar="SEEDS", help="Random seeds, as in 0-4 or 0,3,7.")]
CellList = Annotated[
    str | None,
    arg(metavar="A,B", help="Only these cells or variants, as in gatel0rd,gru or gatel0rd-0.01. All if not given."),
]
OutDirectory = Annotated[Path, arg(metavar="DIR", help="Where runs, data and reports go.")]
DataSource = Annotated[str, arg(metavar="DATA", help=".npz, .csv, .parquet, or minari:NAME.")]
SequenceColumn = Annotated[str | None, arg(metavar="COLUMN", help="Names the sequence of a row; found by its name.")]
TimeColumn = Annotated[str | None, arg(metavar="COLUMN", help="Orders rows; found by its name.")]


def list_experiments(
    json: Annotated[Path | None, arg(metavar="FILE", help="Write the list to this file as JSON.")] = None,
) -> None:
    """Show every experiment: its id, the paper's figure or table, and what it costs."""
    from gatel0rd.files import write_json
    from gatel0rd.paper.catalogue import catalogue
    from gatel0rd.paper.illustrations import ILLUSTRATIONS

    entries = catalogue()
    if json is not None:
        write_json(json, entries)
        console.print(f"wrote {len(entries)} experiments to {json}")
        return
    table = Table(
        Column("id", no_wrap=True),
        Column("in the paper"),
        Column("runs", justify="right"),
        *(Column(profile, justify="right", no_wrap=True) for profile in ("smoke", "quick", "paper")),
        title="Experiments, and the core time of one seed",
        box=box.SIMPLE_HEAD,
    )
    for entry in entries:
        costs = (duration(entry["core_seconds_per_seed"][profile]) for profile in ("smoke", "quick", "paper"))
        table.add_row(entry["id"], ", ".join(entry["artefacts"]), str(len(entry["variants"])), *costs)
    console.print(table)
    console.print("Run one with `gatel0rd run ID --profile quick`, then `gatel0rd report`.")
    drawn = ", ".join(f"{entry.id} ({entry.artefact})" for entry in ILLUSTRATIONS.values())
    console.print(f"Figures that need no runs, for `gatel0rd reproduce`: {drawn}")


def run(
    id: Positional[Annotated[str, arg(metavar="ID", help="Experiment id, see `gatel0rd list`.")]],
    profile: Annotated[str, arg(metavar="P", help="How large: smoke, demo, quick or paper.")] = "quick",
    seeds: SeedList = "0-1",
    cells: CellList = None,
    preset: Annotated[
        AgentPreset,
        arg(help="The paper's text, or the authors' code where the two differ; tuned: for agents, fewer frames."),
    ] = "text",
    epochs: Annotated[int | None, arg(metavar="N", help="Train this many epochs instead of the profile's.")] = None,
    frames: Annotated[int | None, arg(metavar="N", help="Train agents on this many frames instead.")] = None,
    workers: Annotated[int | None, arg(metavar="N", help="Runs side by side; one per core if not given.")] = None,
    out: OutDirectory = Path("runs"),
    resume: Annotated[bool, arg(help="Go on with runs that were interrupted.")] = False,
) -> None:
    """Run an experiment. Finished runs are kept and never repeated; `gatel0rd report` shows the results."""
    from gatel0rd.paper.executors.config import ExecutorConfig
    from gatel0rd.paper.plan import find, plan

    experiment = find(id)
    runs = plan(
        experiment,
        profile=profile,
        seeds=parse_numbers(seeds),
        cells=None if cells is None else cells.split(","),
        preset=preset,
        epochs=epochs,
        frames=frames,
    )
    executor = ExecutorConfig(workers=workers)
    failed = train(runs, out, executor=executor, resume=resume, planning=profile if experiment.plans else None)
    if failed:
        raise SystemExit(f"gatel0rd: {failed} runs failed; the others are finished")
    console.print(f"Look at the results: gatel0rd report {id} --out {out}")


def reproduce(
    ids: Positional[
        Annotated[tuple[str, ...], arg(metavar="IDS", help="Experiments, see `gatel0rd list`; or give --all.")]
    ] = (),
    all: Annotated[bool, arg(help="Every experiment of the paper.")] = False,
    profile: Annotated[str, arg(metavar="P", help="How large: smoke, demo, quick or paper.")] = "quick",
    seeds: SeedList = "0-1",
    preset: Annotated[Preset, arg(help="The paper's text, or the authors' code where the two differ.")] = "text",
    workers: Annotated[
        int | None, arg(metavar="N", help="Runs side by side; one per core, or what a cluster has room for.")
    ] = None,
    executor: Annotated[
        Literal["local", "ray", "slurm"], arg(help="This machine, a Ray cluster, or SLURM (through submitit).")
    ] = "local",
    address: Annotated[
        str | None, arg(metavar="A", help="Of the Ray cluster; one is started here if not given.")
    ] = None,
    slurm: Annotated[
        str | None, arg(metavar="K=V,…", help="Options of SLURM jobs, as in partition=cpu,account=me.")
    ] = None,
    dry_run: Annotated[bool, arg(help="Only say what would be run, and what it costs.")] = False,
    out: OutDirectory = Path("runs"),
) -> None:
    """Make figures and tables of the paper: do the runs that are missing, go on with interrupted ones, then report.

    Interrupted in whatever way (Ctrl-C, kill, reboot), the same command goes on where it stopped.
    """
    from gatel0rd.paper.catalogue import costs
    from gatel0rd.paper.executors.config import ExecutorConfig
    from gatel0rd.paper.illustrations import ILLUSTRATIONS
    from gatel0rd.paper.plan import experiments, find, plan_together
    from gatel0rd.paper.profiles import PROFILES
    from gatel0rd.paper.report.answers import make_report

    if all == bool(ids):
        raise ValueError("expected the ids of experiments, or --all; `gatel0rd list` shows them")
    if profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    drawn = [id for id in (ILLUSTRATIONS if all else ids) if id in ILLUSTRATIONS]
    chosen = list(experiments().values()) if all else [find(id) for id in ids if id not in ILLUSTRATIONS]
    runs, planned = plan_together(chosen, profile=profile, seeds=parse_numbers(seeds), preset=preset)
    if dry_run:
        show_costs(costs(runs, profile=profile, planned=planned, out=out))
        return
    where = ExecutorConfig(kind=executor, workers=workers, address=address, slurm=parse_options(slurm))
    failed = train(runs, out, executor=where, resume=True, planning=profile, planned=planned) if runs else 0
    path = make_report([out], out, [entry.id for entry in chosen], illustrated=drawn, only_drawn=True)
    console.print(f"Open the report in a browser: {path}")
    if failed:
        raise SystemExit(
            f"gatel0rd: {failed} runs failed, the report is made of the others; the same command tries again"
        )


def report(
    ids: Positional[
        Annotated[tuple[str, ...], arg(metavar="IDS", help="Experiments to show; all if none is given.")]
    ] = (),
    out: OutDirectory = Path("runs"),
    records: Annotated[
        tuple[Path, ...], arg(metavar="DIR", help="Where to look for records; the --out directory if not given.")
    ] = (),
) -> None:
    """Make report.html, report.md and figures from the records of finished runs, ours beside the paper's."""
    from gatel0rd.paper.report.answers import make_report

    console.print(f"wrote {make_report(records or (out,), out, ids)}")


def data_make(
    name: Positional[
        Annotated[
            str,
            arg(metavar="NAME", help="Scenario (rrc, billiard, shepherd, fetch, fetch-diverse) or scenario/policy."),
        ]
    ],
    sequences: Annotated[int | None, arg(metavar="N", help="Sequences per split; the paper's if not given.")] = None,
    preset: Annotated[Preset, arg(help="The paper's text, or the authors' code where the two differ.")] = "text",
    seed: int = 0,
    out: OutDirectory = Path("runs/data"),
) -> None:
    """Generate the data sets of a scenario: training, validation and test split of each policy."""
    from gatel0rd.paper.catalogue import recipes
    from gatel0rd.worlds.data import obtain

    with step_progress() as progress:
        for recipe in recipes(name, sequences=sequences, preset=preset, seed=seed):
            path = out / f"{recipe.name}.safetensors"
            if path.exists():
                console.print(f"{path}: was there already")
                continue
            task = progress.add_task(f"{recipe.policy} {recipe.split}", total=recipe.sequences)
            began = time.monotonic()
            made = obtain(recipe, out, lambda done, _, task=task: progress.update(task, completed=done))  # type: ignore[misc]
            size, seconds = path.stat().st_size / 1e6, time.monotonic() - began
            console.print(f"{path}: {recipe.sequences} sequences, {size:.1f} MB, {seconds:.1f} s")
            if "rejected" in made.labels and made.labels["rejected"].any():
                from gatel0rd.worlds.fetch_pick_and_place.data import reject_rates

                reasons = ", ".join(f"{name} {rate:.1%}" for name, rate in reject_rates(made.labels).items())
                console.print(f"  {recipe.sequences / made.labels['tried'].sum():.1%} of the episodes fit; {reasons}")


def measure(
    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN", help="Directories of finished runs.")]],
) -> None:
    """Measure finished runs again, when this version measures more than the one that trained them."""
    from gatel0rd.paper.execute import measure_again

    if not runs:
        raise ValueError("no runs were given; expected directories of finished runs, as in runs/rrc/*")
    for directory in runs:
        console.print(f"updated {measure_again(directory)}")


def animate(
    run: Positional[Annotated[Path, arg(metavar="RUN", help="Directory of a finished run, as runs/rrc/gatel0rd-….")]],
    sequence: Annotated[
        int | None, arg(metavar="N", help="Sequence of the evaluation set; one with much to see if not given.")
    ] = None,
    out: Annotated[Path | None, arg(metavar="FILE", help="GIF or WebP; animation.gif in RUN if not given.")] = None,
) -> None:
    """Film a predicted sequence beside the real one, with the model's memory and its gates lighting up."""
    from gatel0rd.paper.films import animate as make

    with step_progress() as progress:
        task = progress.add_task("drawing")
        path = make(
            run,
            run / "animation.gif" if out is None else out,
            sequence=sequence,
            on_frame=lambda done, total: progress.update(task, completed=done, total=total),
        )
    console.print(f"wrote {path}, {path.stat().st_size / 1e6:.1f} MB")


def plan(
    scenario: Positional[Annotated[str, arg(metavar="SCENARIO", help="rrc, shepherd or fetch.")]],
    model: Annotated[str, arg(metavar="RUN", help="Directory of a finished run, or ground-truth.")] = "ground-truth",
    episodes: Annotated[int, arg(metavar="N", help="Episodes, planned side by side.")] = 100,
    seed: Annotated[int, arg(metavar="S", help="Of the starts and of the planner.")] = 0,
    preset: Annotated[Preset, arg(help="Rules of the true world; a run brings its own.")] = "text",
    render: Annotated[Path | None, arg(metavar="FILE", help="Film an episode, GIF or WebP.")] = None,
    filmed: Annotated[int | None, arg(metavar="K", help="Which one to film, counted from 0; else the first.")] = None,
    only: Annotated[
        str | None, arg(metavar="LIST", help="Only these episodes, as in 3,7 or 0-4; they run alike.")
    ] = None,
    json: Annotated[Path | None, arg(metavar="FILE", help="Write the outcome to this file as JSON.")] = None,
) -> None:
    """Control a world with iCEM and a model's memory, and say how often it succeeds."""
    from gatel0rd.files import check_writable, write_json
    from gatel0rd.paper.planning import plan_episodes

    if json is not None:
        check_writable(json)
    with step_progress() as progress:
        task = progress.add_task("control steps")
        outcome = plan_episodes(
            scenario,
            model,
            episodes=episodes,
            seed=seed,
            preset=preset,
            film=render,
            filmed=filmed,
            only=None if only is None else parse_numbers(only, "episodes"),
            on_step=lambda done, total: progress.update(task, completed=done, total=total),
        )
    low, high = outcome["confidence"]
    median = outcome["median_steps"]
    console.print(
        f"{scenario}, {model}: {outcome['success_rate']:.0%} of {outcome['episodes']} episodes succeeded "
        f"(95 % interval {low:.0%} to {high:.0%})" + ("" if median is None else f", after {median:.0f} steps (median)")
    )
    console.print(f"{outcome['control_steps_per_second']:.1f} control steps per second, {outcome['seconds']:.0f} s")
    if render is not None:
        console.print(f"wrote {render}")
    if json is not None:
        write_json(json, outcome)
        console.print(f"wrote {json}")


def apex(
    rounds: Annotated[int, arg(metavar="N", help="Rounds of planning and learning.")] = 4,
    episodes: Annotated[int, arg(metavar="N", help="Episodes in each round.")] = 16,
    tests: Annotated[int, arg(metavar="N", help="Episodes to compare with, planned with and without guidance.")] = 20,
    seed: int = 0,
    out: OutDirectory = Path("runs/apex"),
) -> None:
    """Train a policy from planned episodes of Fetch Pick&Place, and see whether it helps the planner (APEX)."""
    from gatel0rd.paper.apex import compare

    with step_progress() as progress:
        tasks: dict[str, Any] = {}

        def on_step(what: str, done: int, total: int) -> None:
            tasks[what] = tasks.get(what) or progress.add_task(f"{what}, control steps", total=total)
            progress.update(tasks[what], completed=done)

        outcome = compare(
            out,
            seed=seed,
            rounds=rounds,
            episodes=episodes,
            tests=tests,
            on_step=on_step,
            on_round=lambda done: console.print(
                f"planner {done.planner:.0%}, policy alone {done.policy:.0%}, {done.examples} examples, "
                f"{done.simulated} simulated steps"
            ),
        )
    console.print(f"policy alone: {outcome['policy alone']['success']:.0%} of {tests} episodes succeeded")
    for budget, pair in outcome["planned"].items():
        for name, found in pair.items():
            low, high = found["confidence"]
            console.print(
                f"{budget} budget, {name}: {found['success']:.0%} (95 % interval {low:.0%} to {high:.0%}), "
                f"{found['simulated_per_control_step']:.0f} simulated steps per control step"
            )
    console.print(f"wrote {out / 'apex.json'} and {out / 'policy.safetensors'}")


def rl_train(
    environment: Positional[
        Annotated[str, arg(metavar="ENV", help="As for gymnasium.make, for example MiniGrid-DoorKey-8x8-v0.")]
    ],
    cell: Annotated[
        Literal["gatel0rd", "lstm", "gru", "elman", "none"], arg(help="The agent's memory; none: it has no memory.")
    ] = "gatel0rd",
    frames: Annotated[int, arg(metavar="N", help="Frames to train on.")] = 1_000_000,
    seed: int = 0,
    hidden_size: Annotated[int, arg(metavar="H", help="Size of the memory.")] = 64,
    learning_rate: Annotated[float, arg(metavar="R", help="Of Adam.")] = 0.001,
    sparsity: Annotated[float, arg(metavar="L", help="Weight of open gates in the loss, for GateL0RD.")] = 0.01,
    preset: Annotated[
        AgentPreset,
        arg(help="A controlled setting; the authors' code with its confounds; or controlled, for few frames."),
    ] = "text",
    backend: Annotated[
        Literal["auto", "gymnasium", "envpool"], arg(help="Who runs the environments; auto: EnvPool for MiniGrid.")
    ] = "auto",
    out: Annotated[Path | None, arg(metavar="DIR", help="The run's directory; one in runs/rl if not given.")] = None,
    resume: Annotated[bool, arg(help="Go on with a run that was interrupted.")] = False,
) -> None:
    """Train an agent with a memory by recurrent PPO, in any environment with discrete or continuous actions."""
    from gatel0rd.paper.display import LiveDisplay
    from gatel0rd.paper.execute_agent import execute_agent, plan_single

    run = plan_single(
        environment,
        cell,
        frames=frames,
        seed=seed,
        hidden_size=hidden_size,
        learning_rate=learning_rate,
        sparsity_weight=sparsity,
        preset=preset,
        backend=backend,
    )
    directory = out or Path("runs/rl") / f"{environment.replace('/', '-')}-{cell}-seed{seed}"
    with LiveDisplay(1, console) as display:
        display.started(0, run, directory)
        execute_agent(
            run,
            directory=directory,
            resume=resume,
            backend=backend,
            on_update=lambda metrics: display.progressed(0, metrics),
        )
        display.ended(0, None)
    film = " --render agent.gif" if environment.startswith("MiniGrid-") else ""
    console.print(f"Try it out: gatel0rd rl eval {directory}{film}")


def rl_eval(
    run: Positional[Annotated[Path, arg(metavar="RUN", help="Directory of a finished run of an agent.")]],
    env: Annotated[
        str | None, arg(metavar="ENV", help="Where to try it out; where it was trained if not given.")
    ] = None,
    episodes: Annotated[int, arg(metavar="N", help="Episodes.")] = 100,
    seed: Annotated[int, arg(metavar="S", help="Of environments and actions.")] = 0,
    greedy: Annotated[bool, arg(help="Take the most probable action instead of drawing one.")] = False,
    backend: Annotated[
        Literal["auto", "gymnasium", "envpool"], arg(help="Who runs the environments; auto: EnvPool for MiniGrid.")
    ] = "auto",
    render: Annotated[Path | None, arg(metavar="FILE", help="Film an episode, GIF or WebP.")] = None,
    json: Annotated[Path | None, arg(metavar="FILE", help="Write the outcome to this file as JSON.")] = None,
) -> None:
    """Try out a trained agent, also where it was never trained, and film it with its memory and gates."""
    from gatel0rd.files import check_writable, write_json
    from gatel0rd.paper.execute_agent import evaluate_agent

    if json is not None:
        check_writable(json)
    with step_progress() as progress:
        task, filming = progress.add_task("episodes", total=episodes), None
        if render is not None:
            filming = progress.add_task("frames of the film", total=None)
        outcome = evaluate_agent(
            run,
            environment=env,
            episodes=episodes,
            seed=seed,
            greedy=greedy,
            backend=backend,
            film=render,
            on_episode=lambda ended: progress.update(task, completed=ended),
            on_frame=lambda done, total: progress.update(filming, completed=done, total=total),
        )
    low, high = outcome["confidence"]
    console.print(
        f"{outcome['environment']}, {outcome['memory']}: {outcome['success']:.0%} of {episodes} episodes ended with a "
        f"reward (95 % interval {low:.0%} to {high:.0%}); mean reward {outcome['return']:.3g}, "
        f"mean length {outcome['length']:.0f}"
    )
    if render is not None:
        console.print(f"wrote {render}")
    if json is not None:
        write_json(json, outcome)
        console.print(f"wrote {json}")


def demo(out: OutDirectory = Path("runs/demo"), workers: int | None = None) -> None:
    """Train GateL0RD and a GRU on Robot Remote Control and make a report, in some minutes on two cores."""
    import matplotlib  # noqa: F401  # if it is missing, say so before training

    from gatel0rd.paper.executors.config import ExecutorConfig
    from gatel0rd.paper.plan import find, plan
    from gatel0rd.paper.report.answers import make_report

    runs = plan(find("rrc/generalization"), profile="demo", seeds=[0], cells=["gatel0rd", "gru"])
    if train(runs, out, executor=ExecutorConfig(workers=workers), resume=True):
        raise SystemExit("gatel0rd: the demo's runs failed; the same command tries again")
    shown = ("rrc/generalization", "rrc/gating", "rrc/latents", "rrc/loss")
    path = make_report([out], out, shown, title="GateL0RD demo: Robot Remote Control")
    console.print(f"Open the report in a browser: {path}")


def info(json: Annotated[Path | None, arg(metavar="FILE", help="Write it to this file as JSON.")] = None) -> None:
    """Say which version and which engine is active, and why."""
    import torch

    from gatel0rd import __version__
    from gatel0rd.engine import status
    from gatel0rd.files import write_json

    found = {"gatel0rd": __version__, "torch": torch.__version__, "threads": torch.get_num_threads(), **status()}
    if json is not None:
        write_json(json, found)
    for name, value in found.items():
        console.print(f"{name}: {', '.join(value) if isinstance(value, list) else value}", highlight=False)


def fit(
    data: Positional[DataSource],
    out: Annotated[
        Path, arg(metavar="MODEL", help="Directory for the model; an interrupted fit goes on there.")
    ] = Path("model"),
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
    observations: Annotated[
        str | None, arg(metavar="A,B", help="Columns to predict; all that are nothing else if not given.")
    ] = None,
    actions: Annotated[str | None, arg(metavar="A,B", help="Columns that are given, not predicted.")] = None,
    ignore: Annotated[str | None, arg(metavar="A,B", help="Columns to leave out.")] = None,
    cell: Annotated[Literal["gatel0rd", "lstm", "gru", "elman"], arg(help="The memory.")] = "gatel0rd",
    hidden_size: Annotated[int, arg(metavar="H", help="Size of the memory.")] = 8,
    gate_rate: Annotated[float, arg(metavar="R", help="Share of gates that shall be open; λ follows from it.")] = 0.05,
    events: Annotated[
        float | None, arg(metavar="E", help="Events per sequence, instead of a share: steps with an open gate.")
    ] = None,
    sparsity: Annotated[float | None, arg(metavar="L", help="A fixed λ instead of a target.")] = None,
    window: Annotated[int, arg(metavar="N", help="Longest stretch that is predicted in one piece.")] = 50,
    rounds: Annotated[int, arg(metavar="N", help="At most so many rounds of 50 gradient steps.")] = 240,
    learning_rate: Annotated[float, arg(metavar="R", help="Of Adam.")] = 0.002,
    seed: int = 0,
) -> None:
    """Fit a model with a readable memory to recordings of your own, after a preview of what was understood."""
    from gatel0rd.models.io import save_fitted
    from gatel0rd.recordings.config import FitConfig
    from gatel0rd.recordings.fit import fit as make
    from gatel0rd.recordings.reading import Layout, read_recordings

    config = FitConfig(
        cell=cell,
        hidden_size=hidden_size,
        gate_rate=None if sparsity is not None else gate_rate,
        events=None if sparsity is not None else events,
        sparsity_weight=0.001 if sparsity is None else sparsity,
        window=window,
        rounds=rounds,
        learning_rate=learning_rate,
        seed=seed,
    )
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; expected the name of a directory for the model")
    if sparsity is not None and events is not None:
        raise ValueError("both --events and --sparsity were given; hold the events, or fix λ")
    roles = {"observations": observations, "actions": actions, "ignored": ignore}
    columns = {
        role: tuple(name.strip() for name in (text or "").split(",") if name.strip()) for role, text in roles.items()
    }
    recordings = read_recordings(data, Layout(sequence=sequence, time=time, **columns))
    for line in recordings.preview():
        console.print(escape(line), highlight=False)
    with step_progress() as progress:
        task = progress.add_task("fitting", total=rounds)

        def on_round(metrics: dict[str, Any]) -> None:
            gates = (
                f", gates {metrics['open_rate']:.1%}, λ {metrics['sparsity_weight']:.1e}"
                if "open_rate" in metrics
                else ""
            )
            text = f"round {metrics['round']}: error {metrics['error']:.3g}{gates}"
            progress.update(task, completed=metrics["round"], description=text)
            if not console.is_terminal and metrics["round"] % 20 == 0:
                console.print(text, highlight=False)

        fitted = make(recordings, config, out, on_round=on_round)
    wide = any(note.startswith("read as wide") for note in recordings.notes)
    info = {**fitted.info, "layout": {"sequence": sequence, "time": time, "wide": wide}}
    save_fitted(out, replace(fitted, info=info))
    console.print(
        f"validation error {info['error']:.3g} of the variance, {info['persistence_error']:.3g} if nothing changed; "
        f"best of {info['rounds']} rounds, {duration(info['seconds'])}",
        highlight=False,
    )
    if "open_rate" in info:
        console.print(
            f"{info['open_rate']:.1%} of the gates are open, {info['events']:.1f} steps of a sequence have an open one",
            highlight=False,
        )
    if not info["held"]:
        console.print(
            "the gates are not as open as was asked for; give it more --rounds, or another target", highlight=False
        )
    following = f"gatel0rd segment {out} {data}, " if "open_rate" in info else ""
    console.print(f"wrote {out}; next: {following}gatel0rd explore {out} {data}")


def segment(
    model: Positional[Annotated[Path, arg(metavar="MODEL", help="Directory that `gatel0rd fit` left.")]],
    data: Positional[DataSource],
    out: Annotated[Path, arg(metavar="FILE", help="CSV, or JSON with segments, by its ending.")] = Path("events.csv"),
    apart: Annotated[int, arg(metavar="N", help="Events within so many steps of a boundary belong to it.")] = 3,
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
) -> None:
    """Find the events of sequences: when the model's memory changes, in which dimension, and how strongly."""
    from gatel0rd.files import check_writable
    from gatel0rd.models.io import load_fitted
    from gatel0rd.recordings.segmenter import segment as find_segments
    from gatel0rd.recordings.segmenter import write_events

    check_writable(out)
    fitted = load_fitted(model)
    found = find_segments(fitted, recordings_for(fitted, data, sequence=sequence, time=time), apart=apart)
    write_events(found, out)
    events, cuts = sum(len(entry.events) for entry in found), sum(len(entry.boundaries) for entry in found)
    console.print(f"{events} events in {len(found)} sequences, {cuts} boundaries; wrote {out}")
    for entry in found[:5]:
        shown = ", ".join(map(str, entry.boundaries[:12])) + (", …" if len(entry.boundaries) > 12 else "")
        console.print(escape(f"  {entry.name}: {shown or 'nothing happens'}"), highlight=False)


def recordings_for(fitted: Any, data: str, *, sequence: str | None = None, time: str | None = None) -> Any:
    """Recordings with the columns that a model wants, read as those were that it was fitted to."""
    from gatel0rd.recordings.reading import Layout, read_recordings

    kept = fitted.info.get("layout", {})
    names = ((), ()) if kept.get("wide") else (fitted.observation_names, fitted.action_names)
    table = not data.startswith("minari:") and not data.endswith(".npz")
    layout = Layout(
        sequence=sequence or (kept.get("sequence") if table else None),
        time=time or (kept.get("time") if table else None),
        observations=names[0],
        actions=names[1],
    )
    recordings = read_recordings(data, layout, keep_constant=True)
    return recordings.aligned(fitted.observation_names, fitted.action_names, "the model")


def segment_benchmark(
    runs: Positional[Annotated[Path, arg(metavar="RUNS", help="Directory with finished runs of the paper's worlds.")]],
    out: OutDirectory = Path("runs/segmentation"),
) -> None:
    """Compare boundaries with exact labels of the paper's worlds: GateL0RD, GRU, surprise, PELT, BinSeg."""
    from gatel0rd.recordings.benchmark import benchmark

    _, table = benchmark(runs, out, lambda name: console.print(name, highlight=False))
    console.print(table.markdown(), highlight=False)
    console.print(f"wrote {out / 'segmentation.json'} and {out / 'segmentation.md'}")


def explore(
    models: Positional[
        Annotated[tuple[Path, ...], arg(metavar="MODEL", help="Directories of models; several are shown side by side.")]
    ],
    data: Annotated[
        str | None, arg(metavar="DATA", help="Recordings; a model of the paper's worlds brings its own.")
    ] = None,
    port: Annotated[int, arg(metavar="N", help="Of the page, on this machine only.")] = 8765,
    browser: Annotated[bool, arg(help="Open the page in a browser.")] = True,
    save: Annotated[
        Path | None, arg(metavar="FILE", help="Write one HTML file instead, without live inference.")
    ] = None,
    sequence: SequenceColumn = None,
    time: TimeColumn = None,
) -> None:
    """Look at sequences, predictions, memory, gates and events in a browser, and drive the paper's worlds live."""
    from gatel0rd.explore import save_page, serve
    from gatel0rd.files import check_writable
    from gatel0rd.models.io import load_fitted

    *given, last = [str(path) for path in models] or [""]
    if data is None and given and not Path(last).is_dir():
        models, data = models[:-1], last
    if not models:
        raise ValueError("no model was given; expected directories that `gatel0rd fit` or `gatel0rd run` left")
    loaded = [(path.name or str(path), load_fitted(path)) for path in models]
    recordings = None if data is None else recordings_for(loaded[0][1], data, sequence=sequence, time=time)
    if save is not None:
        check_writable(save)
        path = save_page(loaded, recordings, save)
        console.print(f"wrote {path}, {path.stat().st_size / 1e6:.1f} MB")
        return
    serve(
        loaded,
        recordings,
        port=port,
        open_browser=browser,
        on_start=lambda address: console.print(f"open {address} in a browser; Ctrl-C ends it", highlight=False),
    )


def export(
    model: Positional[Annotated[Path, arg(metavar="MODEL", help="Directory that `gatel0rd fit` or `run` left.")]],
    to: Annotated[Literal["onnx"], arg(help="Format.")] = "onnx",
    out: Annotated[Path | None, arg(metavar="DIR", help="Where files go; MODEL/onnx if not given.")] = None,
) -> None:
    """Write a model for other software: a single step, its first state, and whole sequences."""
    from gatel0rd.integrations.onnx import export_onnx
    from gatel0rd.models.io import load_fitted

    for path in export_onnx(load_fitted(model), model / to if out is None else out):
        console.print(f"wrote {path}")


def train(
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
        executor: who does the work.
        planning: a profile, to plan as many episodes with each run as it says.
        planned: names of the runs with which is planned; all if not given.
    """
    from gatel0rd.paper.display import LiveDisplay
    from gatel0rd.paper.executors.local import Work, remaining_seconds, run_all
    from gatel0rd.paper.profiles import PROFILES

    profile = None if planning is None else PROFILES[planning]
    work = Work(out=out, resume=resume, planning=profile, planned=planned)
    seconds = {index: remaining_seconds(entry, work) for index, entry in enumerate(runs)}
    missing = [entry for index, entry in enumerate(runs) if seconds[index] > 0]
    total, finished = sum(seconds.values()), len(runs) - len(missing)
    time_left = f"about {total / 3600:.1f} core hours on {executor.kind}"
    if executor.kind == "local":
        count = min(executor.workers or os.cpu_count() or 1, max(1, len(missing)))
        time_left = f"about {duration(total / count)} on {count} process{'es' if count > 1 else ''}"
    console.print(f"{len(runs)} runs, {finished} of them finished before; {time_left}, in {out}")
    if not missing:
        return 0
    with LiveDisplay(len(missing), console) as display:
        failures = run_all(missing, work, executor=executor, display=display)
    return len(failures)


def step_progress() -> Any:
    """A bar with time left, for work that is counted in steps."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def parse_numbers(text: str, what: str = "seeds") -> list[int]:
    """0-4 and 0,3,7 and mixtures of both, without repetition."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(last or first) < int(first):
            raise ValueError(f"{what} are {text!r}; expected numbers and ranges, as in 0-4 or 0,3,7")
        numbers += range(int(first), int(last if dash else first) + 1)
    return list(dict.fromkeys(numbers))


def parse_options(text: str | None) -> dict[str, str]:
    """a=1,b=2 as a dictionary."""
    parts = [part.partition("=") for part in (text or "").split(",") if part]
    wrong = [key for key, equals, value in parts if not (key and equals and value)]
    if wrong:
        raise ValueError(f"the options are {text!r}; expected names and values, as in partition=cpu,account=me")
    return {key.strip(): value.strip() for key, _, value in parts}


def show_costs(rows: Sequence[dict[str, Any]]) -> None:
    """What a plan would take, world by world."""
    table = Table(
        Column("world"),
        *(Column(name, justify="right") for name in ("runs", "finished", "core hours left", "longest run")),
        title="What would be run",
        box=box.SIMPLE_HEAD,
    )
    for row in rows:
        hours, longest = f"{row['core_seconds'] / 3600:.1f}", duration(row["longest_seconds"])
        table.add_row(row["world"], str(row["runs"]), str(row["finished"]), hours, longest)
    console.print(table)
    total = sum(row["core_seconds"] for row in rows)
    least = max((row["longest_seconds"] for row in rows), default=0.0)
    times = ", ".join(f"{duration(max(total / cores, least))} on {cores} cores" for cores in (2, 16, 128))
    console.print(f"{total / 3600:.1f} core hours in all: about {times}, from measured times on one AMD EPYC core")


def duration(seconds: float) -> str:
    """A time span for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``gatel0rd``."""
    description = "GateL0RD: recurrent networks whose latent state changes sparsely, and the paper behind them."
    app, data, rl = (tyro.extras.SubcommandApp() for _ in range(3))
    data.command(name="make")(data_make)
    rl.command(name="train")(rl_train)
    rl.command(name="eval")(rl_eval)
    app.command(name="list")(list_experiments)
    app.command(run)
    app.command(reproduce)
    app.command(report)
    app.command(data, name="data", help="Data sets of the paper's scenarios.")
    app.command(measure)
    app.command(animate)
    app.command(plan)
    app.command(apex)
    app.command(rl, name="rl", help="Agents with a memory: train them, try them out.")
    app.command(fit)
    app.command(segment)
    app.command(name="segment-benchmark")(segment_benchmark)
    app.command(explore)
    app.command(export)
    app.command(demo)
    app.command(info)
    try:
        app.cli(prog="gatel0rd", description=description, args=arguments)
    except (ValueError, OSError) as error:
        console.print(f"[red]gatel0rd:[/] {escape(str(error))}", highlight=False)
        raise SystemExit(2) from error
    except ModuleNotFoundError as error:
        advice = f"{error.name} is missing; pip install 'gatel0rd[{EXTRAS.get(error.name or '', 'demo')}]'"
        advice = str(error) if "pip install" in str(error) else advice
        console.print(f"[red]gatel0rd:[/] {escape(advice)}", highlight=False)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        console.print(
            "interrupted; `gatel0rd run` and `rl train` go on from their last checkpoints with --resume, "
            "`reproduce`, `fit` and `demo` with the same command, data from their last part"
        )
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
