"""Commands for worlds: data make, animate, plan, apex."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from gatel0rd.cli.console import console, format_interval, print_written, show_progress
from gatel0rd.cli.options import (
    AT_LEAST_0,
    COUNT,
    LARGEST_SEED,
    FilmFile,
    Limits,
    OutDirectory,
    Preset,
    PresetOption,
    Seed,
    optional,
    parse_numbers,
)
from gatel0rd.streams import count_of, describe_size


def data_make(
    name: Positional[
        Annotated[
            str,
            arg(
                metavar="NAME",
                help="A world, as in rrc, or world/policy for one of its policies; `gatel0rd list` shows the worlds.",
            ),
        ]
    ],
    sequences: Annotated[
        int | None, Limits(1, 100_000_000), optional("N", "Number of sequences per split. The default is the paper's.")
    ] = None,
    preset: PresetOption = "text",
    seed: Seed = 0,
    out: OutDirectory = Path("runs/data"),
) -> dict[str, Any]:
    """Generate the data sets of a world.

    Each policy has a training, a validation and a test split.
    """
    from gatel0rd.paper.catalogue import recipes
    from gatel0rd.worlds import registry
    from gatel0rd.worlds.data import obtain

    written = []
    with show_progress() as progress:
        for recipe in recipes(name, sequences=sequences, preset=preset, seed=seed):
            path = out / f"{recipe.name}.safetensors"
            written.append({"file": str(path), **asdict(recipe)})
            if path.exists():
                console.print(f"{path}: was there already")
                continue
            task = progress.add_task(f"{recipe.policy} {recipe.split}", total=recipe.sequences)
            began = time.monotonic()
            made = obtain(recipe, out, lambda done, _, task=task: progress.update(task, completed=done))  # type: ignore[misc]
            size, seconds = describe_size(path.stat().st_size), time.monotonic() - began
            console.print(f"{path}: {recipe.sequences} sequences, {size}, {seconds:.1f} s")
            description = registry.get(recipe.scenario).describe_data(made)
            if description is not None:
                console.print(f"  {description}")
    return {"data_sets": written}


def animate(
    run: Positional[
        Annotated[Path, arg(metavar="RUN", help="Directory of a finished run, or a model that `gatel0rd zoo` lists.")]
    ],
    sequence: Annotated[
        int | None,
        AT_LEAST_0,
        optional("N", "Number of the sequence in the evaluation set. The default is one with much to see."),
    ] = None,
    out: Annotated[
        Path | None,
        optional(
            "FILE", "GIF or WebP file to write. The default is animation.gif in RUN, or rrc-gatel0rd.gif of the zoo."
        ),
    ] = None,
) -> dict[str, Any]:
    """Film a predicted sequence next to the real one.

    The film shows the model's memory, too, and its gates light up when they open.
    """
    from gatel0rd.models.zoo import default_output
    from gatel0rd.paper.films import animate as make_film

    with show_progress() as progress:
        task = progress.add_task("drawing")
        path = make_film(
            run,
            default_output(run, "animation.gif", named=".gif") if out is None else out,
            sequence=sequence,
            on_frame=lambda done, total: progress.update(task, completed=done, total=total),
        )
    print_written(path)
    return {"file": str(path)}


def plan(
    scenario: Positional[Annotated[str, arg(metavar="WORLD", help="A world with a task, as in rrc or shepherd.")]],
    model: Annotated[
        str, arg(metavar="RUN", help="What to plan with: directory of a finished run, zoo:… or ground-truth.")
    ] = "ground-truth",
    episodes: Annotated[
        int, Limits(1, 1_000_000), arg(metavar="N", help="Number of episodes, which are planned in parallel.")
    ] = 100,
    seed: Annotated[
        int, Limits(0, LARGEST_SEED), arg(metavar="N", help="Random seed of the starts and of the planner.")
    ] = 0,
    preset: Annotated[
        Preset, arg(help="Rules of the true world, from the paper's text or the authors' code; a run brings its own.")
    ] = "text",
    render: FilmFile = None,
    filmed: Annotated[
        int | None, AT_LEAST_0, optional("K", "Number of the episode to film. The default is the first, 0.")
    ] = None,
    only: Annotated[
        str | None, optional("LIST", "Plan only these episodes, as in 3,7 or 0-4; each runs as it would among all.")
    ] = None,
) -> dict[str, Any]:
    """Control a world with iCEM and a model's memory.

    The outcome is how often the planner succeeds.
    """
    from gatel0rd.paper.planning import plan_episodes

    with show_progress() as progress:
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
    median = outcome["median_steps"]
    console.print(
        f"{scenario}, {model}: {outcome['success_rate']:.0%} of {count_of(outcome['episodes'], 'episode')} succeeded "
        f"({format_interval(outcome['confidence'])})"
        + ("" if median is None else f", after {median:.0f} steps (median)")
    )
    console.print(f"{outcome['control_steps_per_second']:.1f} control steps per second, {outcome['seconds']:.0f} s")
    if render is not None:
        console.print(f"wrote {render}")
    return outcome


def apex(
    rounds: Annotated[int, COUNT, arg(metavar="N", help="Number of rounds of planning and learning.")] = 4,
    episodes: Annotated[int, Limits(1, 1_000_000), arg(metavar="N", help="Number of episodes in each round.")] = 16,
    tests: Annotated[
        int,
        Limits(1, 1_000_000),
        arg(metavar="N", help="Number of test episodes, which are planned with and without guidance."),
    ] = 20,
    seed: Seed = 0,
    out: OutDirectory = Path("runs/apex"),
) -> dict[str, Any]:
    """Train a policy that guides the planner of Fetch Pick&Place (APEX).

    The policy learns from planned episodes; tests say whether it helps.
    """
    from gatel0rd.paper.apex import compare

    with show_progress() as progress:
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
            console.print(
                f"{budget} budget, {name}: {found['success']:.0%} ({format_interval(found['confidence'])}), "
                f"{found['simulated_per_control_step']:.0f} simulated steps per control step"
            )
    console.print(f"wrote {out / 'apex.json'} and {out / 'policy.safetensors'}")
    return outcome
