"""An agent with a memory: a policy and a value function on top of a recurrent cell (Suppl. B.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from gatel0rd.engine import Compiled, EngineName, ProgramCache, Results, check_name, find_layout
from gatel0rd.engine.builder import Builder, DescribedModule, ProgramBuilder, ProgramModule
from gatel0rd.engine.eligibility import Layout
from gatel0rd.engine.frames import run_frames
from gatel0rd.engine.program import Program, Value
from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.models.encoders import GridEncoder, VectorEncoder
from gatel0rd.nn.arguments import first_weight
from gatel0rd.nn.cells import State, build_cell
from gatel0rd.nn.mlp import reset_linear, tanh_mlp
from gatel0rd.nn.unroll import carry_cell, unroll


class Categorical(NamedTuple):
    """A categorical distribution over actions, by their log-probabilities [..., A]."""

    log_probs: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        """One action each. Shape: [...]."""
        reached = self.log_probs.exp().cumsum(dim=-1)
        drawn = torch.rand(reached.shape[:-1], generator=generator, dtype=reached.dtype).unsqueeze(-1)
        # rounding may leave the sum of all below 1: scaled by it, the last action always ends the search
        return (reached < drawn * reached[..., -1:]).sum(dim=-1)

    def mode(self) -> Tensor:
        """The most probable actions."""
        return self.log_probs.argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-probabilities of actions. Shape: [...] -> [...]."""
        return self.log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Shape: [...]."""
        return -(self.log_probs.exp() * self.log_probs).sum(dim=-1)


class DiagonalGaussian(NamedTuple):
    """Independent normal distributions of an action's components: means [..., A], log standard deviations [A]."""

    means: Tensor
    log_std: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        """One action each. Shape: [..., A]."""
        noise = torch.randn(self.means.shape, generator=generator, dtype=self.means.dtype)
        return self.means + self.log_std.exp() * noise

    def mode(self) -> Tensor:
        """The most probable actions."""
        return self.means

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-densities of actions. Shape: [..., A] -> [...]."""
        scaled = (actions - self.means) / self.log_std.exp()
        return (-0.5 * scaled.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(dim=-1)

    def entropy(self) -> Tensor:
        """Shape: [...]."""
        each = self.log_std + 0.5 * math.log(2 * math.pi * math.e)
        return each.sum().expand(self.means.shape[:-1])


Policy = Categorical | DiagonalGaussian


class ActorCriticOutput(NamedTuple):
    """What an agent computes over time.

    Attributes:
        policy: distribution of the actions, [T, N].
        values: expected returns, [T, N].
        outputs, latents: of the memory, [T, N, O] and [T, N, H]; None without a memory.
        gates: [T, N, G], or None for cells without gates.
        state: of the memory after the last step.
    """

    policy: Policy
    values: Tensor
    outputs: Tensor | None
    latents: Tensor | None
    gates: Tensor | None
    state: State


Act = Callable[[Tensor, State, Tensor | None, Tensor | None], ActorCriticOutput]
"""One step: observations [N, ...], state, starts [N] and noise [N, H] -> output with T = 1."""


class Heads(ProgramModule):
    """Actor and critic, two layers each, the first of tanh units. Shape: [..., F] -> [..., A], [..., 1]."""

    def __init__(self, input_size: int, actions: int, width: int) -> None:
        super().__init__()
        self.actor = tanh_mlp(input_size, (width, actions), last_tanh=False)
        self.critic = tanh_mlp(input_size, (width, 1), last_tanh=False)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(features), self.critic(features)

    def program(self, build: Builder, features: Value) -> tuple[Value, Value]:
        """The same as instructions."""
        return build.mlp(self.actor, [features]), build.mlp(self.critic, [features])


class ActorCritic(DescribedModule):
    """Encoder, memory, actor and critic.

    .. math::
        x_t = f_{pre}(o_t),\\quad y_t, h_t = cell(x_t, h_{t-1}),\\quad π_t = f_{actor}(y_t),\\quad v_t = f_{critic}(y_t)

    The encoder runs over all frames at once, the memory over time, with the state set to zero where an episode starts.

    Args:
        config: sizes, cell and initialisation.
        engine: ``auto`` (the compiled engine where it can run), ``native`` or ``torch``.

    Example:
        >>> import torch
        >>> from gatel0rd.models import ActorCritic, ActorCriticConfig
        >>> agent = ActorCritic(ActorCriticConfig(observation_shape=(3,), actions=2))
        >>> output = agent(torch.randn(7, 5, 3), agent.initial_state(5))
        >>> output.values.shape, output.policy.mode().shape
        (torch.Size([7, 5]), torch.Size([7, 5]))
    """

    described: ClassVar[Mapping[str, str]] = dict.fromkeys(("forward", "forward_features", "encode"), "_program")

    def __init__(self, config: ActorCriticConfig, *, engine: EngineName = "auto") -> None:
        super().__init__()
        check_name(engine)
        if config.normalized_rows not in ("heads", "all", "none"):
            raise ValueError(f"normalized_rows is {config.normalized_rows!r}; expected heads, all or none")
        self.config, self.engine = config, engine
        shape = config.observation_shape
        self.encoder: GridEncoder | VectorEncoder = (
            GridEncoder(shape) if len(shape) == 3 else VectorEncoder(math.prod(shape), config.width)
        )
        features = self.encoder.output_size
        self.memory = build_cell(config.cell, features, config.cell.hidden_size) if config.memory else None
        self.heads = Heads(self.memory.output_size if self.memory else features, config.actions, config.width)
        self.log_std = nn.Parameter(torch.zeros(config.actions)) if config.continuous else None
        self._programs = ProgramCache()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights afresh."""
        self.encoder.reset_parameters(generator)
        if self.memory is not None:
            self.memory.reset_parameters(generator)
        reset_linear(self.heads, generator)
        rows = self.config.normalized_rows
        parts: list[nn.Module] = [] if rows == "none" else [self.heads]
        if rows == "all" and self.memory is not None:
            parts.append(self.memory)
        if rows == "all" and isinstance(self.encoder, VectorEncoder):
            parts.append(self.encoder)
        for part in parts:
            normalize_rows(part, generator)
        if self.log_std is not None:
            nn.init.zeros_(self.log_std)

    def initial_state(self, count: int) -> State:
        """The empty memory of ``count`` episodes."""
        if self.memory is None:
            return ()
        return self.memory.initial_state(count, first_weight(self))

    def forward(
        self, observations: Tensor, state: State, starts: Tensor | None = None, noise: Tensor | None = None
    ) -> ActorCriticOutput:
        """Policy and values from the first to the last step.

        Shape: observations [T, N, ...], starts [T, N] (True: a new episode begins with this observation),
        noise [T, N, H].
        """
        return self.forward_features(self.encode(observations), state, starts, noise)

    def act(
        self, observations: Tensor, state: State, starts: Tensor | None = None, noise: Tensor | None = None
    ) -> ActorCriticOutput:
        """:meth:`forward` for one step without gradients: one call of the engine, the same numbers to the bit.

        Shape: observations [N, ...], starts [N], noise [N, H]; of what is returned [1, N, ...].
        """
        return self.prepare(starts=starts is not None, noise=noise is not None)(observations, state, starts, noise)

    def prepare(self, *, starts: bool = True, noise: bool = False) -> Act:
        """:meth:`act` for many steps with the same weights, with everything looked up in advance.

        Args:
            starts, noise: whether they will be given.
        """
        use = (False, noise, starts and self.memory is not None)
        layout = find_layout(self.engine, [], self)
        compiled = None if layout is None else self._compiled(use, layout)
        dtype = self._dtype
        if compiled is None:

            def act(
                observations: Tensor, state: State, starts: Tensor | None = None, noise: Tensor | None = None
            ) -> ActorCriticOutput:
                with torch.no_grad():
                    return self.forward(
                        observations[None],
                        state,
                        None if starts is None else starts[None],
                        None if noise is None else noise[None],
                    )

            return act
        run, check = compiled.prepare(self), compiled.check

        def act_compiled(
            observations: Tensor, state: State, starts: Tensor | None = None, noise: Tensor | None = None
        ) -> ActorCriticOutput:
            sequences = [observations.flatten(1).to(dtype)[None]]  # [N, ...] -> [1, N, size]
            if (noise is not None, starts is not None and self.memory is not None) != use[1:]:
                raise ValueError(
                    "starts or noise differ from what prepare() was told; expected both exactly if they were announced"
                )
            if noise is not None:
                sequences.append(noise[None])
            if starts is not None and self.memory is not None:
                sequences.append(starts.to(dtype)[None, :, None])
            check(sequences, state)
            with torch.no_grad():
                return self._read(run(sequences, state))

        return act_compiled

    def encode(self, observations: Tensor) -> Tensor:
        """Shape: [T, N, ...] -> [T, N, F]."""
        frames = observations.flatten(0, 1).flatten(1).to(self._dtype)  # [T, N, ...] -> [T·N, size]
        (features,) = run_frames(self.encoder, frames, engine=self.engine, cache=self._programs)
        return features.view(*observations.shape[:2], -1)

    def forward_features(
        self, features: Tensor, state: State, starts: Tensor | None = None, noise: Tensor | None = None
    ) -> ActorCriticOutput:
        """:meth:`forward` from the encoder's output on. Shape: features [T, N, F]."""
        output = self._run_compiled(features, state, starts, noise)
        if output is not None:
            return output
        outputs = latents = gates = None
        if self.memory is not None:
            outputs, latents, gates, state = unroll(
                self.memory, features, state, noise=noise, resets=starts, engine=self.engine, cache=self._programs
            )
            features = outputs
        actor, critic = self.heads(features)
        return ActorCriticOutput(self._policy(actor), critic[..., 0], outputs, latents, gates, state)

    def _run_compiled(
        self, features: Tensor, state: State, starts: Tensor | None, noise: Tensor | None
    ) -> ActorCriticOutput | None:
        """Memory, actor and critic in one call of the engine; None where it cannot run."""
        masks = [] if starts is None or self.memory is None else [starts.to(features.dtype).unsqueeze(-1)]
        sequences = [features, *([] if noise is None else [noise]), *masks]
        layout = find_layout(self.engine, [*sequences, *state], self)
        if layout is None:
            return None
        compiled = self._compiled((True, noise is not None, bool(masks)), layout)
        return None if compiled is None else self._read(compiled.run(self, sequences, state))

    def _program(self, encoded: bool, with_noise: bool, with_starts: bool) -> Program | None:
        return agent_program(self, encoded, with_noise, with_starts)

    def _compiled(self, use: tuple[bool, bool, bool], layout: Layout) -> Compiled | None:
        """The :func:`agent_program` for this use, if there is one."""
        key = (use, layout, None if self.memory is None else self.memory.program_key())
        return self._programs.get_or_make(key, lambda: self._program(*use), self.engine)

    def _read(self, results: Results) -> ActorCriticOutput:
        """What an :func:`agent_program` gave."""
        actor, critic, *rest = results.outputs
        outputs, latents, gates = [*rest, None, None, None][:3]
        return ActorCriticOutput(self._policy(actor), critic[..., 0], outputs, latents, gates, results.finals)

    @property
    def _dtype(self) -> torch.dtype:
        return first_weight(self.heads).dtype

    def _policy(self, actor: Tensor) -> Policy:
        if self.log_std is None:
            return Categorical(torch.log_softmax(actor, dim=-1))
        return DiagonalGaussian(actor, self.log_std)


def agent_program(agent: ActorCritic, encoded: bool, with_noise: bool, with_starts: bool) -> Program | None:
    """An agent as one program, from observations or from the encoder's output on.

    Its outputs are those of actor and critic, then the memory's outputs, latents and gates, as far as there are any.
    """
    build = ProgramBuilder(agent)
    memory, encoder = agent.memory, agent.encoder
    features = build.read(build.sequence(encoder.output_size if encoded else encoder.input_size))
    noise = build.read(build.sequence(0 if memory is None else memory.noise_size)) if with_noise else None
    start = build.read(build.sequence(1)) if with_starts else None
    if not encoded:
        encoding = encoder.program(build, features)
        if encoding is None:
            return None
        (features,) = encoding
    if memory is None:
        return build.finish(agent.heads.program(build, features))
    step = carry_cell(build, memory, features, noise, reset=start)
    if step is None:
        return None
    heads = agent.heads.program(build, step.output)
    return build.finish([*heads, step.output, memory.latents_program(build, step.state), step.gates], step.state)


@torch.no_grad()
def normalize_rows(module: nn.Module, generator: torch.Generator | None) -> None:
    """Normal weights scaled to rows of length 1, and biases of 0, in every linear layer of ``module``."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.normal_(generator=generator)
            layer.weight /= layer.weight.norm(dim=1, keepdim=True)
            if layer.bias is not None:
                layer.bias.zero_()
