"""Live worlds: a real environment, driven step by step, with models that watch it."""

from __future__ import annotations

import base64
import importlib
import io
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.explore.requests import RequestError
from gatel0rd.explore.subjects import Subject
from gatel0rd.explore.views import number, plain
from gatel0rd.models.events import opens
from gatel0rd.models.fitted import FittedModel
from gatel0rd.nn.cells import State

Array = NDArray[np.float64]
SESSIONS = 8
"""Worlds that are kept; the one that was not touched for longest makes room."""
MOST_STEPS = 2000
PICTURE_HEIGHT = 360


class Live(NamedTuple):
    """How a scenario is driven: its class, how it is steered, what its events are called."""

    module: str
    name: str
    steering: str
    words: Mapping[str, tuple[str | None, str | None]]
    """Name in ``info`` -> what is said when it becomes true, and when it becomes false."""
    ended: str | None = None


LIVE = {
    "rrc": Live(
        "robot_remote_control",
        "RobotRemoteControl",
        "arrows",
        {"controlled": ("the agent is at the computer: from now on the robot moves along", None)},
        "the robot reached its goal",
    ),
    "shepherd": Live(
        "shepherd",
        "Shepherd",
        "arrows-grasp",
        {
            "hidden": ("the sheep is hidden behind the wall", "the sheep came out"),
            "gate_open": ("the agent is at the lever: the gate is open", None),
            "carried": ("the agent took the cage", "the agent put the cage down"),
            "caught": ("the sheep is caught", None),
        },
    ),
    "billiard": Live(
        "billiard_ball",
        "BilliardBall",
        "shots",
        {
            "cushion": ("the ball hit a cushion", None),
            "pocketed": ("the ball fell into a pocket", None),
        },
    ),
}
"""Scenarios that can be driven."""


class Row(NamedTuple):
    """What a model made of one input."""

    latents: Array
    gates: Array | None
    prediction: Array


class Watcher:
    """A model that is fed one input after the other.

    f_init needs ``init_steps`` inputs before there is a state; the rows of those come together, with the last of them.
    """

    def __init__(self, model: FittedModel) -> None:
        self.model = model
        self._state: State | None = None
        self._waiting: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def feed(self, observation: Array, action: Array) -> list[Row]:
        """Take the input of one step, in the data's units. Shape: [O], [A]."""
        network = self.model.model
        rows = (values[None].astype(np.float32) for values in (observation, action))
        self._waiting.append(self.model.inputs(*rows))
        if self._state is None:
            if len(self._waiting) < network.config.init_steps:
                return []
            self._state = network.initial(*(torch.cat(parts) for parts in zip(*self._waiting, strict=True)))
        made = []
        for seen, acted in self._waiting:
            prediction, self._state, gates = network.step(self._state, seen[0], acted[0])
            made.append(
                Row(
                    latents=network.core.latents(self._state)[0].numpy(),
                    gates=None if gates is None else gates[0].numpy(),
                    prediction=self.model.observation_scaling.inverse_transform(prediction.numpy())[0],
                )
            )
        self._waiting = []
        return made


class Drive:
    """One world and those who watch it."""

    def __init__(self, scenario: str, subjects: Sequence[Subject], seed: int | None, start: dict[str, Any]) -> None:
        self.live = LIVE[scenario]
        module = importlib.import_module(f"gatel0rd.worlds.{self.live.module}.env")
        watched = [subject for subject in subjects if subject.scenario == scenario]
        preset = watched[0].model.info["run"].get("preset", "text")
        arguments = {"preset": preset} if scenario == "shepherd" else {}
        self.env = getattr(module, self.live.name)(render_mode="rgb_array", render_size=PICTURE_HEIGHT, **arguments)
        try:
            self.observation, self.info = self.env.reset(seed=seed, options=start)
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)) from error
        self.watchers = [Watcher(subject.model) for subject in watched]
        self.names = [subject.name for subject in watched]
        self._gates: list[Array | None] = [None] * len(watched)
        self.steps, self.ended = 0, False

    def state(self) -> dict[str, Any]:
        """The picture and what is seen, before any step."""
        return {
            "step": self.steps,
            "frame": data_uri(self.env.render()),
            "observation": plain(self.observation),
            "info": {name: value for name, value in self.info.items() if isinstance(value, bool)},
            "words": [],
            "models": [{"name": name, "rows": [], "words": None, "error": None} for name in self.names],
        }

    def step(self, action: Array) -> dict[str, Any]:
        """Advance the world, and feed what was seen and done to every model."""
        if self.steps >= MOST_STEPS:
            raise RequestError(f"this world is {MOST_STEPS} steps old; start a new one")
        rows = [watcher.feed(self.observation, action) for watcher in self.watchers]
        before = self.info
        self.observation, _, ended, _, self.info = self.env.step(action)
        self.steps += 1
        said = [
            words[0 if self.info[name] else 1]
            for name, words in self.live.words.items()
            if self.info[name] != before[name]
        ]
        said += [self.live.ended] * (ended and not self.ended)
        self.ended = self.ended or ended
        return {
            **self.state(),
            "words": [words for words in said if words],
            "models": [self._told(index, made) for index, made in enumerate(rows)],
        }

    def _told(self, index: int, rows: list[Row]) -> dict[str, Any]:
        opened: list[int] = []
        for row in rows:
            before = self._gates[index]
            if row.gates is not None and before is not None:
                opened += (np.flatnonzero(opens(before, row.gates)) + 1).tolist()
            self._gates[index] = row.gates
        scale = np.array(self.watchers[index].model.observation_scaling.scale)
        error = (((rows[-1].prediction - self.observation) / scale) ** 2).mean() if rows else None
        return {
            "name": self.names[index],
            "rows": [
                {"latents": plain(row.latents), "gates": None if row.gates is None else plain(row.gates)}
                for row in rows
            ],
            "words": in_words(opened),
            "error": None if error is None else number(float(error)),
        }


def in_words(opened: Sequence[int]) -> str | None:
    """Which gates opened, for people; None if none did."""
    dimensions = sorted(set(opened))
    if not dimensions:
        return None
    if len(dimensions) == 1:
        return f"gate opened in dimension {dimensions[0]}"
    return f"gates opened in dimensions {', '.join(map(str, dimensions[:-1]))} and {dimensions[-1]}"


def data_uri(picture: NDArray[np.uint8]) -> str:
    """A picture as a PNG inside an address."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


class Garage:
    """The worlds that are being driven, by session id."""

    def __init__(self, subjects: Sequence[Subject], token: Callable[[], str] = secrets.token_urlsafe) -> None:
        self.subjects, self._token = subjects, token
        self._drives: OrderedDict[str, Drive] = OrderedDict()

    @property
    def scenarios(self) -> list[dict[str, Any]]:
        """What can be driven with these models, and how."""
        found = dict.fromkeys(subject.scenario for subject in self.subjects if subject.scenario in LIVE)
        return [{"scenario": name, "steering": LIVE[name].steering} for name in found if name is not None]

    def start(self, scenario: str, seed: int | None, start: dict[str, Any]) -> dict[str, Any]:
        """A new world, in a new session."""
        if scenario not in [entry["scenario"] for entry in self.scenarios]:
            raise RequestError(f"scenario is {scenario!r}; none of these models is of a world of that name to drive in")
        drive = Drive(scenario, self.subjects, seed, start)
        session = self._token()
        self._drives[session] = drive
        while len(self._drives) > SESSIONS:
            self._drives.popitem(last=False)
        return {"session": session, **drive.state()}

    def step(self, session: str, action: Sequence[float]) -> dict[str, Any]:
        """One step in a session's world."""
        if session not in self._drives:
            raise RequestError("this world is gone; start a new one")
        drive = self._drives[session]
        size = drive.env.action_space.shape[0]
        if len(action) != size:
            raise RequestError(f"action has {len(action)} numbers; expected {size}")
        self._drives.move_to_end(session)
        return drive.step(np.clip(np.array(action, dtype=np.float64), -1, 1))
