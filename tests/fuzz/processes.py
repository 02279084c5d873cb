"""Several processes that do the same work in the same directory at once: locks are respected, nothing is torn."""

from __future__ import annotations

import random
import time
from pathlib import Path

from fuzz.driver import BrokenPromiseError
from fuzz.works import IN_USE, LONGEST, WORKS, WorkTarget, start_work

READERS = {"run": "read", "memory": "read", "agent": "read"}
"""What reads the results of a piece of work while they are written."""


class Processes(WorkTarget):
    """Two to four processes of the same work, and sometimes one that reads, or that is killed."""

    name = "processes"

    def attempt(self, rng: random.Random, place: Path) -> str:
        work = rng.choice(list(WORKS))
        self.prepare(work)
        out, log = place / "out", place / "log.txt"
        out.mkdir()
        names = [work] * rng.randint(2, 4) + ([READERS[work]] if work in READERS and rng.random() < 0.7 else [])
        rng.shuffle(names)
        processes = []
        for name in names:
            processes.append(start_work(name, out, log=log))
            time.sleep(rng.choice([0.0, 0.0, rng.uniform(0, self.takes[work])]))
        killed = rng.choice(processes) if rng.random() < 0.2 else None
        if killed is not None:
            time.sleep(rng.uniform(0, self.takes[work]))
            killed.kill()
        for process in processes:
            process.join(LONGEST)
        codes = {(name, process.exitcode) for name, process in zip(names, processes, strict=True)}
        for process in processes:  # one that did not end in time
            process.kill()
            process.join()
        allowed = {(name, code) for name in (work, "read") for code in (0, *([-9] if killed else []))}
        allowed |= {(work, IN_USE)} if work != "data" else set()  # data is waited for
        if codes - allowed:
            raise BrokenPromiseError(f"{work} ended with {codes}: {log.read_text()[-300:] if log.exists() else ''}")
        if killed is None and (work, 0) not in codes:
            raise BrokenPromiseError(f"nobody did {work}: {log.read_text()[-300:]}")
        self.compare(work, place)
        return f"{work} by {len(names)} processes: ended the same"
