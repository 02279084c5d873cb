"""What all drawings of worlds share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

Array = NDArray[np.float64]
Picture = NDArray[np.uint8]
OVERSAMPLING = 3
"""Pictures are drawn larger and scaled down, for smooth edges."""


class Canvas:
    """An oversampled picture, twice as wide as high, whose height is 2.2 units of the world.

    Attributes:
        size: its height in pixels.
        unit: pixels per unit of the world.
        image, draw: Pillow's picture, and what draws in it.
    """

    def __init__(self, height: int) -> None:
        from PIL import Image, ImageDraw

        self.size = height * OVERSAMPLING
        self.unit = self.size / 2.2
        self.image: Image.Image = Image.new("RGB", (2 * self.size, self.size), "#39404f")
        self.draw: ImageDraw.ImageDraw = ImageDraw.Draw(self.image)

    def width(self, share: int) -> int:
        """Of a line, as a share of the picture's height."""
        return max(1, self.size // share)


def box(center: Array, half: Array | float) -> list[tuple[float, float]]:
    """The corners of a box, as PIL wants them."""
    low, high = center - half, center + half
    return [(low[0], low[1]), (high[0], high[1])]


def scale_down(image: Image.Image) -> Picture:
    """An oversampled picture in its final size."""
    from PIL import Image

    size = (image.width // OVERSAMPLING, image.height // OVERSAMPLING)
    return np.asarray(image.resize(size, Image.Resampling.LANCZOS), dtype=np.uint8)
