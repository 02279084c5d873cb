"""GateL0RD: recurrent networks whose latent state changes sparsely.

    >>> from gatel0rd import GateL0RD, l0_penalty

The names below are loaded when first used, so that ``import gatel0rd`` and the command line start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatel0rd.models import WorldModel, load_model, save_model
    from gatel0rd.models.config import WorldModelConfig
    from gatel0rd.models.fitted import load
    from gatel0rd.nn.config import CellConfig
    from gatel0rd.nn.functional import l0_penalty, l1_penalty, l2_penalty, retanh
    from gatel0rd.nn.layer import GateL0RD, GateL0RDCell
    from gatel0rd.recordings.segmenter import EventSegmenter
    from gatel0rd.training.config import TrainConfig

__version__ = "0.1.0"

_HOMES = {
    "CellConfig": "nn.config",
    "EventSegmenter": "recordings.segmenter",
    "GateL0RD": "nn.layer",
    "GateL0RDCell": "nn.layer",
    "TrainConfig": "training.config",
    "WorldModel": "models",
    "WorldModelConfig": "models.config",
    "l0_penalty": "nn.functional",
    "l1_penalty": "nn.functional",
    "l2_penalty": "nn.functional",
    "load": "models.fitted",
    "load_model": "models",
    "retanh": "nn.functional",
    "save_model": "models",
}

__all__ = [
    "CellConfig",
    "EventSegmenter",
    "GateL0RD",
    "GateL0RDCell",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gatel0rd' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gatel0rd.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
