"""A recurrent cell and a linear layer on top of it, which answer at every step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from gatel0rd.engine import EngineName, ProgramCache, check_name
from gatel0rd.models.config import SequenceModelConfig
from gatel0rd.nn.cells import State, build_cell
from gatel0rd.nn.chrono import chrono_init
from gatel0rd.nn.mlp import reset_linear
from gatel0rd.nn.unroll import unroll


class SequenceOutput(NamedTuple):
    """Answers [T, B, O], latents [T, B, H], gates [T, B, G] or None, and the state after the last step."""

    answers: Tensor
    latents: Tensor
    gates: Tensor | None
    state: State


class SequenceModel(nn.Module):
    """A cell over time, and a linear layer that reads an answer from its output at every step.

    Args:
        config: sizes and cell.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.

    Shape: [T, B, I] -> [T, B, O].
    """

    def __init__(self, config: SequenceModelConfig, *, engine: EngineName = "auto") -> None:
        super().__init__()
        check_name(engine)
        self.config, self.engine = config, engine
        self.core = build_cell(config.cell, config.input_size, config.cell.hidden_size)
        self.head = nn.Linear(self.core.output_size, config.output_size)
        self._programs = ProgramCache()

    def forward(self, inputs: Tensor, state: State | None = None, noise: Tensor | None = None) -> SequenceOutput:
        """Answers to a sequence, or to its next stretch from the state that the last one left.

        Args:
            noise: gate noise from :meth:`sample_noise`; none if not given.
        """
        run = unroll(self.core, inputs, state, noise=noise, engine=self.engine, cache=self._programs)
        return SequenceOutput(self.head(run.outputs), run.latents, run.gates, run.state)

    def sample_noise(self, inputs: Tensor, generator: torch.Generator) -> Tensor | None:
        """Gate noise for all steps, None for a cell without it."""
        return self.core.sample_noise(len(inputs), inputs.shape[1], inputs, generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh; with ``chrono_steps`` the biases of gates too."""
        self.core.reset_parameters(generator)
        reset_linear(self.head, generator)
        if self.config.chrono_steps is not None:
            chrono_init(self.core, self.config.chrono_steps, generator)
