"""World models as programs for the compiled engine: the closed loop, and the closed loop with its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.engine.program import Builder, Program, Value
from gatel0rd.nn.cells.base import ProgramStep

if TYPE_CHECKING:
    from gatel0rd.models.world_model import WorldModel

PENALTY_OPS = {"l0": "count_open", "l1": "sum_absolute", "l2": "sum_squares"}
"""Penalties that are sums over gates; the others are computed outside the engine."""


class WorldProgram:
    """The parts that both kinds of program share.

    Sequences are numbered 0 (actions) and 1 (observations); further ones follow.
    """

    def __init__(self, model: WorldModel) -> None:
        self.model, self.config = model, model.config
        self.program = Program()
        self.before = Builder(model, self.program, self.program.prologue)
        self.build = Builder(model, self.program, self.program.body)

    def load(self, tensor: int, size: int, shift: int = 0) -> Value:
        """A value that is read from a sequence at every step."""
        value = self.build.value(size)
        if size:
            self.program.sequence_loads.append((value.index, tensor, shift))
        return value

    def first(self, tensor: int, size: int, time: int) -> Value:
        """A value of the prologue, read from a sequence at one time step (-1: from an initial tensor)."""
        value = self.before.value(size)
        if size:
            self.program.initial_loads.append((value.index, tensor, time))
        return value

    def states_from_first_inputs(self) -> tuple[list[Value], Value]:
        """h_0 from f_init (zeros without it), and the first observation."""
        config, core = self.config, self.model.core
        inputs = [
            self.first(tensor, size, step)
            for step in range(config.init_steps)
            for tensor, size in ((0, config.action_size), (1, config.observation_size))
        ]
        states: list[Value] = []
        for index, cell in enumerate(core.cells):
            if len(self.model.init):
                latents = self.before.mlp(self.model.init[index], inputs)  # type: ignore[arg-type]
            else:
                latents = self.before.value(cell.latent_size)
            states += cell.state_program(self.before, latents)
        return states, inputs[1]

    def states_given(self) -> tuple[list[Value], Value]:
        """States and first observation as initial tensors."""
        sizes = (*self.model.core.state_sizes, self.config.observation_size)
        values = [self.first(tensor, size, -1) for tensor, size in enumerate(sizes)]
        return values[:-1], values[-1]

    def step(
        self,
        start: tuple[list[Value], Value],
        action: Value,
        real: Value | None,
        feed: Value | None,
        noise: Value | None,
    ) -> tuple[ProgramStep, Value] | None:
        """One step of the closed loop: the core's step and the predicted observation."""
        build, model = self.build, self.model
        entering = [build.value(size) for size in model.core.state_sizes]
        predicted = build.value(self.config.observation_size)
        fed = predicted if real is None else real if feed is None else build.select(feed, real, predicted)
        features = build.mlp(model.pre, [action, fed])
        step = model.core.program(build, features, tuple(entering), noise)
        if step is None:
            return None
        prediction = build.axpy(fed, build.mlp(model.post, [step.output]), self.config.residual_scale)
        for initial, enter, leave in zip(
            [*start[0], start[1]], [*entering, predicted], [*step.state, prediction], strict=True
        ):
            self.program.states.append((initial.index, enter.index, leave.index))
        return step, prediction


def rollout_program(model: WorldModel, *, from_inputs: bool, real: bool, feed: bool, noise: bool) -> Program | None:
    """The closed loop; outputs are predictions, latents and (if there are any) gates, finals the states.

    Sequences: actions, then observations, feed mask and noise as far as they are used.
    """
    world = WorldProgram(model)
    config = model.config
    action = world.load(0, config.action_size)
    tensor = 1
    observation = feeding = drawn = None
    if real:
        observation = world.load(tensor, config.observation_size)
        tensor += 1
    if feed:
        feeding = world.load(tensor, 1)
        tensor += 1
    if noise:
        drawn = world.load(tensor, model.core.noise_size)
    start = world.states_from_first_inputs() if from_inputs else world.states_given()
    result = world.step(start, action, observation, feeding, drawn)
    if result is None:
        return None
    step, prediction = result
    world.program.outputs = [prediction, model.core.latents_program(world.build, step.state)]
    if step.gates is not None:
        world.program.outputs.append(step.gates)
    world.program.finals = list(step.state)
    return world.program


def training_program(model: WorldModel, *, teacher_forcing: bool, penalty: str) -> Program | None:
    """The closed loop with noise, sampling mask and loss inside.

    Slots: squared error, penalty, open gates (unless that is the penalty).

    Sequences: actions [T, N, A], observations [T + 1, N, O].
    """
    world = WorldProgram(model)
    config, build = model.config, world.build
    action = world.load(0, config.action_size)
    observation = world.load(1, config.observation_size)
    target = world.load(1, config.observation_size, shift=1)
    feed = None if teacher_forcing else build.bernoulli(config.init_steps)
    core = model.core
    noise = build.normal(core.noise_size, core.noise_std) if core.noise_size and core.noise_std else None
    result = world.step(world.states_from_first_inputs(), action, observation, feed, noise)
    if result is None:
        return None
    step, prediction = result
    build.loss("squared_error", prediction, target)
    if step.gates is not None:
        if penalty not in PENALTY_OPS:
            return None
        build.loss(PENALTY_OPS[penalty], step.gates)
        if penalty != "l0":
            build.loss("count_open", step.gates)
    return world.program
