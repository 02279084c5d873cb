"""Programs in the compiled engine, inside ordinary autograd."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gatel0rd.engine import native
from gatel0rd.engine.builder import UnknownLayoutError
from gatel0rd.engine.eligibility import unavailable, warn_slow
from gatel0rd.engine.program import Program, Section
from gatel0rd.engine.tensors import map_batched, readable_gradient, resolve, restore

View = tuple[int, int, int, int, int, int, int]
"""A tensor for the engine: address; strides in time, batch and features; time steps, entries and features."""
Flat = tuple[int, int]
"""A contiguous tensor for the engine: address and number of elements."""
NOTHING: View = (0, 0, 0, 0, 0, 0, 0)
MISSING: Flat = (0, 0)

LABEL_BYTES, MOST_LANES = 64, 32
"""What a tape begins with, and the most batch entries that any instruction set puts into one block."""


class Results(NamedTuple):
    """What a run of a program gives: a tensor [T, B, ·] per output and [B, ·] per final value.

    Example:
        >>> import torch
        >>> from gatel0rd.engine import Results
        >>> Results(outputs=(torch.zeros(7, 5, 2),), finals=()).outputs[0].shape
        torch.Size([7, 5, 2])
    """

    outputs: tuple[Tensor, ...]
    finals: tuple[Tensor, ...]


class Compiled:
    """A program in the engine's memory, bound to the module whose parameters it uses.

    Example:
        >>> import torch
        >>> from gatel0rd.engine import Compiled
        >>> from gatel0rd.engine.builder import ProgramBuilder
        >>> module = torch.nn.Linear(3, 2)
        >>> build = ProgramBuilder(module)
        >>> program = build.finish([build.linear(module, [build.read(build.sequence(3))], "tanh")])
        >>> results = Compiled(program).run(module, [torch.randn(7, 5, 3)], [])
        >>> results.outputs[0].shape
        torch.Size([7, 5, 2])
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.native = native.module().Program()
        for shape in program.shapes:
            self.native.parameter(int(torch.Size(shape).numel()))
        _write_section(self.native.prologue, program.prologue)
        _write_section(self.native.body, program.body)
        for initial_load in program.initial_loads:
            self.native.initial_load(*initial_load)
        for sequence_load in program.sequence_loads:
            self.native.sequence_load(*sequence_load)
        for state in program.states:
            self.native.state(*state)
        for value in program.outputs:
            self.native.output(value.index)
        for value in program.finals:
            self.native.final(value.index)
        self.native.loss_slots = program.loss_slots

    def parameters(self, root: nn.Module) -> list[Tensor]:
        """The module's parameters as they are now, in the program's order."""
        found = [_resolve(root, name) for name in self.program.parameters]
        for tensor, name, shape in zip(found, self.program.parameters, self.program.shapes, strict=True):
            if tensor.shape != shape:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it had {shape} when the model was compiled")
        return found

    def masks(self, root: nn.Module) -> list[Tensor | None]:
        names = self.program.masks
        found = [_resolve(root, names[k]) if k in names else None for k in range(len(self.program.parameters))]
        return [None if mask is None else resolve(mask).contiguous() for mask in found]

    def run(self, root: nn.Module, sequences: Sequence[Tensor], initials: Sequence[Tensor]) -> Results:
        """Run over time. Shape: sequences [T, B, ·], initials [B, ·]; gradients flow as through any operation."""
        self.check(sequences, initials)
        sequences, initials = [resolve(tensor) for tensor in sequences], [resolve(tensor) for tensor in initials]
        parameters = self.parameters(root)
        inputs = (*sequences, *initials, *parameters)
        masks = self.masks(root)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
            apply: Any = _Run.apply
            tensors = apply(self, masks, len(sequences), len(initials), *inputs)
        else:
            whole = [resolve(tensor).contiguous() for tensor in parameters]
            tensors = self.forward(sequences, initials, flats(whole), flats(masks), None)
        count = len(self.program.outputs)
        return Results(tensors[:count], tensors[count:])

    def forward(
        self,
        sequences: Sequence[Tensor],
        initials: Sequence[Tensor],
        parameters: Sequence[Flat],
        masks: Sequence[Flat],
        tape: Any,
        *,
        batch_first: bool = False,
    ) -> tuple[Tensor, ...]:
        """Outputs and final values of a run, without autograd; a tape keeps what a backward pass needs.

        Parameters and masks are given by their :func:`flats`. ``batch_first``: outputs are [T, B, ·] all the same, but
        contiguous once their first two dimensions are exchanged.
        """
        like = sequences[0]
        steps, batch = like.shape[:2]
        if batch_first:
            outputs = tuple(like.new_empty(batch, steps, value.size).transpose(0, 1) for value in self.program.outputs)
        else:
            outputs = tuple(like.new_empty(steps, batch, value.size) for value in self.program.outputs)
        finals = tuple(like.new_empty(batch, value.size) for value in self.program.finals)
        if batch > 0:
            self.native.forward(
                *_run_arguments(sequences, initials),
                [view_of(tensor) for tensor in outputs],
                [view_of(tensor) for tensor in finals],
                parameters,
                masks,
                tape,
            )
        return outputs + finals

    def backward(
        self,
        sequences: Sequence[Tensor],
        initials: Sequence[Tensor],
        parameters: Sequence[Tensor],
        masks: Sequence[Tensor | None],
        tape: Any,
        gradients: Sequence[Tensor | None],
        wanted: Sequence[bool],
    ) -> tuple[Tensor | None, ...]:
        """Gradients of sequences, initial tensors and parameters, as far as they are wanted."""
        like, inputs = sequences[0], (*sequences, *initials)
        input_gradients = [
            torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu") if need else None
            for tensor, need in zip(inputs, wanted, strict=False)
        ]
        flat = None
        if any(wanted[len(inputs) :]):
            flat = like.new_zeros(self.native.parameter_total)
        if like.shape[1] > 0:
            views = [NOTHING if gradient is None else view_of(gradient) for gradient in input_gradients]
            kept = [readable_gradient(gradient) for gradient in gradients]
            given = [NOTHING if gradient is None else view_of(gradient) for gradient in kept]
            count, split = len(self.program.outputs), len(sequences)
            self.native.backward(
                *_run_arguments(sequences, initials),
                flats(parameters),
                flats(masks),
                given[:count],
                given[count:],
                views[split:],
                views[:split],
                *flats([flat]),
                tape,
            )
        parameter_gradients: list[Tensor | None] = [None] * len(parameters)
        if flat is not None:
            sizes = [tensor.numel() for tensor in parameters]
            for k, part in enumerate(flat.split(sizes)):
                if wanted[len(inputs) + k]:
                    parameter_gradients[k] = part.view(parameters[k].shape)
        return (*input_gradients, *parameter_gradients)

    def open_tape(
        self,
        kept: Tensor,
        sequences: Sequence[Tensor],
        initials: Sequence[Tensor],
        parameters: Sequence[Tensor],
        masks: Sequence[Tensor | None],
    ) -> Any:
        """The tape in these bytes. The forward pass is run once more if there is none, if it is not of this program and
        instruction set, or if a saved-tensor hook made something else of it.
        """
        like, tapes = sequences[0], native.module().Tape
        readable = kept.dtype == torch.uint8 and kept.device.type == "cpu" and kept.is_contiguous()
        if readable and len(kept) >= LABEL_BYTES and kept.data_ptr() % 64 == 0:
            tape = tapes(*flats([kept]))
            if tape.holds(self.native, like.dtype == torch.float64, *like.shape[:2]):
                return tape
        tape = tapes()
        self.forward(sequences, initials, flats(parameters), flats(masks), tape)
        return tape

    def prepare(
        self, root: nn.Module, *, batch_first: bool = False
    ) -> Callable[[Sequence[Tensor], Sequence[Tensor]], Results]:
        """:meth:`run` without gradients and without checks, for many calls while the weights stay where they are.

        The caller sees to it that the first call's shapes and types were checked, and that later ones are the same.
        ``batch_first``: as of :meth:`forward`.
        """
        buffers = self.masks(root)
        tensors = [*(resolve(tensor.detach()).contiguous() for tensor in self.parameters(root)), *buffers]
        parameters, masks = flats(tensors[: -len(buffers)]), flats(buffers)
        count = len(self.program.outputs)

        def run(sequences: Sequence[Tensor], initials: Sequence[Tensor], kept: object = tensors) -> Results:
            results = self.forward(sequences, initials, parameters, masks, None, batch_first=batch_first)
            return Results(results[:count], results[count:])

        return run

    def check(self, sequences: Sequence[Tensor], initials: Sequence[Tensor], shift: int = 0) -> None:
        """Compare shapes with what the program will read; it reads memory without asking again.

        ``shift``: how many time steps more than the program runs for the sequences must have.
        """
        program, dtype = self.program, sequences[0].dtype
        steps, batch = sequences[0].shape[:2]
        for tensor in (*sequences, *initials):
            if tensor.dtype != dtype or tensor.device.type != "cpu":
                raise ValueError(f"a tensor is {tensor.dtype} on {tensor.device}; expected {dtype} on cpu")
        for sequence, size in zip(sequences, program.sequences, strict=True):
            if sequence.shape != (steps, batch, size):
                raise ValueError(f"a sequence has shape {tuple(sequence.shape)}; expected ({steps}, {batch}, {size})")
        for initial, size in zip(initials, program.initials, strict=True):
            if initial.shape != (batch, size):
                raise ValueError(f"an initial state has shape {tuple(initial.shape)}; expected ({batch}, {size})")
        needed = 1 + max((load.time for load in program.initial_loads), default=-1)
        if needed > steps - shift:
            raise ValueError(f"the sequences have {steps - shift} time steps; the first {needed} are needed")


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        compiled: Compiled,
        masks: list[Tensor | None],
        num_sequences: int,
        num_initials: int,
        *tensors: Tensor,
    ) -> Any:
        sequences = tensors[:num_sequences]
        initials = tensors[num_sequences : num_sequences + num_initials]
        parameters = tuple(resolve(tensor).contiguous() for tensor in tensors[num_sequences + num_initials :])
        tapes, kept, ctx.tape = native.module().Tape, None, None
        if _are_saved_tensors_hooked():  # as a tensor, which gradient checkpointing frees and offloading moves
            kept = pooled_bytes(tape_bytes(compiled.program, sequences[0]))
            tape = tapes(*flats([kept]))
        else:
            tape = ctx.tape = tapes()
        results = compiled.forward(sequences, initials, flats(parameters), flats(masks), tape)
        ctx.compiled, ctx.masks, ctx.counts = compiled, masks, (num_sequences, num_initials)
        ctx.save_for_backward(*sequences, *initials, *parameters, kept)
        ctx.dtype = sequences[0].dtype
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the compiled engine has no second derivatives; use engine='torch' for create_graph=True"
            )
        compiled: Compiled = ctx.compiled
        num_sequences, num_initials = ctx.counts
        *saved, kept = ctx.saved_tensors
        tensors = [restore(tensor, ctx.dtype) for tensor in saved]
        sequences, initials = tensors[:num_sequences], tensors[num_sequences : num_sequences + num_initials]
        parameters, wanted = tensors[num_sequences + num_initials :], ctx.needs_input_grad[4:]
        given = sequences, initials, parameters, ctx.masks
        tape = ctx.tape if kept is None else compiled.open_tape(kept, *given)

        def run(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
            return compiled.backward(*given, tape, gradients, wanted)

        return (None, None, None, None, *map_batched(run, gradients))


class ProgramCache(dict[Hashable, Compiled | None]):
    """Compiled programs of a module. A copy of the module starts with an empty one.

    Attributes:
        reasons: why there is no program under a key.
        layers: the programs of the module's layers, where they run one by one.

    Example:
        >>> from copy import deepcopy
        >>> from gatel0rd.engine import ProgramCache
        >>> cache = ProgramCache()
        >>> cache["a module that has no program"] = None
        >>> len(cache), len(deepcopy(cache))
        (1, 0)
    """

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[Hashable, str] = {}
        self.layers: defaultdict[int, ProgramCache] = defaultdict(ProgramCache)

    def __deepcopy__(self, memo: Any) -> ProgramCache:
        return ProgramCache()

    def __reduce__(self) -> Any:
        return ProgramCache, ()

    def get_or_make(
        self, key: Hashable, make: Callable[[], Program | None], engine: native.EngineName
    ) -> Compiled | None:
        """The program under this key; None (an error with ``native``) if the module cannot be described as one.

        The key holds the module's layout (:func:`gatel0rd.engine.eligibility.find_layout`) and everything else that the
        program depends on.
        """
        if key not in self:
            try:
                program = make()
                self[key] = None if program is None else Compiled(program)
            except UnknownLayoutError as error:
                self[key], self.reasons[key] = None, str(error)
        if self[key] is None and engine == "native":
            raise unavailable(self.reasons.get(key, "a cell has no program"))
        if key in self.reasons:
            warn_slow(self.reasons[key])
        return self[key]


def _resolve(root: nn.Module, name: str) -> Tensor:
    *path, last = name.split(".")
    module = root
    for part in path:
        module = module._modules[part]  # type: ignore[assignment]
    found = module._parameters.get(last)
    if found is None:
        found = getattr(module, last)
    assert isinstance(found, Tensor)
    return found


def _run_arguments(sequences: Sequence[Tensor], initials: Sequence[Tensor]) -> tuple[Any, ...]:
    """What a forward and a backward call begin with: precision, sizes, threads, and what goes in."""
    steps, batch = sequences[0].shape[:2]
    views = [[view_of(tensor) for tensor in tensors] for tensors in (initials, sequences)]
    return (sequences[0].dtype == torch.float64, steps, batch, torch.get_num_threads(), *views)


def tape_bytes(program: Program, like: Tensor) -> int:
    """Enough for a tape on any instruction set, without asking which: a graph is made once for all sizes."""
    steps, batch = like.shape[:2]
    rows = program.prologue.num_rows + program.body.num_rows * steps
    return LABEL_BYTES + rows * (batch + MOST_LANES - 1) * like.element_size()


def _are_saved_tensors_hooked() -> bool:
    """Whether something wants to see what is saved. A tape that nobody asks for is faster where it is no tensor."""
    find_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return find_hooks is None or find_hooks(False) is not None


def pooled_empty(*shape: int, like: Tensor) -> Tensor:
    """An uninitialised tensor of :func:`pooled_bytes`; no view, which autograd would let nobody change in place."""
    memory = pooled_bytes(math.prod(shape) * like.element_size()).untyped_storage()
    return like.new_empty(0).set_(memory, 0, shape)  # type: ignore[call-overload,no-any-return]


def pooled_bytes(count: int) -> Tensor:
    """Uninitialised memory that comes from the engine's pool and goes back to it.

    The system hands out large blocks page by page, which takes longer than some layers compute.
    """
    found: Tensor = native.module().pooled(count)
    return found


def flats(tensors: Iterable[Tensor | None]) -> list[Flat]:
    """Where contiguous tensors begin and how many elements they have; :data:`MISSING` for one that is not there."""
    return [MISSING if tensor is None else (tensor.data_ptr(), tensor.numel()) for tensor in tensors]


def view_of(tensor: Tensor) -> View:
    """A tensor [B, ·] or [T, B, ·] for the engine, which reads it through its strides."""
    strides, shape = tensor.stride(), tensor.shape
    timed = tensor.dim() == 3
    return (
        tensor.data_ptr(),
        strides[0] if timed else 0,
        strides[-2],
        strides[-1],
        shape[0] if timed else 0,
        shape[-2],
        shape[-1],
    )


def _write_section(into: Any, section: Section) -> None:
    ops, activations = native.op_numbers(), native.activation_numbers()
    for rows in section.values:
        if rows.of < 0:
            into.value(rows.size)
        else:
            into.view(rows.of, rows.start, rows.size)
    for i in section.instructions:
        into.instruction(
            ops[i.op],
            activations[i.act],
            i.dst,
            i.a,
            i.b,
            i.c,
            i.scalar,
            i.slot,
            list(i.terms),
            list(i.biases),
            list(i.periods),
        )
