"""The command line: parses, calls, prints. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from tyro.extras import SubcommandApp

from gatel0rd.cli import agents, experiments, recordings, worlds
from gatel0rd.cli.command import Command, CommandError, complete_command
from gatel0rd.cli.console import error_console, print_error
from gatel0rd.cli.control import control
from gatel0rd.cli.demo import demo
from gatel0rd.cli.extras import advise
from gatel0rd.cli.info import info
from gatel0rd.cli.zoo import list_zoo
from gatel0rd.errors import FailedError, is_out_of_memory
from gatel0rd.streams import finish_output, prepare_streams

DESCRIPTION = "GateL0RD: recurrent networks whose latent state changes sparsely."


OWN: dict[str, Command] = {
    "list": experiments.list_experiments,
    "run": experiments.run,
    "reproduce": experiments.reproduce,
    "report": experiments.report,
    "measure": experiments.measure,
    "migrate": experiments.migrate,
    "data make": worlds.data_make,
    "animate": worlds.animate,
    "plan": worlds.plan,
    "control": control,
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
"""What is typed after ``gatel0rd`` -> what does the work and returns its outcome."""
COMMANDS = {words: complete_command(command) for words, command in OWN.items()}
"""The same with what all commands have in common."""
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
    prepare_streams()
    draw_without_screen()
    arguments = sys.argv[1:] if arguments is None else arguments
    app = assemble(in_short=not arguments or arguments[0].startswith("-"))
    try:
        app.cli(prog="gatel0rd", description=DESCRIPTION, args=arguments)
        finish_output()
    except (Exception, KeyboardInterrupt) as error:
        code = explain(error)
        if code is None:
            raise
        if isinstance(error, KeyboardInterrupt):  # a second one ends the process at once, without a traceback
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with suppress(OSError):
            finish_output()
        raise SystemExit(code) from error


def draw_without_screen() -> None:
    """Where there is no screen, let SDL draw into memory from the start: it says an error before it finds that out.

    Many environments of Gymnasium draw films with it.
    """
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def explain(error: BaseException) -> int | None:
    """Say on standard error what ended a command, in a sentence; returns its exit code.

    It is 2 if something else has to be typed, 1 if the work failed, 130 after an interrupt. None is an error of ours,
    which needs its traceback.
    """
    match error:
        case BrokenPipeError():  # nobody reads any more, as with `| head`
            pass
        case KeyboardInterrupt():
            error_console.print(
                "interrupted; `gatel0rd run` and `rl train` resume from their last checkpoints with --resume, "
                "`reproduce`, `fit`, `control` and `demo` with the same command, and data from its last part"
            )
            return 130
        case ModuleNotFoundError():
            print_error(advise(error))
        case _ if is_out_of_memory(error):
            print_error("there is not enough memory for this; choose smaller sizes or fewer rows")
        case _ if is_from_gymnasium(error):  # such as a simulator that is not installed, with what to install
            print_error(str(error))
        case CommandError() | FailedError() | OSError():
            print_error(str(error))
        case ValueError():
            print_error(str(error))
            return 2
        case _:
            return None
    return 1


def is_from_gymnasium(error: BaseException) -> bool:
    """Whether an error is one of Gymnasium's own; without an import of it, which takes long."""
    module = sys.modules.get("gymnasium.error")
    return module is not None and isinstance(error, module.Error)


if __name__ == "__main__":
    main()
