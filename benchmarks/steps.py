"""How long does a training step of a world model take, compared with PyTorch, torch.compile, JAX and SGEMM?"""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks.layers import layer_pass
from benchmarks.measure import Comparison, Group, Work
from benchmarks.sizes import BATCH, Size, make_batch, paper_sizes
from gatel0rd.engine import EngineName
from gatel0rd.engine.optimizer import FlatTrainer
from gatel0rd.models import WorldModel
from gatel0rd.models.world_program import training_program
from gatel0rd.nn.layer import GateL0RD
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.steps import NativeStepper, TorchStepper, make_stepper

BASELINES = ("lstm", "gru", "elman")


def training_step(size: Size, engine: EngineName, *, compiled: bool = False) -> Work:
    """Forward, backward, clip and Adam on one batch."""
    model = WorldModel(size.model, engine=engine)
    if compiled:
        model._step = torch.compile(model._step)  # type: ignore[method-assign]
    stepper = make_stepper(model, TrainConfig(epochs=1), *make_batch(size), seed=0, engine=engine)
    assert isinstance(stepper, TorchStepper if engine == "torch" else NativeStepper)
    index, generator = torch.arange(BATCH), torch.Generator().manual_seed(0)
    return lambda: stepper.step(index, probability=0.5, counter=0, generator=generator)


def compare_steps() -> Iterator[Comparison]:
    for size in paper_sizes():
        yield against_torch(f"step/{size.name}", size)


def against_torch(name: str, size: Size) -> Comparison:
    """A step in the engine compared with the same step in PyTorch."""
    return Comparison(name, partial(training_step, size, "native"), "torch path", partial(training_step, size, "torch"))


def compare_cells() -> Iterator[Comparison]:
    """The paper's other cells: stacks of three on Billiard Ball, else one cell."""
    for sizes in zip(*(paper_sizes(cell) for cell in BASELINES), strict=True):
        for cell, size in zip(BASELINES, sizes, strict=True):
            yield against_torch(f"cells/{size.name}-{cell}", size)


def compare_threads() -> Iterator[Comparison]:
    """As many threads as are set, compared with one."""
    for size in paper_sizes():
        ours = partial(training_step, size, "native")
        yield Comparison(f"threads/{size.name}", ours, "one thread", partial(single_threaded, ours))
    for hidden in (8, 64, 256):
        layer = partial(layer_pass, GateL0RD, hidden)
        yield Comparison(f"threads/layer-{hidden}", layer, "one thread", partial(single_threaded, layer))


def compare_busy() -> Iterator[Comparison]:
    """The same while another process keeps a core busy."""
    for comparison in compare_threads():
        yield replace(
            comparison,
            name=comparison.name.replace("threads/", "busy/"),
            make_ours=partial(beside_busy_process, comparison.make_ours),
        )


def single_threaded(make: Callable[[], Work]) -> Work:
    """Some work on one thread; afterwards, there are as many as before."""
    work, threads = make(), torch.get_num_threads()

    def run() -> None:
        torch.set_num_threads(1)
        work()
        torch.set_num_threads(threads)

    return run


def beside_busy_process(make: Callable[[], Work]) -> Work:
    """Some work, and a process that computes as long as the work is kept."""
    work = make()
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def run() -> None:
        work()

    weakref.finalize(run, stop, neighbour)
    return run


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def compare_compile() -> Iterator[Comparison]:
    for size in paper_sizes():
        ours, peer = partial(training_step, size, "native"), partial(training_step, size, "torch", compiled=True)
        yield Comparison(f"compile/{size.name}", ours, "torch.compile", peer)


def compare_jax() -> Iterator[Comparison]:
    def make_peer(size: Size) -> Work:
        from benchmarks import jax_peer

        return jax_peer.training_step(size.model, *make_batch(size))

    for size in paper_sizes():
        ours = partial(training_step, size, "native")
        yield Comparison(f"jax/{size.name}", ours, "JAX scan", partial(make_peer, size))


def count_flops(size: Size) -> float:
    """Count the multiplications and additions of a training step's linear layers on its program."""
    program = training_program(WorldModel(size.model), teacher_forcing=False, penalty="l0")
    assert program is not None
    total = 0.0
    sections = (
        (program.prologue, program.initial_loads, 1),
        (program.body, program.sequence_loads, size.steps),
    )
    for section, loads, times in sections:
        given = {value for value, _, _ in loads}  # no gradient goes there
        for instruction in section.instructions:
            for value, *_ in instruction.terms:
                products = section.values[instruction.dst].size * section.values[value].size
                total += 2 * products * times * BATCH * (2 if value in given else 3)
    return total


def kernel_only(size: Size) -> Work:
    """The engine's part of a training step: no Python around it, no Adam."""
    model = WorldModel(size.model)
    program = training_program(model, teacher_forcing=False, penalty="l0")
    assert program is not None
    observations, actions = make_batch(size)
    trainer = FlatTrainer(model, program, [actions, observations], steps=size.steps, seed=0)
    index = torch.arange(BATCH)
    return lambda: trainer.losses(index, probability=0.5, weights=[1e-5, 1e-5], counter=0)


def matrix_product(side: int) -> Work:
    """SGEMM, as PyTorch's library does it."""
    a, b = torch.randn(side, side), torch.randn(side, side)
    return lambda: a @ b


def compare_peak() -> Iterator[Comparison]:
    """Milliseconds per GFLOP inside the engine, compared with SGEMM's."""
    side = 1024
    for size in paper_sizes():
        yield Comparison(
            f"peak/{size.name}",
            partial(kernel_only, size),
            f"SGEMM {side}, ms per GFLOP",
            partial(matrix_product, side),
            units=(count_flops(size) / 1e9, 2 * side**3 / 1e9),
        )


GROUPS = (
    Group("step", compare_steps),
    Group("cells", compare_cells, (1,)),
    Group("threads", compare_threads, (2,)),
    Group("busy", compare_busy, (2,)),
    Group("peak", compare_peak),
    Group("compile", compare_compile, (1,)),
    Group("jax", compare_jax, (1,)),
)
