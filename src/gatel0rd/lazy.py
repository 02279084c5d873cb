"""Packages whose names are loaded when they are first used, so that importing a package costs nothing.

A package keeps its imports below ``if TYPE_CHECKING:``, where type checkers read them, and repeats them as a table::

    __all__ = ["Trainer"]
    __getattr__, __dir__ = load_lazily(__name__, {"Trainer": "trainer"})
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def load_lazily(
    package: str, homes: Mapping[str, str], *, plain: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its full name.
        homes: name -> the module below the package that has it, as in ``"models.io"``, or ``"models.io:load_fitted"``
            where it has another name there. A name that is its own home is that module itself: once it is imported, it
            hides everything else of its name.
        plain: names that the package defines itself, to be listed too.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, other = homes[name].partition(":")
        module = importlib.import_module(f"{package}.{home}")
        return module if home == name else getattr(module, other or name)

    return get, lambda: sorted((*homes, *plain))
