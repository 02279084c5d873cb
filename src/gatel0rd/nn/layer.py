"""GateL0RD and GateL0RDCell, used like ``nn.GRU`` and ``nn.GRUCell``."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from gatel0rd.engine import EngineName, ProgramCache, check_name
from gatel0rd.engine.eligibility import reason_against_tracing
from gatel0rd.nn.arguments import (
    check_input,
    check_probability,
    check_sizes,
    check_state,
    is_under_autocast,
    leave_autocast,
)
from gatel0rd.nn.bidirectional import unroll_both_ways
from gatel0rd.nn.cells import GateL0RDCore, Stack, State, Step
from gatel0rd.nn.config import GateName
from gatel0rd.nn.gated_layer_gpu import Draw
from gatel0rd.nn.unroll import Unrolled, unroll

__all__ = ["GateL0RD", "GateL0RDCell"]

MaskMeaning = Literal["auto", "starts", "valid"]


class GateL0RDCell(nn.Module):
    r"""One step of GateL0RD, in place of ``nn.GRUCell``.

    .. math::
        s_t = g(x_t, h_{t-1}) + ε,\quad Λ(s) = \max(0, \tanh s),\quad
        h_t = Λ(s_t) ⊙ r(x_t, h_{t-1}) + (1 - Λ(s_t)) ⊙ h_{t-1},\quad
        y_t = p(x_t, h_t) ⊙ o(x_t, h_t)

    Args: as :class:`GateL0RD`, for one layer.

    Inputs: input, hx
        - **input**: :math:`(B, I)` or :math:`(I)`.
        - **hx**: latent state, :math:`(B, H)` or :math:`(H)`; zeros if not given.

    Outputs: output, h_1 (and the gates with ``return_gates=True``)
        - **output**: :math:`(B, O)`: unlike in a GRU the output is not the latent state.
        - **h_1**: next latent state, :math:`(B, H)`. A closed gate leaves its latent bit-identical (but -0.0 becomes
          0.0).
        - **gates**: Λ(s_t), :math:`(B, H)`.

    Example:
        >>> import torch
        >>> from gatel0rd import GateL0RDCell
        >>> cell = GateL0RDCell(10, 20)
        >>> output, h = cell(torch.randn(3, 10))
        >>> output, h = cell(torch.randn(3, 10), h)
        >>> h.shape
        torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        gate: GateName = "retanh",
        noise_std: float = 0.1,
        output_gate: bool = True,
        scalar_gate: bool = False,
        headless: bool = False,
        net_layers: int = 1,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size, net_layers=net_layers)
        if output_size is not None:
            check_sizes(output_size=output_size)
        self.cell = GateL0RDCore(
            input_size,
            hidden_size,
            output_size,
            net_layers=net_layers,
            gate=gate,
            noise_std=noise_std,
            output_gate=output_gate,
            scalar_gate=scalar_gate,
            headless=headless,
            bias=bias,
            device=device,
            dtype=dtype,
        )
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, self.cell.output_size

    def forward(
        self,
        input: Tensor,
        hx: Tensor | None = None,
        *,
        return_gates: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, ...]:
        if input.dim() not in (1, 2):
            raise ValueError(f"input has shape {tuple(input.shape)}; expected (B, I) or (I)")
        given_dtype = input.dtype
        input, hx = leave_autocast(self, input, hx)
        check_input(self, input, self.input_size)
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            h = self.cell.initial_state(x.shape[0], x)[0]
        else:
            check_state(hx, (x.shape[0], self.hidden_size) if batched else (self.hidden_size,), x)
            h = hx if batched else hx.unsqueeze(0)
        noise = self.cell.sample_noise(1, x.shape[0], x, generator) if self.training else None
        output, (h,), gates = self._step(x, h, None if noise is None else noise.squeeze(0))
        assert gates is not None
        output = output.to(given_dtype)
        if self.cell.output_gate_net is None:
            output = output.clone()  # the caller may change it in place; it is the state, or read by the backward pass
        results = (output, h, gates) if return_gates else (output, h)
        return results if batched else tuple(tensor.squeeze(0) for tensor in results)

    def _step(self, x: Tensor, h: Tensor, noise: Tensor | None) -> Step:
        """One step; gates and states in the type of the weights, also under autocast."""
        if not is_under_autocast(x):
            return self.cell(x, (h,), noise)  # type: ignore[no-any-return]
        with torch.autocast(x.device.type, enabled=False):
            return self.cell(x, (h,), noise)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, output_size={self.output_size}"


class GateL0RD(nn.Module):
    r"""A recurrent layer whose latent state changes sparsely, in place of ``nn.GRU``.

    .. math::
        s_t = g(x_t, h_{t-1}) + ε,\quad Λ(s) = \max(0, \tanh s),\quad
        h_t = Λ(s_t) ⊙ r(x_t, h_{t-1}) + (1 - Λ(s_t)) ⊙ h_{t-1},\quad
        y_t = p(x_t, h_t) ⊙ o(x_t, h_t)

    Add ``λ * gatel0rd.nn.functional.l0_penalty(gates)`` to the loss to make gates open rarely.

    Args:
        input_size, hidden_size: sizes of x_t and of the latent state h_t.
        output_size: size of y_t; ``hidden_size`` if not given.
        num_layers: stacked layers; each reads the output of the one below.
        bias, batch_first, dropout, device, dtype: as in ``nn.GRU``.
        gate: ``retanh``, ``sigmoid`` or ``heaviside`` (straight-through gradient).
        noise_std: standard deviation of the gate noise ε, drawn while training and absent in ``eval()``.
        output_gate: False leaves out the factor o(x_t, h_t).
        scalar_gate: True: one gate for all dimensions of a layer; with ``gate="heaviside"`` it is binary.
        headless: True leaves out p and o: the output is the latent state, as in ``nn.GRU``.
        bidirectional: True: each layer also runs from the last step to the first, with weights of its own; outputs have
            2·O features, and states and gates of both directions follow each other, as in ``nn.GRU``.
        net_layers: 1 to 3 layers inside g and r.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.
        mask_means: what a mask marks: ``"starts"`` of episodes, ``"valid"`` steps, or ``"auto"`` (see Note).
        recompute: True: kernels on a GPU keep the latent states alone for the backward pass and compute gates and
            recommendations once more there: a third of the memory, the same arithmetic. No effect elsewhere.

    Inputs: input, hx, mask
        - **input**: :math:`(T, B, I)`, :math:`(B, T, I)` with ``batch_first``, :math:`(T, I)` unbatched,
          or a ``PackedSequence``.
        - **hx**: :math:`(L, B, H)`, or :math:`(L, H)` unbatched; zeros if not given.
        - **mask**: boolean, laid out as the first dimensions of input; True where a new episode starts: the state is
          set to zero before that step. (A mask from TorchRL's ``GRUModule`` marks valid steps instead; see Note.)
        - **return_gates**: also return the gates.
        - **generator**: source of the gate noise; PyTorch's default generator if not given.

    Outputs: output, h_n (and gates)
        - **output**: as input, with O features.
        - **h_n**: :math:`(L, B, H)` or :math:`(L, H)`.
        - **gates**: Λ(s_t), as input, with L·H features (layer after layer), or L with ``scalar_gate``.

    Note:
        TorchRL cuts a batch into episodes, pads them and passes a mask that is True on the leading, valid steps of
        every row, at least one row being valid to its end. Read as episode starts such a mask would reset a row at
        every step, so with ``mask_means="auto"`` a mask of more than one step that looks like this is taken as
        TorchRL's: the state is held on the padding. Say ``"starts"`` if your episodes can be one step long, and
        ``"valid"`` for TorchRL, to leave nothing to be guessed. On a GPU and under torch.compile ``"auto"``
        with a mask is an error, as it would have to wait for the mask's numbers.

        Under autocast, gates and states stay in the type of the weights, as small changes add up over time; outputs
        have the type of the input.

    Deviations: 0.1 is used as a standard deviation of ε, as in the authors' code (the text has Σ_ii = 0.1).

    Example:
        >>> import torch
        >>> from gatel0rd import GateL0RD
        >>> rnn = GateL0RD(10, 20, num_layers=2)
        >>> output, h_n, gates = rnn(torch.randn(5, 3, 10), return_gates=True)
        >>> output.shape, h_n.shape, gates.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]), torch.Size([5, 3, 40]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        gate: GateName = "retanh",
        noise_std: float = 0.1,
        output_gate: bool = True,
        scalar_gate: bool = False,
        headless: bool = False,
        bidirectional: bool = False,
        net_layers: int = 1,
        mask_means: MaskMeaning = "auto",
        engine: EngineName = "auto",
        recompute: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, net_layers=net_layers)
        if output_size is not None:
            check_sizes(output_size=output_size)
        if mask_means not in ("auto", "starts", "valid"):
            raise ValueError(f"mask_means is {mask_means!r}; expected auto, starts or valid")
        check_name(engine)
        self.mask_means, self.engine, self.recompute = mask_means, engine, recompute
        self._programs = ProgramCache()
        check_probability("dropout", dropout)
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, output_size or hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.bidirectional = bidirectional
        directions = 1 + bidirectional

        def make_stack() -> Stack:
            layers = [
                GateL0RDCore(
                    input_size if index == 0 else directions * self.output_size,
                    hidden_size,
                    self.output_size,
                    net_layers=net_layers,
                    gate=gate,
                    noise_std=noise_std,
                    output_gate=output_gate,
                    scalar_gate=scalar_gate,
                    headless=headless,
                    bias=bias,
                    device=device,
                    dtype=dtype,
                )
                for index in range(num_layers)
            ]
            return Stack(layers, dropout=float(dropout))

        self.stack = make_stack()
        self.backward_stack = make_stack() if bidirectional else None

    @property
    def dropout(self) -> float:
        """The probability of dropout between layers, which may be changed at any time."""
        return self.stack.dropout

    @dropout.setter
    def dropout(self, probability: float) -> None:
        check_probability("dropout", probability)
        for stack in (self.stack, self.backward_stack):
            if stack is not None:
                stack.dropout = float(probability)

    @overload
    def forward(
        self,
        input: Tensor,
        hx: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        return_gates: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, ...]: ...

    @overload
    def forward(
        self,
        input: PackedSequence,
        hx: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        return_gates: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[PackedSequence | Tensor, ...]: ...

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        return_gates: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[PackedSequence | Tensor, ...]:
        resets = active = lengths = None
        batched = True
        if isinstance(input, PackedSequence):
            if mask is not None:
                raise ValueError("mask was given with a PackedSequence; cut the sequences at their episode starts")
            x, lengths = pad_packed_sequence(input)  # in the order of the caller's batch
            active = torch.arange(len(x), device=lengths.device).unsqueeze(1) < lengths
            active = active.to(x.device)
        else:
            x, batched = input, input.dim() == 3
            if input.dim() not in (2, 3):
                expected = "(B, T, I)" if self.batch_first else "(T, B, I)"
                raise ValueError(f"input has shape {tuple(input.shape)}; expected {expected} or (T, I)")
            if mask is not None:
                resets, active = self._read_mask(mask, input)
            if not batched:
                x = x.unsqueeze(1)  # (T, I) -> (T, 1, I)
            elif self.batch_first:
                x = x.transpose(0, 1)  # (B, T, I) -> (T, B, I)
        given_dtype = x.dtype
        x, hx = leave_autocast(self, x, hx)
        check_input(self, x, self.input_size)

        steps, batch_size = x.shape[:2]
        state = None
        if hx is not None:
            middle = (batch_size,) if batched else ()
            directions = 1 + self.bidirectional
            check_state(hx, (directions * self.num_layers, *middle, self.hidden_size), x)
            state = (hx if batched else hx.unsqueeze(1)).unbind(0)  # (L, H) -> L x (1, H)
        noise = self._sample_noise(steps, batch_size, x, generator) if self.training else None
        outputs, _, gates, state = self._unroll(x, state, noise, resets, active)
        assert gates is not None
        outputs = outputs.to(given_dtype)
        h_n = torch.stack(state)  # L x (B, H) -> (L, B, H)

        def arrange(sequence: Tensor) -> Tensor | PackedSequence:
            if isinstance(input, PackedSequence) and lengths is not None:
                return _pack_like(input, sequence, lengths)
            if not batched:
                return sequence.squeeze(1)
            return sequence.transpose(0, 1) if self.batch_first else sequence

        results = (arrange(outputs), h_n if batched else h_n.squeeze(1))
        return (*results, arrange(gates)) if return_gates else results

    def _sample_noise(
        self, steps: int, batch_size: int, like: Tensor, generator: torch.Generator | None
    ) -> Tensor | Draw | None:
        if self.backward_stack is None:
            return Draw(generator)
        cells = [cell for pair in zip(self.stack.cells, self.backward_stack.cells, strict=True) for cell in pair]
        drawn = [cell.sample_noise(steps, batch_size, like, generator) for cell in cells]
        present = [noise for noise in drawn if noise is not None]
        return torch.cat(present, dim=-1) if present else None

    def _unroll(
        self, x: Tensor, state: State | None, noise: Tensor | Draw | None, resets: Tensor | None, active: Tensor | None
    ) -> Unrolled:
        options: dict[str, Any] = {"noise": noise, "active": active, "engine": self.engine, "cache": self._programs}
        options["recompute"] = self.recompute
        if self.backward_stack is None:
            return unroll(self.stack, x, state, resets=resets, **options)
        if resets is not None:
            raise ValueError("a mask of episode starts was given to a bidirectional layer; give each episode by itself")
        return unroll_both_ways(self.stack, self.backward_stack, x, state, **options)

    def _read_mask(self, mask: Tensor, input: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Episode starts, or the valid steps that TorchRL passes (see the class's Note), time first."""
        if mask.shape != input.shape[:-1] or mask.dtype != torch.bool:
            raise ValueError(
                f"mask has shape {tuple(mask.shape)} and dtype {mask.dtype}; expected {tuple(input.shape[:-1])}, "
                "boolean, True where a new episode starts"
            )
        if mask.dim() == 1:
            mask = mask.unsqueeze(1)
        elif self.batch_first:
            mask = mask.transpose(0, 1)
        means = self.mask_means
        if means == "auto" and (mask.device.type != "cpu" or reason_against_tracing()):
            raise ValueError(
                "mask_means is 'auto', which would have to look at the mask's numbers, here on "
                f"{mask.device} or while operations are recorded; say mask_means='starts' or mask_means='valid'"
            )
        if means == "auto":
            leading = (mask[1:] <= mask[:-1]).all()  # each row: True, …, True, False, …, False
            means = "valid" if len(mask) > 1 and bool(leading & mask.all(dim=0).any()) else "starts"
        return (mask, None) if means == "starts" else (None, mask)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh."""
        self.stack.reset_parameters(generator)
        if self.backward_stack is not None:
            self.backward_stack.reset_parameters(generator)

    def flatten_parameters(self) -> None:
        """Does nothing; there for code that calls it on ``nn.GRU``."""

    def extra_repr(self) -> str:
        options = f"output_size={self.output_size}, num_layers={self.num_layers}, batch_first={self.batch_first}"
        options += f", dropout={self.dropout}" if self.dropout else ""
        options += ", bidirectional=True" if self.bidirectional else ""
        return f"{self.input_size}, {self.hidden_size}, {options}"


def _pack_like(packed: PackedSequence, sequence: Tensor, lengths: Tensor) -> PackedSequence:
    """A padded sequence in the order of a packed one, also among sequences of equal length."""
    order = packed.sorted_indices
    if order is not None:
        sequence, lengths = sequence[:, order], lengths[order.cpu()]
    data = pack_padded_sequence(sequence, lengths).data
    return PackedSequence(data, packed.batch_sizes, order, packed.unsorted_indices)
