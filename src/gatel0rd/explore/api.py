"""What the page may ask for: fields of a request in, plain data out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gatel0rd.explore import requests, views
from gatel0rd.explore.models import ExploredModel
from gatel0rd.explore.sessions import SessionStore


class Api:
    """Answers about some models and their recordings, and the live worlds that are driven with them."""

    def __init__(self, models: Sequence[ExploredModel]) -> None:
        self.models = models
        self.sessions = SessionStore(models)

    @property
    def answers(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """Path below /api/ -> what answers a request there."""
        return {
            "sequence": self.sequence,
            "predict": self.predict,
            "drive/start": self.start_drive,
            "drive/step": self.step_drive,
        }

    def overview(self) -> dict[str, Any]:
        """Everything but values."""
        return {**views.make_overview(self.models), "drives": self.sessions.worlds, "live": True}

    def sequence(self, content: dict[str, Any]) -> dict[str, Any]:
        """The values of one sequence."""
        requests.allow_fields(content, "sequence")
        return {"values": views.list_values(self.models, requests.read_sequence(content, self.models))}

    def predict(self, content: dict[str, Any]) -> dict[str, Any]:
        """One sequence as one model sees it."""
        requests.allow_fields(content, "model", "sequence", "real_steps", "edits", "point")
        model = self.models[requests.read_integer(content, "model", 0, len(self.models) - 1)]
        index = requests.read_sequence(content, self.models)
        last = views.shown_length(int(model.recordings.lengths[index])) - 1
        real = None if content.get("real_steps") is None else requests.read_integer(content, "real_steps", 1, last)
        edits = requests.read_edits(content, self.models, index)
        most = len(model.model.variants) - 1
        if most < 0 and content.get("point") is not None:
            raise requests.RequestError(
                f"point is {content['point']!r}; model {model.name} has no curve to choose from"
            )
        point = None if content.get("point") is None else requests.read_integer(content, "point", 0, most)
        return views.predict_sequence(model, index, real_steps=real, edits=edits, point=point)

    def start_drive(self, content: dict[str, Any]) -> dict[str, Any]:
        """A new live world."""
        requests.allow_fields(content, "scenario", "seed", "start")
        seed = None if content.get("seed") is None else requests.read_integer(content, "seed", 0, 2**31 - 1)
        return self.sessions.start(str(content.get("scenario")), seed, requests.read_start(content))

    def step_drive(self, content: dict[str, Any]) -> dict[str, Any]:
        """One step of a live world."""
        requests.allow_fields(content, "session", "action")
        return self.sessions.step(str(content.get("session")), requests.read_numbers(content, "action"))
