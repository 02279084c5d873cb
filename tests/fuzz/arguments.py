"""Arguments of the command line: exit codes 0, 1 and 2, errors in words on standard error, never a traceback.

Commands that would work for longer are interrupted, as by Ctrl+C, which has to end them just as well.
"""

from __future__ import annotations

import inspect
import io
import os
import random
import re
import shutil
import signal
import threading
import types
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fuzz.driver import BrokenPromiseError, Target

from gatel0rd.cli.main import COMMANDS, main
from gatel0rd.paper.executors import coordinator

LONGEST = 2.0
"""Seconds after which a command is interrupted."""
INTERRUPTED = 130
IGNORED = re.compile(r"Exception ignored in.*?KeyboardInterrupt", re.DOTALL)
"""What Python says of an interrupt in the middle of a callback, where no code of ours can take it."""
ODD_TEXTS = (
    *("", " ", "-", "--", "-1", "[/red]", "[bold]", "λ→é", "\udc80", "a\x1b[31mb", "%s%n", "*", "?", "[", "**/*", "~"),
    *(".", "..", "nowhere", "nowhere/x", "d.csv", "d.csv/x", "m", "m/model.json", "/dev/null", "/dev/full", "x" * 300),
    *("zoo:", "zoo:rrc/gatel0rd", "zoo:../..", "minari:", "minari:x", "rrc", "rrc/gating", "9" * 5000, "0-99999999"),
    *("a" * 5000, "0,,1", "0-", "=", "a=b=c", "d.csv,d.csv", "\n", "x\ny", "null", "🦭"),
)
ODD_NUMBERS = (
    *("0", "-1", "1", "2", "3.5", "1e400", "nan", "inf", "-inf", "1e-300", "9" * 30, "9" * 5000, "0x10", "²", "", "x"),
)
USUAL: dict[str, tuple[str, ...]] = {
    "data": ("d.csv", "d*.csv", "e.csv", "t.npz"),
    "model": ("m", "m/model.safetensors", "zoo:rrc/gatel0rd"),
    "models": ("m", "zoo:rrc/gatel0rd"),
    "id": ("rrc/gating", "memory/length"),
    "ids": ("rrc/gating",),
    "scenario": ("rrc", "billiard"),
    "world": ("rrc",),
    "run": ("r", "m"),
    "runs": ("r",),
    "records": ("r",),
    "environment": ("CartPole-v1", "Pendulum-v1", "nobody/Nothing-v0", "os:path"),
    "env": ("CartPole-v1",),
    "profile": ("smoke", "paper"),
    "seeds": ("0", "0-1"),
    "rounds": ("1", "2"),
    "epochs": ("1",),
    "frames": ("64",),
    "episodes": ("1",),
    "sparsity": ("0.1",),
    "out": ("o", "o.csv"),
    "sequence": ("episode",),
    "time": ("t",),
    "slurm": ("partition=cpu",),
}


class Arguments(Target):
    """The command line, in this process."""

    name = "arguments"
    seconds = 60.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        os.environ["BROWSER"] = "true"  # a browser that does nothing
        self.before = coordinator.run_all, signal.getsignal(signal.SIGINT)
        coordinator.run_all = lambda *args, **options: []  # type: ignore[assignment]  # processes would take seconds
        rows = "".join(f"{i // 20},{i % 20},{i % 7},{(i * 3) % 5}\n" for i in range(80))
        (place / "d.csv").write_text("episode,t,x,y\n" + rows)
        (place / "e.csv").write_text("x,y\n1,2\n")
        record = sorted((Path(__file__).parents[2] / "results" / "memory").glob("*/record.json"))[0]
        shutil.copytree(record.parent, place / "r")
        self.run_command(["fit", "d.csv", "--rounds", "1", "--sparsity", "0.1", "--out", "m"], place, "utf-8")

    def close(self) -> None:
        coordinator.run_all, handler = self.before
        signal.signal(signal.SIGINT, handler)

    def attempt(self, rng: random.Random, place: Path) -> str:
        shutil.copytree(self.place, place, dirs_exist_ok=True)
        words = draw_words(rng)
        encoding = rng.choice(["utf-8", "ascii", "latin-1"])
        (place / "words.txt").write_text(repr((encoding, words)))
        code, said, wrong = self.run_command(words, place, encoding)
        if "Traceback" in said + IGNORED.sub("", wrong):
            raise BrokenPromiseError(f"a traceback: {wrong[-300:]}")
        if code not in (0, 1, 2, INTERRUPTED):
            raise BrokenPromiseError(f"exit code {code}: {words}")
        if code in (1, 2) and not wrong.strip():
            raise BrokenPromiseError(f"exit code {code} without a word on standard error: {words}")
        return f"exit code {code}"

    def run_command(self, words: list[str], place: Path, encoding: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command in some directory."""
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2)]
        before = os.getcwd()
        os.chdir(place)
        timer = threading.Timer(LONGEST, os.kill, (os.getpid(), signal.SIGINT))
        signal.signal(signal.SIGINT, interrupt)
        code: Any = 0
        ended = False
        timer.start()
        try:
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                main(words)
                ended = True
        except SystemExit as stop:
            code = 0 if stop.code is None else stop.code
        except KeyboardInterrupt:
            if not ended:
                raise BrokenPromiseError("an interrupt is not explained") from None
        finally:
            timer.cancel()
            os.chdir(before)
        said, wrong = (stream.buffer.getvalue().decode(encoding, "replace") for stream in streams)  # type: ignore[attr-defined]
        return code, said, wrong


def interrupt(number: int, frame: types.FrameType | None) -> None:
    """An interrupt, but not while a module is imported: this process would keep one half of it."""
    outer = frame
    while outer is not None:
        if "importlib" in outer.f_code.co_filename:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            return
        outer = outer.f_back
    raise KeyboardInterrupt


def draw_words(rng: random.Random) -> list[str]:
    """A command with some of its options, mostly with values of the right kind."""
    name = rng.choice(list(COMMANDS))
    if rng.random() < 0.05:
        return rng.choice([[], ["--help"], [rng.choice(ODD_TEXTS)], [*name.split(), "--help"], name.split()[:1]])
    words, command = name.split(), COMMANDS[name]
    hints = get_type_hints(command, include_extras=True)
    wild = rng.choice([0.0, 0.1, 0.5])
    for option, parameter in inspect.signature(command).parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        if not needed and rng.random() < 0.7:
            continue
        positional = any("positional" in repr(entry).lower() for entry in hints[option].__metadata__)
        words += draw_option(rng, option, hints[option], positional, wild)
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice([*ODD_TEXTS, "--nothing", "--json", "--out"]))
    if name == "explore" and "--save" not in words and rng.random() < 0.9:
        words += ["--save", "page.html"]
    return [word.replace("\0", "") for word in words]


def draw_option(rng: random.Random, option: str, hint: Any, positional: bool, wild: float) -> list[str]:
    kinds = list_kinds(hint)
    flag = f"--{option.replace('_', '-')}"
    if bool in kinds:
        return [flag if rng.random() < 0.5 else f"--no-{flag[2:]}"]
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    choices = [choice for choice in choices if choice != "ray"]  # which would start a cluster
    odd = ODD_NUMBERS if int in kinds or float in kinds else ODD_TEXTS
    usual = [*choices, *USUAL.get(option, ())] or (["1", "2"] if odd is ODD_NUMBERS else ["o"])
    count = rng.choice([1, 1, 2, 0]) if tuple in kinds else 1
    values = [str(rng.choice(odd if rng.random() < wild else usual)) for _ in range(count)]
    if positional:
        return values
    return [f"{flag}={values[0]}"] if len(values) == 1 and rng.random() < 0.3 else [flag, *values]


def list_kinds(hint: Any) -> list[Any]:
    """The types that a parameter may have, without annotations."""
    hint = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    if get_origin(hint) in (types.UnionType, Union):
        return [kind for part in get_args(hint) for kind in list_kinds(part)]
    if get_origin(hint) is tuple:
        return [tuple, *(kind for part in get_args(hint) if part is not Ellipsis for kind in list_kinds(part))]
    return [hint]
