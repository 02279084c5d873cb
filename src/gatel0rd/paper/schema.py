"""Runs as plain data in records and model files, and how those of older versions become those of this one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gatel0rd.config import from_json, to_json
from gatel0rd.files import FileError
from gatel0rd.paper.agent_run import AgentRun
from gatel0rd.paper.memory_run import MemoryRun
from gatel0rd.paper.run import SCHEMA, Run
from gatel0rd.paper.world_model_run import WorldModelRun

Content = dict[str, Any]
AnyRun = TypeVar("AnyRun", bound=Run)
KINDS: dict[str, type[Run]] = {kind.kind: kind for kind in (WorldModelRun, AgentRun, MemoryRun)}

RENAMED: dict[int, dict[str, dict[str, str]]] = {
    3: {
        "ppo": {
            "discount": "gamma",
            "trace": "gae_lambda",
            "clip": "clip_coef",
            "entropy_weight": "ent_coef",
            "value_weight": "vf_coef",
        }
    }
}
"""Schema that has the new names -> part of the run (``""``: the run itself) -> old name of a field -> its new name.

A field was renamed? Raise ``SCHEMA`` in :mod:`gatel0rd.paper.run`, add a line here, and run `gatel0rd migrate results`.
"""


def describe_run(run: Run) -> Content:
    """A run as plain data, with what it takes to read it again."""
    return {"schema": SCHEMA, "kind": run.kind, "run": to_json(run)}


def read_run(content: Content, source: Path, kind: type[AnyRun]) -> AnyRun:
    """The run that a record or a model file describes, also one of an older version.

    Args:
        content: the record, or the metadata of the model file.
        source: where it is from, for errors.
        kind: what is expected.
    """
    if "run" not in content:
        raise FileError(f"{source} does not say which run it is from; give the directory of a finished run")
    current = upgrade(content, source)
    if KINDS[current["kind"]] is not kind:
        raise FileError(f"{source} is of a run of the kind {current['kind']}; expected {kind.kind}")
    return parse_run(current, source, kind)


def parse_run(content: Content, source: Path, kind: type[AnyRun]) -> AnyRun:
    """The run in what has this version's schema; every field has to be there."""
    try:
        run = from_json(kind, content["run"])
    except (TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{source} does not hold a run of this version ({error}); restore it or run again") from error
    if to_json(run) != content["run"]:  # a field that is left out would get today's default, whatever was used then
        missing = ", ".join(_missing(to_json(run), content["run"])) or "a field in its right form"
        raise FileError(f"{source} lacks {missing} of its run; restore it or run again")
    return run


def upgrade(content: Content, source: Path) -> Content:
    """A record, or the metadata of a model file, as this version writes it; the same object if it is up to date."""
    schema = content.get("schema", 1)
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise FileError(
            f"{source} has schema {schema!r}; this version reads 1 to {SCHEMA}, so update gatel0rd, or restore the file"
        )
    try:
        for version in range(schema, SCHEMA):
            content = copy.deepcopy(content)
            content = STEPS[version](content) if version in STEPS else content
            content["run"] = rename_fields(content["run"], RENAMED.get(version + 1, {}))
            content["schema"] = version + 1
        if content["kind"] not in KINDS:
            raise KeyError(f"kind {content['kind']!r}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FileError(
            f"{source} is not a record or model of a run ({error!r}); restore it, or delete it and run again"
        ) from error
    return content


def rename_fields(run: Content, names: dict[str, dict[str, str]]) -> Content:
    """The same values under new names, in their order."""
    own = names.get("", {})
    return {own.get(name, name): _with_names(value, names.get(name, {})) for name, value in run.items()}


def _with_names(value: Any, names: dict[str, str]) -> Any:
    return {names.get(name, name): entry for name, entry in value.items()} if isinstance(value, dict) else value


def _missing(complete: Content, given: Content, place: str = "") -> list[str]:
    """The fields that are not given, as ``part.field``."""
    found = []
    for name, value in complete.items():
        if name not in given:
            found.append(f"{place}{name}")
        elif isinstance(value, dict) and isinstance(given[name], dict):
            found += _missing(value, given[name], f"{place}{name}.")
    return found


def _from_1(content: Content) -> Content:
    """Schema 1 did not say what a run trains, and wrote an overridden length behind the name of the profile.

    Its identity left out fields at their default value. Generators had no version at first, which was the first one.
    """
    run = content["run"]
    kind = "agent" if "frames" in run else "world model"
    profile, _, override = run["profile"].partition(", ")
    run = {**run, "profile": profile, "length_override": int(override.split()[0]) if override else None}
    if kind == "world model":
        run["train_data"].setdefault("version", 1)
        for recipe in (*run["evaluation_data"], *run["validation_data"]):
            recipe.setdefault("version", 1)
    return {"schema": 2, "kind": kind, **content, "run": run}


def _from_2(content: Content) -> Content:
    """Schema 2 had another name for the planner's first standard deviation."""
    planning = content.get("planning", {})
    if "planner" in planning:
        planning["planner"] = _with_names(planning["planner"], {"initial_deviation": "initial_std"})
    return content


STEPS: dict[int, Callable[[Content], Content]] = {1: _from_1, 2: _from_2}
"""Schema -> how its content becomes that of the next one, where more changes than the names of fields."""
