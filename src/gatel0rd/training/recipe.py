"""What determines a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Preset = Literal["text", "reference"]


@dataclass(frozen=True, kw_only=True)
class DataRecipe:
    """Everything that determines a data set: the same recipe gives the same bytes.

    ``version`` is the generator's; it is raised when the same words would give other data.

    Example:
        >>> from gatel0rd.training import DataRecipe
        >>> DataRecipe(scenario="rrc", policy="time", split="test", sequences=64, steps=50).name
        'rrc-time-test-text-64x50-seed0'
    """

    scenario: str
    policy: str
    split: str
    sequences: int
    steps: int
    preset: Preset = "text"
    seed: int = 0
    version: int = 1

    @property
    def name(self) -> str:
        """File name without ending."""
        size = f"{self.sequences}x{self.steps}"
        version = f"-v{self.version}" if self.version > 1 else ""
        return f"{self.scenario}-{self.policy}-{self.split}-{self.preset}-{size}-seed{self.seed}{version}"
