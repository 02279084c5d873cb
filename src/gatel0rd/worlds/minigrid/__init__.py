"""MiniGrid: agents that see a few squares ahead (Sec. 6.4). The environments are those of the package ``minigrid``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.worlds.base import World

if TYPE_CHECKING:
    from gatel0rd.worlds.experiments import AgentExperiment


class MiniGridWorld(World):
    """There is no data: agents learn while they act."""

    name = "minigrid"
    title = "MiniGrid"

    def experiments(self) -> Sequence[AgentExperiment]:
        from gatel0rd.worlds.minigrid.experiments import EXPERIMENTS

        return EXPERIMENTS
