"""Writing programs: instructions one by one, and what goes in and out of a whole program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from gatel0rd.engine.program import (
    Activation,
    Bias,
    Carry,
    InitialLoad,
    InputSequence,
    Instruction,
    LossOp,
    Op,
    Program,
    Rows,
    Section,
    SequenceLoad,
    Term,
    Value,
)

MOST_NOISE = 16380
"""Features of noise for which the generator's counter has room."""


class UnknownLayoutError(ValueError):
    """A module is not made of exactly the parts that a program describes; the message says which part."""


def _same_size(a: Value, b: Value) -> None:
    if a.size != b.size:
        raise _misfit(a, b)


def _row_or_same(a: Value, b: Value) -> None:
    if a.size not in (1, b.size):
        raise _misfit(a, b)


def _misfit(a: Value, b: Value) -> ValueError:
    return ValueError(
        f"a value of size {a.size} does not go with one of size {b.size}; do the sizes of the module's networks match?"
    )


class Builder:
    """Writes instructions into one section of a program.

    Args:
        root: the module below which all parameters are found.
        program: what is being written.
        section: its prologue or its body.
    """

    def __init__(self, root: nn.Module, program: Program, section: Section) -> None:
        self.program, self.section = program, section
        self._paths = {id(module): name for name, module in root.named_modules()}

    # ---- values ----

    def value(self, size: int) -> Value:
        """New rows."""
        self.section.values.append(Rows(size))
        return Value(len(self.section.values) - 1, size)

    def view(self, of: Value, start: int, size: int) -> Value:
        """Some of the rows of another value."""
        self.section.values.append(Rows(size, of.index, start))
        return Value(len(self.section.values) - 1, size)

    def split(self, of: Value, sizes: Sequence[int]) -> list[Value]:
        """Consecutive views."""
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        return [self.view(of, start, size) for start, size in zip(starts, sizes, strict=True)]

    # ---- instructions ----

    def affine(
        self,
        module: nn.Module,
        weights: Sequence[tuple[str, Sequence[Value]]],
        biases: Sequence[str],
        *,
        rows: tuple[int, int],
        act: Activation = "none",
        addend: Value | None = None,
        masks: Mapping[str, str] | None = None,
    ) -> Value:
        """act(Σ W·inputs + Σ b + addend), with some rows of the module's weights.

        Args:
            weights: names of weight matrices, each with the values that its columns belong to, in order.
            biases: names of bias vectors; missing ones (None) are left out.
            rows: which rows of weights and biases, (start, size).
            masks: weight name -> buffer of the module that it is multiplied by, entry by entry.
        """
        first, size = rows
        if addend is not None and addend.size != size:
            raise ValueError(f"the addend has {addend.size} rows; expected {size}")
        terms = []
        for name, inputs in weights:
            number, shape = self._parameter(module, name, (masks or {}).get(name))
            if not 0 <= first <= first + size <= shape[0]:
                raise ValueError(f"{name} has {shape[0]} rows; {size} from row {first} on are not there")
            column = 0
            for value in inputs:
                terms.append(Term(value.index, number, first * shape[1] + column, shape[1]))
                column += value.size
            if column != shape[1]:
                raise ValueError(f"{name} has {shape[1]} columns; its inputs have {column} rows")
        present = [name for name in biases if getattr(module, name) is not None]
        starts = tuple(Bias(self._parameter(module, name)[0], first) for name in present)
        dst = self.value(size)
        self._emit("linear", dst, addend, act=act, terms=tuple(terms), biases=starts)
        return dst

    def linear(
        self, layer: nn.Linear, inputs: Sequence[Value], act: Activation = "none", addend: Value | None = None
    ) -> Value:
        """A linear layer on values laid end to end, plus an addend, through an activation."""
        if type(layer) is not nn.Linear:
            raise UnknownLayoutError(f"a layer is of the class {type(layer).__name__}, not nn.Linear")
        rows = (0, layer.weight.shape[0])
        return self.affine(layer, [("weight", inputs)], ["bias"], rows=rows, act=act, addend=addend)

    def mlp(
        self,
        layers: nn.Sequential,
        inputs: Sequence[Value],
        last: Activation | None = None,
        addend: Value | None = None,
    ) -> Value:
        """Linear layers with tanh between them, and after the last one if the sequence ends so.

        ``last`` replaces the last activation, which sees the addend.
        """
        linears, ends_in_tanh = read_tanh_mlp(layers)
        for layer in linears[:-1]:
            inputs = [self.linear(layer, inputs, "tanh")]
        return self.linear(linears[-1], inputs, last or ("tanh" if ends_in_tanh else "none"), addend)

    def add(self, a: Value, b: Value, act: Activation = "none") -> Value:
        """act(a + b)."""
        _same_size(a, b)
        return self._emit("add", self.value(a.size), a, b, act=act)

    def multiply(self, a: Value, b: Value) -> Value:
        """a·b; b may have one row."""
        _row_or_same(b, a)
        return self._emit("multiply", self.value(a.size), a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger of a and b, row by row; of equals, a gets the gradient."""
        _same_size(a, b)
        return self._emit("maximum", self.value(a.size), a, b)

    def blend(self, gate: Value, yes: Value, no: Value) -> Value:
        """gate·yes + (1 - gate)·no; the gate may have one row."""
        _same_size(yes, no)
        _row_or_same(gate, yes)
        return self._emit("blend", self.value(yes.size), gate, yes, no)

    def select(self, where: Value, yes: Value, no: Value) -> Value:
        """``yes`` where ``where`` (which may have one row) is not 0, else ``no``, whatever the other one is."""
        _same_size(yes, no)
        _row_or_same(where, yes)
        return self._emit("select", self.value(yes.size), where, yes, no)

    def axpy(self, a: Value, b: Value, scalar: float) -> Value:
        """a + scalar·b."""
        _same_size(a, b)
        return self._emit("axpy", self.value(a.size), a, b, scalar=scalar)

    def activate(self, a: Value, act: Activation) -> Value:
        """act(a)."""
        return self._emit("activate", self.value(a.size), a, act=act)

    def clear(self, a: Value, where: Value) -> Value:
        """a where the one row of ``where`` is 0, and 0 elsewhere."""
        _row_or_same(where, a)
        return self._emit("clear", self.value(a.size), a, where)

    def due(self, clock: Value, periods: Sequence[int]) -> Value:
        """1 for units whose period divides the clock, else 0."""
        return self._emit("due", self.value(len(periods)), clock, periods=tuple(periods))

    def concatenate(self, parts: Sequence[Value]) -> Value:
        """Values laid end to end: copies, or the value itself if there is only one."""
        if len(parts) == 1:
            return parts[0]
        joined = self.value(sum(part.size for part in parts))
        for part, place in zip(parts, self.split(joined, [part.size for part in parts]), strict=True):
            self._emit("activate", place, part)
        return joined

    def tick(self, clock: Value, period: int) -> Value:
        """(clock + 1) mod period."""
        return self._emit("tick", self.value(1), clock, scalar=period)

    def normal(self, size: int, scale: float) -> Value:
        """Normal numbers from the run's counter-based generator."""
        if size > MOST_NOISE:
            raise ValueError(f"noise has {size} features; the generator has room for {MOST_NOISE}")
        return self._emit("normal", self.value(size), scalar=scale, slot=self._count("normal"))

    def bernoulli(self, always: int = 0) -> Value:
        """One row that is 1 with the run's probability, else 0; always 1 at the first ``always`` steps."""
        return self._emit("bernoulli", self.value(1), scalar=always, slot=self._count("bernoulli"))

    def loss(self, op: LossOp, a: Value, b: Value | None = None) -> int:
        """Add up a loss term over time, batch and features; returns its slot."""
        slot = self.program.loss_slots
        self.program.loss_slots += 1
        self._emit(op, None, a, b, slot=slot)
        return slot

    def _emit(
        self,
        op: Op,
        dst: Value | None,
        a: Value | None = None,
        b: Value | None = None,
        c: Value | None = None,
        *,
        act: Activation = "none",
        scalar: float = 0.0,
        slot: int = -1,
        terms: tuple[Term, ...] = (),
        biases: tuple[Bias, ...] = (),
        periods: tuple[int, ...] = (),
    ) -> Value:
        i_dst, i_a, i_b, i_c = (-1 if operand is None else operand.index for operand in (dst, a, b, c))
        self.section.instructions.append(
            Instruction(op, i_dst, i_a, i_b, i_c, act, scalar, slot, terms, biases, periods)
        )
        return dst if dst is not None else Value(-1, 0)

    def _count(self, op: Op) -> int:
        return sum(instruction.op == op for instruction in self.section.instructions)

    def _parameter(self, module: nn.Module, name: str, mask: str | None = None) -> tuple[int, tuple[int, ...]]:
        path = self._paths[id(module)]
        full = f"{path}.{name}" if path else name
        if full not in self.program.parameters:
            parameter = module._parameters.get(name)
            if parameter is None:
                raise UnknownLayoutError(f"{full} is not a parameter")
            self.program.parameters.append(full)
            self.program.shapes.append(tuple(parameter.shape))
        number = self.program.parameters.index(full)
        if mask is not None:
            self.program.masks[number] = f"{path}.{mask}" if path else mask
        return number, self.program.shapes[number]


class ProgramBuilder(Builder):
    """Writes a whole program: instructions go into the body, those of :attr:`prologue` before the first step.

    What a run is given is numbered in the order in which it is declared here, by :meth:`sequence` and :meth:`initial`.

    Args:
        root: the module below which all parameters are found.
    """

    def __init__(self, root: nn.Module) -> None:
        program = Program()
        super().__init__(root, program, program.body)
        self.prologue = Builder(root, program, program.prologue)
        self._entered: list[tuple[Value, Value]] = []

    def sequence(self, size: int) -> InputSequence:
        """The next tensor [T, B, size] that a run is given."""
        self.program.sequences.append(size)
        return InputSequence(len(self.program.sequences) - 1, size)

    def read(self, sequence: InputSequence, shift: int = 0) -> Value:
        """What a sequence has at every step, or ``shift`` steps later."""
        value = self.value(sequence.size)
        if sequence.size:
            self.program.sequence_loads.append(SequenceLoad(value.index, sequence.number, shift))
        return value

    def read_at(self, sequence: InputSequence, time: int) -> Value:
        """What a sequence has at one time step, in the prologue."""
        value = self.prologue.value(sequence.size)
        if sequence.size:
            self.program.initial_loads.append(InitialLoad(value.index, sequence.number, time))
        return value

    def initial(self, size: int) -> Value:
        """The next tensor [B, size] that a run is given, in the prologue."""
        value = self.prologue.value(size)
        self.program.initials.append(size)
        self.program.initial_loads.append(InitialLoad(value.index, len(self.program.initials) - 1, -1))
        return value

    def enter(self, initials: Iterable[Value]) -> tuple[Value, ...]:
        """States at the beginning of a step, which start as values of the prologue; :meth:`leave` ends the step."""
        entered = [(initial, self.value(initial.size)) for initial in initials]
        self._entered += entered
        return tuple(entering for _, entering in entered)

    def leave(self, values: Iterable[Value]) -> None:
        """What the entered states, in their order, are at the end of the step."""
        for (initial, entering), leaving in zip(self._entered, values, strict=True):
            _same_size(entering, leaving)
            self.program.states.append(Carry(initial.index, entering.index, leaving.index))

    def finish(self, outputs: Iterable[Value | None] = (), finals: Iterable[Value] = ()) -> Program:
        """The program, with what it gives at every step (what is None is left out) and after the last one."""
        self.program.outputs = [value for value in outputs if value is not None]
        self.program.finals = list(finals)
        return self.program


def describe(make: Callable[[], Program | None]) -> Program | None:
    """The program that ``make`` writes; None if a module is not what it describes."""
    try:
        return make()
    except UnknownLayoutError:
        return None


def read_tanh_mlp(layers: nn.Module) -> tuple[list[nn.Linear], bool]:
    """The linear layers of a chain with tanh between them, and whether tanh ends it; anything else is an error."""
    parts = list(layers) if type(layers) is nn.Sequential else []
    if not parts or any(type(part) is not (nn.Tanh if k % 2 else nn.Linear) for k, part in enumerate(parts)):
        names = ", ".join(type(part).__name__ for part in parts) or type(layers).__name__
        raise UnknownLayoutError(f"a network is made of {names}, not of nn.Linear and nn.Tanh in turn")
    return [part for part in parts if isinstance(part, nn.Linear)], len(parts) % 2 == 0


class DescribedModule(nn.Module):
    """A module of which a program says once more what its methods in PyTorch compute.

    Attributes:
        described: method -> the method that says the same as instructions. A subclass that overrides the first alone
            runs in PyTorch, as its program would describe something else.
        own_methods: these methods as they were when the class was made; one that was patched since is noticed.
    """

    described: ClassVar[Mapping[str, str]] = {}
    own_methods: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.own_methods = {name: getattr(cls, name) for pair in cls.described.items() for name in pair}


class ProgramModule(DescribedModule, ABC):
    """A module that is written twice: ``forward`` in PyTorch, and :meth:`program` for the compiled engine."""

    described: ClassVar[Mapping[str, str]] = {"forward": "program"}

    @abstractmethod
    def program(self, build: Builder, *args: Any, **kwargs: Any) -> Any:
        """What ``forward`` computes, as instructions; None: only PyTorch can run this."""
