"""Which recurrent cell, and its options. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CellName = Literal["gatel0rd", "elman", "gru", "lstm", "clockwork", "none"]
GateName = Literal["retanh", "sigmoid", "heaviside"]


@dataclass(frozen=True, kw_only=True)
class CellConfig:
    """Which recurrent cell, and its options. ``num_layers`` stacks cells; the last four are GateL0RD's own.

    ``none`` is a layer without memory, to measure what a memory is worth.

    Example:
        >>> from gatel0rd import CellConfig
        >>> CellConfig(name="lstm", hidden_size=16).hidden_size
        16
    """

    name: CellName = "gatel0rd"
    hidden_size: int = 8
    num_layers: int = 1
    net_layers: int = 1
    gate: GateName = "retanh"
    noise_std: float = 0.1
    output_gate: bool = True
