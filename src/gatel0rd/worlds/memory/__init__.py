"""Memory: for how many steps is something remembered? No world of the paper, but what its memory is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.worlds.base import EnvironmentSpec, World
from gatel0rd.worlds.registry import register_environment

if TYPE_CHECKING:
    from gatel0rd.worlds.experiments import Question

LENGTHS = (16, 64, 256, 1024)
"""Of the environments."""


class MemoryWorld(World):
    """Sequences are drawn while training; agents learn in two environments, each of them in several lengths."""

    name = "memory"
    title = "Memory"

    def experiments(self) -> Sequence[Question]:
        from gatel0rd.worlds.memory.experiments import EXPERIMENTS

        return EXPERIMENTS


def chain_id(length: int) -> str:
    """The memory chain of this length, for ``gymnasium.make``."""
    return f"gatel0rd/MemoryChain{length}-v0"


def maze_id(length: int) -> str:
    """The T-maze with a corridor of this length, for ``gymnasium.make``."""
    return f"gatel0rd/TMaze{length}-v0"


def register_environments() -> None:
    """Make the environments known to Gymnasium, in all lengths."""
    for length in LENGTHS:
        for id, name in ((chain_id(length), "MemoryChain"), (maze_id(length), "TMaze")):
            register_environment(
                EnvironmentSpec(
                    id=id,
                    entry_point=f"gatel0rd.worlds.memory.env:{name}",
                    time_limit=4 * length,
                    options={"length": length},
                )
            )
