"""Frozen configurations of the library's components. Imports nothing heavy, so that the command line starts at once."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_type_hints

CellName = Literal["gatel0rd", "elman", "gru", "lstm", "clockwork"]
GateName = Literal["retanh", "sigmoid", "heaviside"]
PenaltyName = Literal["l0", "l1", "l2", "squared_mean"]
Preset = Literal["text", "reference"]
AgentPreset = Literal["text", "reference", "tuned"]


@dataclass(frozen=True, kw_only=True)
class CellConfig:
    """Which recurrent cell, and its options. ``num_layers`` stacks cells; the last four are GateL0RD's own."""

    name: CellName = "gatel0rd"
    hidden_size: int = 8
    num_layers: int = 1
    net_layers: int = 1
    gate: GateName = "retanh"
    noise_std: float = 0.1
    output_gate: bool = True


@dataclass(frozen=True, kw_only=True)
class WorldModelConfig:
    """A world model: f_init, f_pre, a recurrent core and f_post around a residual prediction (Fig. 1d)."""

    observation_size: int
    action_size: int
    cell: CellConfig = CellConfig()
    feature_size: int = 8
    pre_layers: int = 3
    init_layers: int = 2
    init_steps: int = 1
    post_layers: int = 1
    residual_scale: float = 0.1


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a world model is trained. Defaults are the paper's (Suppl. B.1)."""

    epochs: int
    learning_rate: float = 0.005
    batch_size: int = 128
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-4
    clip_norm: float = 0.1
    sparsity_weight: float = 0.001
    penalty: PenaltyName = "l0"
    sampling_decay: float = 0.998
    sampling_minimum: float = 0.0
    teacher_forcing: bool = False
    evaluate_every: int = 100


NormalizedRows = Literal["heads", "all", "none"]
GateNoise = Literal["none", "kept", "fresh"]


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig:
    """An agent: an encoder, a memory, and on top of it an actor and a critic (Suppl. B.2).

    Attributes:
        observation_shape: (features,) or (width, height, channels).
        actions: how many there are to choose from, or with ``continuous`` how many numbers an action has.
        memory: False leaves out the cell: actor and critic see the encoder's output.
        width: of the hidden layers.
        normalized_rows: linear layers whose weights begin as rows of length 1, their biases as 0: of actor and critic,
            of ``all`` parts (the authors' code, which reaches GateL0RD's layers but not those of an LSTM), or of none.
    """

    observation_shape: tuple[int, ...]
    actions: int
    continuous: bool = False
    cell: CellConfig = CellConfig(hidden_size=64)
    memory: bool = True
    width: int = 64
    normalized_rows: NormalizedRows = "heads"


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Recurrent proximal policy optimization. Defaults are the paper's (Suppl. B.2) and torch-ac's.

    Attributes:
        environments, steps: side by side, and of each in one rollout.
        epochs, batch_size: passes over a rollout, and frames of a gradient step.
        chunk: time steps through which gradients flow.
        discount, trace: γ and λ of the generalized advantage estimation.
        clip: how far the ratio of probabilities may go before it stops to count.
        clip_values: whether values are clipped in the same way.
        normalize_advantages: whether advantages of a batch get mean 0 and deviation 1.
        refresh_memories: whether memories in the middle of chunks are replaced by those of the newest weights, for the
            shifted chunks that begin there.
        shift_chunks: whether every other epoch cuts half a chunk later.
        bootstrap_timeouts: whether the value of what comes next counts where only the time limit ended an episode.
        gate_noise: of GateL0RD: ``none``; drawn while acting and ``kept`` for the update, so that an unchanged network
            gives unchanged probabilities; or drawn ``fresh`` in the update too (the authors' code).
    """

    environments: int = 16
    steps: int = 128
    epochs: int = 4
    batch_size: int = 256
    chunk: int = 32
    learning_rate: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-4
    clip_norm: float = 0.1
    discount: float = 0.99
    trace: float = 0.99
    clip: float = 0.2
    clip_values: bool = True
    entropy_weight: float = 0.01
    value_weight: float = 0.5
    sparsity_weight: float = 0.01
    normalize_advantages: bool = False
    refresh_memories: bool = True
    shift_chunks: bool = True
    bootstrap_timeouts: bool = True
    gate_noise: GateNoise = "kept"

    def __post_init__(self) -> None:
        for name in ("environments", "steps", "epochs", "batch_size", "chunk"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.steps % self.chunk or self.batch_size % self.chunk:
            raise ValueError(
                f"chunks have {self.chunk} steps; expected a divisor of the {self.steps} steps of a rollout and of the "
                f"batch size {self.batch_size}"
            )
        if self.chunk > 1 and self.chunk % 2:
            raise ValueError(f"chunks have {self.chunk} steps; expected an even number, they are shifted by half")
        if self.gate_noise not in ("none", "kept", "fresh"):
            raise ValueError(f"gate_noise is {self.gate_noise!r}; expected none, kept or fresh")
        for name in ("learning_rate", "clip", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number above 0")
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 0 to 1")

    @property
    def frames(self) -> int:
        """Frames of one rollout."""
        return self.environments * self.steps


@dataclass(frozen=True, kw_only=True)
class DataRecipe:
    """Everything that determines a data set: the same recipe gives the same bytes.

    ``version`` is the generator's; it is raised when the same words would give other data.
    """

    scenario: str
    policy: str
    split: str
    sequences: int
    steps: int
    preset: Preset = "text"
    seed: int = 0
    version: int = 1

    @property
    def name(self) -> str:
        """File name without ending."""
        size = f"{self.sequences}x{self.steps}"
        version = f"-v{self.version}" if self.version > 1 else ""
        return f"{self.scenario}-{self.policy}-{self.split}-{self.preset}-{size}-seed{self.seed}{version}"


T = TypeVar("T")


def to_json(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON data."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_json(kind: type[T], plain: dict[str, Any]) -> T:
    """A configuration from :func:`to_json`'s data; unknown or missing fields are an error."""
    hints = get_type_hints(kind)
    unknown = set(plain) - set(hints)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}; it has {', '.join(hints)}")
    values: dict[str, Any] = {}
    for name, value in plain.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            values[name] = from_json(hint, value)
        elif isinstance(value, list):
            item: Any = getattr(hint, "__args__", (None,))[0]
            values[name] = tuple(from_json(item, entry) if isinstance(entry, dict) else entry for entry in value)
        else:
            values[name] = value
    return kind(**values)


def _without_defaults(config: Any) -> Any:
    if dataclasses.is_dataclass(config):
        fields = {field.name: (getattr(config, field.name), field.default) for field in dataclasses.fields(config)}
        return {name: _without_defaults(value) for name, (value, default) in fields.items() if value != default}
    return [_without_defaults(entry) for entry in config] if isinstance(config, tuple) else config


def content_hash(config: Any) -> str:
    """Ten hexadecimal digits that name a configuration by its content.

    Fields that have their default value do not count, so that a new option leaves old names as they are.
    """
    canonical = json.dumps(_without_defaults(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a model of somebody's own recordings is made.

    Attributes:
        features: size of what goes into and comes out of the recurrent cell.
        window: longest stretch that is predicted in one piece, in steps.
        gate_rate: share of gates that shall be open, which λ is adjusted for while training; None: not held.
        events: steps with an open gate per sequence (of mean length) that shall be held instead.
        sparsity_weight: λ at the beginning, and throughout if nothing is held.
        rounds: at most so many, of :attr:`round_updates` gradient steps each.
        patience: rounds without improvement after which training ends, once all is settled.
        validation: share of the sequences (of a single one: of its rows) that is kept for validation.
        sampling_minimum: probability of real inputs at the end of scheduled sampling.
    """

    cell: CellName = "gatel0rd"
    hidden_size: int = 8
    features: int = 16
    layers: int = 1
    window: int = 50
    gate_rate: float | None = 0.05
    events: float | None = None
    sparsity_weight: float = 0.001
    learning_rate: float = 0.002
    batch_size: int = 128
    rounds: int = 240
    round_updates: int = 50
    patience: int = 80
    validation: float = 0.2
    sampling_minimum: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        shares = {"gate_rate": self.gate_rate, "validation": self.validation}
        for name, value in shares.items():
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} is {value}; expected a share between 0 and 1")
        if self.events is not None and not 0 < self.events < float("inf"):
            raise ValueError(f"events is {self.events}; expected more than 0 per sequence")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate is {self.learning_rate}; expected more than 0")
        if not self.sparsity_weight >= 0:
            raise ValueError(f"sparsity_weight is {self.sparsity_weight}; expected 0 or more")
        for name in ("hidden_size", "features", "layers", "rounds", "round_updates", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.window < 2:
            raise ValueError(f"window is {self.window}; expected at least 2 steps")


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig:
    """Who does the work of many runs.

    Attributes:
        kind: this machine, a Ray cluster, or SLURM.
        workers: runs side by side; on this machine one per core if not given, on a cluster as many as it has room for.
        address: of the Ray cluster; one is started on this machine if not given.
        slurm: further options of SLURM jobs, as ``partition`` or ``account``; ``time`` in minutes and ``mem_gb``
            replace what is asked for by default; ``cluster`` may be ``local``, to try without SLURM.
    """

    kind: Literal["local", "ray", "slurm"] = "local"
    workers: int | None = None
    address: str | None = None
    slurm: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is {self.workers}; expected at least 1")
        self.slurm_number("time"), self.slurm_number("mem_gb")

    def slurm_number(self, name: str) -> float | None:
        """One of SLURM's options that is a number."""
        text = self.slurm.get(name)
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            unit = "minutes" if name == "time" else "gigabytes"
            raise ValueError(f"{name} for SLURM is {text!r}; expected a number of {unit}") from None
