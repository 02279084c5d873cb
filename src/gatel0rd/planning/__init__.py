"""Planning: iCEM, which sees nothing but costs, and control with a memory, learned before or on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatel0rd.lazy import load_lazily

if TYPE_CHECKING:
    from gatel0rd.planning.audit import AuditedPlans, CorrectedForesight, PlanAudit
    from gatel0rd.planning.categorical import CategoricalICEM
    from gatel0rd.planning.diagnosis import Diagnosis
    from gatel0rd.planning.dynamics import DynamicsConfig
    from gatel0rd.planning.environment import GymnasiumTask, control_environment
    from gatel0rd.planning.experience import HideColumns
    from gatel0rd.planning.foresight import Foresight, LearnedForesight, TrueForesight
    from gatel0rd.planning.icem import ICEM, ICEMConfig, Objective, plain_cem, random_shooting
    from gatel0rd.planning.learn_config import LearnConfig
    from gatel0rd.planning.learning import learn
    from gatel0rd.planning.mpc import Episodes, control
    from gatel0rd.planning.noise import colored_noise
    from gatel0rd.planning.tasks import ControlTask

__all__ = [
    "ICEM",
    "AuditedPlans",
    "CategoricalICEM",
    "ControlTask",
    "CorrectedForesight",
    "Diagnosis",
    "DynamicsConfig",
    "Episodes",
    "Foresight",
    "GymnasiumTask",
    "HideColumns",
    "ICEMConfig",
    "LearnConfig",
    "LearnedForesight",
    "Objective",
    "PlanAudit",
    "TrueForesight",
    "colored_noise",
    "control",
    "control_environment",
    "learn",
    "plain_cem",
    "random_shooting",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "AuditedPlans": "audit",
        "ControlTask": "tasks",
        "CategoricalICEM": "categorical",
        "Diagnosis": "diagnosis",
        "DynamicsConfig": "dynamics",
        "HideColumns": "experience",
        "LearnConfig": "learn_config",
        "learn": "learning",
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
