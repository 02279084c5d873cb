"""Feed-forward modules in the compiled engine: frames have no order, so they are laid out as it runs fastest."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from gatel0rd.engine.builder import Builder, ProgramBuilder, ProgramModule
from gatel0rd.engine.compiled import ProgramCache
from gatel0rd.engine.eligibility import find_layout
from gatel0rd.engine.native import EngineName
from gatel0rd.engine.program import Program, Value

LANES = 16
"""Frames that the engine computes at once; the rest of a layout is time, over which it sums gradients."""


class FrameModule(ProgramModule):
    """A module of frames [N, input_size], without memory."""

    input_size: int

    @abstractmethod
    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        """The outputs in PyTorch. Shape: [N, input_size] -> [N, ·] each."""

    @abstractmethod
    def program(self, build: Builder, frames: Value) -> tuple[Value, ...] | None:
        """The same as instructions; None: only PyTorch can run this."""


def run_frames(
    module: FrameModule, frames: Tensor, *, engine: EngineName = "auto", cache: ProgramCache
) -> tuple[Tensor, ...]:
    """The module's outputs, from the compiled engine where it can run. Shape: [N, F] -> [N, ·] each."""
    count = len(frames)
    if torch.compiler.is_compiling():
        return module(frames)  # type: ignore[no-any-return]
    layout = find_layout(engine, [frames], module, called=False) if count else None
    if layout is not None:
        compiled = cache.get_or_make(layout, lambda: frame_program(module), engine)
        if compiled is not None:
            lanes = LANES if count % LANES == 0 else count
            laid_out = frames.reshape(count // lanes, lanes, module.input_size)  # [N, F] -> [N / lanes, lanes, F]
            outputs, _ = compiled.run(module, [laid_out], [])
            return tuple(output.reshape(count, -1) for output in outputs)
    return module(frames)  # type: ignore[no-any-return]


def frame_program(module: FrameModule) -> Program | None:
    """A module of frames as a program; None: only PyTorch can run it."""
    build = ProgramBuilder(module)
    outputs = module.program(build, build.read(build.sequence(module.input_size)))
    return None if outputs is None else build.finish(outputs)
