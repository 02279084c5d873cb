"""What an agent sees, as a vector: f_pre of the reinforcement learning architecture (Suppl. B.2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod

import torch
from torch import Tensor, nn

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.frames import FrameModule
from gatel0rd.engine.program import Value
from gatel0rd.nn.mlp import reset_linear, tanh_mlp

MOST_PLACES = 400
"""Places of the first convolution for which a program is written; larger images are left to PyTorch."""


class GridEncoder(FrameModule):
    """Three convolutions of 2 x 2 cells with ReLU, the first followed by max-pooling over 2 x 2.

    Args:
        shape: width, height and channels of an image, indexed [x, y, channel] as MiniGrid's are.
        widths: channels after each convolution.

    Shape: [N, X·Y·C] -> [N, X'·Y'·64]; an image of 7 x 7 becomes 64 numbers.
    """

    def __init__(self, shape: Sequence[int], widths: tuple[int, int, int] = (16, 32, 64)) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[:2]) < 7:
            raise ValueError(f"images have shape {tuple(shape)}; expected (width, height, channels), at least 7 x 7")
        self.shape, self.input_size = tuple(shape), prod(shape)
        channels = (shape[2], *widths)
        # a convolution's weights as a matrix: columns are (x, y, channel) of the 2 x 2 cells
        self.convolutions = nn.ModuleList(nn.Linear(4 * a, b) for a, b in pairwise(channels))
        self.output_size = prod((size - 1) // 2 - 2 for size in shape[:2]) * widths[-1]

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        images = frames.reshape(-1, *self.shape).permute(0, 3, 1, 2)  # [N, X·Y·C] -> [N, C, X, Y]
        for index, layer in enumerate(self.convolutions):
            assert isinstance(layer, nn.Linear)
            kernel = layer.weight.unflatten(1, (2, 2, -1)).permute(0, 3, 1, 2)  # [O, 4·C] -> [O, C, 2, 2]
            images = torch.relu(nn.functional.conv2d(images, kernel, layer.bias))
            if index == 0:
                images = nn.functional.max_pool2d(images, 2)
        return (images.permute(0, 2, 3, 1).flatten(1),)  # [N, 64, X', Y'] -> [N, X'·Y'·64]

    def program(self, build: Builder, frames: Value) -> tuple[Value, ...] | None:
        width, height, channels = self.shape
        if width * height > MOST_PLACES:
            return None
        grid = {
            (x, y): build.view(frames, (x * height + y) * channels, channels)
            for x, y in product(range(width), range(height))
        }
        for index, layer in enumerate(self.convolutions):
            assert isinstance(layer, nn.Linear)
            corners = [(x, y) for x, y in grid if (x + 1, y + 1) in grid]
            seen = {(x, y): [grid[x + i, y + j] for i, j in product((0, 1), (0, 1))] for x, y in corners}
            grid = {place: build.linear(layer, cells, "relu") for place, cells in seen.items()}
            if index == 0:
                pooled = [(x, y) for x, y in grid if x % 2 == y % 2 == 0 and (x + 1, y + 1) in grid]
                grid = {
                    (x // 2, y // 2): build.maximum(
                        build.maximum(grid[x, y], grid[x, y + 1]), build.maximum(grid[x + 1, y], grid[x + 1, y + 1])
                    )
                    for x, y in pooled
                }
        return (build.concatenate([grid[place] for place in sorted(grid)]),)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh."""
        reset_linear(self, generator)


class VectorEncoder(FrameModule):
    """Two layers of tanh units, for observations that are vectors. Shape: [N, F] -> [N, width]."""

    def __init__(self, size: int, width: int = 64) -> None:
        super().__init__()
        self.input_size, self.output_size = size, width
        self.layers = tanh_mlp(size, (width, width), last_tanh=True)

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        return (self.layers(frames),)

    def program(self, build: Builder, frames: Value) -> tuple[Value, ...]:
        return (build.mlp(self.layers, [frames]),)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh."""
        reset_linear(self, generator)
