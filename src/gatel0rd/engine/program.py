"""Recurrent models as short programs: what the compiled engine runs.

A program is data: values (groups of rows, one row per feature) and instructions that fill them. Modules describe
themselves with a :class:`gatel0rd.engine.builder.Builder`; :mod:`gatel0rd.engine.compiled` hands the result to C++.
The instructions are those of ``native/program.hpp``, which owns their numbers: :mod:`gatel0rd.engine.native` compares
the names below with the compiled module's when it is loaded.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, get_args

Op = Literal[
    "linear", "add", "multiply", "maximum", "blend", "select", "axpy", "activate", "clear", "due", "tick", "normal",
    "bernoulli", "squared_error", "count_open", "sum_absolute", "sum_squares",
]  # fmt: skip
LossOp = Literal["squared_error", "count_open", "sum_absolute", "sum_squares"]
Activation = Literal["none", "tanh", "sigmoid", "retanh", "heaviside", "relu"]
OPS: tuple[str, ...] = get_args(Op)
ACTIVATIONS: tuple[str, ...] = get_args(Activation)


@dataclass(frozen=True)
class Value:
    """Some rows of a section's frame."""

    index: int
    size: int


@dataclass(frozen=True)
class InputSequence:
    """A tensor [T, B, size] that a run is given, by its place among the run's sequences."""

    number: int
    size: int


class Rows(NamedTuple):
    """Where the rows of a value are: rows of its own (``of`` is -1), or a part of another value's."""

    size: int
    of: int = -1
    start: int = 0


class Term(NamedTuple):
    """One product W·input of a linear instruction; W is a part of a parameter."""

    input: int
    parameter: int
    start: int  # element of the parameter where row 0, column 0 of W is
    stride: int  # elements from one row of W to the next


class Bias(NamedTuple):
    """Some entries of a parameter, one for each row of a linear instruction."""

    parameter: int
    start: int


@dataclass(frozen=True)
class Instruction:
    """One operation; operands are values (-1: none), terms and biases refer to parameters by their number."""

    op: Op
    dst: int = -1
    a: int = -1
    b: int = -1
    c: int = -1
    act: Activation = "none"
    scalar: float = 0.0
    slot: int = -1
    terms: tuple[Term, ...] = ()
    biases: tuple[Bias, ...] = ()
    periods: tuple[int, ...] = ()


@dataclass
class Section:
    """Values and instructions that run together: once before the first step, or at every step."""

    values: list[Rows] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        """Rows of all values that are not part of another."""
        return sum(rows.size for rows in self.values if rows.of < 0)


class SequenceLoad(NamedTuple):
    """A value of the body that is read from a sequence at every step, ``shift`` steps ahead."""

    value: int
    sequence: int
    shift: int


class InitialLoad(NamedTuple):
    """A value of the prologue: an initial tensor (``time`` is -1), or one time step of a sequence."""

    value: int
    tensor: int
    time: int


class Carry(NamedTuple):
    """A value that is carried from step to step."""

    initial: int  # in the prologue
    entering: int  # in the body, at the beginning of a step
    leaving: int  # in the body, at its end


@dataclass
class Program:
    """A prologue that makes the initial states, a body that runs at every step, and what goes in and out."""

    prologue: Section = field(default_factory=Section)
    body: Section = field(default_factory=Section)
    parameters: list[str] = field(default_factory=list)  # dotted names below the root module
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of the parameters
    masks: dict[int, str] = field(default_factory=dict)  # parameter -> dotted name of the buffer it is multiplied by
    sequences: list[int] = field(default_factory=list)  # features of each sequence that a run is given
    initials: list[int] = field(default_factory=list)  # features of each initial tensor that a run is given
    initial_loads: list[InitialLoad] = field(default_factory=list)
    sequence_loads: list[SequenceLoad] = field(default_factory=list)
    states: list[Carry] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    finals: list[Value] = field(default_factory=list)
    loss_slots: int = 0

    def pays(self, batch_size: int) -> bool:
        """Whether a program of these sizes is faster than PyTorch's products, step by step.

        Weights that do not stay in the cache are fetched for every block of the batch; from some 500 x 500 on and with
        many blocks, large products are faster (measured on one core: 0.8 to 1.0 times as fast at 512 and 1024).
        """
        largest = max((math.prod(shape) for shape in self.shapes), default=0)
        return batch_size < 64 or largest < 512 * 512


def write_program(program: Program) -> str:
    """A program as text, which an operator of PyTorch can be given; :func:`read_program` is the way back."""
    return json.dumps(asdict(program), separators=(",", ":"))


def read_program(text: str) -> Program:
    """The program that :func:`write_program` wrote."""
    given = json.loads(text)

    def section(part: dict[str, Any]) -> Section:
        instructions = [
            Instruction(
                **{
                    **fields,
                    "terms": tuple(Term(*term) for term in fields["terms"]),
                    "biases": tuple(Bias(*bias) for bias in fields["biases"]),
                    "periods": tuple(fields["periods"]),
                }
            )
            for fields in part["instructions"]
        ]
        return Section([Rows(*rows) for rows in part["values"]], instructions)

    given |= {
        "prologue": section(given["prologue"]),
        "body": section(given["body"]),
        "shapes": [tuple(shape) for shape in given["shapes"]],
        "masks": {int(number): name for number, name in given["masks"].items()},
        "initial_loads": [InitialLoad(*load) for load in given["initial_loads"]],
        "sequence_loads": [SequenceLoad(*load) for load in given["sequence_loads"]],
        "states": [Carry(*carry) for carry in given["states"]],
        "outputs": [Value(**value) for value in given["outputs"]],
        "finals": [Value(**value) for value in given["finals"]],
    }
    return Program(**given)
