"""What experiments show: figures and tables, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ViewKind = Literal[
    "curves",
    "final_table",
    "gating_table",
    "gate_table",
    "events_table",
    "dims_table",
    "latents",
    "trajectory",
    "loss",
    "sampling",
    "grid_table",
    "layers_table",
    "planning",
    "planning_table",
    "agent_table",
]


@dataclass(frozen=True, kw_only=True)
class View:
    """One figure or table of an experiment: its kind, what it shows, and the paper's name for it."""

    kind: ViewKind
    title: str
    artefact: str
    metrics: tuple[str, ...] = ()
