"""Where many runs are executed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig:
    """Where many runs are executed.

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
        for kind, given in (("ray", self.address), ("slurm", self.slurm)):
            if given and self.kind != kind:
                raise ValueError(f"options of {kind} are given, but the executor is {self.kind}; add --executor {kind}")
        self.slurm_number("time"), self.slurm_number("mem_gb")

    def slurm_number(self, name: str) -> float | None:
        """One of SLURM's options that is a number."""
        text = self.slurm.get(name)
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            unit = "minutes" if name == "time" else "gigabytes"
            raise ValueError(f"{name} for SLURM is {text!r}; expected a number of {unit}")
        return number
