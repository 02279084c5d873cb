"""The compiled core: programs of recurrent models, run in C++ inside ordinary autograd."""

from gatel0rd.engine.compiled import Compiled, ProgramCache, Results
from gatel0rd.engine.eligibility import SlowPathWarning, can_run, find_layout
from gatel0rd.engine.native import (
    EngineName,
    EngineUnavailableError,
    check_name,
    instruction_sets,
    is_available,
    status,
    use_instruction_set,
)

__all__ = [
    "Compiled",
    "EngineName",
    "EngineUnavailableError",
    "ProgramCache",
    "Results",
    "SlowPathWarning",
    "can_run",
    "check_name",
    "find_layout",
    "instruction_sets",
    "is_available",
    "status",
    "use_instruction_set",
]
