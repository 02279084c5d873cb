"""Planning: iCEM, which sees nothing but costs, and model-predictive control with a learned memory."""

from gatel0rd.planning.control import Episodes, control
from gatel0rd.planning.foresight import Foresight, LearnedForesight, TrueForesight
from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective, plain_cem, random_shooting
from gatel0rd.planning.noise import colored_noise
from gatel0rd.planning.tasks import ControlTask

__all__ = [
    "ICEM",
    "ControlTask",
    "Episodes",
    "Foresight",
    "ICEMConfig",
    "LearnedForesight",
    "Objective",
    "TrueForesight",
    "colored_noise",
    "control",
    "plain_cem",
    "random_shooting",
]
