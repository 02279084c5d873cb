"""How a model of recordings is fitted."""

from __future__ import annotations

from dataclasses import dataclass

from gatel0rd.nn.config import CellName


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a model of somebody's own recordings is made.

    Attributes:
        features: size of what goes into and comes out of the recurrent cell.
        window: longest stretch that is predicted in one piece, in steps.
        gate_rate: share of gates that should be open; λ is adjusted for it while training. None: not held.
        events: events per sequence (of mean length) that are held instead: steps at which a gate opens after all
            were closed.
        sparsity_weight: λ at the beginning, and throughout if nothing is held.
        rounds: largest number of rounds, of :attr:`round_updates` gradient steps each.
        patience: rounds without improvement after which training ends, once scheduled sampling has settled.
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
