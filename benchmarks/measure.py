"""How a benchmark is measured and kept: ours and a peer take turns, a row has the medians of both."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatel0rd.engine import status
from gatel0rd.files import write_json
from gatel0rd.paper.provenance import code_commit, processor

Work = Callable[[], object]
"""One turn of a candidate."""

PACKAGES = ("torch", "numpy", "jax", "jaxlib", "gymnasium", "envpool", "minigrid", "stable-baselines3", "sb3-contrib")


@dataclass(frozen=True, kw_only=True)
class Row:
    """Ours against one peer.

    Attributes:
        name: ``group/what``, as in ``step/rrc``.
        threads: of both.
        ours_ms, peer_ms: median milliseconds of one turn.
        ours_fps, peer_fps: frames per second, where agents are trained.
        shares: parts of our time, by what it was spent on.
        instruction_set: of the engine and, as far as they can be limited, of the libraries that the peer uses.
    """

    name: str
    threads: int
    ours_ms: float
    peer: str
    peer_ms: float
    ours_fps: int | None = None
    peer_fps: int | None = None
    shares: dict[str, float] | None = None
    instruction_set: str | None = None

    @property
    def ratio(self) -> float:
        """How many times faster ours is than the peer."""
        return self.peer_ms / self.ours_ms

    def to_json(self) -> dict[str, Any]:
        plain = {
            "name": self.name,
            "threads": self.threads,
            "ours_ms": self.ours_ms,
            "peer": self.peer,
            "peer_ms": self.peer_ms,
            "ratio": round(self.ratio, 3),
        }
        details = {
            "ours_fps": self.ours_fps,
            "peer_fps": self.peer_fps,
            "shares": self.shares,
            "instruction_set": self.instruction_set,
        }
        return plain | {name: value for name, value in details.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class BenchmarkResults:
    """The rows of one run, and the machine that they were measured on; files of before November 2026 do not say it."""

    machine: dict[str, Any] | None
    rows: tuple[Row, ...]


def medians(candidates: dict[str, Work], *, seconds: float = 1.0, warmup: int = 2) -> dict[str, float]:
    """Median milliseconds of each candidate; they take turns, so that a busy machine slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(warmup):
        for run in candidates.values():
            run()
    end = time.perf_counter() + seconds * len(candidates)
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, run in candidates.items():
            # a fast candidate gets more turns, or its median would hang on a handful of numbers
            spent = 0.0
            while spent < 0.02:
                began = time.perf_counter()
                run()
                passed = time.perf_counter() - began
                times[name].append(1000 * passed)
                spent += passed
    return {name: statistics.median(values) for name, values in times.items()}


@dataclass(frozen=True)
class Comparison:
    """What a row compares. Candidates are made only when the row is measured, each afresh.

    Attributes:
        name, peer: as of :class:`Row`.
        make_ours, make_peer: return the candidates.
        units: how much work one turn of ours and one of the peer does; times are divided by it.
        complete: adds what else a row says.
    """

    name: str
    make_ours: Callable[[], Work]
    peer: str
    make_peer: Callable[[], Work]
    units: tuple[float, float] = (1.0, 1.0)
    complete: Callable[[Row], Row] = lambda row: row

    def measure(self, threads: int) -> Row:
        """Let both take turns."""
        found = medians({"ours": self.make_ours(), "peer": self.make_peer()})
        ours, peer = (round(found[name] / unit, 4) for name, unit in zip(("ours", "peer"), self.units, strict=True))
        used = status().get("instruction_set")
        row = Row(name=self.name, threads=threads, ours_ms=ours, peer=self.peer, peer_ms=peer, instruction_set=used)
        return self.complete(row)


@dataclass(frozen=True)
class Group:
    """Comparisons that answer one question, and the numbers of threads with which they are measured."""

    name: str
    comparisons: Callable[[], Iterator[Comparison]]
    threads: tuple[int, ...] = (1, 2)


def choose(groups: Iterable[Group], only: str | None) -> list[Group]:
    """All groups, or the one whose rows' names start with ``only``."""
    known = {group.name: group for group in groups}
    if only is None:
        return list(known.values())
    name = only.partition("/")[0]
    if name not in known:
        raise ValueError(f"there is no benchmark {only!r}; there are {', '.join(known)}, and rows as in step/rrc")
    return [known[name]]


PEERS_LIMITS = {
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {},
}
"""What limits PyTorch's own libraries to the instruction set that the engine is limited to, where they listen."""


def limited_environment(instruction_set: str) -> dict[str, str]:
    """The environment of a process in which the engine and its peers use one instruction set."""
    return os.environ | PEERS_LIMITS[instruction_set] | {"GATEL0RD_ISA": instruction_set}


def processor_slug() -> str:
    """The processor's name as a file name: ``amd-epyc-7763-64-core-processor``."""
    return re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-")


def list_comparisons(groups: Iterable[Group]) -> Iterator[tuple[int, Comparison]]:
    """Every comparison with each number of threads of its group."""
    for group in groups:
        for threads in group.threads:
            for comparison in group.comparisons():
                yield threads, comparison


def describe_machine() -> dict[str, Any]:
    """What the numbers depend on: processor, instruction set, cores, versions and the commit of the code."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    engine = status()
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "engine": engine["engine"],
        "instruction_set": engine.get("instruction_set"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": installed,
        "commit": code_commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def write_results(path: Path, machine: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write rows and their machine as JSON."""
    write_json(path, {"machine": machine, "rows": [row.to_json() for row in rows]})


def read_results(path: Path) -> BenchmarkResults:
    """Read what :func:`write_results` wrote, or a plain list of rows as older versions wrote it."""
    plain = json.loads(path.read_text())
    machine, rows = (None, plain) if isinstance(plain, list) else (plain["machine"], plain["rows"])
    kept = [{name: value for name, value in row.items() if name != "ratio"} for row in rows]
    return BenchmarkResults(machine=machine, rows=tuple(Row(**row) for row in kept))
