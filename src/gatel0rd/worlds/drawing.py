"""What all drawings of worlds share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

Array = NDArray[np.float64]
Picture = NDArray[np.uint8]
OVERSAMPLING = 3
"""Pictures are drawn larger and scaled down, for smooth edges."""


def box(center: Array, half: Array | float) -> list[tuple[float, float]]:
    """The corners of a box, as PIL wants them."""
    low, high = center - half, center + half
    return [(low[0], low[1]), (high[0], high[1])]


def scale_down(image: Image.Image) -> Picture:
    """An oversampled picture in its final size."""
    from PIL import Image

    size = (image.width // OVERSAMPLING, image.height // OVERSAMPLING)
    return np.asarray(image.resize(size, Image.Resampling.LANCZOS), dtype=np.uint8)
