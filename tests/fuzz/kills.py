"""Resumable work that is killed at random moments: it ends as if nothing had happened, bit for bit but for times."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from fuzz.driver import BrokenPromiseError, Target
from fuzz.works import WORKS, describe_directory, start_work

LONGEST = 120.0
"""Seconds that undisturbed work may take."""


class Kills(Target):
    """Runs, fits, agents and data that are killed several times, and then finished."""

    name = "kills"
    seconds = 900.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.expected: dict[str, dict[str, str]] = {}
        self.takes: dict[str, float] = {}

    def prepare(self, work: str) -> None:
        """Do a piece of work undisturbed."""
        if work in self.expected:
            return
        out = self.place / work
        out.mkdir()
        began = time.monotonic()
        finish(work, out, self.place / f"{work}.log")
        self.takes[work] = time.monotonic() - began
        self.expected[work] = describe_directory(out)

    def attempt(self, rng: random.Random, place: Path) -> str:
        work = rng.choice(list(WORKS))
        self.prepare(work)
        out, log = place / "out", place / "log.txt"
        out.mkdir()
        kills = 0
        for _ in range(rng.choice([1, 2, 3, 5, 10, 20])):
            by_change = rng.random() < 0.6
            process = start_work(work, out, kill_at=rng.randint(1, 60) if by_change else None, log=log)
            process.join(LONGEST if by_change else rng.uniform(0, 1.1 * self.takes[work]))
            process.kill()
            process.join()
            if process.exitcode == 1:
                raise BrokenPromiseError(f"{work} cannot be resumed: {log.read_text()[-300:]}")
            kills += process.exitcode == -9
        finish(work, out, log)
        found = describe_directory(out)
        if found != self.expected[work]:
            shutil.copytree(self.place / work, place / "expected")
            names = [
                name for name in found.keys() | self.expected[work] if found.get(name) != self.expected[work].get(name)
            ]
            raise BrokenPromiseError(f"{work} ended otherwise: {', '.join(sorted(names)[:5])} after {kills} kills")
        self.kills += kills
        return f"{work}: ended the same"

    kills = 0

    def close(self) -> None:
        print(f"{self.kills} kills in all", flush=True)


def finish(work: str, out: Path, log: Path) -> None:
    """Do what is left of a piece of work."""
    process = start_work(work, out, log=log)
    process.join(LONGEST)
    if process.exitcode != 0:
        process.kill()
        process.join()
        raise BrokenPromiseError(f"{work} does not end: {log.read_text()[-300:]}")
