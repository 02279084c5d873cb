"""Training of world models."""

from gatel0rd.training.evaluation import evaluate
from gatel0rd.training.steps import Losses, NativeStepper, TorchStepper, make_stepper
from gatel0rd.training.trainer import Trainer, TrainingError, stratified_order, time_first

__all__ = [
    "Losses",
    "NativeStepper",
    "TorchStepper",
    "Trainer",
    "TrainingError",
    "evaluate",
    "make_stepper",
    "stratified_order",
    "time_first",
]
