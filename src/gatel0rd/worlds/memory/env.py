"""Two environments that only a memory can solve: what is seen first decides what is right in the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.float32]


class CueEnv(gymnasium.Env[Observation, np.int64]):
    """A cue at the first step, and much later an action that is right or wrong.

    Observations are (cue, whether it is shown, whether the action counts now, noise). The cue is -1 or 1 where it is
    shown; everywhere else there is standard normal noise in its place. An episode ends with the action that counts,
    and a reward of 1 if it is right; without a memory half of them are right.

    Args:
        length: steps from the cue to the action that counts, at least 1.
    """

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f"length is {length}; expected at least 1 step")
        self.length = length
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self.cue = int(self.np_random.integers(2))
        self.position, self.time = 0, 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward, ended = self._act(int(action))
        self.time += 1
        return self._observe(), reward, ended, False, {"is_success": reward > 0}

    @abstractmethod
    def _act(self, action: int) -> tuple[float, bool]:
        """The reward, and whether the episode ends."""

    def _observe(self) -> Observation:
        seen = self.np_random.standard_normal(4, dtype=np.float32)
        first = self.time == 0
        if first:
            seen[0] = 2 * self.cue - 1
        seen[1], seen[2] = first, self.position >= self.length
        return seen


class MemoryChain(CueEnv):
    """Time passes, whatever the agent does; the action at the end is 0 or 1, as the cue was (as in bsuite)."""

    def __init__(self, length: int = 16) -> None:
        super().__init__(length)
        self.action_space = spaces.Discrete(2)

    def _act(self, action: int) -> tuple[float, bool]:
        if self.position < self.length:
            self.position += 1
            return 0.0, False
        return float(action == self.cue), True


class TMaze(CueEnv):
    """A corridor with a junction at its end: 0 walks on, 1 and 2 turn, which counts at the junction only."""

    def __init__(self, length: int = 16) -> None:
        super().__init__(length)
        self.action_space = spaces.Discrete(3)

    def _act(self, action: int) -> tuple[float, bool]:
        if action == 0:
            self.position = min(self.position + 1, self.length)
        elif self.position == self.length:
            return float(action == 1 + self.cue), True
        return 0.0, False
