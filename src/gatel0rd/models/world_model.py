"""A recurrent model of how observations follow from actions (Fig. 1d)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from gatel0rd.engine import EngineName, ProgramCache, check_name, find_layout, in_graph
from gatel0rd.engine.builder import DescribedModule
from gatel0rd.engine.program import Program
from gatel0rd.models.config import FollowingModelConfig, OutcomeModelConfig, WorldModelConfig
from gatel0rd.models.world_program import rollout_program
from gatel0rd.nn.arguments import first_weight
from gatel0rd.nn.cells import State, build_cell
from gatel0rd.nn.mlp import fan_in_widths, reset_linear, tanh_mlp
from gatel0rd.nn.unroll import Column, scan


class Prediction(NamedTuple):
    """One step of a world model: predicted next observation [B, O], next state, gates [B, G] or None.

    Example:
        >>> import torch
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> observation, action = torch.randn(5, 4), torch.randn(5, 2)
        >>> state = model.initial(observation[None], action[None])
        >>> prediction = model.step(state, observation, action)
        >>> prediction.observation.shape
        torch.Size([5, 4])
    """

    observation: Tensor
    state: State
    gates: Tensor | None


class Rollout(NamedTuple):
    """A world model run over time: predictions [T, B, O], latents [T, B, H], gates [T, B, G] or None, final state.

    Example:
        >>> import torch
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> predictions, latents, gates, state = model(torch.randn(7, 5, 4), torch.randn(7, 5, 2))
        >>> latents.shape
        torch.Size([7, 5, 8])
    """

    predictions: Tensor
    latents: Tensor
    gates: Tensor | None
    state: State


Predict = Callable[[State, Tensor, Tensor], Tensor]
"""State, last observation [B, O] and actions [T, B, A] -> predictions [T, B, O]."""


class WorldModel(DescribedModule):
    r"""f_init, f_pre, a recurrent core and f_post around a residual prediction.

    .. math::
        h_0 = f_{init}(x_1, …, x_k),\quad ŷ_t, h_t = core(f_{pre}(x_t), h_{t-1}),\quad
        ô_{t+1} = o_t + c · f_{post}(ŷ_t),\quad x_t = (a_t, o_t)

    where o_t is what was fed in: the real observation or the model's own last prediction. With a
    :class:`~gatel0rd.models.config.FollowingModelConfig` the core's memory also sees what just happened, in units of
    c: (o_t - o_{t-1}, o_t - ô_t) / c and a_{t-1}. The state then ends with o_{t-1}, ô_t, (if there are any) a_{t-1},
    and the transitions before this one, if the memory is to see several. With an
    :class:`~gatel0rd.models.config.OutcomeModelConfig` the last columns are outputs only: ô_{t+1} = c · f_post(ŷ_t).

    Args:
        config: sizes and cell.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.

    Shape: all sequences have time first: observations [T, B, O], actions [T, B, A] (A = 0 is allowed).

    Example:
        >>> import torch
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> model = WorldModel(WorldModelConfig(observation_size=4, action_size=2))
        >>> rollout = model.free_run(torch.randn(7, 5, 4), torch.randn(7, 5, 2))
        >>> rollout.predictions.shape, rollout.gates.shape
        (torch.Size([7, 5, 4]), torch.Size([7, 5, 8]))
    """

    described: ClassVar[Mapping[str, str]] = dict.fromkeys(("initial", "_step", "_run"), "_program")

    def __init__(
        self,
        config: WorldModelConfig,
        *,
        engine: EngineName = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_name(engine)
        if config.init_steps < 1:
            raise ValueError(f"init_steps is {config.init_steps}; the first input is always real, expected at least 1")
        self.config, self.engine = config, engine
        self._programs = ProgramCache()
        self.outcomes = config.outcomes if isinstance(config, OutcomeModelConfig) else 0
        self.seen_size = config.observation_size - self.outcomes  # columns that the network is shown
        if not 0 <= self.outcomes < config.observation_size:
            raise ValueError(
                f"{self.outcomes} of {config.observation_size} observations are outcomes; expected 0 or more, and at "
                "least one column that is seen"
            )
        input_size, features = self.seen_size + config.action_size, config.feature_size
        pre_widths = fan_in_widths(config.pre_layers, features)
        self.pre = tanh_mlp(input_size, pre_widths, last_tanh=True, device=device, dtype=dtype)
        self.recent_sizes: tuple[int, ...] = ()
        self.last_parts = 0  # of these, how many tensors are about the last transition
        if isinstance(config, FollowingModelConfig):
            if config.transitions < 1 and not isinstance(config, OutcomeModelConfig):
                raise ValueError(f"transitions is {config.transitions}; expected at least 1, the last one")
            acted = (config.action_size,) if config.action_size else ()
            last = (self.seen_size, self.seen_size, *acted) if config.transitions else ()
            self.recent_sizes = (*last, *(sum(last),) * (config.transitions - 1))
            self.last_parts = len(last)
        recent = sum(self.recent_sizes)
        self.core = build_cell(config.cell, features + recent, features, memory_only=recent, device=device, dtype=dtype)
        hidden_widths = fan_in_widths(config.init_layers, features)[:-1]
        self.init = nn.ModuleList(
            tanh_mlp(
                config.init_steps * input_size,
                [*hidden_widths, cell.latent_size],
                last_tanh=True,
                device=device,
                dtype=dtype,
            )
            for cell in self.core.cells
            if config.init_layers > 0
        )
        post_widths = [*fan_in_widths(config.post_layers, features)[1:], config.observation_size]
        self.post = tanh_mlp(self.core.output_size, post_widths, last_tanh=False, device=device, dtype=dtype)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh."""
        for part in (self.pre, self.init, self.post):
            reset_linear(part, generator)
        self.core.reset_parameters(generator)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """Features of each tensor of a state."""
        return (*self.core.state_sizes, *self.recent_sizes)

    def initial(self, observations: Tensor, actions: Tensor) -> State:
        """h_0 from the first ``init_steps`` inputs (later ones are ignored), or zeros without f_init.

        Shape: observations [T, B, O], actions [T, B, A] with T >= init_steps.
        """
        self._check(observations, actions)
        earlier = [observations.new_zeros(observations.shape[1], size) for size in self.recent_sizes[self.last_parts :]]
        seen = observations[..., : self.seen_size]
        recent = (*(seen[0], seen[0], actions[0])[: self.last_parts], *earlier)
        if not len(self.init):
            return (*self.core.initial_state(observations.shape[1], observations), *recent)
        first = self.config.init_steps
        if len(observations) < first:
            raise ValueError(f"got {len(observations)} observations; f_init needs the first {first} inputs")
        inputs = torch.cat([actions[:first], seen[:first]], dim=-1)
        inputs = inputs.transpose(0, 1).flatten(1)  # [k, B, A+O] -> [B, k·(A+O)]
        return (*self.core.state_from(torch.cat([network(inputs) for network in self.init], dim=-1)), *recent)

    def step(self, state: State, observation: Tensor, action: Tensor, noise_t: Tensor | None = None) -> Prediction:
        """Predict the next observation. Shape: observation [B, O], action [B, A]."""
        self._check(observation.unsqueeze(0), action.unsqueeze(0))
        return self._step(state, observation, action, noise_t)

    def _step(self, state: State, observation: Tensor, action: Tensor, noise_t: Tensor | None) -> Prediction:
        scale, outcomes = self.config.residual_scale, observation[:, self.seen_size :]
        observation = observation[:, : self.seen_size]
        features = self.pre(torch.cat([action, observation], dim=-1))
        earlier: State = ()
        if self.recent_sizes:
            recent = state[len(self.core.state_sizes) :]
            before, expected, *acted = recent[: self.last_parts]
            happened = torch.cat([(observation - before) / scale, (observation - expected) / scale, *acted], dim=-1)
            seen = (happened, *recent[self.last_parts :])
            features, earlier = torch.cat([features, *seen], dim=-1), seen[:-1]
        output, state, gates = self.core(features, state[: len(self.core.state_sizes)], noise_t)
        base = torch.cat([observation, torch.zeros_like(outcomes)], dim=-1) if self.outcomes else observation
        prediction = base + scale * self.post(output)
        last = (observation, prediction[:, : self.seen_size], action)[: self.last_parts]
        return Prediction(prediction, (*state, *last, *earlier), gates)

    def latents(self, state: State) -> Tensor:
        """The part of a state that a figure shows. Shape: [B, H]."""
        return self.core.latents(state[: len(self.core.state_sizes)])

    def rollout(self, state: State, observation: Tensor, actions: Tensor) -> Rollout:
        """Free-running prediction of what a sequence of actions leads to.

        Shape: observation [B, O] is the last real one; actions [T, B, A].
        """
        self._check(observation.unsqueeze(0), actions[:1])
        return self._run(state, observation, None, actions, None, None)

    def prepare_predictions(self) -> Predict:
        """:meth:`rollout` for many calls with the same weights, for its predictions only: all is looked up in advance.

        They are those of evaluation mode, without gradients, and contiguous once time and batch are exchanged.
        """

        def predict(state: State, observation: Tensor, actions: Tensor) -> Tensor:
            with without_training(self):
                predictions = self.rollout(state, observation, actions).predictions
            return predictions.transpose(0, 1).contiguous().transpose(0, 1)

        layout = find_layout(self.engine, [], self)
        if layout is None:
            return predict
        with without_training(self):
            compiled = self._programs.get_or_make(
                ("predictions", layout, self.config, self.core.program_key()),
                lambda: rollout_program(
                    self, from_inputs=False, real=False, feed=False, noise=False, only_predictions=True
                ),
                self.engine,
            )
        if compiled is None:
            return predict
        run, check = compiled.prepare(self, batch_first=True), compiled.check

        def predict_compiled(state: State, observation: Tensor, actions: Tensor) -> Tensor:
            self._check(observation.unsqueeze(0), actions[:1])
            initials = [*state, observation]
            check([actions], initials)
            return run([actions], initials).outputs[0]

        return predict_compiled

    def forward(
        self, observations: Tensor, actions: Tensor, feed: Tensor | None = None, noise: Tensor | None = None
    ) -> Rollout:
        """Predict every next observation of a batch of sequences, starting from f_init.

        Args:
            observations: real observations [T, B, O].
            actions: [T, B, A].
            feed: True where the real observation is fed in, False where the model's prediction is, [T, B]; all real
                (teacher forcing) if not given. The first ``init_steps`` steps are always real.
            noise: gate noise, from :meth:`sample_noise`.
        """
        self._check(observations, actions)
        if feed is not None:
            if feed.shape != observations.shape[:2] or feed.dtype != torch.bool:
                expected = tuple(observations.shape[:2])
                raise ValueError(f"feed is {feed.dtype} of shape {tuple(feed.shape)}; expected boolean, {expected}")
            feed = feed.clone()
            feed[: self.config.init_steps] = True
        return self._run(None, observations[0], observations, actions, feed, noise)

    def free_run(self, observations: Tensor, actions: Tensor, real_steps: int | None = None) -> Rollout:
        """As :meth:`forward`, real observations only for the first ``real_steps`` steps (``init_steps`` by default)."""
        real_steps = self.config.init_steps if real_steps is None else real_steps
        feed = torch.zeros(observations.shape[:2], dtype=torch.bool, device=observations.device)
        feed[:real_steps] = True
        return self.forward(observations, actions, feed)

    def sample_noise(self, steps: int, batch_size: int, generator: torch.Generator | None = None) -> Tensor | None:
        """Gate noise for one training pass."""
        return self.core.sample_noise(steps, batch_size, first_weight(self), generator)

    def _program(self, from_inputs: bool, real: bool, feed: bool, noise: bool) -> Program | None:
        return rollout_program(self, from_inputs=from_inputs, real=real, feed=feed, noise=noise)

    @in_graph.leave_old_graphs
    def _run(
        self,
        state: State | None,
        observation: Tensor,
        observations: Tensor | None,
        actions: Tensor,
        feed: Tensor | None,
        noise: Tensor | None,
    ) -> Rollout:
        """The closed loop, on the compiled engine where it can run."""
        tensors = [tensor for tensor in (observation, observations, actions, noise) if tensor is not None]
        start = [] if state is None else list(state)
        if torch.compiler.is_compiling():
            text = _program_text(self, state is None, observations is not None, feed is not None, noise is not None)
            if text and self.engine != "torch" and in_graph.takes([*tensors, *start], self):
                mask = None if feed is None else feed.to(actions.dtype).unsqueeze(-1)
                sequences = [tensor for tensor in (actions, observations, mask, noise) if tensor is not None]
                found = in_graph.run(text, self, sequences, [] if state is None else [*start, observation])
                count = len(found) - len(self.core.state_sizes)
                return Rollout(found[0], found[1], found[2] if count > 2 else None, tuple(found[count:]))
            layout = None
        else:
            layout = find_layout(self.engine, [*tensors, *start], self, masks=[feed])
        if layout is not None:
            use = (state is None, observations is not None, feed is not None, noise is not None)
            key = (use, layout, self.config, self.core.program_key())
            compiled = self._programs.get_or_make(key, lambda: self._program(*use), self.engine)
            if compiled is not None:
                mask = None if feed is None else feed.to(actions.dtype).unsqueeze(-1)
                sequences = [tensor for tensor in (actions, observations, mask, noise) if tensor is not None]
                outputs, finals = compiled.run(self, sequences, [] if state is None else [*start, observation])
                return Rollout(outputs[0], outputs[1], outputs[2] if len(outputs) > 2 else None, tuple(finals))
        if state is None:
            assert observations is not None
            state = self.initial(observations, actions)

        def step(
            carry: tuple[State, Tensor], real: Column, action: Tensor, feed_t: Column, noise_t: Column
        ) -> tuple[tuple[State, Tensor], tuple[Column, ...]]:
            state, predicted = carry
            if real is None:
                fed = predicted
            elif feed_t is None:
                fed = real
            else:
                fed = torch.where(feed_t.unsqueeze(-1), real, predicted)
            prediction, state, gates = self._step(state, fed, action, noise_t)
            return (state, prediction), (prediction, self.latents(state), gates)

        carry, columns = scan(step, (state, observation), (observations, actions, feed, noise))
        predictions, latents, gates = columns
        assert predictions is not None and latents is not None
        return Rollout(predictions, latents, gates, carry[0])

    def _check(self, observations: Tensor, actions: Tensor) -> None:
        config, weight = self.config, first_weight(self, observations)
        for name, tensor, size in (
            ("observations", observations, config.observation_size),
            ("actions", actions, config.action_size),
        ):
            if tensor.dim() != 3 or tensor.shape[-1] != size:
                raise ValueError(f"{name} have shape {tuple(tensor.shape)}; expected (T, B, {size})")
            if tensor.dtype != weight.dtype:
                raise ValueError(f"{name} are {tensor.dtype}; the model's weights are {weight.dtype}")
        if observations.shape[:2] != actions.shape[:2]:
            raise ValueError(
                f"observations have (T, B) = {tuple(observations.shape[:2])} and actions "
                f"{tuple(actions.shape[:2])}; expected the same"
            )


@contextmanager
def without_training(model: WorldModel) -> Iterator[None]:
    """Use a model in evaluation mode and without gradients, and leave it in the mode it was in."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            model.train()


@in_graph.decide_once
def _program_text(model: WorldModel, from_inputs: bool, real: bool, feed: bool, noise: bool) -> str:
    return in_graph.describe(lambda: model._program(from_inputs, real, feed, noise))
