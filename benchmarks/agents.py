"""How long does an agent's rollout with its update take, compared with sb3-contrib and with a loop over time steps?

16 environments of DoorKey-8x8, 128 steps each, four epochs in batches of 256 frames: the paper's settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Comparison, Group, Row, Work
from gatel0rd.models.actor_critic import ActorCritic, ActorCriticOutput
from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.models.encoders import GridEncoder
from gatel0rd.nn.cells import State
from gatel0rd.nn.cells.lstm import LSTMCell
from gatel0rd.nn.config import CellConfig, CellName
from gatel0rd.training.config import PPOConfig

if TYPE_CHECKING:
    from gatel0rd.training.vector_env import BackendName

ENVIRONMENT = "MiniGrid-DoorKey-8x8-v0"
CONFIG = PPOConfig()
HIDDEN = 64


def make_convolutions(like: GridEncoder) -> nn.Sequential:
    """The paper's encoder from PyTorch's own layers, with the weights of ours. Shape: [N, C, X, Y] -> [N, F]."""
    layers: list[nn.Module] = []
    for index, linear in enumerate(like.convolutions):
        assert isinstance(linear, nn.Linear)
        kernel = linear.weight.detach().unflatten(1, (2, 2, -1)).permute(0, 3, 1, 2)  # [O, 4·C] -> [O, C, 2, 2]
        convolution = nn.Conv2d(kernel.shape[1], kernel.shape[0], 2)
        convolution.weight = nn.Parameter(kernel.contiguous())
        convolution.bias = nn.Parameter(linear.bias.detach().clone())
        layers += [convolution, nn.ReLU(), *([nn.MaxPool2d(2)] if index == 0 else [])]
    return nn.Sequential(*layers, nn.Flatten())


class StepByStep(ActorCritic):
    """An LSTM agent whose network is called for every time step, as torch-ac does it; the PPO around it is ours."""

    def __init__(self, config: ActorCriticConfig) -> None:
        super().__init__(config, engine="torch")
        assert isinstance(self.encoder, GridEncoder)
        self.encoder: Any = make_convolutions(self.encoder)

    def encode(self, observations: Tensor) -> Tensor:
        """Leave images as they are: they are encoded step by step. Shape: [T, N, X, Y, C]."""
        return observations

    def forward_features(
        self, features: Tensor, state: State, starts: Tensor | None = None, noise: Tensor | None = None
    ) -> ActorCriticOutput:
        """Encoder, memory, actor and critic of one step after the other. Shape: features [T, N, X, Y, C]."""
        assert self.memory is not None and noise is None
        (cell,) = self.memory.cells
        assert isinstance(cell, LSTMCell)
        weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        h, c = state
        steps = []
        for t, images in enumerate(features):
            if starts is not None:
                alive = (~starts[t]).to(h.dtype).unsqueeze(-1)  # [N, 1]
                h, c = h * alive, c * alive
            seen = self.encoder(images.to(h.dtype).permute(0, 3, 1, 2))  # [N, X, Y, C] -> [N, C, X, Y] -> [N, F]
            h, c = torch.lstm_cell(seen, (h, c), *weights)
            steps.append((*self.heads(h), h, c))
        actor, critic, outputs, latents = (torch.stack(column) for column in zip(*steps, strict=True))
        return ActorCriticOutput(self._policy(actor), critic[..., 0], outputs, latents, None, (h, c))


class Training:
    """An agent in its environments, with what improves it."""

    def __init__(self, backend: BackendName, cell: CellName = "lstm", kind: type[ActorCritic] = ActorCritic) -> None:
        from gatel0rd.training.ppo import Learner, RolloutCollector, fitting_agent
        from gatel0rd.training.vector_env import make_vector_env

        self.envs = make_vector_env(ENVIRONMENT, CONFIG.environments, backend=backend)
        agent = kind(replace(fitting_agent(self.envs), cell=CellConfig(name=cell, hidden_size=HIDDEN)))
        self.collector, self.learner = RolloutCollector(agent, self.envs, seed=0), Learner(agent, CONFIG)
        self.generator = torch.Generator().manual_seed(0)

    def collect(self) -> Any:
        """One rollout."""
        return self.collector.collect(CONFIG, self.generator)[0]

    def update(self, rollout: Any) -> None:
        self.learner.update(rollout, self.generator)

    def run(self) -> None:
        """One rollout and its update."""
        self.update(self.collect())


def our_agent(backend: BackendName, cell: CellName) -> Work:
    return Training(backend, cell).run


def measure_shares(training: Training, *, rounds: int = 8, warmup: int = 2) -> dict[str, float]:
    """Where our time goes: shares of environments, of the rest of acting, and of the update."""
    spent = {"environments": 0.0, "collect": 0.0, "update": 0.0}
    step = training.envs.step

    def timed(actions: Any) -> Any:
        began = time.perf_counter()
        result = step(actions)
        spent["environments"] += time.perf_counter() - began
        return result

    training.envs.step = timed  # type: ignore[method-assign]
    for number in range(warmup + rounds):
        if number == warmup:
            spent.update(dict.fromkeys(spent, 0.0))
        began = time.perf_counter()
        rollout = training.collect()
        collected = time.perf_counter()
        training.update(rollout)
        spent["collect"] += collected - began
        spent["update"] += time.perf_counter() - collected
    total = spent["collect"] + spent["update"]
    return {
        "environments": round(spent["environments"] / total, 3),
        "acting": round((spent["collect"] - spent["environments"]) / total, 3),
        "update": round(spent["update"] / total, 3),
    }


def add_speeds(backend: BackendName, cell: CellName, row: Row) -> Row:
    """Frames per second of both, and where our time goes."""
    rate = 1000 * CONFIG.frames
    return replace(
        row,
        ours_fps=round(rate / row.ours_ms),
        peer_fps=round(rate / row.peer_ms),
        shares=measure_shares(Training(backend, cell)),
    )


def recurrent_ppo(backend: BackendName, *, shared: bool = False) -> Work:
    from benchmarks.sb3_peer import make_recurrent_ppo

    return make_recurrent_ppo(backend, shared=shared)


def compare_agents() -> Iterator[Comparison]:
    """2048 frames, with minigrid's and with EnvPool's environments."""
    from gatel0rd.training.vector_env import envpool_ids

    fast: BackendName = "envpool" if ENVIRONMENT in envpool_ids() else "gymnasium"
    slow = partial(recurrent_ppo, "gymnasium")
    pairs: list[tuple[CellName, BackendName, str, Callable[[], Work]]] = [
        ("lstm", fast, f"step by step, {fast}", lambda: Training(fast, kind=StepByStep).run),
        ("lstm", "gymnasium", "sb3-contrib, gymnasium", slow),
        ("lstm", fast, "sb3-contrib, gymnasium", slow),
        ("gatel0rd", fast, "sb3-contrib, gymnasium", slow),
        ("lstm", fast, f"sb3-contrib, {fast}", partial(recurrent_ppo, fast)),
        ("lstm", fast, f"sb3-contrib, one LSTM, {fast}", partial(recurrent_ppo, fast, shared=True)),
    ]
    for cell, backend, peer_name, peer in pairs:
        yield Comparison(
            f"agent/{cell}-{backend}",
            partial(our_agent, backend, cell),
            peer_name,
            peer,
            complete=partial(add_speeds, backend, cell),
        )


GROUPS = (Group("agent", compare_agents, (1,)),)
