"""Planning in any Gymnasium environment whose state can be copied, with the environment itself as the model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective
from gatel0rd.planning.noise import Array


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
