"""The training loop of agents against its peers: 16 environments, 128 steps, four epochs in batches of 256."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.training.config import PPOConfig
from gatel0rd.training.ppo import Learner, RolloutCollector, fitting_agent, generalized_advantages
from gatel0rd.training.vector_env import BackendName, VectorEnv, make_vector_env

ENVIRONMENT = "MiniGrid-DoorKey-8x8-v0"
CONFIG = PPOConfig()
Work = Callable[[], object]


def agent_at_work(backend: BackendName, cell: CellName) -> tuple[RolloutCollector, Learner, torch.Generator]:
    """Our agent in its environments, and who improves it."""
    envs = make_vector_env(ENVIRONMENT, CONFIG.environments, backend=backend)
    agent = ActorCritic(replace(fitting_agent(envs), cell=CellConfig(name=cell, hidden_size=64)))
    return RolloutCollector(agent, envs, seed=0), Learner(agent, CONFIG), torch.Generator().manual_seed(0)


def ours(backend: BackendName, cell: CellName = "lstm") -> Work:
    """Our loop: one rollout and its update."""
    collector, learner, generator = agent_at_work(backend, cell)
    return lambda: learner.update(collector.collect(CONFIG, generator)[0], generator)


def shares(backend: BackendName, cell: CellName = "lstm", rounds: int = 8) -> dict[str, float]:
    """Where our time goes: shares of environments, the rest of acting, and the update."""
    collector, learner, generator = agent_at_work(backend, cell)
    spent = {"environments": 0.0, "collect": 0.0, "update": 0.0}
    step = collector.envs.step

    def timed(actions: Any) -> Any:
        began = time.perf_counter()
        result = step(actions)
        spent["environments"] += time.perf_counter() - began
        return result

    collector.envs.step = timed  # type: ignore[method-assign]
    for number in range(rounds):
        if number == 2:
            spent = dict.fromkeys(spent, 0.0)
        began = time.perf_counter()
        rollout, _ = collector.collect(CONFIG, generator)
        collected = time.perf_counter()
        learner.update(rollout, generator)
        spent["collect"] += collected - began
        spent["update"] += time.perf_counter() - collected
    total = spent["collect"] + spent["update"]
    return {
        "environments": round(spent["environments"] / total, 3),
        "acting": round((spent["collect"] - spent["environments"]) / total, 3),
        "update": round(spent["update"] / total, 3),
    }


def sb3_contrib(backend: BackendName, *, shared: bool = False) -> Work:
    """``RecurrentPPO`` with its LSTM and the paper's encoder, actor and critic, on the same environments.

    By default its actor and its critic have an LSTM each; ``shared``: one, through which the critic has no gradient.
    """
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv

    class Encoder(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, 64)
            self.layers = convolutions()

        def forward(self, images: Tensor) -> Tensor:
            features: Tensor = self.layers(images.permute(0, 3, 1, 2))
            return features

    class Environments(VecEnv):
        """Our vector environments as theirs."""

        def __init__(self, envs: VectorEnv) -> None:
            import gymnasium

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

        def close(self) -> None: ...

        def get_attr(self, attr_name: str, indices: Any = None) -> Any:
            return [None] * self.num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any: ...

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Any:
            return [False] * self.num_envs

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
            "lstm_hidden_size": 64,
            "shared_lstm": shared,
            "enable_critic_lstm": not shared,
            "net_arch": [64],
        },
    )
    return lambda: model.learn(CONFIG.frames, reset_num_timesteps=False)


def convolutions() -> nn.Sequential:
    """The paper's encoder from PyTorch's own layers."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 2),
        nn.ReLU(),
        nn.Flatten(),
    )


class StepByStep(nn.Module):
    """The loop as torch-ac has it: the network is called for every time step of a batch, forward and backward."""

    def __init__(self, backend: BackendName) -> None:
        super().__init__()
        self.encoder, self.memory = convolutions(), nn.LSTMCell(64, 64)
        self.actor = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 7))
        self.critic = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=CONFIG.learning_rate, eps=CONFIG.epsilon)
        self.envs = make_vector_env(ENVIRONMENT, CONFIG.environments, backend=backend)
        self.seen = torch.from_numpy(self.envs.reset(0)).float()
        self.remembered, self.alive = torch.zeros(CONFIG.environments, 128), torch.ones(CONFIG.environments)

    def forward(self, images: Tensor, memory: Tensor) -> tuple[torch.distributions.Categorical, Tensor, Tensor]:
        h, c = self.memory(self.encoder(images.permute(0, 3, 1, 2)), memory.chunk(2, dim=1))
        logits = torch.log_softmax(self.actor(h), dim=1)
        return torch.distributions.Categorical(logits=logits), self.critic(h)[:, 0], torch.cat([h, c], dim=1)

    def train_once(self) -> None:
        """One rollout and its update."""
        kept: list[tuple[Tensor, ...]] = []
        with torch.no_grad():
            for _ in range(CONFIG.steps):
                policy, value, following = self(self.seen, self.remembered * self.alive[:, None])
                action = policy.sample()
                steps = self.envs.step(action.numpy())
                over = torch.from_numpy(steps.terminations | steps.truncations)
                reward = torch.from_numpy(steps.rewards)
                kept.append(
                    (self.seen, self.remembered, self.alive, action, policy.log_prob(action), value, reward, over)
                )
                self.seen, self.remembered = torch.from_numpy(steps.observations).float(), following
                self.alive = 1 - over.float()
            _, last, _ = self(self.seen, self.remembered * self.alive[:, None])
        seen, memories, alive, actions, old, values, rewards, ends = (
            torch.stack(parts) for parts in zip(*kept, strict=True)
        )
        next_values = torch.cat([values[1:], last[None]]) * ~ends
        advantages = generalized_advantages(
            rewards, values, next_values, ends, gamma=CONFIG.gamma, gae_lambda=CONFIG.gae_lambda
        )
        for epoch in range(CONFIG.epochs):
            first = CONFIG.chunk // 2 * (epoch % 2)
            times = torch.arange(first, CONFIG.steps - CONFIG.chunk + 1, CONFIG.chunk)
            starts = torch.cartesian_prod(times, torch.arange(CONFIG.environments))
            for chosen in starts[torch.randperm(len(starts))].split(CONFIG.batch_size // CONFIG.chunk):
                time, column = chosen.T
                memory, loss = memories[time, column], torch.zeros(())
                for step in range(CONFIG.chunk):
                    now = (time + step, column)
                    policy, value, memory = self(seen[now], memory * alive[now][:, None])
                    ratio = (policy.log_prob(actions[now]) - old[now]).exp()
                    cut = ratio.clamp(1 - CONFIG.clip_coef, 1 + CONFIG.clip_coef)
                    gain = torch.minimum(ratio * advantages[now], cut * advantages[now]).mean()
                    near = values[now] + (value - values[now]).clamp(-CONFIG.clip_coef, CONFIG.clip_coef)
                    goal = values[now] + advantages[now]
                    error = torch.maximum((value - goal).square(), (near - goal).square()).mean()
                    loss = loss - gain + CONFIG.vf_coef * error - CONFIG.ent_coef * policy.entropy().mean()
                    if step < CONFIG.chunk - 1:
                        memories[time + step + 1, column] = memory.detach()
                self.optimizer.zero_grad()
                (loss / CONFIG.chunk).backward()
                torch.nn.utils.clip_grad_norm_(self.parameters(), CONFIG.clip_norm)
                self.optimizer.step()
