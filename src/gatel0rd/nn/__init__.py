"""What a PyTorch user imports: the layer, one step of it, and the paper's mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.nn import functional
    from gatel0rd.nn.functional import l0_penalty, l1_penalty, l2_penalty, retanh
    from gatel0rd.nn.gate_rate import GateRate
    from gatel0rd.nn.layer import GateL0RD, GateL0RDCell

__all__ = [
    "GateL0RD",
    "GateL0RDCell",
    "GateRate",
    "functional",
    "l0_penalty",
    "l1_penalty",
    "l2_penalty",
    "retanh",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "GateL0RD": "layer",
        "GateL0RDCell": "layer",
        "GateRate": "gate_rate",
        "functional": "functional",
        "l0_penalty": "functional",
        "l1_penalty": "functional",
        "l2_penalty": "functional",
        "retanh": "functional",
    },
)
