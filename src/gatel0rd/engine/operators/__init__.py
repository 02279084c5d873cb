"""The engine as operators of PyTorch, which torch.compile and torch.export see as one step of their graph.

``gatel0rd::gated_layer`` is a GateL0RD layer over time; ``gatel0rd::run_program`` is any program, given as text, so
that a graph that was saved needs nothing of the process that made it. Both have fake kernels and gradients; under vmap,
entries of the mapped dimension become entries of the batch.
"""

from gatel0rd.engine.operators.layers import gated_layer, gated_layer_backward, run_layer_operator
from gatel0rd.engine.operators.programs import program_of, run_program, run_program_backward

__all__ = [
    "gated_layer",
    "gated_layer_backward",
    "program_of",
    "run_layer_operator",
    "run_program",
    "run_program_backward",
]
