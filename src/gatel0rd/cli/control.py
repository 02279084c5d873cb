"""The command that learns to control an environment: control."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from gatel0rd.cli.agents import format_return
from gatel0rd.cli.console import console, format_duration, print_lines, print_written, show_progress
from gatel0rd.cli.options import AT_LEAST_0, COUNT, FilmFile, HiddenSize, Seed, file_name_of, optional, parse_numbers
from gatel0rd.streams import count_of

if TYPE_CHECKING:
    from gatel0rd.planning.experience import RecordedEpisode
    from gatel0rd.planning.learn_config import LearnConfig
    from gatel0rd.planning.learning import Progress

FIRST_FIT = 15
"""How many times a quarter of the later fits' gradient steps the first one takes."""


def control(
    environment: Positional[
        Annotated[
            str,
            arg(
                metavar="ENV",
                help="Id of a Gymnasium environment, for example Pendulum-v1, or MODULE:ID with the module that "
                "registers it, in the working directory or on Python's path.",
            ),
        ]
    ],
    hide: Annotated[
        str | None, optional("LIST", "Columns of the observation to hide, as in 2 or 2,3. The default is none.")
    ] = None,
    cell: Annotated[
        Literal["gatel0rd", "gru", "lstm", "elman", "none"],
        arg(help="The memory of the learned model; with none it has no memory."),
    ] = "gatel0rd",
    steps: Annotated[
        int,
        COUNT,
        arg(metavar="N", help="Budget of environment steps, without the test episodes; a larger one continues."),
    ] = 6000,
    random_steps: Annotated[int, COUNT, arg(metavar="N", help="Number of these steps with random actions.")] = 800,
    models: Annotated[int, COUNT, arg(metavar="N", help="Number of models that vote, with different seeds.")] = 1,
    caution: Annotated[
        float, AT_LEAST_0, arg(metavar="W", help="Weight of the models' disagreement about a plan in its cost.")
    ] = 0.0,
    horizon: Annotated[int, COUNT, arg(metavar="N", help="Number of steps to plan ahead.")] = 20,
    hidden_size: HiddenSize = 16,
    sparsity: Annotated[
        float, AT_LEAST_0, arg(metavar="L", help="Weight of open gates, relative to what is predicted, for GateL0RD.")
    ] = 0.0001,
    updates: Annotated[
        int, COUNT, arg(metavar="N", help="Gradient steps of a fit; the first one takes 3.75 times as many.")
    ] = 800,
    tests: Annotated[int, AT_LEAST_0, arg(metavar="N", help="Number of test episodes at the end.")] = 10,
    seed: Seed = 0,
    out: Annotated[
        Path | None, optional("DIR", "Directory to learn in. The default is one in runs/control, named after ENV.")
    ] = None,
    film: FilmFile = None,
) -> dict[str, Any]:
    """Learn to control an environment by planning with a memory.

    A world model learns from random, then planned actions. The same call resumes.
    """
    from gatel0rd.planning.dynamics import DynamicsConfig
    from gatel0rd.planning.learn_config import LearnConfig
    from gatel0rd.planning.learning import RECORD_FILE, learn

    columns = [] if hide is None else parse_numbers(hide, "columns to hide")
    config = LearnConfig(
        steps=steps,
        random_steps=random_steps,
        tests=tests,
        caution=caution,
        seed=seed,
        search=replace(LearnConfig().search, horizon=horizon),
        dynamics=DynamicsConfig(
            cell=cell,
            hidden_size=hidden_size,
            models=models,
            sparsity=sparsity,
            updates=updates,
            first_updates=FIRST_FIT * updates // 4,
        ),
    )
    hidden = "" if hide is None else "-without-" + "-".join(map(str, columns))
    directory = out or Path("runs/control") / f"{file_name_of(environment)}{hidden}-{cell}-seed{seed}"
    with ExitStack() as stack:
        env = stack.enter_context(closing(_make(environment, columns)))
        drawn = None  # made before learning, so that what stands against a film is said at once
        if film is not None:
            drawn = stack.enter_context(closing(_make_drawn(environment, columns, film)))
        with show_progress() as progress:
            overall = progress.add_task("environment steps", total=steps)
            current = progress.add_task("starting", total=None)

            def on_progress(now: Progress) -> None:
                last = "" if now.last_return is None else f", last return {format_return(now.last_return)}"
                progress.update(overall, completed=now.steps)
                progress.update(current, completed=now.part, total=now.parts, description=f"{now.doing}{last}")

            record = learn(env, directory, config, on_progress=on_progress, on_episode=_print_episode)
        _print_record(record)
        print_written(directory / RECORD_FILE)
        _write_page(record, directory)
        if film is not None:
            _film(drawn, directory, config, film)
    return record


def _make(environment: str, columns: list[int]) -> Any:
    """The environment, with some columns hidden."""
    import gymnasium

    import gatel0rd.worlds  # noqa: F401  # registers ours
    from gatel0rd.training.vector_env import import_packages

    import_packages(environment)
    return _hide(gymnasium.make(environment.rpartition(":")[2], disable_env_checker=True), columns)


def _make_drawn(environment: str, columns: list[int], film: Path) -> Any:
    """The same environment as one that draws itself, for a film that can be written."""
    from gatel0rd.paper.agent_film import drawn_environment

    return _hide(drawn_environment(environment, film), columns)


def _hide(env: Any, columns: list[int]) -> Any:
    from gatel0rd.planning.experience import HideColumns

    return HideColumns(env, columns) if columns else env


def _print_episode(number: int, episode: RecordedEpisode) -> None:
    console.print(
        f"episode {number}, {episode.kind}: return {format_return(episode.rewards.sum())} in {episode.steps} steps, "
        f"{format_duration(episode.seconds)}"
    )


def _print_record(record: dict[str, Any]) -> None:
    tests = record["test_returns"]
    if tests:
        console.print(
            f"mean return of {count_of(len(tests), 'test episode')}: {format_return(record['test_return'])} "
            f"({format_return(min(tests))} to {format_return(max(tests))}), "
            f"after {record['environment_steps']} environment steps, {format_duration(record['seconds'])}"
        )
    if record["test_success"] is not None:
        console.print(f"the environment calls {record['test_success']:.0%} of them a success")
    print_lines(
        [f"{name}: {record[key]}." for name, key in (("diagnosis", "summary"), ("gates", "gates")) if record[key]]
    )


def _write_page(record: dict[str, Any], directory: Path) -> None:
    """The same as a page with figures, where there is matplotlib."""
    from gatel0rd.cli.extras import advise

    try:
        from gatel0rd.paper.report.control import write_control_page

        print_written(write_control_page(record, directory))
    except ModuleNotFoundError as error:
        console.print(f"no page with figures: {advise(error)}")


def _film(env: Any, directory: Path, config: LearnConfig, film: Path) -> None:
    """Repeat the first test episode, and write what the environment draws."""
    from gatel0rd.paper.films import write_film
    from gatel0rd.planning.learning import film_episode

    with show_progress() as progress:
        task = progress.add_task("frames of the film", total=None)
        frames = film_episode(env, directory, config, on_frame=lambda done: progress.update(task, completed=done))
    print_written(write_film(frames, film))
