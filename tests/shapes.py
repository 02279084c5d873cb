"""Sizes of sequences in tests: all distinct, so that a swapped axis fails."""

from __future__ import annotations

T, B, INPUT, H, OUTPUT = 7, 5, 3, 2, 4
"""Time steps, batch, and sizes of inputs, latent states and outputs."""
