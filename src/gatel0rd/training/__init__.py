"""Training of world models."""

from gatel0rd.training.evaluation import evaluate, join_gates, run_in_parts
from gatel0rd.training.resumable import TrainingError
from gatel0rd.training.steps import Losses, NativeStepper, TorchStepper, make_stepper
from gatel0rd.training.trainer import Trainer, stratified_order, time_first

__all__ = [
    "Losses",
    "NativeStepper",
    "TorchStepper",
    "Trainer",
    "TrainingError",
    "evaluate",
    "join_gates",
    "make_stepper",
    "run_in_parts",
    "stratified_order",
    "time_first",
]
