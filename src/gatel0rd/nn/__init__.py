"""What a PyTorch user imports: the layer, one step of it, the loop over time, and the paper's mathematics."""

from gatel0rd.nn import functional
from gatel0rd.nn.functional import l0_penalty, l1_penalty, l2_penalty, retanh
from gatel0rd.nn.layer import GateL0RD, GateL0RDCell
from gatel0rd.nn.unroll import unroll

__all__ = [
    "GateL0RD",
    "GateL0RDCell",
    "functional",
    "l0_penalty",
    "l1_penalty",
    "l2_penalty",
    "retanh",
    "unroll",
]
