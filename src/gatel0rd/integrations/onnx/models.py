"""The three graphs of a world model: one step, its first state, and whole sequences."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.engine.program import Program
from gatel0rd.integrations.onnx.frame import Frame
from gatel0rd.integrations.onnx.graph import Graph, import_onnx
from gatel0rd.integrations.onnx.metadata import make_model
from gatel0rd.integrations.onnx.units import FEED, OBSERVATIONS, add_inputs, add_outputs
from gatel0rd.models.fitted import FittedModel
from gatel0rd.models.world_model import WorldModel
from gatel0rd.models.world_program import rollout_program


def step_model(fitted: FittedModel) -> Any:
    """One input, one state, one prediction."""
    model, graph = fitted.model, Graph()
    program = make_program(model, from_inputs=False, feed=False)
    inputs = add_inputs(graph, fitted, "", "batch")
    frame = Frame(graph, program.body, inputs[OBSERVATIONS], 0)
    for value, sequence, _ in program.sequence_loads:
        frame.write(value, inputs[sequence])
    states = list(zip(program.states[:-1], model.state_sizes, strict=True))  # the last one is the prediction
    for index, ((_, enter, _), size) in enumerate(states):
        frame.write(enter, graph.input(f"state_{index}", ("batch", size)))
    frame.run(read_parameters(model, program))
    values = [frame.read(value.index) for value in program.outputs]
    add_outputs(graph, fitted, values, [value.size for value in program.outputs], "", "batch")
    for index, ((_, _, leave), size) in enumerate(states):
        graph.output(f"next_state_{index}", frame.read(leave), ("batch", size))
    prediction, *rest = graph.outputs
    shown = len(rest) - len(states)
    graph.outputs = [prediction, *rest[shown:], *rest[:shown]]  # what a step needs first, what one looks at last
    return make_model(fitted, graph, "step", "One step of a world model: the next observation from this one.")


def initial_states(graph: Graph, model: WorldModel, program: Program, inputs: dict[int, str]) -> list[str]:
    """What the program's states start with, from the first inputs."""
    frame = Frame(graph, program.prologue, inputs[OBSERVATIONS], 1)
    needed = frame.read_values() | {state.initial for state in program.states}
    for value, tensor, time in program.initial_loads:
        if value in needed:  # without f_init, a sequence may be shorter than the first inputs
            frame.write(value, graph.row(inputs[tensor], time))
    frame.run(read_parameters(model, program))
    return [frame.read(state.initial) for state in program.states]


def initial_model(fitted: FittedModel) -> Any:
    """The state with which stepping starts."""
    model, graph = fitted.model, Graph()
    program = make_program(model, from_inputs=True, feed=False)
    inputs = add_inputs(graph, fitted, "s", model.config.init_steps, "batch")
    states = initial_states(graph, model, program, inputs)[:-1]
    for index, (state, size) in enumerate(zip(states, model.state_sizes, strict=True)):
        graph.output(f"state_{index}", state, ("batch", size))
    return make_model(
        fitted, graph, "initial", "The state of a world model before its first step, from the first inputs."
    )


def sequence_model(fitted: FittedModel) -> Any:
    """The closed loop over a whole sequence."""
    model, graph = fitted.model, Graph()
    program = make_program(model, from_inputs=True, feed=True)
    inputs = add_inputs(graph, fitted, "s", "time", "batch")
    text = "how many inputs are real before the model continues with its own predictions"
    inputs[FEED] = _feed_mask(
        graph, graph.input("real_steps", (), integer=True, text=text), inputs, model.config.init_steps
    )
    starts = initial_states(graph, model, program, inputs)
    body = _loop_body(graph, model, program)
    finals, columns = (
        [graph.name(hint) for _ in range(count)]
        for hint, count in (("final", len(starts)), ("column", len(program.outputs)))
    )
    graph.nodes.append(
        import_onnx("helper").make_node(
            "Scan",
            [*starts, *(inputs[load.sequence] for load in program.sequence_loads)],
            [*finals, *columns],
            "over_time",
            body=body,
            num_scan_inputs=len(program.sequence_loads),
        )
    )
    add_outputs(graph, fitted, columns, [value.size for value in program.outputs], "s", "time", "batch")
    return make_model(fitted, graph, "sequence", "A world model run over whole sequences, from their first inputs on.")


def _feed_mask(graph: Graph, real_steps: str, inputs: dict[int, str], init_steps: int) -> str:
    """1 at the steps whose observation is real, else 0. Shape: [T, 1, 1]."""
    number = {value: graph.constant(np.array(value, np.int64)) for value in (0, 1, init_steps)}
    axes = graph.constant(np.array([0], np.int64))
    length = graph.node("Squeeze", graph.node("Shape", inputs[OBSERVATIONS], start=0, end=1), axes)
    times = graph.node("Range", number[0], length, number[1])
    real = graph.node("Less", times, graph.node("Max", real_steps, number[init_steps]))
    return graph.node("Unsqueeze", graph.as_number(real), graph.constant(np.array([1, 2], np.int64)))


def _loop_body(around: Graph, model: WorldModel, program: Program) -> Any:
    """One step of the loop over time: states in, then sequences; states out, then outputs."""
    graph = Graph(around)
    sizes = [*model.state_sizes, model.config.observation_size]
    entering = [graph.input("entering", ("batch", size)) for size in sizes]
    frame = Frame(graph, program.body, entering[0], 0)
    for (_, enter, _), name in zip(program.states, entering, strict=True):
        frame.write(enter, name)
    for value, sequence, _ in program.sequence_loads:
        shape = (1, 1) if sequence == FEED else ("batch", frame.size(value))
        frame.write(value, graph.input("now", shape))
    frame.run(read_parameters(model, program))
    for (_, _, leave), size in zip(program.states, sizes, strict=True):
        graph.output("leaving", frame.read(leave), ("batch", size))
    for shown in program.outputs:
        graph.output("shown", frame.read(shown.index), ("batch", shown.size))
    return graph.make_graph("step")


def make_program(model: WorldModel, *, from_inputs: bool, feed: bool) -> Program:
    program = rollout_program(model, from_inputs=from_inputs, real=True, feed=feed, noise=False)
    if program is None:
        raise ValueError(
            f"the cell {model.config.cell.name} cannot be exported: it has no program, or dropout is on; expected one "
            "of this package's cells, and model.eval()"
        )
    return program


def read_parameters(model: WorldModel, program: Program) -> dict[str, NDArray[np.float32]]:
    """The model's parameters in the program's order, masks applied."""
    found = {}
    for number, name in enumerate(program.parameters):
        tensor = attrgetter(name)(model).detach()
        if number in program.masks:
            tensor = tensor * attrgetter(program.masks[number])(model)
        found[name] = tensor.cpu().numpy()
    return found
