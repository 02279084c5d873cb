"""Planning in any Gymnasium environment whose state can be copied, with the environment itself as the model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from inspect import ismodule
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask, Flags


def action_bounds(space: spaces.Space[Any]) -> tuple[Array, Array]:
    """Lowest and highest actions; iCEM needs a one-dimensional box with finite bounds."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"the action space is {space}; iCEM plans vectors of real numbers, a Box of shape (A,)")
    if not space.is_bounded():
        raise ValueError(
            f"the action space is {space}; iCEM needs finite bounds: wrap the environment, as in "
            "gymnasium.wrappers.TransformAction(env, lambda action: action, gymnasium.spaces.Box(low, high))"
        )
    return space.low.astype(np.float64), space.high.astype(np.float64)


FIXED = ("spec", "metadata", "action_space", "observation_space")
"""What an environment never changes, and need not be copied."""


def time_limit(env: gymnasium.Env[Any, Any]) -> int:
    """The environment's own limit; without one its episodes may never end, which is an error."""
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            return layer._max_episode_steps
        layer = layer.env
    if env.spec is None or env.spec.max_episode_steps is None:
        raise ValueError("the environment has no time limit; make it with gymnasium.make(..., max_episode_steps=N)")
    return env.spec.max_episode_steps


class Snapshots:
    """Puts an environment with its wrappers back into an earlier state.

    Everything that the environment's objects hold is copied, but not those objects themselves: what points back to the
    environment still does. MuJoCo's simulation is copied as a whole, contacts and warm starts included, so that the
    future repeats exactly.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.layers: list[Any] = [env]
        while isinstance(self.layers[-1], gymnasium.Wrapper):
            self.layers.append(self.layers[-1].env)
        self.simulated = type(getattr(env.unwrapped, "data", None)).__name__ == "MjData"

    def take(self) -> Any:
        try:
            states = self._copy(
                [{k: v for k, v in vars(layer).items() if self._changes(k, v)} for layer in self.layers]
            )
        except Exception as error:
            raise ValueError(
                f"the state of {self.layers[-1]} cannot be copied ({error}); make the environment without render_mode"
            ) from error
        return states, copy.copy(self.layers[-1].data) if self.simulated else None

    def put_back(self, snapshot: Any, rng: np.random.Generator | None = None) -> None:
        """Restore a state; with ``rng`` the environment's random numbers are drawn anew instead of repeated."""
        states, simulation = snapshot
        for layer, state in zip(self.layers, self._copy(states), strict=True):
            content = vars(layer)
            for name in [name for name, value in content.items() if name not in state and self._changes(name, value)]:
                del content[name]
            content.update(state)
        if self.simulated:
            import mujoco

            mujoco.mj_copyData(self.layers[-1].data, self.layers[-1].model, simulation)
        if rng is not None:
            self.layers[-1].np_random = np.random.default_rng(rng.integers(2**63))

    def _changes(self, name: str, value: Any) -> bool:
        fixed = {*FIXED, "env"} | ({"data", "model", "mujoco_renderer"} if self.simulated else set())
        return name not in fixed and not ismodule(value)

    def _copy(self, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [*self.layers, *([self.layers[-1].data, self.layers[-1].model] if self.simulated else [])]
        return copy.deepcopy(states, {id(thing): thing for thing in kept})


def reward_objective(env: gymnasium.Env[Any, Any], rng: np.random.Generator | None = None) -> Objective:
    """Costs of action sequences in the environment's present state: minus the sum of rewards up to termination.

    With ``rng`` each sequence meets random numbers of its own; without, those that will really be drawn.
    """
    snapshots = Snapshots(env)

    def objective(sequences: Array) -> Array:
        state = snapshots.take()
        costs = np.zeros(sequences.shape[:2])
        for index in np.ndindex(costs.shape):
            snapshots.put_back(state, rng)
            for action in sequences[index]:
                _, reward, terminated, _, _ = env.step(action.astype(env.action_space.dtype))
                costs[index] -= float(reward)
                if terminated:
                    break
        snapshots.put_back(state)
        return costs

    return objective


class GymnasiumTask(ControlTask):
    """One episode of a Gymnasium environment, to be controlled by its own model or by a learned one.

    Args:
        env: its observations and actions must be vectors of real numbers.
        cost: of futures, (observations [..., T, O], actions [..., T, A]) -> [...].
        horizon: steps to plan ahead.
        reached: whether an observation is the goal, [O] -> bool; never if not given.
        idle: what to do while a model has not seen enough; the middle of the action range if not given.

    Example:
        >>> import gymnasium
        >>> import numpy as np
        >>> from gatel0rd.planning import GymnasiumTask
        >>> upright = lambda observations, actions: (1 - observations[..., 0]).sum(axis=-1)
        >>> task = GymnasiumTask(gymnasium.make("Pendulum-v1"), upright, horizon=10)
        >>> task.reset([np.random.default_rng(0)]).shape
        (1, 3)
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        cost: Callable[[Array, Array], Array],
        *,
        horizon: int,
        reached: Callable[[Array], bool] = lambda observation: False,
        idle: Sequence[float] | None = None,
    ) -> None:
        limit = time_limit(env)
        self.env, self._cost, self._reached = env, cost, reached
        self._low, self._high = action_bounds(env.action_space)
        self._ended = False
        middle = tuple((self._low + self._high) / 2) if idle is None else tuple(idle)
        self.name, self.horizon, self.limit, self.idle = str(env), horizon, limit, middle

    def bounds(self) -> tuple[Array, Array]:
        return self._low, self._high

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        if len(generators) != 1:
            raise ValueError(f"there are {len(generators)} episodes; a Gymnasium environment runs one at a time")
        self._ended = False
        (self._rng,) = generators[0].spawn(1)
        observation, _ = self.env.reset(seed=int(generators[0].integers(2**31)))
        return np.array(observation, dtype=np.float64)[None]  # a copy: the environment may write into its own

    def step(self, actions: Array) -> tuple[Array, Flags]:
        observation, _, terminated, truncated, _ = self.env.step(actions[0].astype(self.env.action_space.dtype))
        self._ended = terminated or truncated
        seen = np.array(observation, dtype=np.float64)
        return seen[None], np.array([self._reached(seen)])

    def ended(self) -> bool:
        return self._ended

    def keep(self, rows: NDArray[np.int64]) -> None:
        pass  # there is only one

    def simulate(self, sequences: Array) -> Array:
        """What the environment would do; its own random numbers are others in every future, as nobody knows them."""
        snapshots = Snapshots(self.env)
        state = snapshots.take()
        futures = []
        for sequence in sequences[0]:
            snapshots.put_back(state, self._rng)
            future: list[Any] = []
            terminated = False
            for action in sequence.astype(self.env.action_space.dtype):
                if terminated:  # what ended stays as it is
                    future.append(future[-1])
                else:
                    observation, _, terminated, _, _ = self.env.step(action)
                    future.append(np.array(observation, dtype=np.float64))
            futures.append(future)
        snapshots.put_back(state)
        return np.asarray(futures, dtype=np.float64)[None]

    def cost(self, observations: Array, actions: Array) -> Array:
        return self._cost(observations, actions)


def control_environment(
    env: gymnasium.Env[Any, Any],
    *,
    seed: int,
    config: ICEMConfig | None = None,
    on_step: Callable[[int, float], None] = lambda step, total_reward: None,
) -> tuple[float, int]:
    """One episode with iCEM on the environment itself: the sum of rewards, and the number of steps.

    ``on_step`` is told the number of each step and the sum so far.

    Example:
        >>> import gymnasium
        >>> from gatel0rd.planning import ICEMConfig, control_environment
        >>> env = gymnasium.make("Pendulum-v1", max_episode_steps=3)
        >>> total, steps = control_environment(env, seed=0, config=ICEMConfig(horizon=4, samples=8, elites=2))
        >>> steps
        3
    """
    low, high = action_bounds(env.action_space)
    time_limit(env)
    search, rng = np.random.default_rng(seed).spawn(2)
    planner = ICEM(low, high, config, generator=search)
    env.reset(seed=seed)
    objective = reward_objective(env, rng)
    total, step, ended = 0.0, 0, False
    while not ended:
        (action,) = planner.plan(objective)
        _, reward, terminated, truncated, _ = env.step(action.astype(env.action_space.dtype))
        total, step, ended = total + float(reward), step + 1, terminated or truncated
        on_step(step, total)
    return total, step
