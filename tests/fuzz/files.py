"""Damaged and crafted files: a clear error of our own, or exactly what the undamaged file gives.

Files are damaged as disks and networks do it (flipped bits, lost ends, foreign blocks) and must not be read as anything
else. Those that are crafted, with a new checksum, may say something else, but nothing that breaks the reader.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz.driver import BrokenPromiseError, Target
from fuzz.mutations import damage_bytes, damage_json, spell_json
from safetensors.numpy import save
from small_models import small_model

from gatel0rd.config import to_json
from gatel0rd.files import FileError, checksum, load_arrays, read_header, read_json, write_sealed_json
from gatel0rd.files import _seal as seal_arrays
from gatel0rd.models import (
    ActorCritic,
    ActorCriticConfig,
    identify,
    load_agent,
    load_fitted,
    load_model,
    save_agent,
    save_fitted,
    save_model,
)
from gatel0rd.models.config import SequenceModelConfig, WorldModelConfig
from gatel0rd.models.io import load_sequence_model, model_arrays, save_sequence_model
from gatel0rd.models.sequence_model import SequenceModel
from gatel0rd.paper import apex
from gatel0rd.paper.execute import check_resumable, is_complete
from gatel0rd.paper.plan import experiments
from gatel0rd.paper.records import Record, load_records, read_record
from gatel0rd.paper.report.judge import judge_all
from gatel0rd.paper.report.make import describe_origin, introduce
from gatel0rd.paper.report.select import select_answers
from gatel0rd.paper.schema import KINDS, read_run
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.pilots import choose_transitions
from gatel0rd.training import DataRecipe, Dataset, TrainConfig, Trainer
from gatel0rd.worlds.data import generate
from gatel0rd.worlds.fetch_pick_and_place.apex import LearnedPolicy
from gatel0rd.worlds.parts import _file as part_file
from gatel0rd.worlds.parts import _kept as read_part
from gatel0rd.worlds.parts import _origin as part_origin

RECORDS = Path(__file__).parents[1] / "paper" / "old_records"
RESULTS = Path(__file__).parents[2] / "results"
RECIPE = DataRecipe(scenario="rrc", policy="time", split="train", sequences=6, steps=8)
FITTED_TO = from_arrays([np.arange(24.0).reshape(12, 2)])


@dataclass(frozen=True)
class Specimen:
    """Files that are read together.

    Attributes:
        files: the names of those that are damaged, one at a time.
        load: reads them, and says what they hold as something that can be compared.
    """

    files: tuple[str, ...]
    load: Callable[[Path], Any]


def describe_module(module: torch.nn.Module) -> str:
    return checksum(model_arrays(module))


def describe_fitted(place: Path) -> Any:
    fitted = load_fitted(place)
    identify(place)
    plain = replace(fitted, model=None, variants=())  # type: ignore[arg-type]
    return describe_module(fitted.model), repr(plain), [checksum(own) for own in fitted.variants]


def describe_agent(place: Path) -> Any:
    agent, metadata = load_agent(place)
    return describe_module(agent), json.dumps(metadata)


def describe_dataset(place: Path) -> Any:
    data = Dataset.load(place / "data.safetensors", scenario="rrc")
    arrays = {"o": data.observations, "a": data.actions, "s": data.strata, **data.labels}
    return checksum(arrays), repr(data.recipe)


def make_trainer(place: Path) -> Trainer:
    config = WorldModelConfig(observation_size=4, action_size=2, feature_size=3)
    data = generate(RECIPE)
    return Trainer(config, TrainConfig(epochs=2), data, {"test": data}, seed=0, directory=place, engine="torch")


def describe_training(place: Path) -> Any:
    trainer = make_trainer(place)
    state = trainer.stepper.read_optimizer()
    parts = {"first": state.exp_avg, "second": state.exp_avg_sq}
    moments = {f"{part}.{name}": tensor.numpy() for part, own in parts.items() for name, tensor in own.items()}
    history = [{name: value for name, value in line.items() if name != "seconds"} for line in trainer.history]
    return trainer.completed, history, state.steps, describe_module(trainer.model), checksum(moments)


def describe_record(place: Path) -> Any:
    """The record, after everything that a report does with it, short of pictures."""
    damaged: list[str] = []
    records = load_records([place], damaged)
    if damaged:
        raise FileError(damaged[0])
    (record,) = records
    exercise_record(record)
    return json.dumps(record.content, sort_keys=True)


def exercise_record(record: Record) -> None:
    """Everything that a report does with a record, short of pictures."""
    chosen = list(experiments().values())
    answers = select_answers(chosen, [record], named=False)
    judge_all(chosen, [record])
    introduce(answers, [record])
    describe_origin([record])
    _ = record.scale, record.share, record.length


def describe_comparison(place: Path) -> Any:
    return repr(apex.section(place / "apex.json"))


def describe_policy(place: Path) -> Any:
    return describe_module(apex.load_policy(place / "policy.safetensors"))


def describe_config(place: Path) -> Any:
    """Whether an unfinished run may be continued."""
    record = read_record(RECORDS_OF_RUNS[0])
    run = read_run(record.content, record.path, KINDS[record.kind])
    check_resumable(run, place, resume=True)
    return is_complete(run, place)


def describe_pilots(place: Path) -> Any:
    return choose_transitions(FITTED_TO, FitConfig(objective="follow"), place).transitions


def describe_part(place: Path) -> Any:
    part = read_part(RECIPE, place, 0)
    if part is None:
        raise FileError("the part is made again")
    return checksum(part)


RECORDS_OF_RUNS = sorted(RESULTS.glob("rrc/*/record.json"))[:1] + sorted(RESULTS.glob("memory/*/record.json"))[:1]
RECORDS_OF_RUNS += sorted(RESULTS.glob("minigrid/*/record.json"))[:1]
SPECIMENS = {
    "model": Specimen(("model.safetensors",), lambda place: describe_module(load_model(place))),
    "fitted": Specimen(("model.safetensors", "model.json", "variants.safetensors"), describe_fitted),
    "agent": Specimen(("agent.safetensors",), describe_agent),
    "sequence": Specimen(("model.safetensors",), lambda place: describe_module(load_sequence_model(place))),
    "dataset": Specimen(("data.safetensors",), describe_dataset),
    "part": Specimen(("00000.safetensors",), describe_part),
    "training": Specimen(("checkpoint.safetensors", "metrics.jsonl"), describe_training),
    **{f"record {number}": Specimen(("record.json",), describe_record) for number in range(len(RECORDS_OF_RUNS))},
    "comparison": Specimen(("apex.json",), describe_comparison),
    "policy": Specimen(("policy.safetensors",), describe_policy),
    "config": Specimen(("config.json",), describe_config),
    "pilots": Specimen(("pilots.json",), describe_pilots),
}


def make_specimens(place: Path) -> None:
    """A directory of undamaged files for each specimen."""
    torch.manual_seed(0)
    for name in SPECIMENS:
        (place / name).mkdir()
    fitted = small_model()
    save_model(place / "model" / "model.safetensors", fitted.model, {"run": {"seed": 3}, "note": "λ"})
    weights = model_arrays(fitted.model)
    variants = (weights, {name: array * 2 for name, array in weights.items()})
    curve = [{"events": 3, "error": 0.25}, {"events": 5, "error": 0.125}]
    save_fitted(place / "fitted", replace(fitted, info={"curve": curve, "layout": {}}, variants=variants))
    agent = ActorCritic(ActorCriticConfig(observation_shape=(3,), actions=2))
    save_agent(place / "agent" / "agent.safetensors", agent, {"environment": "Pendulum-v1"})
    network = SequenceModel(SequenceModelConfig(input_size=3, output_size=2))
    save_sequence_model(place / "sequence" / "model.safetensors", network)
    data = generate(RECIPE)
    shutil.move(data.save(place / "dataset"), place / "dataset" / "data.safetensors")
    arrays, _ = load_arrays(place / "dataset" / "data.safetensors", kind="dataset")
    write_arrays(part_file(place / "part", 0), arrays, "part", json.dumps(part_origin(RECIPE)))
    make_trainer(place / "training").run()
    for number, path in enumerate(RECORDS_OF_RUNS):
        write_sealed_json(place / f"record {number}" / "record.json", read_record(path).content)
    write_sealed_json(place / "comparison" / "apex.json", read_json(next(RESULTS.rglob("apex.json"))))
    apex.save_policy(place / "policy" / "policy.safetensors", LearnedPolicy(torch.Generator().manual_seed(0)))
    record = read_record(RECORDS_OF_RUNS[0])
    write_sealed_json(
        place / "config" / "config.json", to_json(read_run(record.content, record.path, KINDS[record.kind]))
    )
    write_sealed_json(
        place / "pilots" / "pilots.json", {"transitions": 2, "candidates": [1, 2, 4], "errors": [[0.5]] * 3}
    )


def write_arrays(path: Path, arrays: dict[str, Any], kind: str, metadata: str) -> None:
    """A file with a checksum that fits, whatever is in it."""
    header = {"kind": f"gatel0rd {kind}", "sha256": seal_arrays(kind, metadata, checksum(arrays)), "metadata": metadata}
    path.write_bytes(save(arrays, metadata=header))


def craft_arrays(rng: random.Random, path: Path) -> None:
    """A file that somebody made by hand: its checksum fits, its metadata or its arrays do not."""
    kind, metadata = read_header(path)
    arrays, _ = load_arrays(path, kind=kind)
    text = json.dumps(metadata)
    name = rng.choice(list(arrays))
    match rng.randrange(8):
        case 0:
            arrays[name] = arrays[name].astype(rng.choice(["f2", "f8", "i4", "u1", "?"]))
        case 1:
            arrays[name] = np.where(arrays[name] == arrays[name].flat[0], rng.choice([np.nan, np.inf]), arrays[name])
        case 2:
            arrays[rng.choice([f"{name}2", "", "7.x", "extra.x", "exp_avg.x", "label."])] = arrays.pop(name)
        case 3:
            arrays[name] = rng.choice([arrays[name][..., None], arrays[name][:0], arrays[name].ravel()])
        case _:
            text = spell_json(rng, damage_json(rng, metadata))
    write_arrays(path, arrays, rng.choice([kind] * 9 + ["model"]), text.encode("utf-8", "replace").decode())


def damage_header(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file whose header says something else about the bytes that follow."""
    size = int.from_bytes(data[:8], "little")
    header = spell_json(rng, damage_json(rng, json.loads(data[8 : 8 + size]))).encode("utf-8", "replace")
    length = len(header) if rng.random() < 0.8 else rng.choice([0, 7, 2**31, 2**63, 2**64 - 1, size])
    return length.to_bytes(8, "little") + header + data[8 + size :]


def craft_json(rng: random.Random, path: Path) -> None:
    """A JSON file with values of other kinds, and a checksum that fits."""
    content = json.loads(path.read_text())
    del content["sha256"]
    changed = damage_json(rng, content)
    if isinstance(changed, dict):
        text = json.dumps(changed, sort_keys=True)
        changed["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(spell_json(rng, changed))


class Files(Target):
    """Files of models, agents, data, trainings, records and configurations."""

    name = "files"
    seconds = 30.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        make_specimens(place)
        self.expected = {}
        for name, specimen in SPECIMENS.items():
            copy = place / f"{name} copy"
            shutil.copytree(place / name, copy)
            self.expected[name] = specimen.load(copy)

    def attempt(self, rng: random.Random, place: Path) -> str:
        name = rng.choice(list(SPECIMENS))
        specimen = SPECIMENS[name]
        shutil.copytree(self.place / name, place, dirs_exist_ok=True)
        path = place / rng.choice(specimen.files)
        crafted = rng.random() < 0.5
        if not crafted:
            path.write_bytes(damage_bytes(rng, path.read_bytes()))
        elif path.suffix == ".safetensors":
            if rng.random() < 0.4:
                path.write_bytes(damage_header(rng, path.read_bytes()))
            else:
                craft_arrays(rng, path)
        elif path.suffix == ".json":
            craft_json(rng, path)
        else:
            lines = path.read_text().splitlines()
            line = rng.randrange(len(lines))
            lines[line] = spell_json(rng, damage_json(rng, json.loads(lines[line])))
            path.write_text("\n".join(lines) + "\n")
        how = f"{name.split()[0]}, {'crafted' if crafted else 'damaged'}"
        before = path.read_bytes()
        keep = place / f"input-{path.name}"  # what is read may be rewritten
        keep.write_bytes(before)
        try:
            found = specimen.load(place)
        except FileError as error:
            if not str(error) or len(str(error)) > 4000:
                raise BrokenPromiseError(f"an error of {len(str(error))} letters") from error
            return f"{how}: refused"
        if repr(found) == repr(self.expected[name]):
            return f"{how}: the same"
        if not crafted:
            raise BrokenPromiseError(f"{name} was read as something else: {path.name}")
        return f"{how}: something else that is whole"
