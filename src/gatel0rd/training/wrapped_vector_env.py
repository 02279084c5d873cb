"""Vector environments that users made with Gymnasium, behind our interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from gatel0rd.training.vector_env import (
    Flags,
    Observations,
    VectorEnv,
    VectorStep,
    check_action_space,
    check_observation_space,
    copy_observation,
    observation_type,
)


class WrappedVectorEnv(VectorEnv):
    """A vector environment of Gymnasium that starts episodes in the step that ends one, or where it is asked to.

    Gymnasium's default, ``NEXT_STEP``, is refused: it ignores an action after every episode, from which an agent would
    learn that what it does there has no effect.

    Args:
        envs: the vector environment.
        owned: whether closing this one closes it, too.
    """

    def __init__(self, envs: gymnasium.vector.VectorEnv, *, owned: bool) -> None:
        self.envs, self.owned, self.num_envs = envs, owned, envs.num_envs
        self.id = type(envs.unwrapped).__name__ if envs.spec is None else envs.spec.id
        self.mode = envs.metadata.get("autoreset_mode")
        if self.mode not in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
            raise ValueError(
                f"the autoreset mode of {self.id} is {getattr(self.mode, 'name', self.mode)}; expected SAME_STEP or "
                "DISABLED, as in gymnasium.make_vec(..., vectorization_mode='sync', "
                "vector_kwargs={'autoreset_mode': gymnasium.vector.AutoresetMode.SAME_STEP})"
            )
        self.observation_shape = check_observation_space(self.id, envs.single_observation_space)
        self.observation_type = observation_type(envs.single_observation_space)
        self.action_space = check_action_space(self.id, envs.single_action_space)
        self.reward_threshold = None if envs.spec is None else envs.spec.reward_threshold

    def reset(self, seed: int) -> Observations:
        # neighbouring seeds would share environments: the i-th is seeded with seed + i
        first = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
        return copy_observation(self.envs.reset(seed=first)[0], self.observation_type)

    def step(self, actions: NDArray[Any]) -> VectorStep:
        seen, rewards, terminations, truncations, info = self.envs.step(actions)
        over = terminations | truncations
        observations = copy_observation(seen, self.observation_type)
        final_observations = observations
        ended: Mapping[str, Any] = info
        if over.any() and self.mode == AutoresetMode.DISABLED:
            following = self.envs.reset(options={"reset_mask": over.copy()})[0]
            observations = copy_observation(following, self.observation_type)
        elif over.any():
            if "final_obs" not in info:
                raise ValueError(f"the info of {self.id} has no final_obs where episodes end; SAME_STEP asks for it")
            final = info["final_obs"]["image"] if isinstance(info["final_obs"], Mapping) else info["final_obs"]
            final_observations = observations.copy()
            for index in np.flatnonzero(over):
                final_observations[index] = copy_observation(final[index], self.observation_type)
            ended = info.get("final_info", {})
        successes = self._read_successes(info)
        if ended is not info:
            successes = np.where(over, self._read_successes(ended), successes)
        return VectorStep(
            observations,
            np.asarray(rewards, dtype=np.float32),
            terminations,
            truncations & ~terminations,
            final_observations,
            successes,
        )

    def _read_successes(self, info: Mapping[str, Any]) -> Flags:
        if "is_success" not in info:
            return np.zeros(self.num_envs, dtype=bool)
        self.reports_success = True
        return np.array([bool(value) for value in info["is_success"]])  # None where one of them says nothing

    def close(self) -> None:
        if self.owned:
            self.envs.close()


def wrap_vector_env(
    source: gymnasium.vector.VectorEnv | Callable[[int], gymnasium.vector.VectorEnv], num_envs: int
) -> VectorEnv:
    """A user's vector environment, or the one that a user's function makes; with another size it is an error."""
    given = isinstance(source, gymnasium.vector.VectorEnv)
    if not given and (not callable(source) or isinstance(source, type)):
        raise ValueError(
            f"the environment is {source!r}; expected an id, a gymnasium.vector.VectorEnv, or a function that makes "
            "one from the number of environments"
        )
    envs = source if isinstance(source, gymnasium.vector.VectorEnv) else source(num_envs)
    if not isinstance(envs, gymnasium.vector.VectorEnv):
        raise ValueError(f"the function made a {type(envs).__name__}; expected a gymnasium.vector.VectorEnv")
    if envs.num_envs != num_envs:
        raise ValueError(
            f"the vector environment has {envs.num_envs} environments; expected {num_envs}, the number in PPOConfig"
        )
    return WrappedVectorEnv(envs, owned=not given)
