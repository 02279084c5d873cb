"""Planning: iCEM, which sees nothing but costs of action sequences."""

from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective, plain_cem, random_shooting
from gatel0rd.planning.noise import colored_noise

__all__ = ["ICEM", "ICEMConfig", "Objective", "colored_noise", "plain_cem", "random_shooting"]
