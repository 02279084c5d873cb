"""How large the inputs and answers of each task are. Imports nothing heavy: runs are planned with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TaskName = Literal["symbol", "bits", "number"]


@dataclass(frozen=True, kw_only=True)
class TaskSizes:
    """Sizes of a task.

    Attributes:
        slots: values that are remembered at a time.
        value_size: features with which the value of a slot is shown.
        output_size: numbers of an answer.
        chance: how often a guess is right.
    """

    slots: int
    value_size: int
    output_size: int
    chance: float

    @property
    def input_size(self) -> int:
        """The values, and a flag for each slot."""
        return self.slots * (self.value_size + 1)


SIZES: dict[TaskName, TaskSizes] = {
    "symbol": TaskSizes(slots=1, value_size=4, output_size=4, chance=1 / 4),
    "bits": TaskSizes(slots=3, value_size=1, output_size=3, chance=1 / 8),
    "number": TaskSizes(slots=1, value_size=1, output_size=1, chance=1 / 10),  # of the answer 0
}
