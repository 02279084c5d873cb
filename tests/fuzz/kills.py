"""Resumable work that is killed at random moments: it ends as if nothing had happened, bit for bit but for times."""

from __future__ import annotations

import random
from pathlib import Path

from fuzz.driver import BrokenPromiseError
from fuzz.works import LONGEST, WORKS, WorkTarget, start_work

MOST_CHANGES = 60
"""Of files, after which a process is killed."""


class Kills(WorkTarget):
    """Runs, fits, agents and data that are killed several times, and then finished."""

    name = "kills"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.kills = 0

    def attempt(self, rng: random.Random, place: Path) -> str:
        work = rng.choice(list(WORKS))
        self.prepare(work)
        (place / "out").mkdir()
        for _ in range(rng.choice([1, 2, 3, 5, 10, 20])):
            by_change = rng.random() < 0.6
            kill_at = rng.randint(1, MOST_CHANGES) if by_change else None
            process = start_work(work, place / "out", kill_at=kill_at, log=place / "log.txt")
            process.join(LONGEST if by_change else rng.uniform(0, 1.1 * self.takes[work]))
            process.kill()
            process.join()
            if process.exitcode == 1:
                raise BrokenPromiseError(f"{work} cannot be resumed: {(place / 'log.txt').read_text()[-300:]}")
            self.kills += process.exitcode == -9
        self.compare(work, place)
        return f"{work}: ended the same"

    def close(self) -> None:
        print(f"{self.kills} kills in all", flush=True)
