"""sb3-contrib's ``RecurrentPPO`` with the paper's encoder, actor and critic on our environments. Extra ``sb3``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from benchmarks.agents import CONFIG, ENVIRONMENT, HIDDEN, make_convolutions
from benchmarks.measure import Work
from gatel0rd.models.encoders import GridEncoder
from gatel0rd.training.vector_env import BackendName, VectorEnv, make_vector_env


class Encoder(BaseFeaturesExtractor):
    """The paper's encoder as a feature extractor. Shape: [N, X, Y, C] -> [N, F]."""

    def __init__(self, space: Any) -> None:
        encoder = GridEncoder(space.shape)
        super().__init__(space, encoder.output_size)
        self.layers = make_convolutions(encoder)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images.permute(0, 3, 1, 2))
        return features


class Environments(VecEnv):
    """Our vector environments as theirs."""

    def __init__(self, envs: VectorEnv) -> None:
        space = gymnasium.spaces.Box(0, 255, envs.observation_shape, np.float32)
        super().__init__(envs.num_envs, space, envs.action_space)
        self.envs = envs

    def reset(self) -> Any:
        return self.envs.reset(0).astype(np.float32)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        steps = self.envs.step(self.actions)
        over = steps.terminations | steps.truncations
        infos: list[dict[str, Any]] = [{} for _ in over]
        for index in np.flatnonzero(over):
            infos[index] = {
                "terminal_observation": steps.final_observations[index].astype(np.float32),
                "TimeLimit.truncated": bool(steps.truncations[index]),
            }
        return steps.observations.astype(np.float32), steps.rewards, over, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> Any:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any: ...

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Any:
        return [False] * self.num_envs


def make_recurrent_ppo(backend: BackendName, *, shared: bool = False) -> Work:
    """One rollout and its update.

    By default its actor and its critic have an LSTM each; ``shared``: one, through which the critic has no gradient.
    """
    model = RecurrentPPO(
        "MlpLstmPolicy",
        Environments(make_vector_env(ENVIRONMENT, CONFIG.environments, backend=backend)),
        learning_rate=CONFIG.learning_rate,
        n_steps=CONFIG.steps,
        batch_size=CONFIG.batch_size,
        n_epochs=CONFIG.epochs,
        device="cpu",
        policy_kwargs={
            "features_extractor_class": Encoder,
            "normalize_images": False,
            "lstm_hidden_size": HIDDEN,
            "shared_lstm": shared,
            "enable_critic_lstm": not shared,
            "net_arch": [64],
        },
    )
    return lambda: model.learn(CONFIG.frames, reset_num_timesteps=False)
