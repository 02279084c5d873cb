"""Random and mutated programs, shapes, indices and calls in a wrong order: the engine computes, or says what is wrong.

A crash ends the process, which is what the caller looks for:

    PYTHONPATH=tests python -m fuzz engine --seconds 60
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from fuzz.driver import Target
from torch import Tensor

from gatel0rd.engine import instruction_sets, native
from gatel0rd.engine.compiled import Compiled, flats, view_of
from gatel0rd.engine.layer import Affine, Networks, run_layer
from gatel0rd.engine.program import Value
from gatel0rd.nn.cells import ElmanCell, GateL0RDCore, GRUCell, LSTMCell
from gatel0rd.nn.unroll import cell_program, unroll

REFUSALS = (ValueError, TypeError, IndexError, RuntimeError, OverflowError)
ODD = (-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 5, 17, 2**24, 2**31 - 1, 2**31, 2**40, 2**63 - 1)


class Draw:
    """Mostly sensible numbers, sometimes not."""

    def __init__(self, rng: random.Random, wildness: float) -> None:
        self.rng, self.wildness = rng, wildness

    def number(self, low: int, high: int) -> int:
        return self.rng.choice(ODD) if self.rng.random() < self.wildness else self.rng.randint(low, high)

    def small(self, low: int, high: int) -> int:
        """A size of a real tensor: at most a little off."""
        return max(
            0, self.rng.randint(low, high) + (self.rng.randint(-2, 2) if self.rng.random() < self.wildness else 0)
        )

    def view(self, shape: tuple[int, ...], kept: list[Tensor]) -> tuple[int, ...]:
        tensor = torch.randn(*shape, dtype=kept[0].dtype)
        if self.rng.random() < 0.3:
            tensor = tensor.transpose(0, -1).contiguous().transpose(0, -1)
        kept.append(tensor)
        return view_of(tensor)


def random_program(draw: Draw) -> tuple[Any, dict[str, Any]]:
    """A program whose instructions are mostly well-formed; sizes of what it reads and writes."""
    module = native.module()
    program = module.Program()
    sizes = [draw.small(1, 9) for _ in range(draw.rng.randint(1, 3))]
    parameters = [draw.small(1, 60) for _ in range(draw.rng.randint(1, 3))]
    for size in parameters:
        program.parameter(size)
    body = program.body
    values = [body.value(draw.number(1, 9) if draw.rng.random() < 0.1 else size) for size in sizes]
    for sequence, value in enumerate(values):
        program.sequence_load(value, draw.number(sequence, sequence), draw.number(0, 1))
    if draw.rng.random() < 0.5:
        initial, state = program.prologue.value(sizes[0]), body.value(sizes[0])
        program.initial_load(initial, draw.number(0, 0), draw.number(-1, -1))
        program.state(initial, state, draw.number(0, len(values)))
        values.append(state)
    known = [*sizes, *sizes]
    for _ in range(draw.rng.randint(1, 6)):
        size = draw.rng.choice(known)
        value = body.value(size)
        operand = [draw.number(0, value) for _ in range(3)]
        terms = [
            (draw.number(0, value - 1), draw.number(0, len(parameters) - 1), draw.number(0, 3), draw.number(1, 9))
            for _ in range(draw.rng.randint(0, 2))
        ]
        biases = [(draw.number(0, len(parameters) - 1), draw.number(0, 3)) for _ in range(draw.rng.randint(0, 1))]
        periods = [draw.number(1, 4) for _ in range(draw.rng.randint(0, size))]
        op, act = draw.number(0, len(module.OPS) - 1), draw.number(0, len(module.ACTIVATIONS) - 1)
        slot = draw.number(-1, 2)
        dst = value if draw.rng.random() < 0.9 else draw.number(-1, value)
        try:
            body.instruction(op, act, dst, *operand, draw.rng.uniform(-1, 2), slot, terms, biases, periods)
        except REFUSALS:
            continue
        known.append(size)
    program.loss_slots = draw.number(0, 3)
    outputs = [draw.number(0, len(values)) for _ in range(draw.rng.randint(0, 2))]
    for value in outputs:
        program.output(value)
    if draw.rng.random() < 0.3:
        program.final(draw.number(0, len(values)))
    return program, {"sizes": sizes, "parameters": parameters, "outputs": outputs, "known": known}


def call_programs(draw: Draw) -> None:
    """A program forward, backward and in training, with tensors that fit or do not."""
    program, about = random_program(draw)
    wide = draw.rng.random() < 0.3
    like = torch.zeros(1, dtype=torch.float64 if wide else torch.float32)
    kept = [like]
    steps, batch = draw.small(1, 6), draw.small(1, 40)
    sequences = [
        draw.view((draw.small(steps, steps + 1), batch, draw.small(size, size)), kept) for size in about["sizes"]
    ]
    initials = [draw.view((batch, draw.small(size, size)), kept) for size in about["sizes"][:1]]
    weights = [torch.randn(draw.small(size, size), dtype=like.dtype) for size in about["parameters"]]
    outputs = [
        draw.view((steps, batch, draw.small(size, size)), kept)
        for size in draw.rng.choices(about["known"], k=len(about["outputs"]))
    ]
    claimed = (draw.number(steps, steps), draw.number(batch, batch), draw.number(1, 2))
    tape = native.module().Tape()
    arguments = (wide, *claimed, initials, sequences)
    attempts: list[Callable[[], Any]] = [
        lambda: program.forward(*arguments, outputs, [], flats(weights), [], tape),
        lambda: program.backward(
            *arguments, flats(weights), [], outputs, [], initials, [(0,) * 7] * len(sequences), (0, 0), tape
        ),
    ]
    index = torch.tensor([draw.number(0, batch) for _ in range(draw.small(0, 20))], dtype=torch.int64)
    gradient = (
        torch.zeros(max(0, program.parameter_total), dtype=like.dtype) if program.parameter_total < 10**6 else like
    )
    attempts.append(
        lambda: program.train(
            wide, claimed[0], len(index), claimed[2], *flats([index]), sequences, flats(weights), [],
            3, 4, draw.rng.uniform(-0.5, 1.5), [1.0] * draw.small(0, 3), *flats([gradient]),
        )
    )  # fmt: skip
    draw.rng.shuffle(attempts)
    refused = 0
    for attempt in attempts:
        try:
            attempt()
        except REFUSALS:
            refused += 1
    if refused == len(attempts):
        raise ValueError("all calls were refused")


def call_layers(draw: Draw) -> None:
    """A large layer with tensors that fit or do not."""
    steps, batch, inputs, hidden, outputs = (
        draw.small(1, 5),
        draw.small(1, 30),
        *(draw.small(1, 40) for _ in range(3)),
    )
    dtype = draw.rng.choice([torch.float32, torch.float64])
    layers = [
        torch.nn.Linear(inputs + hidden + draw.small(0, 0), draw.small(size, size), dtype=dtype)
        for size in (hidden, hidden, outputs, outputs)
    ]
    x = torch.randn(steps, batch, inputs, dtype=dtype, requires_grad=True)
    first = torch.randn(batch, draw.small(hidden, hidden), dtype=dtype)
    noise = torch.randn(steps, draw.small(batch, batch), hidden, dtype=dtype) if draw.rng.random() < 0.5 else None
    masks = [torch.rand(draw.small(steps, steps), batch) < 0.3 if draw.rng.random() < 0.5 else None for _ in range(2)]
    gate = draw.rng.choice(["retanh", "sigmoid", "heaviside", "tanh"])
    g, r, output, output_gate = (Affine(layer.weight, layer.bias) for layer in layers)
    networks = Networks((g,), (r,), output, output_gate)
    run = run_layer(networks, gate, x, first, noise=noise, resets=masks[0], active=masks[1])
    (run.outputs.sum() + run.states.square().sum()).backward()


def call_cells(draw: Draw) -> None:
    """A cell over time through the public function, with another instruction set between forward and backward."""
    kind = draw.rng.choice([GateL0RDCore, ElmanCell, GRUCell, LSTMCell])
    cell = kind(draw.small(1, 9), max(1, draw.small(1, 70)))
    steps, batch = draw.small(0, 5), draw.small(0, 40)
    x = torch.randn(steps, batch, draw.small(cell.input_size, cell.input_size), requires_grad=True)
    module = native.module()
    module.use(draw.rng.choice(instruction_sets()))
    run = unroll(cell, x, engine="native")
    module.use(draw.rng.choice(instruction_sets()))
    run.outputs.sum().backward()


def call_mutants(draw: Draw) -> None:
    """The program of a real cell in which some numbers were changed, forward and backward."""
    cell = draw.rng.choice([GateL0RDCore, ElmanCell, GRUCell, LSTMCell])(3, 5)
    program = cell_program(cell, with_noise=False, with_resets=draw.rng.random() < 0.5, with_active=False)
    assert program is not None
    for _ in range(draw.rng.randint(0, 2)):
        section = draw.rng.choice([program.body, program.body, program.prologue])
        kind = draw.rng.choice(["instruction", "instruction", "term", "rows", "load", "state", "output"])
        if kind in ("instruction", "term") and section.instructions:
            where = draw.rng.randrange(len(section.instructions))
            old = section.instructions[where]
            if kind == "instruction":
                field = draw.rng.choice(["dst", "a", "b", "c", "slot"])
                section.instructions[where] = replace(old, **{field: draw.number(-1, len(section.values))})
            elif old.terms:
                term = old.terms[0]._replace(
                    **{draw.rng.choice(["input", "parameter", "start", "stride"]): draw.number(0, 9)}
                )
                section.instructions[where] = replace(old, terms=(term, *old.terms[1:]))
        elif kind == "rows" and section.values:
            where = draw.rng.randrange(len(section.values))
            section.values[where] = section.values[where]._replace(size=draw.number(0, 9))
        elif kind == "load" and program.sequence_loads:
            load = program.sequence_loads[0]._replace(
                **{draw.rng.choice(["value", "sequence", "shift"]): draw.number(0, 3)}
            )
            program.sequence_loads[0] = load
        elif kind == "state" and program.states:
            program.states[0] = type(program.states[0])(*(draw.number(0, 9) for _ in program.states[0]))
        elif kind == "output" and program.outputs:
            program.outputs[0] = Value(draw.number(0, 9), draw.small(5, 5))
    compiled = Compiled(program)
    steps, batch = draw.small(1, 5), draw.small(1, 40)
    sequences = [torch.randn(steps, batch, size, requires_grad=size == 3) for size in program.sequences]
    results = compiled.run(cell, sequences, [torch.randn(batch, size) for size in program.initials])
    sum(tensor.sum() for tensor in results.outputs).backward()


CALLS = (call_programs, call_layers, call_cells, call_mutants)


class Engine(Target):
    """Calls of the compiled engine. A crash ends the process; the file ``engine.running`` has the number of the try."""

    name = "engine"

    def attempt(self, rng: random.Random, place: Path) -> str:
        torch.manual_seed(rng.randrange(2**31))
        call = rng.choice(CALLS)
        draw = Draw(rng, rng.choice([0.0, 0.02, 0.2]))
        native.module().use(rng.choice(instruction_sets()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call(draw)
            except REFUSALS:
                return f"{call.__name__}: refused"
        return f"{call.__name__}: computed"
