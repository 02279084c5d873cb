"""Programs of :mod:`gatel0rd.engine.program` as nodes of a graph, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gatel0rd.engine.program import Activation, Instruction, Section
from gatel0rd.integrations.onnx.graph import Graph


class Frame:
    """The values of one section: which node holds which rows. Rows that nothing fills are zero."""

    def __init__(self, graph: Graph, section: Section, like: str, batch_axis: int) -> None:
        self.graph, self.section = graph, section
        self._like = (like, batch_axis)
        self._pieces: dict[int, dict[tuple[int, int], str]] = {}  # value with own rows -> (start, size) -> name

    def size(self, value: int) -> int:
        return self.section.values[value].size

    def _place(self, value: int) -> tuple[int, int]:
        """The value whose rows these are, and where they begin in it."""
        begin = 0
        while self.section.values[value].of >= 0:
            _, value, start = self.section.values[value]
            begin += start
        return value, begin

    def read_values(self) -> set[int]:
        """The values with own rows of which some instruction reads something."""
        operands = [(i.a, i.b, i.c, *(term.input for term in i.terms)) for i in self.section.instructions]
        return {self._place(value)[0] for values in operands for value in values if value >= 0}

    def write(self, value: int, name: str) -> None:
        root, start = self._place(value)
        pieces = self._pieces.setdefault(root, {})
        end = start + self.size(value)
        if any(start < first + size and first < end for first, size in pieces):
            raise ValueError(f"rows {start} to {end} of value {root} are written twice; expected one instruction each")
        pieces[start, self.size(value)] = name

    def read(self, value: int) -> str:
        root, start = self._place(value)
        pieces = self._pieces.get(root, {})
        place = (start, self.size(value))
        if place in pieces:
            return pieces[place]
        whole = self._whole(root)
        return whole if place == (0, self.size(root)) else self.graph.rows(whole, *place)

    def _whole(self, root: int) -> str:
        """All rows of a value, out of the pieces that were written."""
        parts, filled = [], 0
        for (start, size), name in sorted(self._pieces.get(root, {}).items()):
            if start > filled:
                parts.append(self.graph.zeros(start - filled, *self._like))
            parts.append(name)
            filled = start + size
        if filled < self.size(root):
            parts.append(self.graph.zeros(self.size(root) - filled, *self._like))
        return self.graph.concatenate(parts)

    def run(self, parameters: dict[str, NDArray[np.float32]]) -> None:
        """Every instruction as nodes; ``parameters`` are in the program's order."""
        for instruction in self.section.instructions:
            self.write(instruction.dst, self._compute(instruction, parameters))

    def _compute(self, instruction: Instruction, parameters: dict[str, NDArray[np.float32]]) -> str:
        if instruction.op == "linear":
            value = self._linear(instruction, parameters)
        elif instruction.op in _OPERATIONS:
            operands = [self.read(index) for index in (instruction.a, instruction.b, instruction.c) if index >= 0]
            value = _OPERATIONS[instruction.op](self.graph, instruction, *operands)
        else:
            raise ValueError(f"a program has the operation {instruction.op!r}; expected one that ONNX has")
        return _activate(self.graph, value, instruction.act)

    def _linear(self, instruction: Instruction, parameters: dict[str, NDArray[np.float32]]) -> str:
        """All terms as one product, of their inputs end to end."""
        names, arrays = list(parameters), list(parameters.values())
        out = self.size(instruction.dst)
        terms = [term for term in instruction.terms if self.size(term.input)]
        blocks = []
        for value, number, start, stride in terms:
            columns = np.arange(self.size(value))
            blocks.append(arrays[number].ravel()[start + stride * np.arange(out)[:, None] + columns])
        weight = self.graph.constant(np.concatenate(blocks, axis=1), names[terms[0].parameter])
        inputs = [self.graph.concatenate([self.read(value) for value, *_ in terms]), weight]
        if instruction.biases:
            biases = [arrays[number][start : start + out] for number, start in instruction.biases]
            inputs.append(self.graph.constant(np.sum(biases, axis=0), names[instruction.biases[0].parameter]))
        product = self.graph.node("Gemm", *inputs, transB=1)
        return product if instruction.a < 0 else self.graph.node("Add", product, self.read(instruction.a))


def _activate(graph: Graph, value: str, act: Activation) -> str:
    match act:
        case "none":
            return value
        case "tanh" | "sigmoid" | "relu":
            return graph.node(act.capitalize(), value)
        case "retanh":
            return graph.node("Relu", graph.node("Tanh", value))
        case "heaviside":
            return graph.as_number(graph.node("Greater", value, graph.constant(0.0)))


def _blend(graph: Graph, _: Instruction, gate: str, yes: str, no: str) -> str:
    # this form keeps ``no`` bit-exact where the gate is 0: 0·yes + 1·no
    rest = graph.node("Sub", graph.constant(1.0), gate)
    return graph.node("Add", graph.node("Mul", gate, yes), graph.node("Mul", rest, no))


def _due(graph: Graph, instruction: Instruction, clock: str) -> str:
    periods = graph.constant(np.array(instruction.periods, np.float32), "periods")
    return graph.as_number(graph.node("Equal", graph.node("Mod", clock, periods, fmod=1), graph.constant(0.0)))


def _tick(graph: Graph, instruction: Instruction, clock: str) -> str:
    later = graph.node("Add", clock, graph.constant(1.0))
    return graph.node("Mod", later, graph.constant(float(instruction.scalar)), fmod=1)


_OPERATIONS: dict[str, Callable[..., str]] = {
    "activate": lambda graph, _, a: a,
    "add": lambda graph, _, a, b: graph.node("Add", a, b),
    "axpy": lambda graph, i, a, b: graph.node("Add", a, graph.node("Mul", b, graph.constant(float(i.scalar)))),
    "blend": _blend,
    "clear": lambda graph, _, a, where: graph.node("Where", graph.is_set(where), graph.constant(0.0), a),
    "due": _due,
    "maximum": lambda graph, _, a, b: graph.node("Max", a, b),
    "multiply": lambda graph, _, a, b: graph.node("Mul", a, b),
    "select": lambda graph, _, where, yes, no: graph.node("Where", graph.is_set(where), yes, no),
    "tick": _tick,
}
