"""The compiled core: programs of recurrent models, run in C++ inside ordinary autograd."""

from gatel0rd.engine.compiled import Compiled, ProgramCache, Results, can_run
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
    "can_run",
    "check_name",
    "instruction_sets",
    "is_available",
    "status",
    "use_instruction_set",
]
