"""What a PyTorch user imports: the layer, cells, and the paper's mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.nn.layer import GateL0RD, GateL0RDCell

__all__ = ["GateL0RD", "GateL0RDCell"]

__getattr__, __dir__ = load_lazily(__name__, {"GateL0RD": "layer", "GateL0RDCell": "layer"})
