"""How a model of recordings is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gatel0rd.nn.config import CellName


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a model of somebody's own recordings is made.

    Attributes:
        features: size of what goes into and comes out of the recurrent cell.
        window: longest stretch that is predicted in one piece, in steps.
        objective: ``follow`` the real observations and predict the next steps from there, which finds what nothing
            foretells; or ``free-run`` over whole windows, for models that are planned with.
        gate_rate: share of gates that should be open; λ is adjusted for it while training. If neither this nor
            :attr:`events` nor :attr:`sparsity_weight` is given, the number of events is found
            (:mod:`gatel0rd.recordings.sweep`).
        events: events per sequence (of mean length) that are held instead: steps at which a gate opens after all
            were closed.
        sparsity_weight: λ throughout.
        transitions: how many of the last transitions the memory sees while following; None: found by short trainings
            (:mod:`gatel0rd.recordings.pilots`).
        rounds: largest number of rounds, of :attr:`round_updates` gradient steps each.
        minutes: time that training may take; with less time than it would need there are fewer rounds.
        patience: rounds without improvement after which training ends, once scheduled sampling has settled.
        validation: share of the sequences (of a single one: of its rows) that is kept for validation.
        sampling_minimum: probability of real inputs at the end of scheduled sampling.
    """

    cell: CellName = "gatel0rd"
    hidden_size: int = 8
    features: int = 16
    layers: int = 1
    window: int = 50
    objective: Literal["follow", "free-run"] = "follow"
    gate_rate: float | None = None
    events: float | None = None
    sparsity_weight: float | None = None
    transitions: int | None = None
    learning_rate: float = 0.005
    batch_size: int = 128
    rounds: int = 200
    minutes: float | None = None
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
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes is {self.minutes}; expected more than 0")
        if self.sparsity_weight is not None and not self.sparsity_weight >= 0:
            raise ValueError(f"sparsity_weight is {self.sparsity_weight}; expected 0 or more")
        named = {"events": self.events, "gate_rate": self.gate_rate, "sparsity_weight": self.sparsity_weight}
        if self.cell != "gatel0rd" and (given := [name for name, value in named.items() if value is not None]):
            raise ValueError(
                f"{given[0]} is about gates, which the cell {self.cell} does not have; leave it out, or choose the "
                "cell gatel0rd"
            )
        for name in ("hidden_size", "features", "layers", "rounds", "round_updates", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.transitions is not None and self.transitions < 1:
            raise ValueError(f"transitions is {self.transitions}; expected at least 1")
        if self.window < 2:
            raise ValueError(f"window is {self.window}; expected at least 2 steps")

    @property
    def finds_events(self) -> bool:
        """Whether the number of events is found, not given."""
        return self.gate_rate is None and self.events is None and self.sparsity_weight is None
