"""Shared by all tests. Sizes are distinct everywhere, so that a swapped axis fails."""

from __future__ import annotations

import os

import pytest
import torch

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
torch.set_num_threads(1)

T, B, INPUT, H, OUTPUT = 7, 5, 3, 2, 4


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
