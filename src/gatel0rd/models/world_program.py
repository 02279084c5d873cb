"""World models as programs for the compiled engine: the closed loop, and the closed loop with its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gatel0rd.engine.builder import Builder, ProgramBuilder
from gatel0rd.engine.program import LossOp, Program, Value
from gatel0rd.nn.cells.base import ProgramStep

if TYPE_CHECKING:
    from gatel0rd.models.world_model import WorldModel

PENALTY_OPS: dict[str, LossOp] = {"l0": "count_open", "l1": "sum_absolute", "l2": "sum_squares"}
"""Penalties that are sums over gates; the others are computed outside the engine."""


class WorldProgramBuilder(ProgramBuilder):
    """The parts that both kinds of program share. The first sequences of a run are its actions and its observations.

    Args:
        model: what the program describes.
        real: whether a run is given observations, and not only actions.
    """

    def __init__(self, model: WorldModel, *, real: bool) -> None:
        super().__init__(model)
        self.model, self.config = model, model.config
        self.actions = self.sequence(self.config.action_size)
        self.observations = self.sequence(self.config.observation_size) if real else None

    def start_from_first_inputs(self) -> list[Value]:
        """h_0 from f_init (zeros without it), and the first observation."""
        if self.observations is None:
            raise ValueError("a program without observations cannot start from the first inputs; give its states")
        first = self.read_at(self.observations, 0)
        inputs: list[Value] = []
        for time in range(self.config.init_steps if len(self.model.init) else 1):
            observation = self.read_at(self.observations, time) if time else first
            inputs += [self.read_at(self.actions, time), self._seen(observation, self.prologue)]
        states: list[Value] = []
        for index, cell in enumerate(self.model.core.cells):
            if len(self.model.init):
                latents = self.prologue.mlp(self.model.init[index], inputs)  # type: ignore[arg-type]
            else:
                latents = self.prologue.value(cell.latent_size)
            states += cell.state_program(self.prologue, latents)
        last = [inputs[1], inputs[1], inputs[0]][: self.model.last_parts]
        earlier = [self.prologue.value(size) for size in self.model.recent_sizes[self.model.last_parts :]]
        return [*states, *last, *earlier, first]

    def start_from_states(self) -> list[Value]:
        """States and first observation as initial tensors."""
        return [self.initial(size) for size in (*self.model.state_sizes, self.config.observation_size)]

    def close_loop(
        self,
        start: Sequence[Value],
        action: Value,
        real: Value | None,
        feed: Value | None,
        noise: Value | None,
    ) -> tuple[ProgramStep, Value] | None:
        """One step of the closed loop: the core's step and the predicted observation."""
        model = self.model
        *state, predicted = self.enter(start)
        fed = predicted if real is None else real if feed is None else self.select(feed, real, predicted)
        shown = self._seen(fed, self)
        features = self.mlp(model.pre, [action, shown])
        seen: list[Value] = []
        if model.recent_sizes:
            state, recent = state[: len(model.core.state_sizes)], state[len(model.core.state_sizes) :]
            last, earlier = recent[: model.last_parts], recent[model.last_parts :]
            changes = [self._in_units(self.axpy(shown, value, -1.0)) for value in last[:2]]
            seen = [self.concatenate([*changes, *last[2:]]), *earlier]
            features = self.concatenate([features, *seen])
        step = model.core.program(self, features, tuple(state), noise)
        if step is None:
            return None
        output = self.mlp(model.post, [step.output])
        if model.outcomes:
            change, outcomes = self.split(output, [model.seen_size, model.outcomes])
            expected = self.axpy(shown, change, self.config.residual_scale)
            scaled = self.axpy(outcomes, outcomes, self.config.residual_scale - 1)
            prediction = self.concatenate([expected, scaled])
        else:
            expected = prediction = self.axpy(fed, output, self.config.residual_scale)
        if model.recent_sizes:
            last = [shown, expected, action][: model.last_parts]
            step = step._replace(state=(*step.state, *last, *seen[:-1]))
        self.leave([*step.state, prediction])
        return step, prediction

    def _seen(self, observation: Value, build: Builder) -> Value:
        """The columns that are no outcomes."""
        return build.view(observation, 0, self.model.seen_size) if self.model.outcomes else observation

    def _in_units(self, change: Value) -> Value:
        """A change of observations, divided by what the output is multiplied by."""
        return self.axpy(change, change, 1 / self.config.residual_scale - 1)


def rollout_program(
    model: WorldModel, *, from_inputs: bool, real: bool, feed: bool, noise: bool, only_predictions: bool = False
) -> Program | None:
    """The closed loop; outputs are predictions, latents and (if there are any) gates, finals the states.

    Sequences: actions, then observations, feed mask and noise as far as they are used. ``only_predictions``: there are
    no other outputs, and no finals.
    """
    build = WorldProgramBuilder(model, real=real)
    action = build.read(build.actions)
    observation = None if build.observations is None else build.read(build.observations)
    feeding = build.read(build.sequence(1)) if feed else None
    drawn = build.read(build.sequence(model.core.noise_size)) if noise else None
    start = build.start_from_first_inputs() if from_inputs else build.start_from_states()
    result = build.close_loop(start, action, observation, feeding, drawn)
    if result is None:
        return None
    step, prediction = result
    if only_predictions:
        return build.finish([prediction])
    latents = model.core.latents_program(build, step.state[: len(model.core.state_sizes)])
    return build.finish([prediction, latents, step.gates], step.state)


def training_program(
    model: WorldModel, *, teacher_forcing: bool, penalty: str, weighted: bool = False
) -> Program | None:
    """The closed loop with noise, sampling mask and loss inside.

    Slots: squared error, penalty, open gates (unless that is the penalty).

    Sequences: actions and observations, [T + 1, N, ·]; with ``weighted`` also what errors are multiplied by before they
    are squared, [T + 1, N, 1].
    """
    build, core = WorldProgramBuilder(model, real=True), model.core
    assert build.observations is not None
    action, observation = build.read(build.actions), build.read(build.observations)
    target = build.read(build.observations, shift=1)
    feed = None if teacher_forcing else build.bernoulli(model.config.init_steps)
    noise = build.normal(core.noise_size, core.noise_std) if core.noise_size and core.noise_std else None
    result = build.close_loop(build.start_from_first_inputs(), action, observation, feed, noise)
    if result is None:
        return None
    step, prediction = result
    if weighted:  # w·p + (1 - w)·target differs from the target by w·(p - target)
        prediction = build.blend(build.read(build.sequence(1)), prediction, target)
    build.loss("squared_error", prediction, target)
    if step.gates is not None:
        if penalty not in PENALTY_OPS:
            return None
        build.loss(PENALTY_OPS[penalty], step.gates)
        if penalty != "l0":
            build.loss("count_open", step.gates)
    return build.finish()
