"""The explorer under load for some minutes: its memory must not keep growing; requests per second and their times.

PYTHONPATH=tests python -m fuzz.soak --seconds 180
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.served import ServedExplorer

CLIENTS = 4
WARM_UP = 0.4
"""Share of the time after which memory may not grow any more: caches and pools are full by then."""
MOST_GROWTH = 16 * 2**20
"""Bytes by which it may be larger in the last part than in the one before: pages of the allocator come and go."""


@dataclass
class Load:
    """What clients and watcher saw."""

    latencies: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    @property
    def growth(self) -> int:
        """Bytes by which the last third of the time after the warm-up is above the first, by medians."""
        settled = self.memory[int(len(self.memory) * WARM_UP) :]
        third = max(1, len(settled) // 3)
        return int(statistics.median(settled[-third:]) - statistics.median(settled[:third]))


def list_requests(number: int, session: str, variable: str) -> list[tuple[str, str, Any]]:
    """What the page asks for while somebody uses it."""
    edits = [{"step": 3, "variable": variable, "value": number % 7 / 7}]
    return [
        ("GET", "/api/overview", None),
        ("POST", "/api/sequence", {"sequence": number % 60}),
        ("POST", "/api/predict", {"model": 0, "sequence": number % 60, "real_steps": 5}),
        ("POST", "/api/predict", {"model": 0, "sequence": number % 60, "edits": edits[: number % 2]}),
        ("POST", "/api/drive/start", {"scenario": "rrc", "seed": number}),
        ("POST", "/api/drive/step", {"session": session, "action": [0.5, -0.5]}),
        ("GET", "/", None),
    ]


def use_page(explorer: ServedExplorer, load: Load, end: float, number: int) -> None:
    """One client, until the time is over."""
    session = ""
    variable = next(iter(json.loads(ask(explorer, "POST", "/api/sequence", {"sequence": 0})[1])["values"]))
    while time.monotonic() < end:
        for method, path, content in list_requests(number, session, variable):
            began = time.monotonic()
            try:
                status, answer = ask(explorer, method, path, content)
            except OSError as error:
                load.failures.append(repr(error))
                continue
            load.latencies.append(time.monotonic() - began)
            if path.endswith("start"):
                session = json.loads(answer)["session"]
            if status != 200 and not (status == 400 and path.endswith("step")):  # a world makes room for newer ones
                load.failures.append(f"{path}: {status}")
        number += CLIENTS


def ask(explorer: ServedExplorer, method: str, path: str, content: Any) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", explorer.port, timeout=60)
    try:
        body = None if content is None else json.dumps(content)
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def soak(seconds: float, place: Path) -> tuple[Load, str]:
    """Load the explorer; returns what was seen, and what it said on standard error."""
    explorer, load = ServedExplorer(place), Load()
    try:
        end = time.monotonic() + seconds
        clients = [threading.Thread(target=use_page, args=(explorer, load, end, number)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        while time.monotonic() < end and explorer.process.poll() is None:
            load.memory.append(explorer.resident)
            time.sleep(seconds / 300)
        for client in clients:
            client.join()
    finally:
        explorer.stop()
    return load, explorer.errors.read_text(errors="replace")


def judge(load: Load, said: str) -> list[str]:
    """What is wrong; nothing if all is well."""
    found = [f"{len(load.failures)} requests failed, first {load.failures[0]}"] if load.failures else []
    if load.growth > MOST_GROWTH:
        found.append(f"memory keeps growing: {load.growth / 2**20:.1f} MiB more in the last part")
    return [*found, *([f"the terminal shows {said[-300:]}"] if said else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        load, said = soak(options.seconds, Path(place))
    rate, cuts = len(load.latencies) / options.seconds, statistics.quantiles(load.latencies, n=100)
    middle, most, nearly_all = (1e3 * cuts[share - 1] for share in (50, 95, 99))
    first, peak, last = (size / 2**20 for size in (load.memory[0], max(load.memory), load.memory[-1]))
    print(f"{len(load.latencies)} requests in {options.seconds:.0f} s: {rate:.0f} per second")
    print(f"latency: median {middle:.0f} ms, 95 % below {most:.0f} ms, 99 % below {nearly_all:.0f} ms")
    trend = load.growth / 2**20
    print(f"memory: {first:.0f} MiB at first, at most {peak:.0f}, {last:.0f} at last; {trend:+.1f} since it was warm")
    wrong = judge(load, said)
    print("\n".join(wrong) or "nothing grows and nothing fails")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
