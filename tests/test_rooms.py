"""Which room may import which: the arrows of the codebase."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gatel0rd

ROOT = Path(gatel0rd.__file__).parent
EVERYWHERE = {"config", "errors", "files", "lazy", "streams", "tables"}
"""Modules without a room: plain configurations, kinds of errors, files, lazy imports, output, and tables of text."""
ALLOWED = {
    "config": set(),
    "errors": set(),
    "files": set(),
    "lazy": set(),
    "streams": set(),
    "tables": set(),
    "engine": set(),
    "nn": {"engine"},
    "models": {"engine", "nn"},
    "planning": {"models", "nn", "training"},
    "training": {"engine", "models", "nn"},
    "worlds": {"models", "nn", "planning", "training"},
    "recordings": {"engine", "models", "nn", "training", "worlds"},
    "explore": {"models", "nn", "recordings", "training", "worlds"},
    "integrations": {"engine", "models", "nn"},
    "paper": {"engine", "models", "nn", "planning", "training", "worlds"},
    "cli": {"engine", "explore", "integrations", "models", "paper", "planning", "recordings", "training", "worlds"},
    "__main__": {"cli"},
}
"""Room -> the rooms that it may import, besides :data:`EVERYWHERE`. Nothing imports the command line."""


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """The rooms that a file names in imports, or in strings and f-strings that begin like a module of ours."""
    rooms = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "gatel0rd":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {name.name.split(".")[1] for name in node.names if name.name.startswith("gatel0rd.")}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            text = ast.unparse(node.args[0]).lstrip("f").strip("'\"")
            if text.startswith("gatel0rd."):
                rooms |= {text.split(".")[1]}
    return rooms - {"__version__"}


def test_all_kinds_of_imports_are_seen():
    source = """
from gatel0rd.a.b import c
import gatel0rd.d.e
from gatel0rd import f
import importlib
importlib.import_module(f"gatel0rd.g.{name}")
"""
    assert imported_rooms(source) == {"a", "d", "f", "g"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_doors_open_one_way(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert imported_rooms(path.read_text()) - {room} <= ALLOWED[room] | EVERYWHERE


def test_no_two_rooms_import_each_other():
    for room, others in ALLOWED.items():
        for other in others:
            assert room not in ALLOWED[other], f"{room} and {other}"


def test_no_two_classes_have_the_same_name():
    places: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
