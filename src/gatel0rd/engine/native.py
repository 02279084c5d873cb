"""The compiled core: is it there, and which one."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from typing import Any, Literal

EngineName = Literal["auto", "native", "torch"]
ENGINES = ("auto", "native", "torch")


class EngineUnavailableError(RuntimeError):
    """The compiled engine was asked for and cannot be used; the message says why."""


@functools.cache
def _load() -> tuple[Any, str]:
    """The compiled module, or None and the reason why there is none."""
    other = os.environ.get("GATEL0RD_NATIVE")  # another build of the module, for sanitizers
    try:
        if other is None:
            return importlib.import_module("gatel0rd.engine._native"), ""
        spec = importlib.util.spec_from_file_location("gatel0rd.engine._native", other)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, ""
    except ImportError as error:
        return None, f"it was not built when the package was installed ({error})"


def module() -> Any:
    """The compiled module; :class:`EngineUnavailableError` without one."""
    found, reason = _load()
    if found is None:
        raise EngineUnavailableError(f"there is no compiled engine: {reason}; install a C++ compiler and reinstall")
    return found


def is_available() -> bool:
    return _load()[0] is not None


@functools.cache
def warn_once() -> None:
    """Say, the first time only, that PyTorch does the work."""
    warnings.warn(
        f"gatel0rd runs without its compiled engine, many times slower: {_load()[1]}. Install a C++ compiler and "
        "reinstall gatel0rd, or choose engine='torch' to silence this.",
        RuntimeWarning,
        stacklevel=3,
    )


def status() -> dict[str, Any]:
    """Which engine is active, and why."""
    found, reason = _load()
    if found is None:
        return {"engine": "torch", "why": f"no compiled engine: {reason}"}
    return {
        "engine": "native",
        "why": "the compiled engine is there; CPU tensors of float32 and float64 use it",
        "instruction_set": found.instruction_set(),
        "available": found.available(),
    }


def check_name(engine: str) -> None:
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; expected {', '.join(ENGINES)}")
