"""A test that only a memory can pass: two cues, a wait, and the question what one of them was."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.float32]


class Recall(gymnasium.Env[Observation, np.int64]):
    """Two cues are shown one after the other, each one of two signs; some steps later one of them is asked for.

    Observations are (sign 0, sign 1, asked for the first, asked for the second), nothing but zeros while waiting. The
    action at the question is the answer and ends the episode, with a reward of 1 if it is right; others do nothing.
    Without a memory half of the answers are right.

    Args:
        wait: steps between the second cue and the question, (fewest, most).
    """

    def __init__(self, wait: tuple[int, int] = (2, 8)) -> None:
        if not 0 <= wait[0] <= wait[1]:
            raise ValueError(f"wait is {wait}; expected the fewest and the most steps, from 0 on")
        self.wait = wait
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self.cues = self.np_random.integers(2, size=2)
        self.asked = int(self.np_random.integers(2))
        self.question = 2 + int(self.np_random.integers(self.wait[0], self.wait[1] + 1))
        self.time = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        answered = self.time == self.question
        reward = float(answered and action == self.cues[self.asked])
        self.time += 1
        return self._observe(), reward, answered, False, {"is_success": reward > 0}

    def _observe(self) -> Observation:
        seen = np.zeros(4, dtype=np.float32)
        if self.time < 2:
            seen[self.cues[self.time]] = 1
        elif self.time == self.question:
            seen[2 + self.asked] = 1
        return seen
