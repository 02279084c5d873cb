"""For how many steps is something remembered, by networks that were trained on 50 of them, and by agents?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.worlds.experiments import AgentExperiment, AgentVariant, BaseVariant, Question, Setting, View
from gatel0rd.worlds.memory import LENGTHS as ENVIRONMENT_LENGTHS
from gatel0rd.worlds.memory import chain_id, maze_id
from gatel0rd.worlds.memory.sizes import TaskName
from gatel0rd.worlds.metrics import Curve

SETTING = Setting(name="memory", title="Memory", of_paper=False)
STEPS = 50
"""Of the sequences that networks are trained on."""
SEQUENCES = {10**2: 256, 10**3: 128, 10**4: 64, 10**5: 32, 10**6: 16}
"""Steps after which a network is asked -> how many sequences there are."""


@dataclass(frozen=True, kw_only=True)
class MemoryVariant(BaseVariant):
    """A network and what it has to remember.

    Attributes:
        chrono: whether gate biases begin as in :func:`gatel0rd.nn.chrono.chrono_init`.
    """

    task: TaskName
    chrono: bool = False
    learning_rate: float = 0.005


@dataclass(frozen=True, kw_only=True)
class MemoryExperiment(Question):
    """A question about how long networks remember.

    Attributes:
        steps: of the sequences that they are trained on.
        lengths: steps after which they are asked -> how many sequences there are.
        epochs: of training, see :class:`gatel0rd.training.sequences.SequenceTrainConfig`.
    """

    steps: int = STEPS
    lengths: dict[int, int]
    epochs: int = 15
    variants: tuple[MemoryVariant, ...]
    seeds: int = 5
    unit = "epochs"
    presets = ("text",)


def _network(task: TaskName, cell: CellName, label: str, *, weight: float = 0.0, chrono: bool = False) -> MemoryVariant:
    return MemoryVariant(
        name=f"{task}-{cell}{'-chrono' * chrono}",
        label=label,
        cell=CellConfig(name=cell, hidden_size=8),
        task=task,
        sparsity_weight=weight,
        chrono=chrono,
        dashed=chrono,
    )


def _networks(task: TaskName, weight: float) -> tuple[MemoryVariant, ...]:
    return (
        _network(task, "gatel0rd", "GateL0RD", weight=weight),
        _network(task, "lstm", "LSTM"),
        _network(task, "lstm", "LSTM, chrono initialisation", chrono=True),
        _network(task, "gru", "GRU"),
        _network(task, "gru", "GRU, chrono initialisation", chrono=True),
        _network(task, "elman", "Elman RNN"),
        _network(task, "clockwork", "Clockwork RNN"),
    )


SYMBOL_WEIGHT, BITS_WEIGHT, NUMBER_WEIGHT = 1.0, 1.0, 3.0
"""λ; a number is lost by a single gate that opens in between, so that its gates have to be shut for certain."""
LENGTH = MemoryExperiment(
    id="memory/length",
    title="How long is something remembered?",
    question=(
        "Trained on 50 steps with noise at every step: for how many steps do networks remember one of four symbols, "
        "three bits that are switched now and then, or a number?"
    ),
    claims=(),
    scenario=SETTING,
    lengths=SEQUENCES,
    variants=(
        *_networks("symbol", SYMBOL_WEIGHT),
        *_networks("bits", BITS_WEIGHT),
        *_networks("number", NUMBER_WEIGHT),
    ),
    views=(
        View(kind="lengths", title="Right answers after many steps", artefact="Ours"),
        View(kind="lengths_table", title="Right answers after many steps", artefact="Ours"),
    ),
)


def _weighted(task: TaskName, weight: float) -> MemoryVariant:
    variant = _network(task, "gatel0rd", f"λ = {weight:g}", weight=weight)
    return replace(variant, name=f"{variant.name}-{weight:g}")


WEIGHT = MemoryExperiment(
    id="memory/lambda",
    title="What λ does",
    question="At which price on open gates are how many of them open, and how long is something remembered?",
    claims=(),
    scenario=SETTING,
    lengths=SEQUENCES,
    variants=(
        *(_weighted("symbol", weight) for weight in (0.001, 0.01, 0.1, SYMBOL_WEIGHT)),
        *(_weighted("number", weight) for weight in (0.03, 0.3, 1.0, NUMBER_WEIGHT)),
    ),
    views=(View(kind="lengths_table", title="Open gates and right answers", artefact="Ours"),),
    seeds=3,
)


def _agent(cell: CellName, label: str, *, weight: float = 0.0) -> AgentVariant:
    return AgentVariant(
        name=cell, label=label, cell=CellConfig(name=cell, hidden_size=16), sparsity_weight=weight, learning_rate=0.003
    )


AGENTS = (
    _agent("gatel0rd", "GateL0RD", weight=0.01),
    _agent("lstm", "LSTM"),
    _agent("gru", "GRU"),
    _agent("elman", "Elman RNN"),
    AgentVariant(
        name="none",
        label="no memory",
        cell=CellConfig(name="elman", hidden_size=16),
        memory=False,
        learning_rate=0.003,
    ),
)


def _agents(name: str, title: str, question: str, id_of: Callable[[int], str], actions: int) -> AgentExperiment:
    first, *longer = map(id_of, ENVIRONMENT_LENGTHS)
    return AgentExperiment(
        id=f"memory/{name}",
        title=title,
        question=question,
        claims=(),
        scenario=SETTING,
        environment=first,
        transfers=tuple(longer),
        observation_shape=(4,),
        actions=actions,
        frames=400_000,
        variants=AGENTS,
        seeds=3,
        views=(
            View(kind="curves", title="Success rate", artefact="Ours", curve=Curve("success")),
            View(kind="agent_table", title="After training, at all lengths", artefact="Ours"),
        ),
    )


EXPERIMENTS = (
    LENGTH,
    WEIGHT,
    _agents(
        "chain",
        "Memory chain",
        "Which agent still knows at the end what it saw at first, also in longer chains than it was trained in?",
        chain_id,
        actions=2,
    ),
    _agents(
        "t-maze",
        "T-maze",
        "Which agent walks down a corridor and turns to the side that it was told at first, also in longer corridors?",
        maze_id,
        actions=3,
    ),
)
