"""The compiled module: its names and those of Python, and the instruction set that it uses."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from gatel0rd import engine
from gatel0rd.engine import native
from gatel0rd.engine.program import ACTIVATIONS, OPS


@pytest.fixture
def load_again(monkeypatch):
    """Forget that the compiled module was loaded; afterwards everything is as it was."""
    module = native.module()
    before = module.instruction_set()
    native._load.cache_clear()
    yield
    monkeypatch.undo()
    native._load.cache_clear()
    module.use(before)
    assert native.is_available()


def test_the_compiled_module_has_the_operations_and_activations_of_python():
    module = native.module()
    assert sorted(module.OPS) == sorted(OPS) and sorted(module.ACTIVATIONS) == sorted(ACTIVATIONS)
    assert len(set(module.OPS)) == len(module.OPS)
    assert native.op_numbers()[module.OPS[3]] == 3 and native.activation_numbers()[module.ACTIVATIONS[2]] == 2


@pytest.mark.parametrize(
    ("ops", "activations", "reason"),
    [
        (OPS, ACTIVATIONS, ""),
        (OPS[::-1], ACTIVATIONS, ""),  # numbers are asked for by name, their order does not matter
        (OPS[1:], ACTIVATIONS, "the operations linear differ"),
        ((*OPS, "divide"), ACTIVATIONS, "the operations divide differ"),
        (OPS, ("gelu", *ACTIVATIONS[:-1]), "the activations gelu, relu differ"),
    ],
)
def test_a_module_with_other_names_is_refused(ops, activations, reason):
    found = native.compare_names(SimpleNamespace(OPS=ops, ACTIVATIONS=activations))
    assert found.endswith(reason) and bool(found) == bool(reason)
    assert not reason or found.startswith("it was built from another version of the package")


@pytest.mark.usefixtures("load_again")
def test_a_stale_module_is_not_used_and_the_reason_is_said(monkeypatch):
    monkeypatch.setattr("gatel0rd.engine._native.OPS", OPS[:-1])
    assert not native.is_available() and native.instruction_sets() == []
    assert "another version of the package, the operations sum_squares differ" in engine.status()["why"]


def test_numbers_of_no_operation_are_refused():
    section = native.module().Program().body
    value = section.value(2)
    for op, act in ((len(OPS), 0), (-1, 0), (0, len(ACTIVATIONS))):
        with pytest.raises(ValueError, match="an operation or an activation that does not exist"):
            section.instruction(op, act, value, -1, -1, -1, 0.0, -1, [], [], [])


@pytest.mark.usefixtures("load_again")
@pytest.mark.parametrize("name", engine.instruction_sets())
def test_the_environment_chooses_the_instruction_set(monkeypatch, name):
    monkeypatch.setenv("GATEL0RD_ISA", name)
    found = engine.status()
    assert found["instruction_set"] == name and found["instruction_set_why"] == f"GATEL0RD_ISA={name}"
    assert engine.instruction_sets() == [name]


@pytest.mark.usefixtures("load_again")
def test_an_unknown_instruction_set_is_an_error(monkeypatch):
    monkeypatch.setenv("GATEL0RD_ISA", "mmx")
    for _ in range(2):  # not the first time only
        with pytest.raises(ValueError, match="GATEL0RD_ISA is 'mmx'; expected one of baseline, avx2, avx512"):
            engine.status()


def test_an_instruction_set_that_is_not_there_is_an_error():
    with pytest.raises(
        ValueError, match="'avx512', which this machine or this build does not have; expected one of base"
    ):
        native.check_instruction_set("avx512", ["baseline", "avx2"])
    with (
        pytest.raises(ValueError, match="is 'abacus'; expected one of baseline, avx2, avx512"),
        engine.use_instruction_set("abacus"),
    ):
        pass
    with pytest.raises(ValueError, match="no instruction set 'abacus'"):
        native.module().use("abacus")


def test_the_instruction_set_is_changed_for_a_while_only(monkeypatch):
    monkeypatch.delenv("GATEL0RD_ISA", raising=False)
    before = engine.status()["instruction_set"]
    with engine.use_instruction_set("baseline"):
        assert engine.status()["instruction_set"] == "baseline"
    found = engine.status()
    assert found["instruction_set"] == before
    assert found["instruction_set_why"] == "the widest that this machine has; GATEL0RD_ISA chooses another"


def test_the_wheel_without_an_engine_says_so_and_what_to_do():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (fallback,) = (part for part in project["tool"]["scikit-build"]["overrides"] if part["if"] == {"failed": True})
    assert fallback["wheel"] == {"cmake": False, "build-tag": "0without_compiled_engine"}
    assert native.REINSTALL in fallback["messages"]["after-success"]
