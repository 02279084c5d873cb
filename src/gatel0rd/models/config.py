"""Configurations of the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gatel0rd.config import check_numbers
from gatel0rd.nn.config import CellConfig

NormalizedRows = Literal["heads", "all", "none"]


@dataclass(frozen=True, kw_only=True)
class WorldModelConfig:
    """A world model: f_init, f_pre, a recurrent core and f_post around a residual prediction (Fig. 1d).

    Example:
        >>> from gatel0rd import CellConfig, WorldModelConfig
        >>> config = WorldModelConfig(observation_size=4, action_size=2, cell=CellConfig(name="gru", hidden_size=16))
        >>> config.cell.name
        'gru'
    """

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
class FollowingModelConfig(WorldModelConfig):
    """A world model whose memory also sees what just happened; its output does not.

    Attributes:
        transitions: how many of the last transitions it sees: the change of the observations, the action before it, and
            the error of the prediction that was made for it (0 where the model was fed that prediction).
    """

    transitions: int = 1


@dataclass(frozen=True, kw_only=True)
class OutcomeModelConfig(FollowingModelConfig):
    """A world model that also says what an action brings, such as a reward; it is never shown that.

    Attributes:
        outcomes: how many of the last columns of the observations are outcomes: they are predicted in every step as
            they are, not as a change, and neither the input nor the memory sees them. What is only rewarded and not
            observed thus stays hidden.
        transitions: as in :class:`FollowingModelConfig`, of the columns that are seen; 0: none.
    """

    outcomes: int = 1


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

    Example:
        >>> from gatel0rd.models import ActorCritic, ActorCriticConfig
        >>> agent = ActorCritic(ActorCriticConfig(observation_shape=(7, 7, 3), actions=6))
        >>> agent.config.cell.hidden_size
        64
    """

    observation_shape: tuple[int, ...]
    actions: int
    continuous: bool = False
    cell: CellConfig = CellConfig(hidden_size=64)
    memory: bool = True
    width: int = 64
    normalized_rows: NormalizedRows = "heads"

    def __post_init__(self) -> None:
        if not isinstance(self.cell, CellConfig):
            raise ValueError(
                f"cell is {self.cell!r}; expected a CellConfig, as in CellConfig(name='gru', hidden_size=32); an agent "
                "without a memory has memory=False"
            )
        shape = self.observation_shape
        if not isinstance(shape, (tuple, list)) or len(shape) not in (1, 3):
            raise ValueError(f"observation_shape is {shape!r}; expected (features,) or (width, height, channels)")
        check_numbers(actions=self.actions, width=self.width, **{"the hidden_size of the cell": self.cell.hidden_size})


@dataclass(frozen=True, kw_only=True)
class SequenceModelConfig:
    """A cell and a linear layer that answers at every step.

    Attributes:
        chrono_steps: for how many steps the gate biases of a GRU or an LSTM are made to remember at first
            (:func:`gatel0rd.nn.chrono.chrono_init`); None: they are drawn as all weights.
    """

    input_size: int
    output_size: int
    cell: CellConfig = CellConfig(hidden_size=16)
    chrono_steps: int | None = None
