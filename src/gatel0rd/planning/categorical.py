"""iCEM for discrete actions: sequences of one-hot vectors, drawn from a categorical distribution per step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gatel0rd.planning.icem import ICEM, ICEMConfig
from gatel0rd.planning.noise import Array, colored_noise, marginal_std


class CategoricalICEM(ICEM):
    r"""Plans sequences of choices; ``mean`` holds the probabilities of each step.

    A choice is the largest of log p + Gumbel noise. The noise is correlated in time, as for real-valued actions:

    .. math:: a_t = \arg\max_k \log p_{t,k} - \log(-\log Φ(z_{t,k})),\quad z \text{ colored}

    so that each step's choices follow p, and neighbours tend to agree. Elites refit p by their frequencies; before each
    new step p is mixed with equal probabilities, by the share ``initial_std``.

    Args:
        choices: how many actions there are (K).

    Shape: action sequences are [E, N, T, K], one-hot.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.planning import CategoricalICEM, ICEMConfig
        >>> planner = CategoricalICEM(3, ICEMConfig(horizon=5), generator=np.random.default_rng(0))
        >>> (action,) = planner.plan(lambda actions: -actions[..., 2].sum(axis=2))
        >>> action.tolist()
        [0.0, 0.0, 1.0]
    """

    def __init__(
        self,
        choices: int,
        config: ICEMConfig | None = None,
        *,
        generator: np.random.Generator | Sequence[np.random.Generator],
    ) -> None:
        if choices < 2:
            raise ValueError(f"there are {choices} actions to choose from; expected at least 2")
        super().__init__(np.zeros(choices), np.ones(choices), config, generator=generator)

    def reset(self) -> None:
        super().reset()
        self.mean = np.full_like(self.mean, 1 / len(self.low))
        self.planned = self.central_sequence()

    def central_sequence(self) -> Array:
        """The most probable choice of each step."""
        likely: Array = np.eye(len(self.low))[self.mean.argmax(axis=-1)]
        return likely

    def _widen(self) -> None:
        share = min(1.0, self.config.initial_std)
        self.mean = (1 - share) * self.mean + share / len(self.low)

    def _sample(self, count: int, others: Sequence[Array] = ()) -> Array:
        horizon, size = self.config.horizon, len(self.low)
        logits = np.log(np.maximum(self.mean, 1e-9))  # [E, T, K]
        std, drawn = marginal_std(self.config.noise_exponent, horizon), []
        for episode, generator in enumerate(self.generators):
            noise = colored_noise(self.config.noise_exponent, (count, size, horizon), generator).swapaxes(1, 2)
            below = torch.special.ndtr(torch.from_numpy(noise / std)).clamp(1e-9, 1 - 1e-9).numpy()
            drawn.append((logits[episode] - np.log(-np.log(below))).argmax(axis=-1))
        fresh = np.eye(size)[np.stack(drawn)]
        return np.concatenate([fresh, *others], axis=1)
