"""Training of world models and agents, in one resumable loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.training.config import PPOConfig, TrainConfig
    from gatel0rd.training.dataset import Dataset
    from gatel0rd.training.evaluation import evaluate, join_gates, run_in_parts
    from gatel0rd.training.loop import TrainingError, TrainingLoop
    from gatel0rd.training.recipe import DataRecipe
    from gatel0rd.training.steps import Losses, NativeStepper, TorchStepper, make_stepper
    from gatel0rd.training.trainer import Trainer, stratified_order, time_first
    from gatel0rd.training.vector_env import make_vector_env

__all__ = [
    "DataRecipe",
    "Dataset",
    "Losses",
    "NativeStepper",
    "PPOConfig",
    "TorchStepper",
    "TrainConfig",
    "Trainer",
    "TrainingError",
    "TrainingLoop",
    "evaluate",
    "join_gates",
    "make_stepper",
    "make_vector_env",
    "run_in_parts",
    "stratified_order",
    "time_first",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "DataRecipe": "recipe",
        "Dataset": "dataset",
        "Losses": "steps",
        "NativeStepper": "steps",
        "PPOConfig": "config",
        "TorchStepper": "steps",
        "TrainConfig": "config",
        "Trainer": "trainer",
        "TrainingError": "loop",
        "TrainingLoop": "loop",
        "evaluate": "evaluation",
        "join_gates": "evaluation",
        "make_stepper": "steps",
        "make_vector_env": "vector_env",
        "run_in_parts": "evaluation",
        "stratified_order": "trainer",
        "time_first": "trainer",
    },
)
