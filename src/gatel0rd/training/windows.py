"""Windows of long sequences, for training on any stretch of them."""

from __future__ import annotations

import torch
from torch import Tensor


def window_view(values: Tensor, longest: int) -> Tensor:
    """Every row as the start of a window, without a copy. Shape: [S, F] -> [longest + 1, S, F]."""
    rows, width = values.shape
    padded = torch.cat([values, values.new_zeros(longest, width)])  # rows near the end reach over it, unused
    return padded.as_strided((longest + 1, rows, width), (width, width, 1))
