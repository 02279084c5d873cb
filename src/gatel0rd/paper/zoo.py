"""The zoo's entries: what `gatel0rd zoo` lists, and how a finished run becomes one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.nn import Module

from gatel0rd.files import FileError, checksum, load_arrays, read_header, write_sealed_json
from gatel0rd.models.io import AGENT_FILE, MODEL_FILE, load_agent, load_model, model_arrays, save_agent, save_model
from gatel0rd.models.zoo import PREFIX, RECORD_FILE, ZOO, zoo_names
from gatel0rd.paper.agent_run import AgentRun
from gatel0rd.paper.plan import experiments
from gatel0rd.paper.records import Record, read_record
from gatel0rd.paper.run import Run
from gatel0rd.paper.schema import KINDS, describe_run, parse_run, upgrade
from gatel0rd.worlds import registry
from gatel0rd.worlds.experiments import AgentExperiment
from gatel0rd.worlds.metrics import short_name

LARGEST = 400_000
"""Bytes of an entry, so that the package stays small."""
LEFT_OUT = ("curves",)
"""Parts of a record that an entry leaves out, as it does the examples among the measures; ``results/`` has them."""


@dataclass(frozen=True)
class ZooEntry:
    """A trained model that comes with the package."""

    name: str
    record: Record
    run: Run

    @property
    def file(self) -> Path:
        """Its weights."""
        return ZOO / self.name / (AGENT_FILE if isinstance(self.run, AgentRun) else MODEL_FILE)

    @property
    def size(self) -> int:
        """Bytes of its weights and its record."""
        return self.file.stat().st_size + self.record.path.stat().st_size

    @property
    def world(self) -> str:
        """Where it was trained, for people."""
        title = registry.get(self.run.scenario).title
        return f"{title} {short_name(self.run.environment)}" if isinstance(self.run, AgentRun) else title

    @property
    def scale(self) -> str:
        """How long it was trained, for people: the share of the paper's gradient steps, or frames of an agent."""
        if isinstance(self.run, AgentRun):
            return f"{self.run.frames / 1e6:g}M frames"
        return "unknown" if self.run.share is None else f"{self.run.share:.1%}".replace(".0%", "%")

    @property
    def numbers(self) -> dict[str, float]:
        """What its record says about it, name -> number."""
        read = read_agent_numbers if isinstance(self.run, AgentRun) else read_model_numbers
        return dict(read(self.record.content))

    def describe(self) -> dict[str, Any]:
        """The entry as plain data."""
        return {
            "name": PREFIX + self.name,
            "world": self.world,
            "cell": self.run.network,
            "share_of_paper": self.run.share,
            "length": self.run.length,
            "unit": self.run.unit,
            "preset": self.run.preset,
            "seed": self.run.seed,
            "parameters": self.record.content["parameters"],
            "bytes": self.size,
            "numbers": self.numbers,
            "commit": self.record.content["code"]["commit"],
        }


def read_model_numbers(content: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Errors, gates and planning of a world model, as far as its record has them."""
    for dataset, name in (("test", "test error"), ("generalization", "generalization error")):
        if dataset in content["final"]:
            yield name, float(content["final"][dataset]["error"])
    gating = content.get("measures", {}).get("gating") or {}
    if "hits" in gating:
        yield "hits", float(gating["hits"])
        yield "false alarms", float(gating["false_alarms"])
    elif "real inputs" in gating:
        yield "open times", float(gating["real inputs"]["open_times"])
        yield "event recall", float(gating["real inputs"]["events"]["any"]["3"]["recall"])
    planning = content.get("planning", {"epochs": []})
    if content["run"]["train"]["epochs"] in planning["epochs"]:  # and not only those in the course of training
        yield "planning success", float(planning["success"][-1])


def read_agent_numbers(content: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """How often an agent succeeds, where it was trained and elsewhere."""
    for environment, measures in content["final"].items():
        if measures["success"] is not None:
            yield f"success in {short_name(environment)}", float(measures["success"])


def list_entries() -> list[ZooEntry]:
    """All entries, by name."""
    return [read_entry(name) for name in zoo_names()]


def read_entry(name: str) -> ZooEntry:
    """The entry of this name."""
    record = read_record(ZOO / name / RECORD_FILE)
    return ZooEntry(name, record, parse_run(record.content, record.path, KINDS[record.kind]))


def name_run(run: Run) -> str:
    """What a run is called in the zoo: the world, or an agent's experiment, and the network."""
    place = run.scenario
    if isinstance(run, AgentRun):
        known = [entry for entry in experiments().values() if isinstance(entry, AgentExperiment)]
        found = next((entry for entry in known if entry.environment == run.environment), None)
        place = short_name(run.environment).lower() if found is None else found.id.partition("/")[2]
    return f"{place}/{run.network}"


def add_entry(directory: Path, name: str | None = None) -> ZooEntry:
    """Make an entry from the directory of a finished run, also of an older version; one of the same name is replaced.

    Args:
        directory: where the run left its weights and its record; it is only read.
        name: of the entry, ``place/network``; by default what :func:`name_run` says.
    """
    path = directory / RECORD_FILE
    if not path.exists():
        raise FileError(f"there is no {path}; expected the directory of a finished run")
    content = upgrade(read_record(path).content, path)
    run = parse_run(content, path, KINDS[content["kind"]])
    name = name_run(run) if name is None else name
    if name.count("/") != 1:
        raise ValueError(f"the name is {name!r}; expected a place and a network, as in rrc/gatel0rd")
    target = ZOO / name
    if isinstance(run, AgentRun):
        agent = load_agent(directory)[0]
        if not holds_run(target / AGENT_FILE, agent, run):
            save_agent(target / AGENT_FILE, agent, describe_run(run))
    else:
        model = load_model(directory)
        if not holds_run(target / MODEL_FILE, model, run):
            save_model(target / MODEL_FILE, model, describe_run(run))
    write_sealed_json(target / RECORD_FILE, shorten_record({**content, "group": run.group}))
    entry = read_entry(name)
    if entry.size > LARGEST:
        raise FileError(f"{target} has {entry.size} bytes; expected at most {LARGEST}, so delete it")
    return entry


def holds_run(file: Path, model: Module, run: Run) -> bool:
    """Whether a file has these weights of this run already: the same content may have other bytes, and is in git."""
    if not file.exists():
        return False
    kind, metadata = read_header(file)
    same_run = describe_run(run).items() <= metadata.items()
    return same_run and checksum(load_arrays(file, kind=kind)[0]) == checksum(model_arrays(model))


def shorten_record(content: dict[str, Any]) -> dict[str, Any]:
    """A record without what makes it long."""
    kept: dict[str, Any] = json.loads(json.dumps({k: v for k, v in content.items() if k not in LEFT_OUT}))
    kept.get("measures", {}).pop("examples", None)
    return kept
