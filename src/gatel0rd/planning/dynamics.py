"""World models that are learned while acting: what actions lead to, what they cost, and whether it ends there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatel0rd.files import Arrays
from gatel0rd.models.config import OutcomeModelConfig
from gatel0rd.models.io import load_weights, model_arrays
from gatel0rd.models.world_model import Predict, WorldModel, without_training
from gatel0rd.nn.cells import State
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.planning.experience import ActionCoding, RecordedEpisode
from gatel0rd.planning.noise import Array
from gatel0rd.planning.units import CLOSENESS, END, OUTCOMES, REWARD, Units
from gatel0rd.training.config import TrainConfig
from gatel0rd.training.loop import derive_seed
from gatel0rd.training.steps import SequenceBatch, make_stepper, train_on_batches
from gatel0rd.training.windows import window_view

DOUBT = 0.02
"""Probability of an end that is taken for none, so that small errors do not add up over a horizon."""
WARM_UP, COOL_DOWN = 100, 0.7
"""Updates over which the learning rate rises, and the share of a fit in which it falls."""
FORCED, FREE = 0.4, 0.7
"""Shares of the first fit before which all inputs are real, and after which most are the model's own."""
BLIND, BLIND_WEIGHT, DISCOUNT = 2, 0.01, 0.95
"""Steps at the beginning of a window, of which no memory can know what is hidden, and what their errors count; and what
errors count less with each later step: there they are large whatever the model does, and would drown all others."""

StepCost = Callable[[Array, Array], Array]
"""Cost of a step: (observations [..., O] after the actions, actions [..., A]) -> [...]."""


@dataclass(frozen=True, kw_only=True)
class DynamicsConfig:
    """A learned model of an environment, and how it is fitted.

    Attributes:
        cell: the memory; with ``none`` there is no memory.
        transitions: how many of the last transitions the memory sees directly.
        features: size of what goes into and comes out of the cell.
        models: how many are trained with different seeds; their costs are averaged.
        warm_up: real observations at the beginning of each training window, before the model runs free.
        window: steps of training windows, the warm-up included.
        first_updates, updates: gradient steps of the first fit, and of each later one.
        sampling_minimum: probability of real inputs after the warm-up, once the model runs free.
        sparsity: weight of open gates, in units of the variance of what is predicted.

    Example:
        >>> from gatel0rd.planning import DynamicsConfig
        >>> DynamicsConfig(cell="gru", models=3).models
        3
    """

    cell: CellName = "gatel0rd"
    hidden_size: int = 16
    features: int = 32
    transitions: int = 1
    models: int = 1
    warm_up: int = 3
    window: int = 20
    first_updates: int = 3000
    updates: int = 800
    batch_size: int = 64
    learning_rate: float = 0.003
    sampling_minimum: float = 0.3
    sparsity: float = 0.0001

    def __post_init__(self) -> None:
        for name in ("hidden_size", "features", "models", "warm_up", "first_updates", "updates", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        if self.window <= self.warm_up:
            raise ValueError(f"window is {self.window} steps; expected more than the {self.warm_up} of the warm-up")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate is {self.learning_rate}; expected more than 0")
        if not self.sparsity >= 0 or not 0 <= self.sampling_minimum <= 1:
            raise ValueError(
                f"sparsity is {self.sparsity} and sampling_minimum {self.sampling_minimum}; expected 0 or more, and a "
                "probability"
            )
        if self.transitions < 0:
            raise ValueError(f"transitions is {self.transitions}; expected 0 or more")


def sampling_probability(progress: float, minimum: float) -> float:
    """How often a real input is fed in, by the share of a fit that is over."""
    return min(1.0, max(minimum, 1 - (1 - minimum) * (progress - FORCED) / (FREE - FORCED)))


def error_weights(steps: int) -> Tensor:
    """What squared errors count, by the step of a window."""
    weights = DISCOUNT ** torch.arange(steps, dtype=torch.float32)
    weights[:BLIND] = BLIND_WEIGHT
    return weights


class Dynamics:
    """One or several world models with outcomes, and the units of their columns.

    Args:
        coding: how actions become vectors.
        observation_size: columns of an observation.
        units: from :func:`find_units`; fixed, as weights depend on them.
    """

    def __init__(
        self, coding: ActionCoding, observation_size: int, units: Units, config: DynamicsConfig, *, seed: int
    ) -> None:
        self.coding, self.observation_size, self.units, self.config = coding, observation_size, units, config
        # a velocity is a product of what is seen, which takes two layers, and a number, which noise would blur
        cell = CellConfig(name=config.cell, hidden_size=config.hidden_size, net_layers=2, noise_std=0.0)
        described = OutcomeModelConfig(
            observation_size=observation_size + OUTCOMES,
            action_size=coding.size,
            cell=cell,
            feature_size=config.features,
            pre_layers=2,
            init_layers=0,
            init_steps=config.warm_up,
            residual_scale=units.change,
            outcomes=OUTCOMES,
            transitions=0 if config.cell == "none" else config.transitions,
        )
        self.models = [WorldModel(described) for _ in range(config.models)]
        for number, model in enumerate(self.models):
            model.reset_parameters(torch.Generator().manual_seed(derive_seed(seed, number)))
            model.eval()
        self.ends = False  # whether an episode was ever seen to terminate

    def fit(
        self,
        episodes: Sequence[RecordedEpisode],
        *,
        seed: int,
        first: bool,
        on_update: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:
        """Train all models on windows of episodes; returns means of the loss's terms at the end.

        Args:
            seed: of everything random in this fit.
            first: whether the models are untrained.
        """
        config = self.config
        rows, acted, left = self._rows(episodes)
        longest = min(config.window, int(left.max()))
        self.ends = any(episode.terminated for episode in episodes)
        updates = config.first_updates if first else config.updates
        price = self.units.change**2
        terms: list[dict[str, float]] = []
        for number, model in enumerate(self.models):
            own = derive_seed(seed, number)
            train = TrainConfig(
                epochs=1,
                learning_rate=config.learning_rate,
                epsilon=1e-8,
                clip_norm=price,  # the loss is as large as changes are
                sparsity_weight=config.sparsity * price,
            )
            views = (window_view(values, longest) for values in (rows, acted))
            stepper = make_stepper(model, train, *views, seed=own, in_place=True, step_weights=error_weights(longest))
            rng, generator = np.random.default_rng(own), torch.Generator().manual_seed(own)
            model.train()
            for done, batch in enumerate(self._batches(left, longest, updates, rng)):
                progress = done / updates if first else (1 + done / updates) / 2  # a known model needs no beginning
                stepper.learning_rate = config.learning_rate * min(
                    1.0, (done + 1) / WARM_UP, (1 - progress) / COOL_DOWN
                )
                last = train_on_batches(
                    stepper,
                    [batch],
                    probability=sampling_probability(progress, config.sampling_minimum),
                    first_counter=done,
                    generator=generator,
                    place=f"update {done + 1}",
                    learning_rate=config.learning_rate,
                )
                if progress >= 0.95 or done + 1 == updates:
                    terms.append(last)
                on_update(number * updates + done + 1, len(self.models) * updates)
            model.eval()
        names = dict.fromkeys(name for entry in terms for name in entry)
        return {name: float(np.mean([entry.get(name, 0.0) for entry in terms])) for name in names}

    def _rows(self, episodes: Sequence[RecordedEpisode]) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
        """All rows with outcomes, actions, and how many steps are left after each row in its episode."""
        rows, acted, left = [], [], []
        for episode in episodes:
            rows.append(self.units.transform(episode))
            actions = self.coding.transform(episode.actions)
            acted.append(np.concatenate([actions, np.zeros_like(actions[:1])]))
            left.append(np.arange(episode.steps, -1, -1))
        return (
            torch.from_numpy(np.concatenate(rows)),
            torch.from_numpy(np.concatenate(acted)),
            np.concatenate(left),
        )

    def _batches(
        self, left: NDArray[np.int64], longest: int, updates: int, rng: np.random.Generator
    ) -> Iterator[SequenceBatch]:
        """Windows of one length each; shorter ones as often as a row is too near to the end of its episode."""
        lengths = [longest]
        while lengths[-1] > 2:
            lengths.append(max(2, lengths[-1] // 2))
        starts = {length: np.flatnonzero(left >= length) for length in lengths}
        usable = np.flatnonzero(left >= lengths[-1])
        if not len(usable):
            raise ValueError("all episodes end within 1 step; there is nothing to learn from")
        for _ in range(updates):
            near = left[rng.choice(usable)]
            length = next(length for length in lengths if length <= near)
            yield SequenceBatch(torch.from_numpy(rng.choice(starts[length], self.config.batch_size)), length)

    def read_arrays(self) -> Arrays:
        """All weights."""
        return {
            f"{number}.{name}": array
            for number, model in enumerate(self.models)
            for name, array in model_arrays(model).items()
        }

    def restore_arrays(self, arrays: Arrays, source: Path) -> None:
        """Continue with these weights; those of other models are an error that names the file."""
        for number, model in enumerate(self.models):
            prefix = f"{number}."
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            load_weights(model, own, source)


class Futures(NamedTuple):
    """Predicted futures of action sequences by each of the models.

    Attributes:
        costs: of each step, 0 after the end.
        closeness: how close the end is, from 0 (there is none in sight) to 1 (it is over).

    Shape: costs and closeness [M, N, T]; observations [M, N, T, O].
    """

    costs: Array
    closeness: Array
    observations: Array


class Forecaster:
    """Predicts futures of one episode that is under way, from the memory that it carries along.

    Args:
        cost: of steps; minus the reward if not given.
    """

    def __init__(self, dynamics: Dynamics, cost: StepCost | None = None) -> None:
        self.dynamics, self.cost = dynamics, cost
        self.predictors: list[Predict] = [model.prepare_predictions() for model in dynamics.models]
        self.gates: list[float] = []

    def begin(self, observation: Array) -> None:
        """A new episode has begun. Shape: [O]."""
        self.observation = self._tensor(observation)
        self.states: list[State] | None = None  # before the first action there is none
        self.passed: list[tuple[list[State] | None, Tensor]] = []  # of the steps before, for :meth:`replay`
        self.gates = []

    def predict(self, sequences: Array) -> Futures:
        """What action sequences would lead to. Shape: [N, T, A]."""
        return self._predict(self.states, self.observation, sequences)

    def advance(self, action: Array, observation: Array) -> None:
        """The action that was taken, and what was seen then. Shape: [A], [O]."""
        acted = torch.from_numpy(self.dynamics.coding.transform(action))[None, None]
        self.passed.append((self.states, self.observation))
        states = []
        for number, model in enumerate(self.dynamics.models):
            with without_training(model):
                before = model.initial(self.observation[None], acted) if self.states is None else self.states[number]
                rollout = model.rollout(before, self.observation, acted)
            states.append(rollout.state)
            if rollout.gates is not None:
                self.gates.append(float((rollout.gates > 0).float().mean()))
        self.states, self.observation = states, self._tensor(observation)

    def replay(self, actions: Array, horizon: int) -> Futures:
        """What would have been predicted at each step of the episode for the actions that were really taken.

        Shape: actions [T, A] -> futures of N = T - horizon starts, the first step left out.
        """
        starts = range(1, len(actions) - horizon + 1)
        sequences = np.stack([actions[start : start + horizon] for start in starts])
        states = [
            tuple(torch.cat(parts) for parts in zip(*(self._state(start, number) for start in starts), strict=True))
            for number in range(len(self.dynamics.models))
        ]
        return self._predict(states, torch.cat([self.passed[start][1] for start in starts]), sequences)

    def _state(self, start: int, number: int) -> State:
        states = self.passed[start][0]
        assert states is not None
        return states[number]

    def _predict(self, states: list[State] | None, observation: Tensor, sequences: Array) -> Futures:
        count = len(sequences)
        actions = torch.from_numpy(self.dynamics.coding.transform(sequences)).transpose(0, 1)  # -> [T, N, A]
        seen = observation.expand(count, -1)
        futures = []
        for number, (model, predict) in enumerate(zip(self.dynamics.models, self.predictors, strict=True)):
            if states is None:
                with without_training(model):
                    state = model.initial(seen[None], actions[:1])
            else:
                state = tuple(part.expand(count, -1) for part in states[number])
            futures.append(predict(state, seen, actions).transpose(0, 1).numpy())
        predicted = self.dynamics.units.inverse_transform(np.stack(futures))  # [M, N, T, O + 3]
        observations = predicted[..., :-OUTCOMES]
        costs = -predicted[..., REWARD] if self.cost is None else self._given_costs(observations, sequences)
        closeness = np.zeros_like(costs)
        if self.dynamics.ends:
            ends = np.clip((predicted[..., END] - DOUBT) / (1 - 2 * DOUBT), 0, 1)
            going = np.cumprod(1 - ends, axis=-1)
            going = np.concatenate([np.ones_like(going[..., :1]), going[..., :-1]], axis=-1)
            costs = costs * going
            closeness = 1 - going * (1 - np.clip(predicted[..., CLOSENESS], 0, 1))  # 1 after the end
        return Futures(costs, closeness, observations)

    def _given_costs(self, observations: Array, sequences: Array) -> Array:
        assert self.cost is not None
        actions = np.broadcast_to(sequences, (len(observations), *sequences.shape))
        costs = np.asarray(self.cost(observations, actions), dtype=np.float64)
        if costs.shape != observations.shape[:-1]:
            raise ValueError(
                f"the cost function returned shape {costs.shape} for observations of shape {observations.shape}; "
                f"expected {observations.shape[:-1]}, a cost for each step"
            )
        return costs

    def _tensor(self, observation: Array) -> Tensor:
        return torch.from_numpy(self.dynamics.units.transform_observation(observation))[None]
