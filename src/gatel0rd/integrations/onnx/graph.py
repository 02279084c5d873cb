"""ONNX graphs in the making."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def import_onnx(part: str = "") -> Any:
    try:
        return importlib.import_module(f"onnx.{part}" if part else "onnx")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the export needs onnx; pip install 'gatel0rd[onnx]'", name="onnx") from error


class Graph:
    """Nodes of an ONNX graph in the making; the body of a loop shares constants and names with the graph around it."""

    def __init__(self, around: Graph | None = None) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._around = around
        self.constants: dict[str, NDArray[Any]] = around.constants if around else {}
        self._taken: set[str] = around._taken if around else set()
        self._made: dict[Any, str] = {}

    def name(self, hint: str) -> str:
        """A name that nothing has yet."""
        number, name = 0, hint
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        return name

    def input(self, name: str, shape: Sequence[int | str], *, integer: bool = False, text: str = "") -> str:
        name = self.name(name)
        self.inputs.append(make_value_info(name, shape, integer=integer, text=text))
        return name

    def output(self, name: str, value: str, shape: Sequence[int | str], *, text: str = "") -> None:
        """Give a value a name outside; through a node of its own, as one value may leave under several names."""
        name = self.name(name)
        self.nodes.append(import_onnx("helper").make_node("Identity", [value], [name]))
        self.outputs.append(make_value_info(name, shape, text=text))

    def constant(self, value: NDArray[Any] | float, hint: str = "constant") -> str:
        array = np.asarray(value, np.float32) if isinstance(value, float) else value
        key = (array.dtype.str, array.shape, array.tobytes())
        made = self._around._made if self._around else self._made  # constants live in the graph around a body
        if key not in made:
            made[key] = self.name(hint)
            self.constants[made[key]] = array
        return made[key]

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The value of an operation; what was computed already is not computed again."""
        key = (op, inputs, tuple(sorted(attributes.items())))
        if key not in self._made:
            name = self.name(op.lower())
            self.nodes.append(import_onnx("helper").make_node(op, inputs, [name], name, **attributes))
            self._made[key] = name
        return self._made[key]

    def row(self, sequence: str, time: int) -> str:
        """Shape: [T, B, ·] -> [B, ·]."""
        return self.node("Gather", sequence, self.constant(np.array(time, np.int64)), axis=0)

    def concatenate(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=-1)

    def rows(self, of: str, start: int, size: int) -> str:
        bounds = (self.constant(np.array([number], np.int64)) for number in (start, start + size, -1))
        return self.node("Slice", of, *bounds)

    def zeros(self, size: int, like: str, batch_axis: int) -> str:
        """Shape: [B, size]."""
        batch = self.node("Shape", like, start=batch_axis, end=batch_axis + 1)
        return self.node("ConstantOfShape", self.concatenate([batch, self.constant(np.array([size], np.int64))]))

    def is_set(self, value: str) -> str:
        return self.node("Cast", value, to=import_onnx().TensorProto.BOOL)

    def as_number(self, value: str) -> str:
        return self.node("Cast", value, to=import_onnx().TensorProto.FLOAT)

    def make_graph(self, name: str) -> Any:
        """The graph as ONNX has it."""
        helper, arrays = import_onnx("helper"), import_onnx("numpy_helper")
        constants = {} if self._around else self.constants
        return helper.make_graph(
            self.nodes,
            name,
            self.inputs,
            self.outputs,
            initializer=[arrays.from_array(array, key) for key, array in constants.items()],
        )


def make_value_info(name: str, shape: Sequence[int | str], *, integer: bool = False, text: str = "") -> Any:
    types = import_onnx().TensorProto
    kind = types.INT64 if integer else types.FLOAT
    return import_onnx("helper").make_tensor_value_info(name, kind, list(shape), doc_string=text)
