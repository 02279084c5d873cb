"""The command line: parses, calls, prints. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.markup import escape
from tyro.extras import SubcommandApp

from gatel0rd.cli import agents, experiments, recordings, worlds
from gatel0rd.cli.console import console
from gatel0rd.cli.demo import demo
from gatel0rd.cli.extras import advise
from gatel0rd.cli.info import info
from gatel0rd.cli.zoo import list_zoo

DESCRIPTION = "GateL0RD: recurrent networks whose latent state changes sparsely."


COMMANDS: dict[str, Callable[..., None]] = {
    "list": experiments.list_experiments,
    "run": experiments.run,
    "reproduce": experiments.reproduce,
    "report": experiments.report,
    "measure": experiments.measure,
    "migrate": experiments.migrate,
    "data make": worlds.data_make,
    "animate": worlds.animate,
    "plan": worlds.plan,
    "apex": worlds.apex,
    "rl train": agents.rl_train,
    "rl eval": agents.rl_eval,
    "fit": recordings.fit,
    "segment": recordings.segment,
    "segment-benchmark": recordings.segment_benchmark,
    "segment-public": recordings.segment_public,
    "segment-families": recordings.segment_families,
    "segment-worlds": recordings.segment_worlds,
    "explore": recordings.explore,
    "export": recordings.export,
    "zoo": list_zoo,
    "demo": demo,
    "info": info,
}
"""What is typed after ``gatel0rd`` -> what is called."""
GROUPS = {
    "data": "Make data sets of the worlds.",
    "rl": "Train agents with a memory, and try them out.",
}


def assemble(*, in_short: bool) -> SubcommandApp:
    """All commands; ``in_short``: each described by its first sentence, for the overview of all of them."""
    app = SubcommandApp()
    groups: dict[str, SubcommandApp] = {"": app}
    for words, command in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        if group not in groups:
            groups[group] = SubcommandApp()
            app.command(groups[group], name=group, help=GROUPS[group])
        summary = (command.__doc__ or "").partition("\n")[0] if in_short else None
        groups[group].command(name=name, help=summary)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``gatel0rd``."""
    arguments = sys.argv[1:] if arguments is None else arguments
    app = assemble(in_short=not arguments or arguments[0].startswith("-"))
    try:
        app.cli(prog="gatel0rd", description=DESCRIPTION, args=arguments)
    except (ValueError, OSError) as error:
        console.print(f"[red]gatel0rd:[/] {escape(str(error))}", highlight=False)
        raise SystemExit(2) from error
    except ModuleNotFoundError as error:
        console.print(f"[red]gatel0rd:[/] {escape(advise(error))}", highlight=False)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        console.print(
            "interrupted; `gatel0rd run` and `rl train` resume from their last checkpoints with --resume, "
            "`reproduce`, `fit` and `demo` with the same command, and data from its last part"
        )
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
