"""Packages that load their names when they are first used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gatel0rd.engine.in_graph import decide_once
from gatel0rd.lazy import load_lazily

ROOMS = [
    "gatel0rd",
    "gatel0rd.nn",
    "gatel0rd.models",
    "gatel0rd.training",
    "gatel0rd.training.ppo",
    "gatel0rd.planning",
]


def typed_imports(package) -> dict[str, tuple[str, str]]:
    """Name -> module and the name there, as type checkers see them."""
    found = {}
    for node in ast.walk(ast.parse(Path(package.__file__).read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for entry in node.body:
                assert isinstance(entry, ast.ImportFrom) and entry.module is not None
                found |= {alias.asname or alias.name: (entry.module, alias.name) for alias in entry.names}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_says_what_type_checkers_see(room):
    package = importlib.import_module(room)
    typed = typed_imports(package)
    assert set(typed) == set(package.__all__) - {"__version__"}
    assert dir(package) == sorted(package.__all__)
    for name, (module, other) in typed.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), other)
    for name in typed:  # loading a module may not hide a name of the package behind itself
        assert getattr(package, name) is getattr(importlib.import_module(typed[name][0]), typed[name][1])


def test_other_names_are_attribute_errors():
    get, list_names = load_lazily("gatel0rd.models", {"load": "io:load_fitted"}, plain=("Own",))
    with pytest.raises(AttributeError, match=r"module 'gatel0rd\.models' has no attribute 'lode'"):
        get("lode")
    assert get("load").__name__ == "load_fitted" and list_names() == ["Own", "load"]


def test_a_name_that_is_its_own_home_is_the_module():
    get, _ = load_lazily("gatel0rd.nn", {"functional": "functional", "retanh": "functional"})
    assert get("functional") is sys.modules["gatel0rd.nn.functional"]
    assert get("functional").retanh is get("retanh")


@pytest.mark.parametrize(
    "statement",
    [
        *(f"import {room}" for room in ROOMS),
        "import gatel0rd.training.config, gatel0rd.training.presets, gatel0rd.training.dataset, gatel0rd.planning.icem",
        "import gatel0rd.cli.main; gatel0rd.cli.main.main(['list'])",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(statement):
    code = f"{statement}\nimport sys\nsys.exit('torch' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_torch_compile_is_not_imported_before_it_is_needed():
    """It doubles the time that the layer takes to import."""
    code = (
        "import sys, torch\nfrom gatel0rd import GateL0RD\nimport gatel0rd.training\ngatel0rd.training.Trainer\n"
        "output, _ = GateL0RD(3, 2)(torch.ones(7, 5, 3))\noutput.sum().backward()\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_what_is_decided_once_has_torchs_mark_of_that():
    def ours() -> int:
        return 2

    def torchs() -> int:
        return 2

    assert vars(decide_once(ours)) == vars(torch.compiler.assume_constant_result(torchs)) != {}
