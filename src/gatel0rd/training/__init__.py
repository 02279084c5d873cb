"""Training of world models."""

from gatel0rd.training.evaluation import SEQUENCES_AT_ONCE, evaluate
from gatel0rd.training.steps import Losses, NativeStepper, TorchStepper, make_stepper
from gatel0rd.training.trainer import Trainer, TrainingError, stratified_order, time_first

__all__ = [
    "SEQUENCES_AT_ONCE",
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
