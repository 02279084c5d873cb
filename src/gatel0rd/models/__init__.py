"""World models and agents, and the files that keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.models.actor_critic import ActorCritic
    from gatel0rd.models.config import ActorCriticConfig, WorldModelConfig
    from gatel0rd.models.fitted import FittedModel
    from gatel0rd.models.io import (
        identify,
        load_agent,
        load_fitted,
        load_model,
        save_agent,
        save_fitted,
        save_model,
    )
    from gatel0rd.models.world_model import Prediction, Rollout, WorldModel

__all__ = [
    "ActorCritic",
    "ActorCriticConfig",
    "FittedModel",
    "Prediction",
    "Rollout",
    "WorldModel",
    "WorldModelConfig",
    "identify",
    "load_agent",
    "load_fitted",
    "load_model",
    "save_agent",
    "save_fitted",
    "save_model",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "ActorCritic": "actor_critic",
        "ActorCriticConfig": "config",
        "FittedModel": "fitted",
        "Prediction": "world_model",
        "Rollout": "world_model",
        "WorldModel": "world_model",
        "WorldModelConfig": "config",
        "identify": "io",
        "load_agent": "io",
        "load_fitted": "io",
        "load_model": "io",
        "save_agent": "io",
        "save_fitted": "io",
        "save_model": "io",
    },
)
