"""Planning: iCEM, which sees nothing but costs, and model-predictive control with a learned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.planning.audit import AuditedPlans, CorrectedForesight, PlanAudit
    from gatel0rd.planning.environment import GymnasiumTask, control_environment
    from gatel0rd.planning.foresight import Foresight, LearnedForesight, TrueForesight
    from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective, plain_cem, random_shooting
    from gatel0rd.planning.mpc import Episodes, control
    from gatel0rd.planning.noise import colored_noise
    from gatel0rd.planning.tasks import ControlTask

__all__ = [
    "ICEM",
    "AuditedPlans",
    "ControlTask",
    "CorrectedForesight",
    "Episodes",
    "Foresight",
    "GymnasiumTask",
    "ICEMConfig",
    "LearnedForesight",
    "Objective",
    "PlanAudit",
    "TrueForesight",
    "colored_noise",
    "control",
    "control_environment",
    "plain_cem",
    "random_shooting",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "AuditedPlans": "audit",
        "ControlTask": "tasks",
        "CorrectedForesight": "audit",
        "ICEM": "icem",
        "Episodes": "mpc",
        "Foresight": "foresight",
        "GymnasiumTask": "environment",
        "ICEMConfig": "icem",
        "LearnedForesight": "foresight",
        "Objective": "icem",
        "PlanAudit": "audit",
        "TrueForesight": "foresight",
        "colored_noise": "noise",
        "control": "mpc",
        "control_environment": "environment",
        "plain_cem": "icem",
        "random_shooting": "icem",
    },
)
