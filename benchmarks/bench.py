"""Speed as ratios: ours and a peer take turns in one run on one machine. ``gatel0rd bench``, ``make bench``."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gatel0rd.engine import native
from gatel0rd.engine.optimizer import FlatTrainer
from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.world_program import training_program
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.nn.layer import GateL0RD
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.steps import NativeStepper, TorchStepper, make_stepper

if TYPE_CHECKING:
    from gatel0rd.training.vector_env import BackendName

Row = dict[str, Any]
Work = Callable[[], object]
BATCH = 128


@dataclass(frozen=True)
class Size:
    """A training step of the paper."""

    name: str
    model: WorldModelConfig
    steps: int


SIZES = (
    Size(
        "billiard",
        WorldModelConfig(
            observation_size=2,
            action_size=0,
            cell=CellConfig(net_layers=3),
            feature_size=16,
            init_layers=3,
            init_steps=2,
        ),
        50,
    ),
    Size("rrc", WorldModelConfig(observation_size=4, action_size=2), 49),
    Size(
        "shepherd",
        WorldModelConfig(observation_size=7, action_size=3, feature_size=16, init_layers=3, init_steps=2),
        99,
    ),
)
HIDDEN_SIZES = (8, 16, 64, 256)
BASELINES: tuple[CellName, ...] = ("lstm", "gru", "elman")


def medians(candidates: dict[str, Work], *, seconds: float = 1.0, warmup: int = 2) -> dict[str, float]:
    """Median milliseconds of each candidate; they take turns, so that a busy machine slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(warmup):
        for run in candidates.values():
            run()
    end = time.perf_counter() + seconds * len(candidates)
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, run in candidates.items():
            # a fast candidate gets more turns, or its median would hang on a handful of numbers
            spent = 0.0
            while spent < 0.02:
                began = time.perf_counter()
                run()
                passed = time.perf_counter() - began
                times[name].append(1000 * passed)
                spent += passed
    return {name: statistics.median(values) for name, values in times.items()}


def compare(name: str, threads: int, ours: Work, peer_name: str, peer: Work) -> Row:
    """One row: ours against a peer."""
    found = medians({"ours": ours, "peer": peer})
    return {
        "name": name,
        "threads": threads,
        "ours_ms": round(found["ours"], 4),
        "peer": peer_name,
        "peer_ms": round(found["peer"], 4),
        "ratio": round(found["peer"] / found["ours"], 3),
    }


def batch_of(size: Size) -> tuple[Tensor, Tensor]:
    """Random sequences of a scenario's shape."""
    generator = torch.Generator().manual_seed(0)
    shape = (size.steps + 1, BATCH)
    observations = torch.rand(*shape, size.model.observation_size, generator=generator) * 2 - 1
    actions = torch.rand(*shape, size.model.action_size, generator=generator) * 2 - 1
    return observations, actions


def training_step(size: Size, engine: native.EngineName, compiled: bool = False) -> Work:
    """Forward, backward, clip and Adam on one batch."""
    model = WorldModel(size.model, engine=engine)
    if compiled:
        model._step = torch.compile(model._step)  # type: ignore[method-assign]
    stepper = make_stepper(model, TrainConfig(epochs=1), *batch_of(size), seed=0, engine=engine)
    assert isinstance(stepper, TorchStepper if engine == "torch" else NativeStepper)
    index, generator = torch.arange(BATCH), torch.Generator().manual_seed(0)
    return lambda: stepper.step(index, probability=0.5, counter=0, generator=generator)


def layer(make: Callable[..., nn.Module], hidden: int, steps: int = 50, batch: int = BATCH) -> Work:
    """Forward and backward of a recurrent layer."""
    rnn, x = make(hidden, hidden), torch.randn(steps, batch, hidden)

    def run() -> None:
        rnn.zero_grad()
        rnn(x)[0].square().mean().backward()

    return run


def planning(engine: native.EngineName) -> Work:
    """256 futures of 50 steps from one state, without gradients."""
    model = WorldModel(SIZES[1].model, engine=engine).eval()
    observation, actions = torch.zeros(256, 4), torch.rand(50, 256, 2)
    state = model.initial(observation.unsqueeze(0), actions[:1])

    @torch.no_grad()
    def run() -> None:
        model.rollout(state, observation, actions)

    return run


def control_step(engine: native.EngineName) -> Work:
    """One plan of iCEM in Robot Remote Control: 623 futures of 50 steps, their costs, the next action."""
    from gatel0rd.planning import ICEM, ICEMConfig, LearnedForesight
    from gatel0rd.worlds.robot_remote_control.task import RemoteControl

    task, generator = RemoteControl(), np.random.default_rng(0)
    foresight = LearnedForesight(WorldModel(SIZES[1].model, engine=engine))
    planner = ICEM(-np.ones(2), np.ones(2), ICEMConfig(horizon=50), generator=generator)
    foresight.begin(task.reset([generator]))
    foresight.advance(np.zeros((1, 2)), task.step(np.zeros((1, 2)))[0])
    return lambda: planner.plan(lambda sequences: task.cost(foresight.predict(sequences), sequences))


def training_flops(size: Size) -> float:
    """Multiplications and additions of a training step's linear layers, counted on its program."""
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
                products = section.shapes[instruction.dst][0] * section.shapes[value][0]
                total += 2 * products * times * BATCH * (2 if value in given else 3)
    return total


def kernel_only(size: Size) -> Work:
    """The engine's part of a training step: no Python around it, no Adam."""
    model = WorldModel(size.model)
    program = training_program(model, teacher_forcing=False, penalty="l0")
    assert program is not None
    observations, actions = batch_of(size)
    trainer = FlatTrainer(model, program, [actions, observations], steps=size.steps, seed=0)
    index = torch.arange(BATCH)
    return lambda: trainer.losses(index, probability=0.5, weights=[1e-5, 1e-5], counter=0)


def product(size: int = 1024) -> Work:
    """SGEMM, as PyTorch's library does it."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return lambda: a @ b


def step_rows(threads: int) -> Iterator[Row]:
    for size in SIZES:
        ours = training_step(size, "native")
        yield compare(f"step/{size.name}", threads, ours, "torch path", training_step(size, "torch"))


def cell_rows(threads: int) -> Iterator[Row]:
    """The baselines' training steps: stacks of three on Billiard Ball, as in the paper, else one cell."""
    for size in SIZES:
        for cell in BASELINES:
            config = CellConfig(name=cell, num_layers=size.model.cell.net_layers)
            other = replace(size, model=replace(size.model, cell=config))
            ours, peer = (training_step(other, engine) for engine in ("native", "torch"))
            yield compare(f"cells/{size.name}-{cell}", threads, ours, "torch path", peer)


def data_rows(threads: int) -> Iterator[Row]:
    """64 rollouts of 50 steps side by side, as the generators do it, against one environment after the other."""
    try:
        from gatel0rd.worlds.billiard_ball import dynamics as billiard_ball
        from gatel0rd.worlds.shepherd import dynamics as shepherd
        from gatel0rd.worlds.shepherd.env import Shepherd
    except ModuleNotFoundError:
        return
    generator, count, steps = np.random.default_rng(0), 64, 50
    table, single = billiard_ball.Table(count), billiard_ball.Table(1)
    position, velocity = billiard_ball.random_shots(count, generator)

    def shots(on: billiard_ball.Table, balls: slice) -> None:
        on.shoot(position[balls], velocity[balls])
        for _ in range(steps):
            on.step()

    def one_by_one() -> None:
        for ball in range(count):
            shots(single, slice(ball, ball + 1))

    yield compare("data/billiard-64x50", threads, lambda: shots(table, slice(None)), "one ball at a time", one_by_one)

    env = Shepherd()
    actions = generator.uniform(-1, 1, (steps, count, 3))
    agents = generator.uniform(shepherd.LOWEST, shepherd.HIGHEST, (count, 2))
    sheep = shepherd.sample_sheep(generator, env.rules, (count,))

    def together() -> None:
        state = shepherd.start(agents, *sheep)
        for action in actions:
            shepherd.observe(state, env.rules.mask)
            state = shepherd.transition(state, action)

    def stepped() -> None:
        for index in range(count):
            env.reset(options={"agent": agents[index]})
            for action in actions[:, index]:
                env.step(action)

    yield compare("data/shepherd-64x50", threads, together, "environments stepped", stepped)


def compile_rows(threads: int) -> Iterator[Row]:
    for size in SIZES:
        peer = training_step(size, "torch", compiled=True)
        yield compare(f"compile/{size.name}", threads, training_step(size, "native"), "torch.compile", peer)


def jax_rows(threads: int) -> Iterator[Row]:
    try:
        from benchmarks.bench_jax import training_step as jax_step
    except ModuleNotFoundError:
        return
    for size in SIZES:
        ours = training_step(size, "native")
        yield compare(f"jax/{size.name}", threads, ours, "JAX scan", jax_step(size.model, *batch_of(size)))


def layer_rows(threads: int) -> Iterator[Row]:
    for hidden in HIDDEN_SIZES:
        for peer in (nn.GRU, nn.LSTM):
            name = f"layer/gatel0rd-{hidden}"
            yield compare(name, threads, layer(GateL0RD, hidden), f"nn.{peer.__name__}", layer(peer, hidden))


def planning_rows(threads: int) -> Iterator[Row]:
    yield compare("planning/256x50", threads, planning("native"), "torch path", planning("torch"))
    with contextlib.suppress(ModuleNotFoundError):  # its world is a Gymnasium environment
        yield compare("planning/rrc-step", threads, control_step("native"), "torch path", control_step("torch"))


def agent_rows(threads: int) -> Iterator[Row]:
    """Rollout and update of agents: 2048 frames, with minigrid's and with EnvPool's environments."""
    try:
        from benchmarks import bench_rl
        from gatel0rd.training.vector_env import native_ids

        slow = bench_rl.sb3_contrib("gymnasium")
    except ModuleNotFoundError:
        return
    fast: BackendName = "envpool" if bench_rl.ENVIRONMENT in native_ids() else "gymnasium"
    pairs: list[tuple[CellName, BackendName, str, Work]] = [
        ("lstm", fast, f"step by step, {fast}", bench_rl.StepByStep(fast).train_once),
        ("lstm", "gymnasium", "sb3-contrib, gymnasium", slow),
        ("lstm", fast, "sb3-contrib, gymnasium", slow),
        ("gatel0rd", fast, "sb3-contrib, gymnasium", slow),
        ("lstm", fast, f"sb3-contrib, {fast}", bench_rl.sb3_contrib(fast)),
        ("lstm", fast, f"sb3-contrib, one LSTM, {fast}", bench_rl.sb3_contrib(fast, shared=True)),
    ]
    for cell, backend, peer_name, peer in pairs:
        row = compare(f"agent/{cell}-{backend}", threads, bench_rl.ours(backend, cell), peer_name, peer)
        rate = 1000 * bench_rl.CONFIG.frames
        speeds = {"ours_fps": round(rate / row["ours_ms"]), "peer_fps": round(rate / row["peer_ms"])}
        yield {**row, **speeds, "shares": bench_rl.shares(backend, cell)}


def growth_rows(threads: int) -> Iterator[Row]:
    """Time against a smaller layer of the same kind: the ratio is what doubling costs."""

    def grown(name: str, smaller: Work, larger: Work) -> Row:
        return compare(name, threads, larger, "half of it", smaller)

    for steps in (100, 200, 400, 800, 1600):
        yield grown(f"growth/T-{steps}", layer(GateL0RD, 8, steps // 2), layer(GateL0RD, 8, steps))
    for batch in (32, 64, 128, 256, 512):
        yield grown(f"growth/B-{batch}", layer(GateL0RD, 8, batch=batch // 2), layer(GateL0RD, 8, batch=batch))
    for hidden in (16, 32, 64, 128, 256):
        yield grown(f"growth/H-{hidden}", layer(GateL0RD, hidden // 2), layer(GateL0RD, hidden))


def peak_rows(threads: int) -> Iterator[Row]:
    """GFLOP/s inside the engine against SGEMM's: here ours and peer are time per GFLOP."""
    for size in SIZES:
        flops, gemm = training_flops(size), 2.0 * 1024**3
        found = medians({"ours": kernel_only(size), "peer": product()})
        ours, peer = (found["ours"] / flops * 1e9, found["peer"] / gemm * 1e9)
        yield {
            "name": f"peak/{size.name}",
            "threads": threads,
            "ours_ms": round(ours, 3),
            "peer": "SGEMM 1024, ms per GFLOP",
            "peer_ms": round(peer, 3),
            "ratio": round(peer / ours, 3),
        }


def thread_rows(threads: int) -> Iterator[Row]:
    """One thread against two."""
    if threads == 1:
        return
    for size in SIZES:
        work = training_step(size, "native")

        def single(work: Work = work) -> None:
            torch.set_num_threads(1)
            work()
            torch.set_num_threads(threads)

        yield compare(f"threads/{size.name}", threads, work, "one thread", single)


GROUPS: dict[str, Callable[[int], Iterator[Row]]] = {
    "step": step_rows,
    "cells": cell_rows,
    "data": data_rows,
    "threads": thread_rows,
    "layer": layer_rows,
    "planning": planning_rows,
    "agent": agent_rows,
    "peak": peak_rows,
    "growth": growth_rows,
    "compile": compile_rows,
    "jax": jax_rows,
}
ONE_THREAD_ONLY = {"agent", "cells", "data", "compile", "jax"}


def run(only: str | None, on_row: Callable[[Row], None]) -> list[Row]:
    """All rows, or those whose name starts with ``only``, on one and two threads."""
    if only is not None and only.split("/")[0] not in GROUPS:
        raise ValueError(f"there is no benchmark {only!r}; there are {', '.join(GROUPS)}")
    before, rows = torch.get_num_threads(), []
    try:
        for name, group in GROUPS.items():
            if only is not None and not only.startswith(name):
                continue
            for threads in (1,) if name in ONE_THREAD_ONLY else (1, 2):
                torch.set_num_threads(threads)
                for row in group(threads):
                    if only is None or row["name"].startswith(only):
                        on_row(row)
                        rows.append(row)
    finally:
        torch.set_num_threads(before)
    return rows
