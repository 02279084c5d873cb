"""The command zoo."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Column, Table

from gatel0rd.cli.console import console


def list_zoo() -> list[dict[str, Any]]:
    """List the trained models that come with this package.

    Every command that takes a run or a model takes their names.
    """
    from gatel0rd.paper.zoo import list_entries

    entries = list_entries()
    table = Table(
        Column("zoo:", no_wrap=True),
        Column("scale", justify="right", no_wrap=True),
        Column("seed", justify="right"),
        Column("what its record says"),
        Column("kB", justify="right"),
        title="Trained models that come with this package",
        box=box.SIMPLE_HEAD,
    )
    for entry in entries:
        numbers = ", ".join(f"{name} {format_number(name, value)}" for name, value in entry.numbers.items())
        size = f"{entry.size / 1000:.0f}"
        table.add_row(entry.name, entry.scale, str(entry.run.seed), numbers, size)
    console.print(table)
    console.print("scale: gradient steps as a share of the paper's, or frames where it does not state them")
    console.print("Look at some: gatel0rd explore zoo:rrc/gatel0rd zoo:rrc/gru")
    console.print("Plan with one: gatel0rd plan rrc --model zoo:rrc/gatel0rd --render plan.gif")
    return [entry.describe() for entry in entries]


def format_number(name: str, value: float) -> str:
    """An error with its digits, anything else as a percentage."""
    return f"{value:.2g}" if name.endswith("error") else f"{value:.0%}"
