"""Whatever Python hands to the engine, it computes or says what is wrong; it never ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from gatel0rd.engine import native, use_instruction_set
from gatel0rd.engine.compiled import Compiled, flats, pooled_bytes, view_of
from gatel0rd.engine.optimizer import FlatTrainer
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.world_program import training_program
from gatel0rd.nn import GateL0RD
from gatel0rd.nn.cells import GateL0RDCore
from gatel0rd.nn.unroll import cell_program, unroll
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.steps import make_stepper

TESTS = Path(__file__).parents[1]


def make_program(steps=7, count=5):
    """A world model's training program with data of ``steps`` steps."""
    torch.manual_seed(0)
    model = WorldModel(WorldModelConfig(observation_size=3, action_size=2))
    program = training_program(model, teacher_forcing=False, penalty="l0")
    observations, actions = torch.randn(steps + 1, count, 3), torch.randn(steps + 1, count, 2)
    return model, program, observations, actions


def make_trainer():
    model, program, observations, actions = make_program()
    return model, FlatTrainer(model, program, [actions, observations], steps=7, seed=0)


@pytest.mark.parametrize("steps", [8, 100, 100_000, 2**31, 0, -1])
def test_more_steps_than_the_data_has_are_refused_and_nothing_is_learned(steps):
    model, _, observations, actions = make_program()
    stepper = make_stepper(model, TrainConfig(epochs=1), observations, actions, seed=0, engine="native")
    before = [parameter.clone() for parameter in model.parameters()]
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(ValueError, match="time steps"):
        stepper.step(torch.arange(5), probability=0.5, counter=0, generator=generator, steps=steps)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert stepper.step(torch.arange(5), probability=0.5, counter=0, generator=generator)["loss"] > 0


def test_no_time_steps_and_no_batch_are_refused():
    cell = GateL0RDCore(3, 2)
    compiled = Compiled(cell_program(cell, False, False, False))
    with pytest.raises(ValueError, match="0 time steps; expected at least 1"):
        compiled.run(cell, [torch.zeros(0, 5, 3)], [torch.zeros(5, 2)])
    _, trainer = make_trainer()
    with pytest.raises(ValueError, match="0 entries; expected at least 1"):
        trainer.losses(torch.zeros(0, dtype=torch.int64), probability=0.5, weights=[1.0, 1.0], counter=0)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_loss_weights_is_refused(count):
    _, trainer = make_trainer()
    with pytest.raises(ValueError, match=f"{count} weights of losses were given; expected 2"):
        trainer.losses(torch.arange(5), probability=0.5, weights=[1.0] * count, counter=0)


@pytest.mark.parametrize("index", [[5], [-1], [0, 2**40]])
def test_an_index_outside_the_data_is_refused_by_python_and_by_the_engine(index):
    _, trainer = make_trainer()
    with pytest.raises(IndexError, match="of 5"):
        trainer.losses(torch.tensor(index), probability=0.5, weights=[1.0, 1.0], counter=0)
    names = torch.tensor(index)
    arguments = trainer.wide, 7, len(names), 1, *flats([names]), trainer._views, trainer._parameters, trainer._masks
    with pytest.raises(ValueError, match=f"the batch names sequence {index[-1]} of 5"):
        trainer.compiled.native.train(*arguments, 0, 0, 0.5, [1.0, 1.0], *flats([trainer.gradient]))


def small_program():
    """y = W·x with two inputs and two outputs; returns the program, its body and how it is run."""
    program = native.module().Program()
    program.parameter(4)
    x, y = program.body.value(2), program.body.value(2)
    program.sequence_load(x, 0, 0)
    given, out, weights = torch.randn(3, 5, 2), torch.zeros(3, 5, 2), torch.randn(2, 2)

    def run(threads=1):
        program.forward(False, 3, 5, threads, [], [view_of(given)], [view_of(out)], [], flats([weights]), [], None)
        return out, given @ weights.T

    return program, (x, y), run


def add_linear(program, x, y, *, parameter=0, start=0, stride=2):
    op = native.op_numbers()["linear"]
    program.body.instruction(op, 0, y, -1, -1, -1, 0.0, -1, [(x, parameter, start, stride)], [], [])


def test_an_instruction_that_was_refused_is_not_kept():
    program, (x, y), run = small_program()
    with pytest.raises(ValueError, match="names a value that does not exist"):
        program.body.instruction(native.op_numbers()["add"], 0, y, 7, 8, -1, 0.0, -1, [], [], [])
    add_linear(program, x, y)
    program.output(y)
    torch.testing.assert_close(*run())


@pytest.mark.parametrize("op", ["add", "multiply", "blend", "select", "activate", "clear", "due", "tick", "axpy"])
def test_missing_operands_are_refused(op):
    program, (_, y), run = small_program()
    program.body.instruction(native.op_numbers()[op], 0, y, -1, -1, -1, 1.0, -1, [], [], [])
    program.output(y)
    with pytest.raises(ValueError, match="is value -1 of the body"):
        run()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"parameter": 1}, "is parameter 1 of 1"),
        ({"parameter": -1}, "is parameter -1 of 1"),
        ({"start": 1}, "takes the elements 1 to 5 of parameter 0, which has 4"),
        ({"start": -1}, "takes the elements -1 to 3"),
        ({"stride": 3}, "takes the elements 0 to 5"),
        ({"stride": 1}, "the rows of a weight matrix overlap"),
        ({"stride": 2**62}, "takes the elements"),
    ],
)
def test_weights_outside_of_their_parameter_are_refused(wrong, message):
    program, (x, y), run = small_program()
    add_linear(program, x, y, **wrong)
    program.output(y)
    with pytest.raises(ValueError, match=message):
        run()


def test_values_that_nothing_fills_and_values_filled_twice_are_refused():
    program, (x, y), run = small_program()
    program.output(y)
    with pytest.raises(ValueError, match="is used before it is filled"):
        run()
    add_linear(program, x, y)
    add_linear(program, x, y)
    with pytest.raises(ValueError, match="is filled twice"):
        run()


@pytest.mark.parametrize("batch", [3, 8, 40])
def test_another_instruction_set_between_forward_and_backward_changes_nothing(batch):
    cell = GateL0RDCore(3, 5)
    gradients = []
    for later in native.instruction_sets():
        x = torch.randn(4, batch, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
        with use_instruction_set(native.instruction_sets()[0]):
            run = unroll(cell, x, engine="native")
        with use_instruction_set(later):
            run.outputs.square().sum().backward()
        gradients.append(x.grad)
    for gradient in gradients:
        torch.testing.assert_close(gradient, gradients[0])


def test_a_tape_of_another_program_or_size_is_refused():
    cell = GateL0RDCore(3, 2)
    first, second = (Compiled(cell_program(cell, False, False, False)) for _ in range(2))
    tape = native.module().Tape()
    weights = [parameter.detach() for parameter in first.parameters(cell)]
    x, h = torch.randn(4, 5, 3), torch.zeros(5, 2)
    first.forward([x], [h], flats(weights), flats(first.masks(cell)), tape)
    gradients = [torch.ones(4, 5, value.size) for value in first.program.outputs]
    for compiled, steps in ((second, 4), (first, 3)):
        views = [view_of(gradient) for gradient in gradients], [(0,) * 7], [(0,) * 7], [(0,) * 7]
        with pytest.raises(ValueError, match="the tape is not of a forward pass"):
            compiled.native.backward(
                False, steps, 5, 1, [view_of(h)], [view_of(x)], flats(weights), [], *views, (0, 0), tape
            )


def test_memory_that_holds_no_tape_is_refused():
    cell = GateL0RDCore(3, 2)
    compiled = Compiled(cell_program(cell, False, False, False))
    weights = [parameter.detach() for parameter in compiled.parameters(cell)]
    given = [torch.randn(4, 5, 3)], [torch.zeros(5, 2)], flats(weights), flats(compiled.masks(cell))
    memory = pooled_bytes(2**16)
    for address, size in ((0, 2**16), (memory.data_ptr(), 63), (memory.data_ptr(), -1), (memory.data_ptr() + 8, 2**10)):
        with pytest.raises(ValueError, match="64 bytes or more"):
            native.module().Tape((address, size))
    with pytest.raises(ValueError, match="too small"):
        compiled.forward(*given, native.module().Tape((memory.data_ptr(), 128)))
    memory.zero_()
    tape = native.module().Tape((memory.data_ptr(), len(memory)))
    assert not tape.holds(compiled.native, False, 4, 5)
    compiled.forward(*given, tape)
    assert native.module().Tape((memory.data_ptr(), len(memory))).holds(compiled.native, False, 4, 5)
    for wide, steps, batch in ((True, 4, 5), (False, 3, 5), (False, 4, 6), (False, -1, 5), (False, 4, 0)):
        assert not tape.holds(compiled.native, wide, steps, batch)
    assert not native.module().Tape((memory.data_ptr(), 128)).holds(compiled.native, False, 4, 5)


def test_more_than_a_million_steps_run():
    cell = GateL0RDCore(1, 1)
    x = torch.randn(2**20 + 3, 1, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = unroll(cell, x, engine="native")
        tail = unroll(cell, x[2**20 - 2 :], (whole.latents[2**20 - 3],), engine="native")
    torch.testing.assert_close(whole.outputs[2**20 - 2 :], tail.outputs)


def test_sizes_beyond_32_bits_are_counted_right():
    program = native.module().Program()
    for _ in range(3):
        program.parameter(2**31)
    assert program.parameter_total == 3 * 2**31
    with pytest.raises(ValueError, match="impossible size"):
        program.parameter(2**62)
    with pytest.raises(ValueError, match="rows; expected 0 to"):
        program.body.value(2**40)


def test_a_child_that_is_born_while_a_thread_computes_can_compute():
    """The parent's threads do not exist in the child; their locks must not either."""
    torch.set_num_threads(2)
    try:
        layer, x, stop = GateL0RD(8, 16), torch.randn(20, 128, 8), threading.Event()

        def work():
            while not stop.is_set():
                layer(x)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:  # no tidying up in the child: it shares everything with the test runner
                    torch.set_num_threads(1)
                    native.module().Tape()
                    with torch.no_grad():
                        unroll(layer.stack, x[:, :16].clone(), engine="native")
                    os._exit(0)
                end = time.monotonic() + 60
                while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
                    time.sleep(0.01)
                if done == (0, 0):
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                assert done == (child, 0)
        finally:
            stop.set()
            thread.join()
    finally:
        torch.set_num_threads(1)


def test_two_python_threads_with_two_models_give_the_bits_of_one():
    torch.set_num_threads(2)
    try:
        layers = [GateL0RD(5, 7), GateL0RD(6, 70)]
        inputs = [torch.randn(9, 50, 5), torch.randn(9, 50, 6)]

        def gradients(layer, x):
            layer.eval()
            outputs, _ = layer(x)
            return [outputs.detach(), *torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))]

        expected = [gradients(layer, x) for layer, x in zip(layers, inputs, strict=True)]
        failures: list[str] = []

        def work(k):
            for _ in range(30):
                found = gradients(layers[k], inputs[k])
                if not all(torch.equal(a, b) for a, b in zip(found, expected[k], strict=True)):
                    failures.append(f"model {k}")

        threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1, 0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
            assert not thread.is_alive()
        assert failures == []
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_and_mutated_programs_do_not_end_the_process(seed, tmp_path):
    command = [sys.executable, "-m", "fuzz", "engine", "--tries", "1500", "--seconds", "60", "--seed", str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [*command, "--keep", str(tmp_path)], capture_output=True, text=True, timeout=300, env=environment
    )
    last = tmp_path / "engine.running"
    number = last.read_text().strip() if last.exists() else "the last try"
    assert done.returncode == 0, f"the process ended with {done.returncode} in {number}: {done.stderr[-500:]}"
    counts = dict(line.strip().rsplit(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert all(int(counts[f"{call}: computed"]) > 5 for call in ("call_layers", "call_cells", "call_mutants"))
    assert all(int(counts[f"{call}: refused"]) > 5 for call in ("call_programs", "call_layers", "call_mutants"))
