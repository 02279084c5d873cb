"""The paper's questions about reinforcement learning on MiniGrid (Sec. 6.4, Suppl. D.8, D.9)."""

from __future__ import annotations

from gatel0rd.nn.config import CellConfig
from gatel0rd.worlds.claims import Claim, Less, Of, Times, similar
from gatel0rd.worlds.experiments import AgentExperiment, AgentVariant, Setting, View
from gatel0rd.worlds.metrics import Curve, CurveMean, FinalValue

SETTING = Setting(name="minigrid", title="MiniGrid")
GATEL0RD = AgentVariant(
    name="gatel0rd", label="GateL0RD", cell=CellConfig(name="gatel0rd", hidden_size=64), sparsity_weight=0.01
)
LSTM = AgentVariant(name="lstm", label="LSTM (vanilla)", cell=CellConfig(name="lstm", hidden_size=64))
NONE = AgentVariant(name="none", label="no memory", cell=CellConfig(name="elman", hidden_size=64), memory=False)
SLOW_LSTM = AgentVariant(
    name="lstm-lr0.0005",
    label="LSTM (vanilla), learning rate 0.0005",
    cell=CellConfig(name="lstm", hidden_size=64),
    learning_rate=0.0005,
    dashed=True,
)
SUCCESS = Curve("success")
MEAN_SUCCESS = CurveMean(SUCCESS)
LEARNED = 0.6
"""A task counts as learned if one of the networks succeeds more often, on average over seeds: Memory can be guessed
right half of the time."""


def _learned(environment: str, networks: tuple[str, ...] = ("gatel0rd", "lstm")) -> tuple[Less, ...]:
    return tuple(Less(LEARNED, Of(name, FinalValue(environment, "success"))) for name in networks)


def _task(
    name: str,
    environment: str,
    title: str,
    question: str,
    figures: tuple[str, str],
    frames: int,
    transfers: tuple[str, ...] = (),
    variants: tuple[AgentVariant, ...] = (GATEL0RD, LSTM, NONE),
    claims: tuple[Claim, ...] | None = None,
) -> AgentExperiment:
    full_name = f"MiniGrid-{environment}-v0"
    learned = _learned(full_name)
    return AgentExperiment(
        id=f"minigrid/{name}",
        title=title,
        question=question,
        claims=claims
        or (
            Claim(
                words="GateL0RD reaches the same success rate as the LSTM or a higher one.",
                tests=(
                    Less(
                        Of("lstm", FinalValue(full_name, "success")),
                        Times(1.0, Of("gatel0rd", FinalValue(full_name, "success")), more=0.05),
                    ),
                ),
                learned=learned,
            ),
            Claim(
                words="GateL0RD does so with less experience.",
                tests=(Less(Of("lstm", MEAN_SUCCESS), Of("gatel0rd", MEAN_SUCCESS)),),
                learned=learned,
            ),
        ),
        scenario=SETTING,
        environment=full_name,
        transfers=tuple(f"MiniGrid-{transfer}-v0" for transfer in transfers),
        frames=frames,
        variants=variants,
        views=(
            View(kind="curves", title="Success rate", artefact=figures[0], curve=SUCCESS),
            View(kind="curves", title="Mean reward", artefact=figures[1], curve=Curve("return")),
            View(kind="frames_table", title="Frames until 95 % of the episodes succeed", artefact=figures[0]),
            View(kind="agent_table", title="After training", artefact=figures[0]),
        ),
    )


def _transfer(name: str, small: AgentExperiment, title: str, figures: tuple[str, str]) -> AgentExperiment:
    (larger,) = small.transfers
    return AgentExperiment(
        id=f"minigrid/{name}",
        title=title,
        question="Which agent still succeeds where everything is further apart, without having trained there?",
        claims=(
            Claim(
                words="GateL0RD has a higher mean success rate and a higher mean reward than the LSTM.",
                tests=tuple(
                    Less(Of("lstm", FinalValue(larger, measure)), Of("gatel0rd", FinalValue(larger, measure)))
                    for measure in ("success", "return")
                ),
                learned=_learned(small.environment),
            ),
            Claim(
                words="Both do about equally well where they were trained.",
                tests=similar("gatel0rd", "lstm", FinalValue(small.environment, "success"), 1.0, more=0.1),
                learned=_learned(small.environment),
            ),
        ),
        scenario=SETTING,
        environment=small.environment,
        transfers=small.transfers,
        frames=small.frames,
        variants=small.variants,
        views=(
            View(kind="curves", title="Zero-shot success rate", artefact=figures[0], curve=Curve("success", larger)),
            View(kind="curves", title="Zero-shot mean reward", artefact=figures[1], curve=Curve("return", larger)),
            View(kind="agent_table", title="After training", artefact=figures[0]),
        ),
    )


DOORKEY = _task(
    "doorkey",
    "DoorKey-8x8",
    "DoorKey-8x8",
    "Which agent learns to fetch a key, unlock a door and reach the goal behind it?",
    ("Fig. 6a", "Fig. 25a"),
    5_000_000,
    transfers=("DoorKey-16x16",),
)
MEMORY = _task(
    "memory",
    "MemoryS13Random",
    "MemoryS13Random",
    "Which agent remembers an object until two others are to be told apart at the end of a corridor?",
    ("Fig. 6f", "Fig. 25f"),
    20_000_000,
    transfers=("MemoryS17Random",),
)

EXPERIMENTS = (
    DOORKEY,
    _task(
        "red-blue-doors",
        "RedBlueDoors-8x8",
        "RedBlueDoors-8x8",
        "Which agent opens the red door first and the blue one second?",
        ("Fig. 6b", "Fig. 25b"),
        5_000_000,
    ),
    _task(
        "simple-crossing",
        "SimpleCrossingS9N3",
        "SimpleCrossingS9N3",
        "Which agent finds the gaps in three walls?",
        ("Fig. 6c", "Fig. 25c"),
        5_000_000,
    ),
    _task(
        "lava-crossing",
        "LavaCrossingS9N2",
        "LavaCrossingS9N2",
        "Which agent finds the gaps in two rivers of lava, which end the episode?",
        ("Fig. 6d", "Fig. 25d"),
        10_000_000,
    ),
    _task(
        "key-corridor",
        "KeyCorridorS3R2",
        "KeyCorridorS3R2",
        "Which agent finds the key, and the locked room with the ball?",
        ("Fig. 6e", "Fig. 25e"),
        10_000_000,
    ),
    MEMORY,
    _task(
        "key-corridor-rates",
        "KeyCorridorS3R3",
        "KeyCorridorS3R3, and a smaller learning rate for the LSTM",
        "Does the LSTM catch up if its learning rate is chosen for this problem?",
        ("Fig. 26a", "Fig. 26b"),
        20_000_000,
        variants=(GATEL0RD, LSTM, SLOW_LSTM),
        claims=(
            Claim(
                words="With the smaller learning rate the LSTM reaches 100 % success and a mean reward above 0.8.",
                tests=(
                    Less(0.95, Of("lstm-lr0.0005", FinalValue("MiniGrid-KeyCorridorS3R3-v0", "success"))),
                    Less(0.8, Of("lstm-lr0.0005", FinalValue("MiniGrid-KeyCorridorS3R3-v0", "return"))),
                ),
                learned=_learned("MiniGrid-KeyCorridorS3R3-v0", ("gatel0rd", "lstm-lr0.0005")),
            ),
            Claim(
                words="GateL0RD is still faster.",
                tests=(Less(Of("lstm-lr0.0005", MEAN_SUCCESS), Of("gatel0rd", MEAN_SUCCESS)),),
                learned=_learned("MiniGrid-KeyCorridorS3R3-v0", ("gatel0rd", "lstm-lr0.0005")),
            ),
        ),
    ),
    _transfer("zero-shot-doorkey", DOORKEY, "From DoorKey-8x8 to DoorKey-16x16", ("Fig. 27a", "Fig. 27c")),
    _transfer("zero-shot-memory", MEMORY, "From MemoryS13 to MemoryS17", ("Fig. 27b", "Fig. 27d")),
)
