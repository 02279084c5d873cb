"""Planning: iCEM, which sees nothing but costs, and model-predictive control with a learned memory."""

from gatel0rd.planning.control import Episodes, control
from gatel0rd.planning.fetch import Placing
from gatel0rd.planning.foresight import Foresight, LearnedForesight, TrueForesight
from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective, plain_cem, random_shooting
from gatel0rd.planning.noise import colored_noise
from gatel0rd.planning.tasks import Herding, RemoteControl, Task, World

WORLDS: dict[str, type[World]] = {"rrc": RemoteControl, "shepherd": Herding, "fetch": Placing, "fetch-diverse": Placing}
"""Scenario name -> what is planned in it."""

__all__ = [
    "ICEM",
    "WORLDS",
    "Episodes",
    "Foresight",
    "Herding",
    "ICEMConfig",
    "LearnedForesight",
    "Objective",
    "Placing",
    "RemoteControl",
    "Task",
    "TrueForesight",
    "World",
    "colored_noise",
    "control",
    "plain_cem",
    "random_shooting",
]
