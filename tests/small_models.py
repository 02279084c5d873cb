"""Untrained models of a few columns, for tests that need any model."""

from __future__ import annotations

import torch

from gatel0rd.models import WorldModel
from gatel0rd.models.config import WorldModelConfig
from gatel0rd.models.fitted import FittedModel, Scaling
from gatel0rd.nn.config import CellConfig


def small_model(cell="gatel0rd", observed=("depth", "speed", "angle"), acted=("push", "turn"), init_steps=2, **info):
    generator = torch.Generator().manual_seed(5)
    config = WorldModelConfig(
        observation_size=len(observed),
        action_size=len(acted),
        cell=CellConfig(name=cell, hidden_size=4),
        feature_size=6,
        init_steps=init_steps,
        residual_scale=1.0,
    )
    model = WorldModel(config)
    model.reset_parameters(generator)
    return FittedModel(
        model=model,
        observation_names=tuple(observed),
        action_names=tuple(acted),
        observation_scaling=Scaling((3.0,) * len(observed), (20.0,) * len(observed)),
        action_scaling=Scaling((0.5,) * len(acted), (2.0,) * len(acted)),
        info=info,
    )
