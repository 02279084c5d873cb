"""How an environment is learned while acting in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gatel0rd.planning.dynamics import DynamicsConfig
from gatel0rd.planning.icem import ICEMConfig


@dataclass(frozen=True, kw_only=True)
class LearnConfig:
    """How an environment is learned.

    Attributes:
        steps: budget of environment steps, the random ones included; test episodes come on top.
        random_steps: steps with random actions at the beginning.
        fit_every: planned steps after which the model is fitted again, when an episode is over.
        tests: episodes at the end, planned without added noise.
        exploration: noise that is added to planned actions, as a share of half their range.
        random_exponent: β of the random actions' colored noise.
        caution: weight of the models' disagreement (the standard deviation of their costs) in what is minimized.
        search: iCEM.
        dynamics: the model.
        seed: of everything random.

    Example:
        >>> from gatel0rd.planning import LearnConfig
        >>> LearnConfig(steps=2000).search.horizon
        20
    """

    steps: int = 6000
    random_steps: int = 800
    fit_every: int = 200
    tests: int = 10
    exploration: float = 0.1
    random_exponent: float = 1.0
    caution: float = 0.0
    search: ICEMConfig = field(default_factory=lambda: ICEMConfig(horizon=20, samples=64, noise_exponent=2.0))
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "random_steps", "fit_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.tests < 0:
            raise ValueError(f"tests is {self.tests}; expected 0 or more")
        if self.random_steps > self.steps:
            raise ValueError(
                f"random_steps is {self.random_steps} of {self.steps} steps in all; expected no more than those"
            )
        for name in ("exploration", "random_exponent", "caution"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a finite number of at least 0")
