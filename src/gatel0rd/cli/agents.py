"""Commands for agents: rl train, rl eval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from gatel0rd.cli.console import console, format_interval, show_progress
from gatel0rd.cli.options import (
    AT_LEAST_0,
    COUNT,
    LARGEST_SEED,
    AgentPreset,
    Backend,
    FilmFile,
    HiddenSize,
    LearningRate,
    Limits,
    Seed,
    file_name_of,
    optional,
)
from gatel0rd.streams import count_of


def rl_train(
    environment: Positional[
        Annotated[
            str,
            arg(
                metavar="ENV",
                help="Id of a Gymnasium environment, for example MiniGrid-DoorKey-8x8-v0, or MODULE:ID with the module "
                "that registers it, in the working directory or on Python's path.",
            ),
        ]
    ],
    cell: Annotated[
        Literal["gatel0rd", "lstm", "gru", "elman", "none"], arg(help="The agent's memory; with none it has no memory.")
    ] = "gatel0rd",
    frames: Annotated[int, COUNT, arg(metavar="N", help="Number of frames to train on.")] = 1_000_000,
    seed: Seed = 0,
    hidden_size: HiddenSize = 64,
    learning_rate: LearningRate = 0.001,
    sparsity: Annotated[
        float, AT_LEAST_0, arg(metavar="L", help="Weight of open gates in the loss, for GateL0RD.")
    ] = 0.01,
    preset: Annotated[
        AgentPreset,
        arg(
            help="Hyperparameters: text is a controlled setting, reference is the authors' code with its confounds, "
            "tuned is controlled and needs few frames."
        ),
    ] = "text",
    backend: Backend = "auto",
    out: Annotated[
        Path | None, optional("DIR", "Directory of the run. The default is one in runs/rl, named after its settings.")
    ] = None,
    resume: Annotated[bool, arg(help="Resume a run that was interrupted.")] = False,
) -> dict[str, Any]:
    """Train an agent with a memory by recurrent PPO.

    Any environment with discrete or continuous actions will do.
    """
    from gatel0rd.paper.agent_trials import plan_own_agent
    from gatel0rd.paper.display import LiveDisplay
    from gatel0rd.training.ppo.trainer import check_action_bounds
    from gatel0rd.training.vector_env import make_vector_env

    run = plan_own_agent(
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
    if not resume:
        with make_vector_env(environment, 1, backend=backend) as envs:
            check_action_bounds(envs)
    directory = out or Path("runs/rl") / f"{file_name_of(environment)}-{cell}-seed{seed}"
    with LiveDisplay(1, console) as display:
        display.started(0, run, directory)
        run.execute(
            Path("runs"),
            directory=directory,
            resume=resume,
            backend=backend,
            on_metrics=lambda metrics: display.progressed(0, metrics),
        )
        display.ended(0, None)
    more = " --render agent.gif" if environment.startswith("MiniGrid-") else ""
    more += f" --env {environment}" if ":" in environment else ""  # no file makes Python import a module
    console.print(f"Try it out: gatel0rd rl eval {directory}{more}")
    return {"directory": str(directory), "environment": environment, "cell": cell, "frames": frames, "seed": seed}


def rl_eval(
    run: Positional[
        Annotated[Path, arg(metavar="RUN", help="Directory of an agent's finished run, or an agent of `gatel0rd zoo`.")]
    ],
    env: Annotated[
        str | None, optional("ENV", "Environment to try it out in. The default is the one it was trained in.")
    ] = None,
    episodes: Annotated[int, Limits(1, 1_000_000), arg(metavar="N", help="Number of episodes.")] = 100,
    seed: Annotated[
        int, Limits(0, LARGEST_SEED), arg(metavar="N", help="Random seed of the environments and actions.")
    ] = 0,
    success_return: Annotated[
        float | None,
        optional(
            "R", "Least return of a successful episode. The default is what the environment itself counts as success."
        ),
    ] = None,
    greedy: Annotated[bool, arg(help="Take the most probable action instead of sampling one.")] = False,
    backend: Backend = "auto",
    render: FilmFile = None,
) -> dict[str, Any]:
    """Try out a trained agent, and film it with its memory and gates.

    It can be tried out in environments that it was never trained in.
    """
    from gatel0rd.paper.agent_trials import evaluate_agent

    with show_progress() as progress:
        task = progress.add_task("episodes", total=episodes)
        filming = None if render is None else progress.add_task("frames of the film", total=None)

        def on_frame(done: int, total: int) -> None:
            if filming is not None:
                progress.update(filming, completed=done, total=total)

        outcome = evaluate_agent(
            run,
            environment=env,
            episodes=episodes,
            seed=seed,
            greedy=greedy,
            backend=backend,
            success_return=success_return,
            film=render,
            on_episode=lambda ended: progress.update(task, completed=ended),
            on_frame=on_frame,
        )
    success = f"{count_of(episodes, 'episode')}; the environment does not say what success is (see --success-return)"
    if outcome["success"] is not None:
        interval = format_interval(outcome["confidence"])
        success = f"{outcome['success']:.0%} of {count_of(episodes, 'episode')} {outcome['meaning']}, {interval}"
    console.print(
        f"{outcome['environment']}, {outcome['memory']}: {success}; mean return {format_return(outcome['return'])}, "
        f"mean length {outcome['length']:.0f}"
    )
    if render is not None:
        console.print(f"wrote {render}")
    return outcome


def format_return(value: float) -> str:
    """A return for people: four digits, or the whole part where that has more."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
