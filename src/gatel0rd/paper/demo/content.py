"""What the demo's page shows, as plain data: sequences with predictions and memories, errors, and the gate table."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models import WorldModel, load_model
from gatel0rd.models.events import event_starts
from gatel0rd.models.io import MODEL_FILE
from gatel0rd.paper.measures import example, open_gates
from gatel0rd.paper.plan import find
from gatel0rd.paper.records import Record, read_record
from gatel0rd.paper.world_model_run import WorldModelRun
from gatel0rd.training.dataset import Dataset
from gatel0rd.worlds import World
from gatel0rd.worlds.data import obtain
from gatel0rd.worlds.experiments import PaperValue
from gatel0rd.worlds.metrics import GENERALIZATION_ERROR, TEST_ERROR, GatingRate, Metric

Frame = NDArray[np.uint8]
SCENE_HEIGHT = 220
FRAMES_PER_ROW = 10
"""Frames of a scene that lie next to each other in its picture."""
EARLIEST, LATEST = 12, 25
"""Between which steps the shown event happens, so that there is something to see before it and after it."""
CELL_TITLES = {"gatel0rd": "GateL0RD", "gru": "GRU"}
DATA_WORDS = {"reference": "data as the authors' code makes it", "text": "data as the paper's text describes it"}
COMMANDS = (
    (
        "gatel0rd explore zoo:rrc/gatel0rd zoo:rrc/gru",
        "Drive the agent yourself and watch gates open, with longer training.",
    ),
    ("gatel0rd explore {} {}", "The same with the two networks that were just trained."),
    (
        "gatel0rd plan rrc --model zoo:rrc/gatel0rd --render plan.gif",
        "Plan with the memory: film a robot that is brought to its goal.",
    ),
    ("gatel0rd zoo", "List the trained models of all worlds and the agents that come along."),
    ("gatel0rd fit recordings.csv", "Find events in recordings of your own."),
    ("gatel0rd list", "List the paper's experiments; each is one command, and so is the report of all of them."),
)
"""What to type next, and what it does; {} are the directories of the demo's runs."""


@dataclass(frozen=True)
class TrainedNetwork:
    """One of the demo's networks."""

    run: WorldModelRun
    record: Record
    model: WorldModel

    @property
    def title(self) -> str:
        return CELL_TITLES.get(self.run.network, self.run.network)


@dataclass(frozen=True)
class Choice:
    """A sequence that the page shows, and why this one."""

    index: int
    name: str
    reason: str


def read_network(run: WorldModelRun, out: Path) -> TrainedNetwork:
    """A finished run's record and model."""
    directory = out / run.directory_name
    return TrainedNetwork(run, read_record(directory / "record.json"), load_model(directory / MODEL_FILE))


def make_content(
    runs: Sequence[WorldModelRun], out: Path, *, on_sequence: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """Everything that the page shows.

    Args:
        runs: finished ones, that of GateL0RD first.
        out: where they and their data are.
        on_sequence: told how many sequences are drawn, and how many there will be.
    """
    networks = [read_network(run, out) for run in runs]
    first = networks[0]
    data = obtain(first.run.evaluation_data[-1], out / "data")
    counts = count_events(first.model, data)
    choices = choose_sequences(first.run.world, data, counts)
    sequences = []
    for done, choice in enumerate(choices, start=1):
        sequences.append(show_sequence(choice, networks, data))
        on_sequence(done, len(choices))
    return {
        "networks": [{"cell": network.run.network, "title": network.title} for network in networks],
        "sequences": sequences,
        "events": summarize_events(data, counts),
        "errors": [compare_errors(network) for network in networks],
        "gating": compare_gating(first),
        "changed": [changed_share(network.record) for network in networks],
        "training": [describe_training(network) for network in networks],
        "data_words": DATA_WORDS[first.run.preset],
        "commands": [
            (command.format(*(out / run.directory_name for run in runs)), words) for command, words in COMMANDS
        ],
    }


def count_events(model: WorldModel, data: Dataset) -> NDArray[np.int64]:
    """How many events the gates of a model that runs on its own mark in each sequence, [N]."""
    gates = open_gates(model, data, free=True)
    assert gates is not None, "the demo's first network has gates"
    counts: NDArray[np.int64] = event_starts(np.any(gates, axis=-1)).sum(axis=1)
    return counts


def summarize_events(data: Dataset, counts: NDArray[np.int64]) -> dict[str, float]:
    """Shares of the sequences with control that have a ``single`` event, and of those without that have ``none``."""
    controlled = data.labels["onset"] >= 0
    return {
        "single": float((counts[controlled] == 1).mean()),
        "median": float(np.median(counts[controlled])),
        "none": float((counts[~controlled] == 0).mean()),
    }


def choose_sequences(world: World, data: Dataset, counts: NDArray[np.int64]) -> list[Choice]:
    """The sequences to show.

    The first two are the ones in which the robot travels farthest, of those in which the event happens between
    :data:`EARLIEST` and :data:`LATEST` and gates open in exactly one event. Then comes the first sequence without the
    event, and the first one with it, whatever they show.

    Shape: counts [N], how many events there are in each sequence.
    """
    onset = data.labels["onset"]
    in_time = (onset >= EARLIEST) & (onset <= LATEST)
    single = in_time & (counts == 1)
    enough = single.sum() >= 2  # not so if training was too short for clean gates
    robot = world.things[1].columns
    way = np.linalg.norm(np.diff(data.observations[:, :, list(robot)], axis=1), axis=-1).sum(axis=1)
    farthest = np.argsort(np.where(single if enough else in_time, -way, np.inf), kind="stable")[:2]
    reason = (
        f"Of the test sequences in which the agent reaches the computer between steps {EARLIEST} and {LATEST}"
        + (" and GateL0RD's gates open in a single event" if enough else "")
        + ", the one in which the robot travels {}."
    )
    chosen = [
        Choice(int(index), f"with control, {number}", reason.format(words))
        for index, number, words in zip(farthest, ("first", "second"), ("farthest", "second farthest"), strict=True)
    ]
    without = int(np.flatnonzero(onset < 0)[0])
    chosen.append(
        Choice(without, "without control", "The first test sequence in which the agent never reaches the computer.")
    )
    plain = next(index for index in np.flatnonzero(onset >= 0).tolist() if index not in farthest)
    chosen.append(Choice(plain, "with control, not chosen", "The first test sequence with control, whatever it shows."))
    return chosen


def show_sequence(choice: Choice, networks: Sequence[TrainedNetwork], data: Dataset) -> dict[str, Any]:
    """One sequence: what happens, and what each network predicts and remembers, from the first observation on."""
    world = networks[0].run.world
    real = data.observations[choice.index].astype(np.float64)
    onset = int(data.labels["onset"][choice.index])
    return {
        "name": choice.name,
        "reason": choice.reason,
        "index": choice.index,
        "steps": len(real),
        "event": onset if onset >= 0 else None,
        "scene": draw_scene(world, real),
        "networks": [show_network(network, choice.index, data, real) for network in networks],
    }


def show_network(network: TrainedNetwork, index: int, data: Dataset, real: NDArray[np.float64]) -> dict[str, Any]:
    """What one network predicts on its own, and how its memory changes.

    ``latents`` [T-1, H] are relative to the first memory, ``changes`` [T-1, H] are the sizes of the steps that they
    take: exactly 0 where a gate is closed.
    """
    content = example(network.model, data, index)
    given = content["given"]
    predicted = np.concatenate([real[:given], np.array(content["predictions"])[given - 1 :]])
    latents = np.array(content["latents"])
    changes = np.abs(np.diff(latents, axis=0, prepend=np.zeros_like(latents[:1])))
    if content["gates"] is not None:  # the first memory is computed apart, and may differ in its last bit
        changes *= np.array(content["gates"]) > 0
    robot = list(network.run.world.things[1].columns)
    distance = np.linalg.norm(predicted[:, robot] - real[:, robot], axis=-1)
    return {
        "scene": draw_scene(network.run.world, predicted),
        "latents": np.round(latents, 4).tolist(),
        "changes": [[float(f"{value:.2g}") for value in row] for row in changes],
        "distance": np.round(distance, 4).tolist(),
        "changed_steps": int(changes.any(axis=1).sum()),
    }


def draw_scene(world: World, course: NDArray[np.float64]) -> dict[str, Any]:
    """All frames of a course of observations [T, O] in one picture, row by row."""
    from PIL import Image

    frames: list[Frame] = [world.draw(course[: t + 1], SCENE_HEIGHT) for t in range(len(course))]
    height, width = frames[0].shape[:2]
    rows = -(-len(frames) // FRAMES_PER_ROW)
    sheet = Image.new("RGB", (width * FRAMES_PER_ROW, height * rows), "white")
    for number, frame in enumerate(frames):
        sheet.paste(Image.fromarray(frame), (width * (number % FRAMES_PER_ROW), height * (number // FRAMES_PER_ROW)))
    file = io.BytesIO()
    sheet.save(file, "WEBP", quality=72, method=4)
    picture = "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
    return {"picture": picture, "columns": FRAMES_PER_ROW, "rows": rows, "width": width, "height": height}


def compare_errors(network: TrainedNetwork) -> dict[str, Any]:
    """Errors on data like and unlike that of training, and the paper's."""
    return {
        name: {"ours": metric.read(network.record), "paper": paper_value("rrc/generalization", network, metric)}
        for name, metric in (("like", TEST_ERROR), ("unlike", GENERALIZATION_ERROR))
    }


def compare_gating(network: TrainedNetwork) -> dict[str, Any]:
    """How often a gate opens at the event and elsewhere, and the paper's rates."""
    rates = (GatingRate("hits"), GatingRate("misses"), GatingRate("false_alarms"), GatingRate("correct_rejections"))
    return {
        rate.rate: {"ours": rate.read(network.record), "paper": paper_value("rrc/gating", network, rate)}
        for rate in rates
    }


def paper_value(experiment: str, network: TrainedNetwork, metric: Metric) -> dict[str, float]:
    """Mean and standard deviation in the paper."""
    value: PaperValue = find(experiment).paper[(network.run.network, metric)]
    return {"mean": value.mean, "deviation": value.deviation}


def changed_share(record: Record) -> float:
    """Share of the memory that changes from a step to the next, in sequences with control."""
    (measures,) = record.content["measures"]["latents"].values()
    return float(measures["with"]["changed_share"])


def describe_training(network: TrainedNetwork) -> dict[str, Any]:
    """How a network was trained."""
    content = network.record.content
    return {
        "title": network.title,
        "epochs": network.run.length,
        "share": network.run.share,
        "sparsity": network.run.train.sparsity_weight,
        "seed": network.run.seed,
        "seconds": content["wall_seconds"],
        "processor": content["machine"]["processor"],
        "parameters": content["parameters"],
        "directory": network.run.directory_name,
    }
