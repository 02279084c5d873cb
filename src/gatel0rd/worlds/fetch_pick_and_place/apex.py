"""APEX: a planner that is guided by a policy which learns from it (after Pinneri et al. 2021).

The published method has no public code; ``docs/deviations.md`` says what was chosen here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gatel0rd.nn.mlp import reset_linear, tanh_mlp
from gatel0rd.planning.icem import ICEM, ICEMConfig
from gatel0rd.planning.noise import Array
from gatel0rd.worlds.fetch_pick_and_place.task import FEATURES, FINGERS, SMALL_BUDGET, VECTORS, Placing

TEACHER = replace(SMALL_BUDGET, samples=16, horizon=12)
"""The planner that the policy learns from."""


@dataclass(frozen=True, kw_only=True)
class ApexConfig:
    """How planner and policy help each other.

    Attributes:
        planner: iCEM's own settings; its samples include the policy's.
        rollouts: of the policy among the candidates of every step, the first without noise.
        noise: standard deviation of the noise of the others.
        guidance: how much disagreement with the policy counts, as a share of the task's cost: the weight is set anew at
            every step so that both vary alike over the candidates, times this, times how often the policy succeeds on
            its own, so that a poor policy is not listened to.
        rounds: of collecting episodes and learning from all of them.
        episodes: in every round; in the second half of them the policy acts and the planner only says what it would do.
        gradient_steps, learning_rate, batch_size: of the regression that follows; the rate falls to zero.
        blur: standard deviation of noise on what the policy sees while it learns.
    """

    planner: ICEMConfig = TEACHER
    rollouts: int = 2
    noise: float = 0.2
    guidance: float = 0.3
    rounds: int = 4
    episodes: int = 16
    gradient_steps: int = 5000
    learning_rate: float = 0.002
    batch_size: int = 256
    blur: float = 0.1


class LearnedPolicy(nn.Module):
    """Features [..., F] to actions [..., 4] in [-1, 1]."""

    def __init__(self, generator: torch.Generator, width: int = 96) -> None:
        super().__init__()
        self.layers = tanh_mlp(FEATURES, (width, width, 4), last_tanh=True)
        reset_linear(self, generator)

    def forward(self, features: Tensor) -> Tensor:
        actions: Tensor = self.layers(features)
        return actions

    @torch.no_grad()
    def act(self, features: Array) -> Array:
        """For NumPy."""
        actions: Array = self(torch.from_numpy(features.astype(np.float32))).double().numpy()
        return actions


class Moment(NamedTuple):
    """One step of some episodes: their numbers [e], what the policy saw [e, F], what the planner advised and what was
    done [e, 4]."""

    rows: NDArray[np.int64]
    features: Array
    advice: Array
    taken: Array


@dataclass(frozen=True)
class Tracks:
    """What happened in episodes side by side, the step at which each goal was reached [E], -1 if never, and how many
    steps were simulated for it."""

    moments: list[Moment]
    reached: NDArray[np.int64]
    simulated: int

    def examples(self, episodes: NDArray[np.bool_]) -> tuple[Array, Array]:
        """What the planner advised in these episodes [E]: features [n, F] and actions [n, 4]."""
        chosen = [(moment, episodes[moment.rows]) for moment in self.moments]
        return (
            np.concatenate([moment.features[which] for moment, which in chosen]),
            np.concatenate([moment.advice[which] for moment, which in chosen]),
        )


def play(
    task: Placing,
    policy: LearnedPolicy | None,
    config: ApexConfig,
    *,
    episodes: int,
    generator: np.random.Generator,
    acts: NDArray[np.bool_] | None = None,
    trust: float = 1.0,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> Tracks:
    """Episodes of the planner, guided if there is a policy; where ``acts`` [E] the policy's own action is taken.

    ``trust``, from 0 to 1, is the policy's share in where the search begins, and scales the guidance.
    The policy's rollouts have to be simulated twice, while it acts and as candidates. The unguided planner spends this
    on as many samples more.
    """
    generators = generator.spawn(episodes)
    extra = 2 * config.rollouts if policy is None else 0
    search = replace(config.planner, samples=config.planner.samples + extra)
    planner = ICEM(*task.bounds(), search, generator=generators)
    before = task.simulated
    task.reset(generators)
    rows = np.arange(episodes)
    moments: list[Moment] = []
    reached = np.full(episodes, -1)
    for t in range(task.limit):
        now = task.features(task.seen)
        if policy is None:
            advice = planner.plan(lambda sequences: task.cost(task.simulate(sequences), sequences))
        else:
            shape = (config.rollouts, search.horizon, 4)
            noise = np.stack([generator.normal(0, config.noise, shape) for generator in planner.generators])
            noise[:, 0] = 0
            suggestions = task.follow(policy.act, noise)
            start = planner.mean + trust * (suggestions[:, 0] - planner.mean)
            objective = Guided(task, policy, config.guidance * trust)
            advice = planner.plan(objective, suggestions=suggestions, start=start)
        taken = advice
        if policy is not None and acts is not None:
            taken = np.where(acts[rows, None], policy.act(now), advice)
        moments.append(Moment(rows, now, advice, taken))
        _, done = task.step(taken)
        reached[rows[done]] = t + 1
        on_step(t + 1, task.limit)
        if done.all():
            break
        rest = np.flatnonzero(~done)
        rows = rows[rest]
        task.keep(rest)
        planner.keep(rest)
    return Tracks(moments, reached, task.simulated - before)


class Guided:
    """The task's cost of action sequences, plus how far they are from what the policy would do on the way."""

    def __init__(self, task: Placing, policy: LearnedPolicy, guidance: float) -> None:
        self.task, self.policy, self.guidance = task, policy, guidance
        self.weight: Array | None = None  # [E, 1], set by the first candidates of a step

    def __call__(self, sequences: Array) -> Array:
        seen = self.task.look_ahead(sequences)
        cost = self.task.cost(seen, sequences)  # gripper and object come first, as in observations
        # the state in which each action is taken: the present one, and all but the last that follow
        present = np.broadcast_to(self.task.seen[:, None, None], (*seen.shape[:2], 1, seen.shape[-1]))
        on_the_way = np.concatenate([present, seen[:, :, :-1]], axis=2)
        advised = self.policy.act(self.task.features(on_the_way))
        disagreement = np.square(sequences - advised).mean(axis=(2, 3))
        if self.weight is None:
            sane = np.isfinite(cost) & np.isfinite(disagreement)
            varied, disagreed = (
                np.nan_to_num(np.nanstd(np.where(sane, values, np.nan), axis=1, keepdims=True))
                for values in (cost, disagreement)
            )
            self.weight = self.guidance * varied / np.maximum(disagreed, 1e-6)
        total: Array = cost + self.weight * disagreement
        return total


def follow_alone(
    task: Placing, policy: LearnedPolicy, *, episodes: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Episodes of the policy without a planner: the step at which each goal was reached, -1 if never."""
    task.reset(generator.spawn(episodes))
    reached = np.full(episodes, -1)
    for t in range(task.limit):
        _, done = task.step(policy.act(task.features(task.seen)))
        reached = np.where((reached < 0) & done, t + 1, reached)
    return reached


@dataclass(frozen=True)
class Round:
    """How a round went: success of the (guided) planner, of the policy alone after it, and the regression's error."""

    planner: float
    policy: float
    error: float | None
    examples: int
    simulated: int


def train(
    task: Placing,
    config: ApexConfig,
    *,
    seed: int,
    tests: int = 20,
    on_round: Callable[[Round], None] = lambda done: None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[LearnedPolicy, list[Round], list[Tracks]]:
    """Collect episodes with the planner, learn from all that succeeded, and guide the next ones, round by round.

    Until an episode has succeeded there is no policy. Later, the policy acts in half of the episodes, so that the
    planner's advice is known where the policy errs (data aggregation). Episodes of the planner that failed are not
    learned from.
    """
    generator = np.random.default_rng(seed)
    policy = LearnedPolicy(torch.Generator())
    trust = 0.0
    inputs, targets = np.empty((0, FEATURES)), np.empty((0, 4))
    rounds: list[Round] = []
    tracks: list[Tracks] = []
    for number in range(config.rounds):
        acts = np.arange(config.episodes) >= (config.episodes // 2 if len(inputs) else config.episodes)
        played = play(
            task,
            policy if len(inputs) else None,
            config,
            episodes=config.episodes,
            generator=generator,
            acts=acts,
            trust=trust,
            on_step=lambda done, total, n=number: on_step(n * total + done, config.rounds * total),  # type: ignore[misc]
        )
        more_inputs, more_targets = played.examples(acts | (played.reached >= 0))
        inputs, targets = np.concatenate([inputs, more_inputs]), np.concatenate([targets, more_targets])
        policy, error = regress(*mirror(inputs, targets), config, torch.Generator().manual_seed(seed))
        alone = follow_alone(task, policy, episodes=tests, generator=np.random.default_rng([seed, 1]))
        trust = float((alone >= 0).mean())
        planned = float((played.reached[~acts] >= 0).mean())
        rounds.append(Round(planned, trust, error, len(inputs), played.simulated))
        tracks.append(played)
        on_round(rounds[-1])
    return policy, rounds, tracks


def mirror(inputs: Array, targets: Array) -> tuple[Array, Array]:
    """Examples and their mirror images, left-right, front-back and both: neither table nor gripper knows a difference.

    Shape: [N, F], [N, 4] -> [4·N, F], [4·N, 4].
    """
    for axis in (0, 1):
        seen, done = inputs.copy(), targets.copy()
        seen[:, [start + axis for start in VECTORS]] *= -1
        done[:, axis] *= -1
        if axis == 1:
            seen[:, FINGERS] = seen[:, FINGERS[::-1]]
        inputs, targets = np.concatenate([inputs, seen]), np.concatenate([targets, done])
    return inputs, targets


def regress(
    inputs: Array, targets: Array, config: ApexConfig, generator: torch.Generator
) -> tuple[LearnedPolicy, float | None]:
    """A policy fitted to examples [N, F] -> [N, 4], and its mean squared error on them, None without examples."""
    policy = LearnedPolicy(generator)
    if not len(inputs):
        return policy, None
    x, y = (torch.from_numpy(array.astype(np.float32)) for array in (inputs, targets))
    optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, config.gradient_steps)
    for _ in range(config.gradient_steps):
        batch = torch.randint(len(x), (config.batch_size,), generator=generator)
        blurred = x[batch] + config.blur * torch.randn(config.batch_size, x.shape[1], generator=generator)
        loss = nn.functional.mse_loss(policy(blurred), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step()
    with torch.no_grad():
        return policy, float(nn.functional.mse_loss(policy(x), y))
