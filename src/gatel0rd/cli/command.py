"""What all commands have in common: limits of numbers, outputs that are no inputs, and the outcome as JSON."""

from __future__ import annotations

import glob
import inspect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gatel0rd.cli.console import console
from gatel0rd.cli.options import JsonFile, Limits

Command = Callable[..., Any]
OUTPUT = "FILE"
"""What the help calls a file that a command writes."""
INPUT_FILES = ("*.safetensors", "model.json", "record.json", "pilots.json", "metrics.jsonl")
"""What a directory that is given as an input is read for."""


@dataclass
class CommandError(Exception):
    """The work of a command failed, or a part of it.

    Attributes:
        message: what failed, and what to do.
        outcome: what was reached in spite of that, for ``--json``.
    """

    message: str
    outcome: Any = None

    def __str__(self) -> str:
        return self.message


def complete_command(command: Command) -> Command:
    """The same command with the option ``--json``, which checks its arguments before anything is done.

    Commands return their outcome as plain data.
    """
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)

    @wraps(command)
    def run(*args: Any, json: Path | None = None, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        if json == Path("-"):
            json = Path("/dev/stdout")
        check_numbers(given, hints)
        check_outputs({**given, "json": json}, {**hints, "json": JsonFile})
        with _keep_output_apart(json):
            try:
                outcome = command(*args, **kwargs)
            except CommandError as error:
                _write_outcome(json, error.outcome)
                raise
            _write_outcome(json, outcome)

    option = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=JsonFile)
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "json": JsonFile}
    del run.__wrapped__  # whose options would be shown instead
    return run


def _write_outcome(path: Path | None, outcome: Any) -> None:
    from gatel0rd.files import find_stream, write_json

    if path is None:
        return
    write_json(path, outcome)
    if path.is_file() and find_stream(path) is None:
        console.print(f"wrote {path}")


@contextmanager
def _keep_output_apart(path: Path | None) -> Iterator[None]:
    """Print to standard error while JSON goes to standard output, as with ``--json /dev/stdout``."""
    before, console.stderr = console.stderr, console.stderr or is_shared(path)
    try:
        yield
    finally:
        console.stderr = before


def is_shared(path: Path | None) -> bool:
    """Whether a path may be where commands print: standard output, a terminal or a pipe."""
    from gatel0rd.files import find_stream

    if path is None:
        return False
    if (number := find_stream(path)) is None:
        return path.exists() and not path.is_file()
    try:
        return os.path.samestat(os.fstat(number), os.fstat(1))
    except OSError:  # one of them is closed
        return number == 1


def check_numbers(given: dict[str, Any], hints: dict[str, Any]) -> None:
    """Refuse numbers that are not finite, or outside of what their option allows."""
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{option} is {value}; expected a finite number")
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        limits = find_limits(hints.get(name)) or Limits()
        if limits.least is not None and value < limits.least:
            raise ValueError(f"{option} is {value}; expected at least {limits.least}")
        if value > limits.most:
            raise ValueError(f"{option} is {value}; expected at most {limits.most}")


def find_limits(hint: Any) -> Limits | None:
    """The limits in a type with annotations."""
    return next((entry for entry in list_annotations(hint) if isinstance(entry, Limits)), None)


def list_annotations(hint: Any) -> list[Any]:
    """The annotations of a type, and of those that it is made of."""
    return [*getattr(hint, "__metadata__", ()), *(entry for part in get_args(hint) for entry in list_annotations(part))]


def check_outputs(given: dict[str, Any], hints: dict[str, Any]) -> None:
    """Refuse to overwrite, through links too, what a command reads; and files that cannot be written."""
    from gatel0rd.files import FileError, check_writable

    written = {
        name: given[name]
        for name, hint in hints.items()
        if isinstance(given.get(name), Path)
        and any(getattr(entry, "metavar", None) == OUTPUT for entry in list_annotations(hint))
    }
    inputs = [path for name, value in given.items() if name not in written for path in find_inputs(value)]
    seen: dict[str, str] = {}
    for name, path in written.items():
        same = next((entry for entry in inputs if path.is_file() and os.path.samefile(path, entry)), None)
        if same is not None:
            raise FileError(f"--{name} {path} is the input {same}, which it would overwrite; choose another file")
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            raise FileError(f"--{other} and --{name} are both {path}; choose two files")
        check_writable(path)


def find_inputs(value: Any) -> list[Path]:
    """The files that a text, a path or several of them name, if they are there."""
    if isinstance(value, tuple):
        return [path for entry in value for path in find_inputs(entry)]
    if not isinstance(value, (str, Path)) or "\0" in str(value):
        return []
    path = Path(value)
    try:
        if path.is_dir():
            return [file for pattern in INPUT_FILES for file in path.glob(pattern)]
        if path.exists():
            return [path]
        return [Path(name) for name in glob.glob(str(value), recursive=True)]
    except OSError:  # too long for a name
        return []
