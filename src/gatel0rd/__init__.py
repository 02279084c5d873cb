"""GateL0RD: recurrent networks whose latent state changes sparsely.

    >>> from gatel0rd import GateL0RD, l0_penalty

The names below are loaded when first used, so that ``import gatel0rd`` and the command line start at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.models.config import WorldModelConfig
    from gatel0rd.models.io import load_fitted as load
    from gatel0rd.models.io import load_model, save_model
    from gatel0rd.models.world_model import WorldModel
    from gatel0rd.nn.config import CellConfig
    from gatel0rd.nn.functional import l0_penalty, l1_penalty, l2_penalty, retanh
    from gatel0rd.nn.gate_rate import GateRate
    from gatel0rd.nn.layer import GateL0RD, GateL0RDCell
    from gatel0rd.recordings.segmenter import EventSegmenter
    from gatel0rd.training.config import TrainConfig

__version__ = "0.1.0"

__all__ = [
    "CellConfig",
    "EventSegmenter",
    "GateL0RD",
    "GateL0RDCell",
    "GateRate",
    "TrainConfig",
    "WorldModel",
    "WorldModelConfig",
    "__version__",
    "l0_penalty",
    "l1_penalty",
    "l2_penalty",
    "load",
    "load_model",
    "retanh",
    "save_model",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "CellConfig": "nn.config",
        "EventSegmenter": "recordings.segmenter",
        "GateL0RD": "nn.layer",
        "GateL0RDCell": "nn.layer",
        "GateRate": "nn.gate_rate",
        "TrainConfig": "training.config",
        "WorldModel": "models.world_model",
        "WorldModelConfig": "models.config",
        "l0_penalty": "nn.functional",
        "l1_penalty": "nn.functional",
        "l2_penalty": "nn.functional",
        "load": "models.io:load_fitted",
        "load_model": "models.io",
        "retanh": "nn.functional",
        "save_model": "models.io",
    },
    plain=("__version__",),
)
