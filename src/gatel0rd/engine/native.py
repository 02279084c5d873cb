"""The compiled core: whether it is there, and with which instruction set it runs."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from gatel0rd.engine.program import ACTIVATIONS, OPS

EngineName = Literal["auto", "native", "torch"]
"""Which implementation runs: the compiled one where it can, the compiled one or an error, or PyTorch's."""
ENGINES = ("auto", "native", "torch")
INSTRUCTION_SETS = ("baseline", "avx2", "avx512")
INSTRUCTION_SET_VARIABLE = "GATEL0RD_ISA"
REINSTALL = "pip install --no-cache-dir --force-reinstall --no-deps gatel0rd"
"""``--no-cache-dir``, as pip keeps the wheel that was built without a compiler and would install it again."""


class EngineUnavailableError(RuntimeError):
    """The compiled engine was asked for and cannot be used; the message says why.

    Example:
        >>> import torch
        >>> from gatel0rd import GateL0RD
        >>> from gatel0rd.engine import EngineUnavailableError
        >>> try:
        ...     GateL0RD(3, 2, engine="native", dtype=torch.bfloat16)(torch.zeros(7, 5, 3, dtype=torch.bfloat16))
        ... except EngineUnavailableError as error:
        ...     print(str(error).partition(":")[0])
        engine='native' cannot be used
    """


@functools.cache
def _load() -> tuple[Any, str]:
    """The compiled module, or None and the reason why there is none."""
    other = os.environ.get("GATEL0RD_NATIVE")  # another build of the module, for sanitizers
    try:
        if other is None:
            module = importlib.import_module("gatel0rd.engine._native")
        else:
            spec = importlib.util.spec_from_file_location("gatel0rd.engine._native", other)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    except ImportError as error:
        return None, f"it was not built when the package was installed ({error})"
    reason = compare_names(module)
    if reason:
        return None, reason
    wanted = os.environ.get(INSTRUCTION_SET_VARIABLE)
    if wanted:
        check_instruction_set(wanted, module.available())
        module.use(wanted)
    return module, ""


def compare_names(module: Any) -> str:
    """Why a compiled module does not go with this package: its operations are others. Empty if they are the same."""
    for kind, ours, theirs in (
        ("operations", OPS, getattr(module, "OPS", ())),
        ("activations", ACTIVATIONS, getattr(module, "ACTIVATIONS", ())),
    ):
        different = sorted(set(ours) ^ set(theirs))
        if different:
            return f"it was built from another version of the package, the {kind} {', '.join(different)} differ"
    return ""


def check_instruction_set(name: str, available: list[str]) -> None:
    """A name that is unknown, or an instruction set that this machine does not have, is a ValueError."""
    if name not in INSTRUCTION_SETS:
        raise ValueError(f"{INSTRUCTION_SET_VARIABLE} is {name!r}; expected one of {', '.join(INSTRUCTION_SETS)}")
    if name not in available:
        raise ValueError(
            f"{INSTRUCTION_SET_VARIABLE} is {name!r}, which this machine or this build does not have; "
            f"expected one of {', '.join(available)}"
        )


def module() -> Any:
    """The compiled module; :class:`EngineUnavailableError` without one."""
    found, reason = _load()
    if found is None:
        raise EngineUnavailableError(
            f"there is no compiled engine: {reason}; install a C++ compiler, then `{REINSTALL}`"
        )
    return found


def is_available() -> bool:
    """Whether there is a compiled engine; :func:`status` says why not.

    Example:
        >>> from gatel0rd.engine import is_available
        >>> is_available() in (True, False)
        True
    """
    return _load()[0] is not None


def op_numbers() -> dict[str, int]:
    """The compiled module's numbers of operations, by name."""
    return {name: number for number, name in enumerate(module().OPS)}


def activation_numbers() -> dict[str, int]:
    """The compiled module's numbers of activations, by name."""
    return {name: number for number, name in enumerate(module().ACTIVATIONS)}


def instruction_sets() -> list[str]:
    """The instruction sets that can be used here, the widest last; none without a compiled engine.

    Where ``GATEL0RD_ISA`` names one, it is the only one.

    Example:
        >>> from gatel0rd.engine import instruction_sets
        >>> set(instruction_sets()) <= {"baseline", "avx2", "avx512"}
        True
    """
    if not is_available():
        return []
    return [os.environ[INSTRUCTION_SET_VARIABLE]] if os.environ.get(INSTRUCTION_SET_VARIABLE) else module().available()


@contextmanager
def use_instruction_set(name: str) -> Iterator[None]:
    """Run with this instruction set for a while; not between a forward pass and its backward pass.

    Example:
        >>> from gatel0rd.engine import instruction_sets, status, use_instruction_set
        >>> for name in instruction_sets():
        ...     with use_instruction_set(name):
        ...         assert status()["instruction_set"] == name
    """
    found = module()
    check_instruction_set(name, found.available())
    before = found.instruction_set()
    found.use(name)
    try:
        yield
    finally:
        found.use(before)


@functools.cache
def warn_once() -> None:
    """Say, the first time only, that PyTorch does the work."""
    warnings.warn(
        f"gatel0rd runs without its compiled engine, many times slower: {_load()[1]}. Install a C++ compiler, then "
        f"`{REINSTALL}`; or choose engine='torch' to silence this.",
        RuntimeWarning,
        stacklevel=3,
    )


def status() -> dict[str, Any]:
    """Which engine is active, and why.

    Example:
        >>> from gatel0rd.engine import status
        >>> status()["engine"] in ("native", "torch")
        True
    """
    found, reason = _load()
    if found is None:
        return {
            "engine": "torch",
            "why": f"no compiled engine: {reason}",
            "what_to_do": f"install a C++ compiler, then `{REINSTALL}`; pip keeps the wheel that was built without one",
        }
    forced = os.environ.get(INSTRUCTION_SET_VARIABLE)
    return {
        "engine": "native",
        "why": "the compiled engine is there; CPU tensors of float32 and float64 use it",
        "instruction_set": found.instruction_set(),
        "instruction_set_why": (
            f"{INSTRUCTION_SET_VARIABLE}={forced}"
            if forced
            else f"the widest that this machine has; {INSTRUCTION_SET_VARIABLE} chooses another"
        ),
        "available": found.available(),
    }


def check_name(engine: str) -> None:
    """Raise an error for a name that is not ``auto``, ``native`` or ``torch``.

    Example:
        >>> from gatel0rd.engine import check_name
        >>> check_name("auto")
    """
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; expected {', '.join(ENGINES)}")
