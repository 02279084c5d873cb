"""``python -m benchmarks [--json FILE]``: training steps of every cell, and the layer against nn.GRU and nn.LSTM."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.timing import medians
from gatel0rd import GateL0RD
from gatel0rd.config import CellConfig, TrainConfig
from gatel0rd.experiments.execute import processor
from gatel0rd.experiments.robot_remote_control import SCENARIO
from gatel0rd.functional import PENALTIES
from gatel0rd.models import WorldModel

STEPS, BATCH = 49, 128
CELLS = ("gatel0rd", "lstm", "gru", "elman", "clockwork")
Row = dict[str, str | int | float]


def training_step(cell: str) -> Callable[[], object]:
    """Forward, backward, clip and Adam at the size of Robot Remote Control."""
    generator = torch.Generator().manual_seed(0)
    config = TrainConfig(epochs=1)
    model = WorldModel(replace(SCENARIO.model, cell=CellConfig(name=cell)))  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, eps=config.epsilon, foreach=True)
    observations = torch.randn(STEPS + 1, BATCH, 4, generator=generator)
    actions = torch.randn(STEPS, BATCH, 2, generator=generator)
    feed = torch.rand(STEPS, BATCH, generator=generator) < 0.5

    def step() -> None:
        noise = model.sample_noise(STEPS, BATCH, generator)
        rollout = model(observations[:-1], actions, feed, noise)
        loss = (rollout.predictions - observations[1:]).square().mean()
        if rollout.gates is not None:
            loss = loss + config.sparsity_weight * PENALTIES["l0"](rollout.gates)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm, foreach=True)
        optimizer.step()

    return step


def layer(make: Callable[..., torch.nn.Module], hidden_size: int) -> Callable[[], object]:
    """Forward and backward of a recurrent layer."""
    rnn = make(hidden_size, hidden_size)
    x = torch.randn(STEPS + 1, BATCH, hidden_size)

    def step() -> None:
        rnn.zero_grad()
        rnn(x)[0].square().mean().backward()

    return step


def rows(threads: int) -> list[Row]:
    torch.set_num_threads(threads)
    found: list[Row] = []

    def compare(name: str, ours: Callable[[], object], peer_name: str, peer: Callable[[], object]) -> None:
        times = medians({"ours": ours, "peer": peer})
        found.append(
            {
                "name": name,
                "threads": threads,
                "ours_ms": round(times["ours"], 3),
                "peer": peer_name,
                "peer_ms": round(times["peer"], 3),
                "ratio": round(times["peer"] / times["ours"], 3),
            }
        )

    gatel0rd = training_step("gatel0rd")
    for cell in CELLS:
        compare(f"training step, RRC, {cell}", training_step(cell), "gatel0rd's", gatel0rd)
    for size in (8, 64):
        for peer in (torch.nn.GRU, torch.nn.LSTM):
            compare(f"layer, H = {size}", layer(GateL0RD, size), f"nn.{peer.__name__}", layer(peer, size))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()
    found = [row for threads in (1, 2) for row in rows(threads)]
    table = Table(title=f"T = {STEPS}, B = {BATCH}, medians in ms, on {processor()}; ratio above 1: ours is faster")
    for column in found[0]:
        table.add_column(column, justify="left" if column in ("name", "peer") else "right")
    for row in found:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
