"""Predictions of what actions lead to: by a learned model with its memory, or by the true world."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.models import WorldModel
from gatel0rd.models.world_model import Predict, without_training
from gatel0rd.nn.cells import State
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask

FUTURES_AT_ONCE = 8192


class Foresight(Protocol):
    """Predicts futures of episodes that are under way.

    Example:
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.planning import Foresight, LearnedForesight
        >>> foresight: Foresight = LearnedForesight(WorldModel(WorldModelConfig(observation_size=4, action_size=2)))
    """

    def begin(self, observations: Array) -> None:
        """New episodes have begun. Shape: [E, O]."""
        ...

    def ready(self) -> bool:
        """Whether enough was seen to predict."""
        ...

    def predict(self, sequences: Array) -> Array:
        """What action sequences would lead to. Shape: [E, N, T, A] -> observations [E, N, T, O]."""
        ...

    def advance(self, actions: Array, observations: Array) -> None:
        """The actions that were taken, and what was seen then. Shape: [E, A], [E, O]."""
        ...

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Continue with these episodes only."""
        ...


class TrueForesight:
    """The world itself as the model, so that the planner can be evaluated alone. It advances with the world.

    Example:
        >>> import numpy as np
        >>> import gatel0rd.worlds
        >>> from gatel0rd.planning import TrueForesight
        >>> task = gatel0rd.worlds.get("rrc").make_task()
        >>> seen = task.reset(np.random.default_rng(0).spawn(3))
        >>> TrueForesight(task).predict(np.zeros((3, 10, 5, 2))).shape
        (3, 10, 5, 4)
    """

    def __init__(self, task: ControlTask) -> None:
        self.task = task

    def begin(self, observations: Array) -> None:
        pass

    def ready(self) -> bool:
        return True

    def predict(self, sequences: Array) -> Array:
        return self.task.simulate(sequences)

    def advance(self, actions: Array, observations: Array) -> None:
        pass

    def keep(self, rows: NDArray[np.int64]) -> None:
        pass


class LearnedForesight:
    """A world model that is fed with what is really seen, and carries its memory along.

    f_init needs the first k inputs, actions included: until k - 1 actions were taken it cannot predict, and for the
    k-th the first latent state depends on each candidate's action. The model looks ahead in evaluation mode (without
    gate noise) and is given back in the mode it was in, so that it can be trained between episodes.

    Example:
        >>> import numpy as np
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.planning import LearnedForesight
        >>> foresight = LearnedForesight(WorldModel(WorldModelConfig(observation_size=4, action_size=2)))
        >>> foresight.begin(np.zeros((3, 4)))
        >>> foresight.predict(np.zeros((3, 10, 5, 2))).shape  # 3 episodes, 10 sequences of 5 actions
        (3, 10, 5, 4)
    """

    def __init__(self, model: WorldModel) -> None:
        self.model = model
        self.needed = model.config.init_steps

    def begin(self, observations: Array) -> None:
        self.seen = [_tensor(observations)]
        self.taken: list[Tensor] = []
        self.state: State | None = None  # after all inputs that are complete
        self.gates: Tensor | None = None  # at the last of them, [E, G]
        self._predict: Predict | None = None  # for all futures that are asked for before the next step

    def ready(self) -> bool:
        return self.state is not None or len(self.seen) >= self.needed

    def predict(self, sequences: Array) -> Array:
        episodes, count, steps, size = sequences.shape
        # the order in memory stays what it is, as the engine reads any
        actions = torch.from_numpy(np.array(sequences, dtype=np.float32, order="K"))
        actions = actions.reshape(episodes * count, steps, size).transpose(0, 1)  # -> [T, E·N, A]
        parts = []
        for first in range(0, episodes * count, FUTURES_AT_ONCE):
            last = min(first + FUTURES_AT_ONCE, episodes * count)
            episode = torch.arange(first, last) // count if episodes > 1 else None
            parts.append(self._futures(actions[:, first:last], episode))
        predictions = (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).transpose(0, 1)  # -> [E·N, T, O]
        return predictions.reshape(episodes, count, steps, -1).numpy()

    def _futures(self, actions: Tensor, episode: Tensor | None) -> Tensor:
        """Predictions [T, B, O] for candidates [T, B, A] of the given episodes [B]; None: of the only one."""

        def repeat(tensor: Tensor) -> Tensor:
            return tensor.expand(actions.shape[1], -1) if episode is None else tensor[episode]

        if self.state is not None:
            if self._predict is None:
                self._predict = self.model.prepare_predictions()
            return self._predict(tuple(map(repeat, self.state)), repeat(self.seen[-1]), actions)
        before = self.needed - 1
        if before:
            actions = torch.cat([torch.stack([repeat(taken) for taken in self.taken]), actions])
        real = torch.stack([repeat(seen) for seen in self.seen])
        observations = torch.cat([real, real[-1:].expand(len(actions) - self.needed, -1, -1)])  # the rest is not fed
        with without_training(self.model):
            return self.model.free_run(observations, actions).predictions[before:]

    def advance(self, actions: Array, observations: Array) -> None:
        self.taken.append(_tensor(actions))
        self._predict = None
        with without_training(self.model):
            if self.state is not None:
                rollout = self.model.rollout(self.state, self.seen[-1], self.taken[-1].unsqueeze(0))
            elif len(self.taken) == self.needed:
                rollout = self.model(torch.stack(self.seen), torch.stack(self.taken))
            else:
                rollout = None
        if rollout is not None:
            self.state, self.gates = rollout.state, None if rollout.gates is None else rollout.gates[-1]
            self.seen = []
        self.seen.append(_tensor(observations))

    def keep(self, rows: NDArray[np.int64]) -> None:
        chosen = torch.from_numpy(rows)
        self._predict = None
        self.seen = [observations[chosen] for observations in self.seen]
        self.taken = [actions[chosen] for actions in self.taken]
        self.state = None if self.state is None else tuple(part[chosen] for part in self.state)
        self.gates = None if self.gates is None else self.gates[chosen]


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
