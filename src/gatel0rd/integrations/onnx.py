"""World models as ONNX files, to run without PyTorch: the programs of :mod:`gatel0rd.engine.program`, node by node."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd import __version__
from gatel0rd.engine.program import Activation, Instruction, Program, Section
from gatel0rd.files import FileError, write_atomically
from gatel0rd.models.fitted import FittedModel, Scaling
from gatel0rd.models.world_model import WorldModel
from gatel0rd.models.world_program import rollout_program

OPSET = 17
ACTIONS, OBSERVATIONS, FEED = 0, 1, 2
"""How :func:`gatel0rd.models.world_program.rollout_program` numbers its sequences."""


def export_onnx(fitted: FittedModel, out: Path) -> list[Path]:
    """Write ``step.onnx``, ``initial.onnx`` and ``sequence.onnx`` into a directory; float32, without gate noise.

    Observations, actions and predictions are in the data's units, states are as in the model. Batch and time are free.

    - ``step``: observation [batch, O], action [batch, A], state_0 … -> prediction [batch, O], next_state_0 …,
      latents [batch, H], gates [batch, G].
    - ``initial``: observations [init_steps, batch, O], actions -> state_0 …, with which stepping starts.
    - ``sequence``: observations [time, batch, O], actions, real_steps (how many inputs are real before the model goes
      on with its own predictions) -> predictions [time, batch, O], latents, gates.

    Models without actions have no such input, cells without sparse gates no such output.
    """
    _check(fitted)
    if out.exists() and not out.is_dir():
        raise FileError(f"{out} is a file; expected a directory to write the ONNX files into")
    models = {"step.onnx": _step(fitted), "initial.onnx": _initial(fitted), "sequence.onnx": _sequence(fitted)}
    for name, model in models.items():
        write_atomically(out / name, model.SerializeToString())
    return [out / name for name in models]


def _check(fitted: FittedModel) -> None:
    for name, parameter in fitted.model.named_parameters():
        if parameter.dtype != torch.float32:
            raise ValueError(
                f"{name} is {parameter.dtype}; ONNX files are written for torch.float32, call model.float() before"
            )
    for kind, names, scaling in (
        ("observations", fitted.observation_names, fitted.observation_scaling),
        ("actions", fitted.action_names, fitted.action_scaling),
    ):
        for name, offset, scale in zip(names, scaling.offset, scaling.scale, strict=True):
            as_written = np.array([offset, scale, 1 / scale if scale else np.inf]).astype(np.float64)
            if not (np.abs(as_written) <= np.finfo(np.float32).max).all():
                raise ValueError(
                    f"column {name} of the {kind} has offset {offset} and scale {scale}; expected numbers that float32 "
                    "can hold, change the unit of the column and fit again"
                )


def _onnx(part: str = "") -> Any:
    try:
        return importlib.import_module(f"onnx.{part}" if part else "onnx")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the export needs onnx; pip install 'gatel0rd[onnx]'", name="onnx") from error


# ---- graphs ----


class _Graph:
    """Nodes of an ONNX graph in the making; the body of a loop shares constants and names with the graph around it."""

    def __init__(self, around: _Graph | None = None) -> None:
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
        self.inputs.append(_value_info(name, shape, integer=integer, text=text))
        return name

    def output(self, name: str, value: str, shape: Sequence[int | str], *, text: str = "") -> None:
        """Give a value a name outside; through a node of its own, as one value may leave under several names."""
        name = self.name(name)
        self.nodes.append(_onnx("helper").make_node("Identity", [value], [name]))
        self.outputs.append(_value_info(name, shape, text=text))

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
            self.nodes.append(_onnx("helper").make_node(op, inputs, [name], name, **attributes))
            self._made[key] = name
        return self._made[key]

    def row(self, sequence: str, time: int) -> str:
        """Shape: [T, B, ·] -> [B, ·]."""
        return self.node("Gather", sequence, self.constant(np.array(time, np.int64)), axis=0)

    def joined(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=-1)

    def rows(self, of: str, start: int, size: int) -> str:
        bounds = (self.constant(np.array([number], np.int64)) for number in (start, start + size, -1))
        return self.node("Slice", of, *bounds)

    def zeros(self, size: int, like: str, batch_axis: int) -> str:
        """Shape: [B, size]."""
        batch = self.node("Shape", like, start=batch_axis, end=batch_axis + 1)
        return self.node("ConstantOfShape", self.joined([batch, self.constant(np.array([size], np.int64))]))

    def is_set(self, value: str) -> str:
        return self.node("Cast", value, to=_onnx().TensorProto.BOOL)

    def as_number(self, value: str) -> str:
        return self.node("Cast", value, to=_onnx().TensorProto.FLOAT)

    def finished(self, name: str) -> Any:
        """The graph as ONNX has it."""
        helper, arrays = _onnx("helper"), _onnx("numpy_helper")
        constants = {} if self._around else self.constants
        return helper.make_graph(
            self.nodes,
            name,
            self.inputs,
            self.outputs,
            initializer=[arrays.from_array(array, key) for key, array in constants.items()],
        )


def _value_info(name: str, shape: Sequence[int | str], *, integer: bool = False, text: str = "") -> Any:
    types = _onnx().TensorProto
    kind = types.INT64 if integer else types.FLOAT
    return _onnx("helper").make_tensor_value_info(name, kind, list(shape), doc_string=text)


# ---- programs ----


class _Frame:
    """The values of one section: which node holds which rows. Rows that nothing fills are zero."""

    def __init__(self, graph: _Graph, section: Section, like: str, batch_axis: int) -> None:
        self.graph, self.section = graph, section
        self._like = (like, batch_axis)
        self._pieces: dict[int, dict[tuple[int, int], str]] = {}  # value with own rows -> (start, size) -> name

    def size(self, value: int) -> int:
        return self.section.shapes[value][0]

    def _place(self, value: int) -> tuple[int, int]:
        """The value whose rows these are, and where they begin in it."""
        begin = 0
        while self.section.shapes[value][1] >= 0:
            _, value, start = self.section.shapes[value]
            begin += start
        return value, begin

    def read_values(self) -> set[int]:
        """The values with own rows of which some instruction reads something."""
        operands = [(i.a, i.b, i.c, *(term[0] for term in i.terms)) for i in self.section.instructions]
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
        return self.graph.joined(parts)

    def run(self, parameters: dict[str, NDArray[np.float32]]) -> None:
        """Every instruction as nodes; ``parameters`` are in the program's order."""
        for instruction in self.section.instructions:
            self.write(instruction.dst, self._computed(instruction, parameters))

    def _computed(self, instruction: Instruction, parameters: dict[str, NDArray[np.float32]]) -> str:
        if instruction.op == "linear":
            value = self._linear(instruction, parameters)
        elif instruction.op in _OPERATIONS:
            operands = [self.read(index) for index in (instruction.a, instruction.b, instruction.c) if index >= 0]
            value = _OPERATIONS[instruction.op](self.graph, instruction, *operands)
        else:
            raise ValueError(f"a program has the operation {instruction.op!r}; expected one that ONNX has")
        return _activated(self.graph, value, instruction.act)

    def _linear(self, instruction: Instruction, parameters: dict[str, NDArray[np.float32]]) -> str:
        """All terms as one product, of their inputs end to end."""
        names, arrays = list(parameters), list(parameters.values())
        out = self.size(instruction.dst)
        terms = [term for term in instruction.terms if self.size(term[0])]
        blocks = []
        for value, number, start, stride in terms:
            columns = np.arange(self.size(value))
            blocks.append(arrays[number].ravel()[start + stride * np.arange(out)[:, None] + columns])
        weight = self.graph.constant(np.concatenate(blocks, axis=1), names[terms[0][1]])
        inputs = [self.graph.joined([self.read(value) for value, *_ in terms]), weight]
        if instruction.biases:
            biases = [arrays[number][start : start + out] for number, start in instruction.biases]
            inputs.append(self.graph.constant(np.sum(biases, axis=0), names[instruction.biases[0][0]]))
        product = self.graph.node("Gemm", *inputs, transB=1)
        return product if instruction.a < 0 else self.graph.node("Add", product, self.read(instruction.a))


def _activated(graph: _Graph, value: str, act: Activation) -> str:
    match act:
        case "none":
            return value
        case "tanh" | "sigmoid" | "relu":
            return graph.node(act.capitalize(), value)
        case "retanh":
            return graph.node("Relu", graph.node("Tanh", value))
        case "heaviside":
            return graph.as_number(graph.node("Greater", value, graph.constant(0.0)))


def _blend(graph: _Graph, _: Instruction, gate: str, yes: str, no: str) -> str:
    # this form keeps ``no`` bit-exact where the gate is 0: 0·yes + 1·no
    rest = graph.node("Sub", graph.constant(1.0), gate)
    return graph.node("Add", graph.node("Mul", gate, yes), graph.node("Mul", rest, no))


def _due(graph: _Graph, instruction: Instruction, clock: str) -> str:
    periods = graph.constant(np.array(instruction.periods, np.float32), "periods")
    return graph.as_number(graph.node("Equal", graph.node("Mod", clock, periods, fmod=1), graph.constant(0.0)))


def _tick(graph: _Graph, instruction: Instruction, clock: str) -> str:
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


def _program(model: WorldModel, *, from_inputs: bool, feed: bool) -> Program:
    program = rollout_program(model, from_inputs=from_inputs, real=True, feed=feed, noise=False)
    if program is None:
        raise ValueError(
            f"the cell {model.config.cell.name} cannot be exported: it has no program, or dropout is on; expected one "
            "of this package's cells, and model.eval()"
        )
    return program


def _parameters(model: WorldModel, program: Program) -> dict[str, NDArray[np.float32]]:
    """The model's parameters in the program's order, masks applied."""
    found = {}
    for number, name in enumerate(program.parameters):
        tensor = attrgetter(name)(model).detach()
        if number in program.masks:
            tensor = tensor * attrgetter(program.masks[number])(model)
        found[name] = tensor.cpu().numpy()
    return found


# ---- units ----


def _halves(offset: Sequence[float]) -> list[NDArray[np.float32]]:
    """Two float32 numbers that together are nearly as exact as the offset: 1e6 would else swallow what varies."""
    high = np.array(offset).astype(np.float32)
    low = (np.array(offset) - high.astype(np.float64)).astype(np.float32)
    return [half for half in (high, low) if half.any()]


def _there(graph: _Graph, scaling: Scaling, value: str, kind: str) -> str:
    """:meth:`Scaling.there`."""
    for half in _halves(scaling.offset):
        value = graph.node("Sub", value, graph.constant(half, f"{kind}.offset"))
    scale = np.array(scaling.scale, np.float32)
    return value if (scale == 1).all() else graph.node("Div", value, graph.constant(scale, f"{kind}.scale"))


def _back(graph: _Graph, scaling: Scaling, value: str) -> str:
    """:meth:`Scaling.back`."""
    scale = np.array(scaling.scale, np.float32)
    if not (scale == 1).all():
        value = graph.node("Mul", value, graph.constant(scale, "observations.scale"))
    for half in reversed(_halves(scaling.offset)):
        value = graph.node("Add", value, graph.constant(half, "observations.offset"))
    return value


def _inputs(graph: _Graph, fitted: FittedModel, ending: str, *leading: int | str) -> dict[int, str]:
    """Observations and actions as inputs of a graph, in the model's units, by the program's numbers."""
    seen, acted = ", ".join(fitted.observation_names), ", ".join(fitted.action_names)
    config = fitted.model.config
    observed = graph.input(f"observation{ending}", (*leading, config.observation_size), text=f"columns: {seen}")
    found = {OBSERVATIONS: _there(graph, fitted.observation_scaling, observed, "observations")}
    if config.action_size:
        action = graph.input(f"action{ending}", (*leading, config.action_size), text=f"columns: {acted}")
        found[ACTIONS] = _there(graph, fitted.action_scaling, action, "actions")
    return found


def _outputs(
    graph: _Graph, fitted: FittedModel, values: Sequence[str], sizes: Sequence[int], ending: str, *leading: str
) -> None:
    """Predictions in the data's units, latents and (if there are any) gates as outputs of a graph."""
    prediction, *others = values
    text = f"the next observation, columns: {', '.join(fitted.observation_names)}"
    back = _back(graph, fitted.observation_scaling, prediction)
    graph.output(f"prediction{ending}", back, (*leading, sizes[0]), text=text)
    texts = ("the latent state after this input", "how far the gates are open, 0: closed")
    for name, value, size, text in zip(("latents", "gates"), others, sizes[1:], texts, strict=False):
        graph.output(name, value, (*leading, size), text=text)


# ---- the three files ----


def _step(fitted: FittedModel) -> Any:
    """One input, one state, one prediction."""
    model, graph = fitted.model, _Graph()
    program = _program(model, from_inputs=False, feed=False)
    inputs = _inputs(graph, fitted, "", "batch")
    frame = _Frame(graph, program.body, inputs[OBSERVATIONS], 0)
    for value, tensor, _ in program.sequence_loads:
        frame.write(value, inputs[tensor])
    states = list(zip(program.states[:-1], model.core.state_sizes, strict=True))  # the last one is the prediction
    for index, ((_, enter, _), size) in enumerate(states):
        frame.write(enter, graph.input(f"state_{index}", ("batch", size)))
    frame.run(_parameters(model, program))
    values = [frame.read(value.index) for value in program.outputs]
    _outputs(graph, fitted, values, [value.size for value in program.outputs], "", "batch")
    for index, ((_, _, leave), size) in enumerate(states):
        graph.output(f"next_state_{index}", frame.read(leave), ("batch", size))
    prediction, *rest = graph.outputs
    shown = len(rest) - len(states)
    graph.outputs = [prediction, *rest[shown:], *rest[:shown]]  # what a step needs first, what one looks at last
    return _model(fitted, graph, "step", "One step of a world model: the next observation from this one.")


def _starts(graph: _Graph, model: WorldModel, program: Program, inputs: dict[int, str]) -> list[str]:
    """What the program's states start with, from the first inputs."""
    frame = _Frame(graph, program.prologue, inputs[OBSERVATIONS], 1)
    read = frame.read_values() | {initial for initial, *_ in program.states}
    for value, tensor, time in program.initial_loads:
        if value in read:  # without f_init, a sequence may be shorter than the first inputs
            frame.write(value, graph.row(inputs[tensor], time))
    frame.run(_parameters(model, program))
    return [frame.read(initial) for initial, *_ in program.states]


def _initial(fitted: FittedModel) -> Any:
    """The state with which stepping starts."""
    model, graph = fitted.model, _Graph()
    program = _program(model, from_inputs=True, feed=False)
    inputs = _inputs(graph, fitted, "s", model.config.init_steps, "batch")
    states = _starts(graph, model, program, inputs)[:-1]
    for index, (state, size) in enumerate(zip(states, model.core.state_sizes, strict=True)):
        graph.output(f"state_{index}", state, ("batch", size))
    return _model(fitted, graph, "initial", "The state of a world model before its first step, from the first inputs.")


def _sequence(fitted: FittedModel) -> Any:
    """The closed loop over a whole sequence."""
    model, graph = fitted.model, _Graph()
    program = _program(model, from_inputs=True, feed=True)
    inputs = _inputs(graph, fitted, "s", "time", "batch")
    text = "how many inputs are real before the model goes on with its own predictions"
    inputs[FEED] = _feed(graph, graph.input("real_steps", (), integer=True, text=text), inputs, model.config.init_steps)
    starts = _starts(graph, model, program, inputs)
    body = _body(graph, model, program)
    finals, columns = (
        [graph.name(hint) for _ in range(count)]
        for hint, count in (("final", len(starts)), ("column", len(program.outputs)))
    )
    graph.nodes.append(
        _onnx("helper").make_node(
            "Scan",
            [*starts, *(inputs[tensor] for _, tensor, _ in program.sequence_loads)],
            [*finals, *columns],
            "over_time",
            body=body,
            num_scan_inputs=len(program.sequence_loads),
        )
    )
    _outputs(graph, fitted, columns, [value.size for value in program.outputs], "s", "time", "batch")
    return _model(fitted, graph, "sequence", "A world model run over whole sequences, from their first inputs on.")


def _feed(graph: _Graph, real_steps: str, inputs: dict[int, str], init_steps: int) -> str:
    """1 at the steps whose observation is real, else 0. Shape: [T, 1, 1]."""
    number = {value: graph.constant(np.array(value, np.int64)) for value in (0, 1, init_steps)}
    axes = graph.constant(np.array([0], np.int64))
    length = graph.node("Squeeze", graph.node("Shape", inputs[OBSERVATIONS], start=0, end=1), axes)
    times = graph.node("Range", number[0], length, number[1])
    real = graph.node("Less", times, graph.node("Max", real_steps, number[init_steps]))
    return graph.node("Unsqueeze", graph.as_number(real), graph.constant(np.array([1, 2], np.int64)))


def _body(around: _Graph, model: WorldModel, program: Program) -> Any:
    """One step of the loop over time: states in, then sequences; states out, then outputs."""
    graph = _Graph(around)
    sizes = [*model.core.state_sizes, model.config.observation_size]
    entering = [graph.input("entering", ("batch", size)) for size in sizes]
    frame = _Frame(graph, program.body, entering[0], 0)
    for (_, enter, _), name in zip(program.states, entering, strict=True):
        frame.write(enter, name)
    for value, tensor, _ in program.sequence_loads:
        shape = (1, 1) if tensor == FEED else ("batch", frame.size(value))
        frame.write(value, graph.input("now", shape))
    frame.run(_parameters(model, program))
    for (_, _, leave), size in zip(program.states, sizes, strict=True):
        graph.output("leaving", frame.read(leave), ("batch", size))
    for shown in program.outputs:
        graph.output("shown", frame.read(shown.index), ("batch", shown.size))
    return graph.finished("step")


def _model(fitted: FittedModel, graph: _Graph, kind: str, text: str) -> Any:
    """A checked ONNX model that says what it is."""
    helper = _onnx("helper")
    opsets = [helper.make_opsetid("", OPSET)]
    config = fitted.model.config
    seen, acted = list(fitted.observation_names), list(fitted.action_names)
    model = helper.make_model(
        graph.finished(kind),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),  # older runtimes refuse newer ones
        producer_name="gatel0rd",
        producer_version=__version__,
        doc_string=f"{text} Inputs and predictions are in the data's units. Observations: {', '.join(seen)}."
        + (f" Actions: {', '.join(acted)}." if acted else ""),
    )
    about = {
        "gatel0rd.version": __version__,
        "gatel0rd.kind": kind,
        "gatel0rd.cell": fitted.cell,
        "gatel0rd.config": json.dumps(dataclasses.asdict(config)),
        "gatel0rd.observations": json.dumps(seen),
        "gatel0rd.actions": json.dumps(acted),
        "gatel0rd.init_steps": str(config.init_steps),
    }
    helper.set_model_props(model, about)
    _onnx("checker").check_model(model, full_check=True)
    return model
