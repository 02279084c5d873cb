"""Planning in any Gymnasium environment whose state can be copied, with the environment itself as the model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import Flags, Task, World


def action_bounds(space: spaces.Space[Any]) -> tuple[Array, Array]:
    """Lowest and highest actions; iCEM needs a one-dimensional box with finite bounds."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"the action space is {space}; iCEM plans vectors of real numbers, a Box of shape (A,)")
    return space.low.astype(np.float64), space.high.astype(np.float64)


class Snapshots:
    """Puts an environment back into an earlier state.

    MuJoCo environments are set by positions, velocities and time, others are copied whole; wrappers are passed by.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env.unwrapped

    def take(self) -> Any:
        if hasattr(self.env, "data") and hasattr(self.env, "set_state"):
            data = self.env.data
            return data.qpos.copy(), data.qvel.copy(), float(data.time)
        return copy.deepcopy(self.env.__dict__)

    def put_back(self, state: Any) -> None:
        if hasattr(self.env, "data") and hasattr(self.env, "set_state"):
            position, velocity, now = state
            self.env.data.time = now
            self.env.set_state(position, velocity)
        else:
            self.env.__dict__.update(copy.deepcopy(state))


def reward_objective(env: gymnasium.Env[Any, Any]) -> Objective:
    """Costs of action sequences in the environment's present state: minus the sum of rewards up to termination."""
    snapshots = Snapshots(env)

    def objective(sequences: Array) -> Array:
        state = snapshots.take()
        costs = np.zeros(sequences.shape[:2])
        for index in np.ndindex(costs.shape):
            snapshots.put_back(state)
            for action in sequences[index]:
                _, reward, terminated, _, _ = snapshots.env.step(action.astype(np.float32))
                costs[index] -= float(reward)
                if terminated:
                    break
        snapshots.put_back(state)
        return costs

    return objective


class GymnasiumWorld(World):
    """One episode of a Gymnasium environment, to be controlled by its own model or by a learned one.

    Args:
        env: its observations and actions must be vectors of real numbers.
        cost: of futures, [..., T, O] -> [...].
        horizon: steps to plan ahead.
        reached: whether an observation is the goal, [O] -> bool; never if not given.
        idle: what to do while a model has not seen enough; the middle of the action range if not given.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        cost: Callable[[Array], Array],
        *,
        horizon: int,
        reached: Callable[[Array], bool] = lambda observation: False,
        idle: Sequence[float] | None = None,
    ) -> None:
        if env.spec is None or env.spec.max_episode_steps is None:
            raise ValueError("the environment has no time limit; make it with gymnasium.make(..., max_episode_steps=N)")
        self.env, self._cost, self._reached = env, cost, reached
        self._low, self._high = action_bounds(env.action_space)
        middle = tuple((self._low + self._high) / 2) if idle is None else tuple(idle)
        self.task = Task(name=env.spec.id, horizon=horizon, limit=env.spec.max_episode_steps, idle=middle)

    def bounds(self) -> tuple[Array, Array]:
        return self._low, self._high

    def reset(self, episodes: int, generator: np.random.Generator) -> Array:
        if episodes != 1:
            raise ValueError(f"episodes is {episodes}; a Gymnasium environment runs one at a time")
        observation, _ = self.env.reset(seed=int(generator.integers(2**31)))
        return np.asarray(observation, dtype=np.float64)[None]

    def step(self, actions: Array) -> tuple[Array, Flags]:
        observation, _, terminated, _, _ = self.env.step(actions[0].astype(np.float32))
        seen = np.asarray(observation, dtype=np.float64)
        return seen[None], np.array([terminated or self._reached(seen)])

    def simulate(self, sequences: Array) -> Array:
        snapshots = Snapshots(self.env)
        state = snapshots.take()
        futures = []
        for sequence in sequences[0]:
            snapshots.put_back(state)
            futures.append([self.env.step(action.astype(np.float32))[0] for action in sequence])
        snapshots.put_back(state)
        return np.asarray(futures, dtype=np.float64)[None]

    def cost(self, observations: Array) -> Array:
        return self._cost(observations)


def control_environment(
    env: gymnasium.Env[Any, Any],
    *,
    seed: int,
    config: ICEMConfig | None = None,
    on_step: Callable[[int, float], None] = lambda step, total_reward: None,
) -> tuple[float, int]:
    """One episode with iCEM on the environment itself: the sum of rewards, and the number of steps.

    ``on_step`` is told the number of each step and the sum so far.
    """
    low, high = action_bounds(env.action_space)
    planner = ICEM(low, high, config, generator=np.random.default_rng(seed))
    env.reset(seed=seed)
    objective = reward_objective(env)
    total, step, ended = 0.0, 0, False
    while not ended:
        (action,) = planner.plan(objective)
        _, reward, terminated, truncated, _ = env.step(action.astype(np.float32))
        total, step, ended = total + float(reward), step + 1, terminated or truncated
        on_step(step, total)
    return total, step
