"""What is to be remembered: values that a flag marks, among noise that looks like them at every other step."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from gatel0rd.training.sequences import Stretch
from gatel0rd.worlds.memory.sizes import SIZES, TaskName, TaskSizes


class MemoryTask(ABC):
    """Remember the last value that was written to each of S slots.

    An input has the values of all slots, and a flag for each. Where a flag is 1, the value next to it is to be
    remembered; everywhere else there is standard normal noise in its place. All slots are written at the first step.

    Attributes:
        rewrites: how often a slot is written again in a sequence, on average, however long the sequence is: in longer
            sequences a value has to be held for longer.
    """

    name: TaskName
    rewrites: float = 0.0

    @property
    def sizes(self) -> TaskSizes:
        return SIZES[self.name]

    def sample(
        self,
        steps: int,
        batch_size: int,
        generator: torch.Generator,
        *,
        whole: int | None = None,
        held: Tensor | None = None,
    ) -> Stretch:
        """Sequences, or the next stretch of long ones.

        Args:
            whole: steps of the whole sequences; ``steps`` if not given.
            held: what is to be remembered before the first step, [B, S]; None where sequences begin.
        """
        shape = (steps, batch_size, self.sizes.slots)
        written = torch.zeros(shape, dtype=torch.bool)
        if self.rewrites:
            written = torch.rand(shape, generator=generator) < self.rewrites / (whole or steps)
        if held is None:
            written[0] = True
        values = self.draw_values(shape, generator) if self.rewrites or held is None else written.to(torch.float32)
        shown = torch.randn(*shape, self.sizes.value_size, generator=generator)
        if self.rewrites or held is None:
            shown = torch.where(written.unsqueeze(-1), self.show(values), shown)
        inputs = torch.cat([shown.flatten(2), written.to(shown.dtype)], dim=-1)
        times = torch.arange(steps)[:, None, None]
        last = torch.where(written, times, -1).cummax(dim=0).values  # [T, B, S]
        targets = values.gather(0, last.clamp(min=0))
        if held is not None:
            targets = torch.where(last >= 0, targets, held)
        return Stretch(inputs, targets, written.any(dim=-1))

    @abstractmethod
    def draw_values(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Values that may be written, as numbers. Shape: [T, B, S]."""

    @abstractmethod
    def show(self, values: Tensor) -> Tensor:
        """Values as a network sees them. Shape: [T, B, S] -> [T, B, S, value_size]."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How wrong answers are, a mean. Shape: outputs [T, B, output_size], targets [T, B, S]."""

    @abstractmethod
    def is_right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Which answers are right in all slots. Shape: [B, output_size], [B, S] -> [B]."""


class SymbolTask(MemoryTask):
    """One of four symbols, shown at the first step."""

    name = "symbol"

    def draw_values(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randint(self.sizes.value_size, shape, generator=generator).to(torch.float32)

    def show(self, values: Tensor) -> Tensor:
        return F.one_hot(values.long(), self.sizes.value_size).to(torch.float32)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten().long())

    def is_right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.argmax(dim=-1) == targets[:, 0]


class BitsTask(MemoryTask):
    """Three bits that are switched on and off now and then, each by itself (a flip-flop)."""

    name = "bits"
    rewrites = 5.0

    def draw_values(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return 2.0 * torch.randint(2, shape, generator=generator) - 1

    def show(self, values: Tensor) -> Tensor:
        return values.unsqueeze(-1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, (targets + 1) / 2)

    def is_right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs > 0) == (targets > 0)).all(dim=-1)


class NumberTask(MemoryTask):
    """A number between -1 and 1, shown at the first step; an answer is right if it is off by less than 0.1.

    A state that settles in one of a few places can hold a symbol; for a number every value has to stay where it is.
    """

    name = "number"
    tolerance = 0.1

    def draw_values(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return 2 * torch.rand(shape, generator=generator) - 1

    def show(self, values: Tensor) -> Tensor:
        return values.unsqueeze(-1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean()

    def is_right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs()[:, 0] < self.tolerance


TASKS: dict[TaskName, MemoryTask] = {task.name: task for task in (SymbolTask(), BitsTask(), NumberTask())}
