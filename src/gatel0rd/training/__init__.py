"""Training of world models and agents, in one resumable loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.training.evaluation import evaluate, join_gates, run_in_parts
    from gatel0rd.training.loop import TrainingError, TrainingLoop
    from gatel0rd.training.steps import Losses, NativeStepper, TorchStepper, make_stepper
    from gatel0rd.training.trainer import Trainer, stratified_order, time_first

__all__ = [
    "Losses",
    "NativeStepper",
    "TorchStepper",
    "Trainer",
    "TrainingError",
    "TrainingLoop",
    "evaluate",
    "join_gates",
    "make_stepper",
    "run_in_parts",
    "stratified_order",
    "time_first",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "Losses": "steps",
        "NativeStepper": "steps",
        "TorchStepper": "steps",
        "Trainer": "trainer",
        "TrainingError": "loop",
        "TrainingLoop": "loop",
        "evaluate": "evaluation",
        "join_gates": "evaluation",
        "make_stepper": "steps",
        "run_in_parts": "evaluation",
        "stratified_order": "trainer",
        "time_first": "trainer",
    },
)
