"""Training of world models."""

from gatel0rd.training.evaluation import evaluate
from gatel0rd.training.trainer import Losses, Trainer, TrainingError, stratified_order, time_first

__all__ = ["Losses", "Trainer", "TrainingError", "evaluate", "stratified_order", "time_first"]
