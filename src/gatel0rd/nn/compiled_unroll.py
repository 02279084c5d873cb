"""``unroll`` with a choice of engine: the same results, only faster."""

from __future__ import annotations

from torch import Tensor

from gatel0rd.engine.compiled import ProgramCache, can_run
from gatel0rd.engine.native import EngineName
from gatel0rd.engine.program import Builder, Program
from gatel0rd.nn.cells.base import Cell, State
from gatel0rd.nn.unroll import Unrolled
from gatel0rd.nn.unroll import unroll as unroll_torch


def unroll(
    cell: Cell,
    x: Tensor,
    state: State | None = None,
    *,
    noise: Tensor | None = None,
    resets: Tensor | None = None,
    active: Tensor | None = None,
    engine: EngineName = "auto",
    cache: ProgramCache | None = None,
) -> Unrolled:
    """:func:`gatel0rd.nn.unroll.unroll` on the compiled engine where it can run, else in PyTorch.

    Args:
        engine: ``auto``, ``native`` (an error where it cannot run) or ``torch``.
        cache: where compiled programs of this cell are kept between calls.
    """
    start = cell.initial_state(x.shape[1], x) if state is None else state
    floats = [tensor for tensor in (x, noise, *start) if tensor is not None]
    if len(x) > 0 and can_run(engine, floats, cell):
        use = (noise is not None, resets is not None, active is not None)
        cache = ProgramCache() if cache is None else cache
        compiled = cache.get_or_make((use, cell.program_key()), lambda: cell_program(cell, *use), engine)
        if compiled is not None:
            masks = [mask.to(x.dtype).unsqueeze(-1) for mask in (resets, active) if mask is not None]
            sequences = [x, *([] if noise is None else [noise]), *masks]
            outputs, finals = compiled.run(cell, sequences, list(start))
            gates = outputs[2] if len(outputs) > 2 else None
            return Unrolled(outputs[0], outputs[1], gates, tuple(finals))
    return unroll_torch(cell, x, start, noise=noise, resets=resets, active=active)


def cell_program(cell: Cell, with_noise: bool, with_resets: bool, with_active: bool) -> Program | None:
    """A cell over time: outputs are the cell's outputs, latents and (if it has them) gates."""
    program = Program()
    before, build = Builder(cell, program, program.prologue), Builder(cell, program, program.body)
    sizes = [cell.input_size, *([cell.noise_size] if with_noise else []), *[1] * (with_resets + with_active)]
    inputs = [build.value(size) for size in sizes]
    for tensor, value in enumerate(inputs):
        program.sequence_loads.append((value.index, tensor, 0))
    x, noise = inputs[0], inputs[1] if with_noise else None
    reset, active = inputs[-1 - with_active] if with_resets else None, inputs[-1] if with_active else None

    initial = [before.value(size) for size in cell.state_sizes]
    for tensor, value in enumerate(initial):
        program.initial_loads.append((value.index, tensor, -1))
    entering = [build.value(size) for size in cell.state_sizes]
    state = tuple(entering if reset is None else [build.clear(value, reset) for value in entering])
    step = cell.program(build, x, state, noise)
    if step is None:
        return None
    leaving = step.state
    if active is not None:
        leaving = tuple(build.select(active, new, old) for new, old in zip(step.state, state, strict=True))
    for start, enter, leave in zip(initial, entering, leaving, strict=True):
        program.states.append((start.index, enter.index, leave.index))
    program.outputs = [step.output, cell.latents_program(build, leaving)]
    if step.gates is not None:
        program.outputs.append(step.gates)
    program.finals = list(leaving)
    return program
