"""The reference: every public name has a place in it and an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "api").glob("*.md"))
PUBLIC = (
    "gatel0rd",
    "gatel0rd.nn",
    "gatel0rd.nn.functional",
    "gatel0rd.models",
    "gatel0rd.training",
    "gatel0rd.training.ppo",
    "gatel0rd.planning",
    "gatel0rd.worlds",
    "gatel0rd.worlds.data",
    "gatel0rd.recordings",
    "gatel0rd.explore",
    "gatel0rd.engine",
    "gatel0rd.integrations.onnx",
    "gatel0rd.integrations.sb3",
)
"""The modules whose ``__all__`` is the public surface."""


def public_objects() -> dict[int, tuple[str, object]]:
    """Everything public, each object once, under the shortest name that it has."""
    found: dict[int, tuple[str, object]] = {}
    for module in PUBLIC:
        room = importlib.import_module(module)
        for name in room.__all__:
            value = getattr(room, name)
            if not isinstance(value, ModuleType) and name != "__version__":
                found.setdefault(id(value), (f"{module}.{name}", value))
    return found


OBJECTS = dict(public_objects().values())
DOCUMENTED = [path for page in PAGES for path in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]


def find(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_has_one_place_in_the_reference():
    assert len(OBJECTS) > 100
    places = [id(find(path)) for path in DOCUMENTED]
    assert len(places) == len(set(places))
    missing = [path for path, value in OBJECTS.items() if id(value) not in places]
    assert not missing and len(places) == len(OBJECTS)


@pytest.mark.parametrize(
    "path", [path for path, value in OBJECTS.items() if inspect.isclass(value) or inspect.isroutine(value)]
)
def test_the_example_in_the_docstring_runs(path, tmp_path, monkeypatch):
    """With nothing but what it imports itself."""
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(OBJECTS[path]) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, path, None, None)
    assert example.examples, f"{path} has no example in its docstring"
    assert not any(doctest.SKIP in one.options for one in example.examples), f"an example of {path} is skipped"
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed == 0
