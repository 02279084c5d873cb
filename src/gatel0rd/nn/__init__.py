"""What a PyTorch user imports: the layer, cells, and the paper's mathematics."""

from gatel0rd.nn.layer import GateL0RD, GateL0RDCell

__all__ = ["GateL0RD", "GateL0RDCell"]
