"""World models, and files that keep them."""

from gatel0rd.models.io import load_model, save_model
from gatel0rd.models.world_model import Prediction, Rollout, WorldModel

__all__ = ["Prediction", "Rollout", "WorldModel", "load_model", "save_model"]
