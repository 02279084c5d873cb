"""The measured ratios as the table that README and docs show: one column per processor and instruction set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.layers import HIDDEN_SIZES, LARGE_SIZES
from benchmarks.measure import Row, read_results

CPUS = Path(__file__).parent / "cpus"
WORLDS = ("billiard", "rrc", "shepherd")
SET_NAMES = {"avx512": "AVX-512", "avx2": "AVX2", "baseline": "SSE2 or NEON"}


@dataclass(frozen=True)
class Line:
    """A line of the table: rows of the benchmark that are shown together, in one cell."""

    words: str
    names: tuple[str, ...]
    peer: str
    threads: int = 1
    show: Callable[[float], str] = "{:.3g}".format
    in_short: bool = True
    """Whether the README shows it, too."""


def per_cent(ratio: float) -> str:
    return f"{ratio:.0%}"


def layer_names(sizes: Sequence[int], group: str = "layer") -> tuple[str, ...]:
    return tuple(f"{group}/gatel0rd-{size}" for size in sizes)


def lines() -> list[Line]:
    steps = tuple(f"step/{world}" for world in WORLDS)
    sizes = " / ".join(map(str, HIDDEN_SIZES))
    large = " / ".join(map(str, LARGE_SIZES))
    ppo = ("agent/lstm-envpool",)
    return [
        Line("training step: Billiard Ball / RRC / Shepherd, compared with the PyTorch loop", steps, "torch path"),
        Line("… with a jitted JAX `scan`", tuple(f"jax/{world}" for world in WORLDS), "JAX scan"),
        Line(
            "share of SGEMM's rate inside the kernel",
            tuple(f"peak/{world}" for world in WORLDS),
            "SGEMM",
            1,
            per_cent,
            False,
        ),
        Line(f"layer, H = {sizes}, compared with `nn.GRU`", layer_names(HIDDEN_SIZES), "nn.GRU"),
        Line("… with `nn.LSTM`", layer_names(HIDDEN_SIZES), "nn.LSTM"),
        Line(
            f"layer, H = {large}, compared with the PyTorch path",
            layer_names(LARGE_SIZES, "large"),
            "torch path",
            in_short=False,
        ),
        Line(
            "two threads compared with one: the steps", tuple(f"threads/{world}" for world in WORLDS), "one thread", 2
        ),
        Line("… while another process keeps a core busy", tuple(f"busy/{world}" for world in WORLDS), "one thread", 2),
        Line("control step of RRC, compared with the PyTorch path", ("planning/rrc-step",), "torch path"),
        Line("PPO with an LSTM, same EnvPool environments, with sb3-contrib", ppo, "sb3-contrib, envpool"),
        Line("… with sb3-contrib's one LSTM for actor and critic", ppo, "sb3-contrib, one LSTM", in_short=False),
    ]


def cell(line: Line, rows: Sequence[Row], instruction_set: str) -> str:
    """The ratios of a line, a dash for what was not measured."""

    def find(name: str) -> str:
        for row in rows:
            same = row.name == name and row.threads == line.threads and row.instruction_set == instruction_set
            if same and row.peer.startswith(line.peer):
                return line.show(row.ratio)
        return "–"

    return " / ".join(map(find, line.names))


def speed_table(folder: Path = CPUS, *, short: bool = False) -> str:
    """All processors that were measured, as Markdown; ``short``: the lines that the README shows."""
    measured = [read_results(path) for path in sorted(folder.glob("*.json"))]
    columns = [
        (found, name)
        for found in measured
        for name in SET_NAMES
        if any(row.instruction_set == name for row in found.rows)
    ]
    heads = [f"{found.machine['processor']}, {SET_NAMES[name]}" for found, name in columns if found.machine]
    table = [f"| times as fast, one thread, B = 128 | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for line in lines():
        if short and not line.in_short:
            continue
        cells = [cell(line, found.rows, name) for found, name in columns]
        if any(text.strip("– /") for text in cells):
            table.append(f"| {line.words} | {' | '.join(cells)} |")
    return "\n".join(table)
