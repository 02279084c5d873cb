"""What all experiments have: a question, the paper's claims, and figures and tables, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gatel0rd.analysis.claims import Claim

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


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of the paper.

    Attributes:
        id: ``scenario/name``.
        question: what is asked.
        claims: what the paper says, in words and as what can be tested.
    """

    id: str
    title: str
    question: str
    claims: tuple[Claim, ...]
    views: tuple[View, ...]

    @property
    def claim(self) -> str:
        """What the paper says, in words."""
        return " ".join(claim.words for claim in self.claims)

    @property
    def artefacts(self) -> tuple[str, ...]:
        """The paper's names of the figures and tables that this makes."""
        return tuple(dict.fromkeys(view.artefact for view in self.views))
