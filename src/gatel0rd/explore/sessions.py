"""Live worlds: a real environment that a person drives step by step, with models that watch it."""

from __future__ import annotations

import base64
import io
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.explore.models import ExploredModel
from gatel0rd.explore.requests import RequestError
from gatel0rd.explore.views import list_events, to_number, to_plain
from gatel0rd.models.fitted import FittedModel
from gatel0rd.nn.cells import State
from gatel0rd.worlds import registry
from gatel0rd.worlds.steering import Steering

Array = NDArray[np.float64]
MOST_SESSIONS = 8
"""Sessions that are kept; the one that was not used for longest makes room."""
MOST_STEPS = 2000
PICTURE_HEIGHT = 360


def steering_of(scenario: str | None) -> Steering | None:
    """How a world is driven; None if it cannot be."""
    world = registry.find(scenario)
    return None if world is None else world.steering


class StepOutput(NamedTuple):
    """What a model made of one input."""

    latents: Array
    gates: Array | None
    prediction: Array


class OnlineModel:
    """A model that is fed one input after the other.

    f_init needs ``init_steps`` inputs before there is a state; the outputs of those come together, with the last one.
    """

    def __init__(self, model: FittedModel) -> None:
        self.model = model
        self._state: State | None = None
        self._pending: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def feed(self, observation: Array, action: Array) -> list[StepOutput]:
        """Take the input of one step, in the data's units. Shape: [O], [A]."""
        network = self.model.model
        rows = (values[None].astype(np.float32) for values in (observation, action))
        self._pending.append(self.model.inputs(*rows))
        if self._state is None:
            if len(self._pending) < network.config.init_steps:
                return []
            self._state = network.initial(*(torch.cat(parts) for parts in zip(*self._pending, strict=True)))
        outputs = []
        for seen, acted in self._pending:
            prediction, self._state, gates = network.step(self._state, seen[0], acted[0])
            outputs.append(
                StepOutput(
                    latents=network.latents(self._state)[0].numpy(),
                    gates=None if gates is None else gates[0].numpy(),
                    prediction=self.model.observation_scaling.inverse_transform(prediction.numpy())[0],
                )
            )
        self._pending = []
        return outputs


class Watcher:
    """A model that watches a live world, and remembers its gates."""

    def __init__(self, explored: ExploredModel) -> None:
        self.name = explored.name
        self.online = OnlineModel(explored.model)
        self._gates: list[Array] = []

    def describe(self, outputs: Sequence[StepOutput], observation: Array) -> dict[str, Any]:
        """The last outputs for the page, and all events up to now.

        Args:
            observation: what was seen after the last input.
        """
        known = len(self._gates)
        self._gates += [output.gates for output in outputs if output.gates is not None]
        events = list_events(np.stack(self._gates)) if self._gates else []
        opened = [np.flatnonzero(self._gates[step] > 0) + 1 for step in events if step >= known]
        scale = np.array(self.online.model.observation_scaling.scale)
        error = (((outputs[-1].prediction - observation) / scale) ** 2).mean() if outputs else None
        return {
            "name": self.name,
            "rows": [
                {"latents": to_plain(row.latents), "gates": None if row.gates is None else to_plain(row.gates)}
                for row in outputs
            ],
            "events": events,
            "message": describe_opening([int(dimension) for part in opened for dimension in part]),
            "error": None if error is None else to_number(float(error)),
        }


class Session:
    """One live world and the models that watch it.

    Args:
        scenario: one that can be driven.
        models: those of the scenario, at least one; the first says which preset of the environment it is.
        seed: of the environment.
        start: options of its reset.
    """

    def __init__(self, scenario: str, models: Sequence[ExploredModel], seed: int | None, start: dict[str, Any]) -> None:
        world = registry.get(scenario)
        assert world.steering is not None
        self.steering = world.steering
        preset = models[0].model.info["run"].get("preset", "text")
        self.env: Any = world.make_environment(preset=preset, render_mode="rgb_array", render_size=PICTURE_HEIGHT)
        try:
            self.observation, self.info = self.env.reset(seed=seed, options=start)
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)) from error
        self.watchers = [Watcher(explored) for explored in models]
        self.steps, self.ended = 0, False

    @property
    def action_size(self) -> int:
        """How many numbers an action has."""
        size: int = self.env.action_space.shape[0]
        return size

    def describe(self) -> dict[str, Any]:
        """The world as it is now."""
        return {
            "step": self.steps,
            "frame": encode_picture(self.env.render()),
            "observation": to_plain(self.observation),
            "info": {name: value for name, value in self.info.items() if isinstance(value, bool)},
        }

    def step(self, action: Array) -> dict[str, Any]:
        """Advance the world, and feed what was seen and done to every model."""
        if self.steps >= MOST_STEPS:
            raise RequestError(f"this world is {MOST_STEPS} steps old; start a new one")
        outputs = [watcher.online.feed(self.observation, action) for watcher in self.watchers]
        before = self.info
        self.observation, _, ended, _, self.info = self.env.step(action)
        self.steps += 1
        messages = [
            texts[0 if self.info[name] else 1]
            for name, texts in self.steering.messages.items()
            if self.info[name] != before[name]
        ]
        messages += [self.steering.ended] * (ended and not self.ended)
        self.ended = self.ended or ended
        return {
            **self.describe(),
            "messages": [message for message in messages if message],
            "models": [
                watcher.describe(made, self.observation) for watcher, made in zip(self.watchers, outputs, strict=True)
            ],
        }


def describe_opening(dimensions: Sequence[int]) -> str | None:
    """Which gates opened, in words; None if none did."""
    opened = sorted(set(dimensions))
    if not opened:
        return None
    if len(opened) == 1:
        return f"gate opened in dimension {opened[0]}"
    return f"gates opened in dimensions {', '.join(map(str, opened[:-1]))} and {opened[-1]}"


def encode_picture(picture: NDArray[np.uint8]) -> str:
    """A picture as a PNG inside an address."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


class SessionStore:
    """The live worlds by the id of their session."""

    def __init__(self, models: Sequence[ExploredModel], make_id: Callable[[], str] = secrets.token_urlsafe) -> None:
        self.models, self._make_id = models, make_id
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    @property
    def worlds(self) -> list[dict[str, Any]]:
        """The worlds that can be driven with these models, and how."""
        steerings = {
            explored.scenario: steering
            for explored in self.models
            if explored.scenario is not None and (steering := steering_of(explored.scenario)) is not None
        }
        return [
            {"scenario": scenario, "title": registry.get(scenario).title, "steering": asdict(steering)}
            for scenario, steering in steerings.items()
        ]

    def start(self, scenario: str, seed: int | None, start: dict[str, Any]) -> dict[str, Any]:
        """A new world, in a new session."""
        models = [explored for explored in self.models if explored.scenario == scenario]
        if not models or steering_of(scenario) is None:
            raise RequestError(f"scenario is {scenario!r}; none of these models is of a world of that name to drive in")
        session = Session(scenario, models, seed, start)
        identity = self._make_id()
        self._sessions[identity] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return {"session": identity, "action_size": session.action_size, **session.describe()}

    def step(self, identity: str, action: Sequence[float]) -> dict[str, Any]:
        """One step in a session's world."""
        if identity not in self._sessions:
            raise RequestError("this world is gone; start a new one")
        session = self._sessions[identity]
        if len(action) != session.action_size:
            raise RequestError(f"action has {len(action)} numbers; expected {session.action_size}")
        self._sessions.move_to_end(identity)
        return session.step(np.clip(np.array(action, dtype=np.float64), -1, 1))
