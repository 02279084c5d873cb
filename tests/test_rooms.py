"""Which room may import which: the arrows of the codebase."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gatel0rd

ROOT = Path(gatel0rd.__file__).parent
ALLOWED = {
    "config": set(),
    "files": set(),
    "functional": set(),
    "mlp": set(),
    "program": set(),
    "cells": {"config", "functional", "mlp", "program"},
    "unroll": {"cells"},
    "engine": {"cells", "config", "program", "unroll"},
    "nn": {"cells", "config", "engine"},
    "models": {"cells", "config", "engine", "files", "mlp", "program", "unroll"},
    "envs": set(),
    "data": {"config", "envs", "files", "planning"},
    "training": {"cells", "config", "data", "engine", "envs", "files", "functional", "models"},
    "planning": {"cells", "config", "envs", "mlp", "models"},
    "analysis": {"files"},
    "experiments": {"analysis", "config", "data", "engine", "envs", "files", "models", "planning", "training"},
    "bench": {"bench_jax", "bench_rl", "config", "engine", "envs", "models", "nn", "planning", "training"},
    "bench_jax": {"config", "models"},
    "bench_rl": {"config", "envs", "functional", "models", "training"},
    "segmenter": {"analysis", "config", "data", "files", "models", "training"},
    "explore": {"analysis", "cells", "config", "data", "envs", "models"},
    "export": {"files", "models", "program"},
    "sb3": {"cells", "config", "engine", "functional"},
    "__main__": {"cli"},
    "cli": {
        "analysis",
        "bench",
        "config",
        "data",
        "engine",
        "experiments",
        "explore",
        "export",
        "files",
        "models",
        "segmenter",
        "training",
    },
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gatel0rd"):
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {name.name.split(".")[1] for name in node.names if name.name.startswith("gatel0rd.")}
    return rooms - {"__version__"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_doors_open_one_way(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert imported_rooms(path) - {room} <= ALLOWED[room]
