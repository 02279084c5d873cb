"""The sizes of a model of recordings."""

from __future__ import annotations

from functools import partial

import numpy as np
from torch import Tensor

from gatel0rd.models.config import FollowingModelConfig, WorldModelConfig
from gatel0rd.nn.config import CellConfig
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.recordings import Recordings


def choose_sizes(train: Recordings, config: FitConfig, observations: Tensor) -> WorldModelConfig:
    """Sizes from the data and the settings; predictions are changes, in units of what usually changes in a step."""
    own = config.cell == "gatel0rd"
    inside = np.ones(len(observations), dtype=bool)
    inside[train.starts] = False  # from one sequence to the next is no change
    change = float((observations[1:] - observations[:-1])[inside[1:]].square().mean().sqrt())
    follows = config.objective == "follow"
    kind = partial(FollowingModelConfig, transitions=config.transitions or 1) if follows else WorldModelConfig
    return kind(
        observation_size=len(train.observation_names),
        action_size=len(train.action_names),
        cell=CellConfig(
            name=config.cell,
            hidden_size=config.hidden_size,
            net_layers=config.layers if own else 1,
            num_layers=1 if own else config.layers,
        ),
        feature_size=config.features,
        pre_layers=2,
        init_layers=2,
        init_steps=2 if train.lengths.min() > 3 and not follows else 1,
        residual_scale=float(f"{min(1.0, max(0.02 if follows else 0.05, change)):.2g}"),
    )
