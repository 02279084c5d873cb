"""What the cells with the weights of ``torch.nn``'s share: their names and layout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatel0rd.engine.builder import Builder
from gatel0rd.engine.program import Activation, Value
from gatel0rd.nn.cells.base import Cell, State
from gatel0rd.nn.mlp import uniform_


class TorchLikeCell(Cell):
    """Weights named and shaped as in ``nn.RNNCell``, ``nn.GRUCell``, ``nn.LSTMCell``: a state dict fits both ways.

    The output of these cells is their latent state h_t, so ``output_size`` equals ``hidden_size``.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_chunks: int,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = self.latent_size = hidden_size
        self.state_sizes = (hidden_size,)
        rows = num_chunks * hidden_size

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        self.bias_ih = parameter(rows) if bias else None
        self.bias_hh = parameter(rows) if bias else None
        self.reset_parameters()

    def projections(self, x_t: Tensor, h_tm1: Tensor) -> tuple[Tensor, Tensor]:
        """W_ih·x_t + b_ih and W_hh·h_{t-1} + b_hh."""
        return F.linear(x_t, self.weight_ih, self.bias_ih), F.linear(h_tm1, self.weight_hh, self.bias_hh)

    def projections_program(
        self, build: Builder, x: Value, h_tm1: Value, chunk: int, act: Activation = "none", mask: str | None = None
    ) -> Value:
        """One chunk of both projections, added up."""
        return build.affine(
            self,
            [("weight_ih", [x]), ("weight_hh", [h_tm1])],
            ["bias_ih", "bias_hh"],
            rows=(chunk * self.hidden_size, self.hidden_size),
            act=act,
            masks={"weight_hh": mask} if mask else None,
        )

    def state_from(self, latents: Tensor) -> State:
        return (latents,)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for parameter in self.parameters():
            uniform_(parameter, self.hidden_size, generator)
