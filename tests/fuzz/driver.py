"""What all fuzzers share: tries that a number repeats, counts of what came of them, and a directory for each finding.

PYTHONPATH=tests python -m fuzz tables files --seconds 600
PYTHONPATH=tests python -m fuzz tables --only 1234    # one try again, with its traceback
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar

TRIES_PER_SEED = 10**9


class BrokenPromiseError(Exception):
    """Something that must not happen did; the message says what."""


class TookTooLongError(BaseException):
    """A try did not end in time; no ``except Exception`` of the code under test may take it."""


class Target(ABC):
    """Something that is fuzzed. Whatever its tries need and share is made by the constructor.

    Args:
        place: a directory for what all tries share.

    Attributes:
        seconds: how long a try may take.
    """

    name: ClassVar[str]
    seconds: ClassVar[float] = 60.0

    def __init__(self, place: Path) -> None:
        self.place = place

    @abstractmethod
    def attempt(self, rng: random.Random, place: Path) -> str:
        """One try in an empty directory, which is kept if something is found; what came of it, in a few words.

        Any error is a finding; those that say in words what is wrong with the input are an outcome, and stay inside.
        """

    def close(self) -> None:  # noqa: B027
        """End what the constructor began."""


@dataclass(frozen=True)
class Finding:
    """A try that broke a promise, as the first of its kind.

    Attributes:
        kind: the same for the same mistake: type of the error, and where it was raised.
        place: directory with the input and with what happened.
    """

    number: int
    kind: str
    message: str
    place: Path


@dataclass
class Summary:
    """What came of the tries of one target."""

    target: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)

    @property
    def tries(self) -> int:
        return self.outcomes.total() + self.repeated.total()

    def describe(self) -> list[str]:
        """For people: a line per outcome, and one per finding."""
        lines = [f"{self.target}: {self.tries} tries in {self.seconds:.0f} s, {len(self.findings)} findings"]
        lines += [f"  {outcome}: {count}" for outcome, count in sorted(self.outcomes.items())]
        for found in self.findings:
            lines.append(f"  FOUND {self.repeated[found.kind]} times, first in try {found.number}: {found.message}")
            lines.append(f"    {found.kind}; its input is in {found.place}")
        return lines


def run_target(
    target: Target, *, seconds: float, tries: int, seed: int, keep: Path, only: int | None = None
) -> Summary:
    """Try until the time or the tries are over.

    Args:
        keep: directory for the inputs of findings. The number of the running try is in a file there, for crashes.
        only: repeat this try alone.
    """
    summary = Summary(target.name)
    keep.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    first = seed * TRIES_PER_SEED if only is None else only
    tries = tries if only is None else 1
    running = os.open(keep / f"{target.name}.running", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{target.name}-") as scratch:
        for number in range(first, first + tries):
            if time.monotonic() - begin >= seconds:
                break
            os.pwrite(running, f"{number:24d}\n".encode(), 0)
            place = Path(scratch) / "try"
            place.mkdir()
            try:
                with time_limit(target.seconds), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    summary.outcomes[target.attempt(random.Random(number), place)] += 1
            except (Exception, TookTooLongError, SystemExit) as error:
                _add_finding(summary, number, error, place, keep)
            shutil.rmtree(place, ignore_errors=True)
    os.close(running)
    with suppress(FileNotFoundError):
        (keep / f"{target.name}.running").unlink()
    summary.seconds = time.monotonic() - begin
    return summary


def _add_finding(summary: Summary, number: int, error: BaseException, place: Path, keep: Path) -> None:
    kind = f"{type(error).__name__} at {find_origin(error.__traceback__)}"
    if isinstance(error, BrokenPromiseError):  # raised by the fuzzer itself: its words tell findings apart
        kind = f"{kind}: {str(error).partition(':')[0]}"
    summary.repeated[kind] += 1
    if summary.repeated[kind] > 1:
        return
    kept = keep / f"{summary.target}-{number}"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(place, kept, symlinks=True, ignore_dangling_symlinks=True)
    text = "".join(traceback.format_exception(error))
    (kept / "finding.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    message = str(error).encode("ascii", "backslashreplace").decode()[:300] or type(error).__name__
    summary.findings.append(Finding(number, kind, message, kept))


def find_origin(trace: TracebackType | None) -> str:
    """The innermost line of the package in a traceback; of the fuzzer, if none is of the package."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if "/gatel0rd/" in frame.filename] or list(frames)
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "nowhere"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise a :class:`TookTooLongError` if the body takes longer."""

    def stop(number: int, frame: object) -> None:
        raise TookTooLongError(f"it took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
