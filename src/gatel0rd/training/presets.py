"""Presets of agents and their training."""

from __future__ import annotations

from typing import Literal, get_args

from gatel0rd.models.config import ActorCriticConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.training.config import PPOConfig

AgentPreset = Literal["text", "reference", "tuned"]


def agent_configs(
    cell: CellConfig,
    *,
    observation_shape: tuple[int, ...],
    actions: int,
    preset: AgentPreset = "text",
    memory: bool = True,
    continuous: bool = False,
) -> tuple[ActorCriticConfig, PPOConfig]:
    """An agent and its training by the name of a preset.

    ``text``: the controlled setting, as the paper's text describes it.
    ``reference``: with the confounds of the authors' code. All linear layers begin with normalised rows, which reaches
    GateL0RD but not the LSTM; gate noise is drawn afresh in the update; the time limit ends episodes as if nothing came
    after it; and Adam's ε is the default of the implementation that the paper cites, 1e-8, where its text has 1e-4.
    ``tuned``: the controlled setting, but with that ε and a tenth of the entropy's weight, for few frames.
    """
    if preset not in get_args(AgentPreset):
        raise ValueError(f"preset is {preset!r}; expected {', '.join(get_args(AgentPreset))}")
    reference, tuned = preset == "reference", preset == "tuned"
    agent = ActorCriticConfig(
        observation_shape=observation_shape,
        actions=actions,
        continuous=continuous,
        cell=cell,
        memory=memory,
        normalized_rows="all" if reference else "heads",
    )
    ppo = PPOConfig(
        gate_noise="fresh" if reference else "kept",
        bootstrap_timeouts=not reference,
        epsilon=1e-8 if reference or tuned else 1e-4,
        ent_coef=0.001 if tuned else 0.01,
        sparsity_weight=0.01 if memory and cell.name == "gatel0rd" else 0.0,
    )
    return agent, ppo
