"""Event segmentation as people know it from scikit-learn: fit, then predict."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.files import write_atomically
from gatel0rd.models.events import APART, Event, boundaries, find_events, segments
from gatel0rd.models.fitted import FittedModel
from gatel0rd.nn.config import CellName
from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.recordings import Recordings

Sequences = Sequence[NDArray[Any]] | NDArray[Any]


class NoGatesError(ValueError):
    """A model without gates has no events of its own."""


@dataclass(frozen=True)
class Segmentation:
    """What happens in one sequence: events, boundaries and the segments between them.

    Times are steps, counted from the first one of the sequence; ``first`` is its place in the recording it is from.
    """

    name: str
    length: int
    events: tuple[Event, ...]
    boundaries: tuple[int, ...]
    first: int = 0

    @property
    def segments(self) -> list[tuple[int, int]]:
        return segments(self.boundaries, self.length)


def segment(fitted: FittedModel, recordings: Recordings, *, apart: int = APART) -> list[Segmentation]:
    """Events of every sequence: when the model's gates open after all were closed, while it is fed real observations.

    Args:
        apart: events less than this many steps after a boundary belong to it.
    """
    if not fitted.model.core.noise_size:
        raise NoGatesError(f"the model's cell is {fitted.cell}, which has no gates; fit one with --cell gatel0rd")
    recordings = recordings.select_columns(fitted.observation_names, fitted.action_names, "the model")
    found = []
    for index, name in enumerate(recordings.names):
        observations, actions = recordings.sequence(index)
        gates = fitted.run(observations, actions).gates
        assert gates is not None
        events = find_events(gates)
        cuts = boundaries(events, apart=apart)
        first = recordings.origins[index][1]
        found.append(Segmentation(name, len(observations), tuple(events), tuple(cuts.tolist()), first))
    return found


def write_events(found: Sequence[Segmentation], path: Path) -> None:
    """Write a CSV file with a row per event; or, if the name ends in .json, events and segments of each sequence.

    Columns: sequence, time, duration (steps until all gates are closed again), dimensions of the latent state whose
    gates open, and their strengths (how far each gate opens at most); the last two are lists, separated by spaces.
    Times are steps of the recording, counted from 0, also where gaps in it cut a sequence into pieces.
    """
    if path.suffix == ".json":
        content = [
            {
                "sequence": entry.name,
                "length": entry.length,
                "events": [asdict(event) | {"time": event.time + entry.first} for event in entry.events],
                "segments": [(first + entry.first, last + entry.first) for first, last in entry.segments],
            }
            for entry in found
        ]
        write_atomically(path, json.dumps(content, indent=1) + "\n")
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["sequence", "time", "duration", "dimensions", "strengths"])
    for entry in found:
        for event in entry.events:
            strengths = " ".join(f"{strength:.6g}" for strength in event.strengths)
            dimensions = " ".join(map(str, event.dimensions))
            rows.writerow([entry.name, event.time + entry.first, event.duration, dimensions, strengths])
    write_atomically(path, text.getvalue())


class EventSegmenter:
    """Learns to predict sequences, and cuts them where its memory changes.

    Args:
        gate_rate: share of gates that should be open.
        events: events per sequence, in place of ``gate_rate``.
        apart: events less than this many steps after a boundary belong to it.
        hidden_size, window, rounds, learning_rate, seed: see :class:`gatel0rd.recordings.config.FitConfig`.
        directory: where the fit is kept and can be resumed; a temporary one if not given.

    Attributes:
        model_: the :class:`gatel0rd.models.fitted.FittedModel`, after :meth:`fit`.

    Example:
        >>> cuts = EventSegmenter(gate_rate=0.05).fit(X).predict(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        gate_rate: float | None = 0.05,
        events: float | None = None,
        apart: int = APART,
        cell: CellName = "gatel0rd",
        hidden_size: int = 8,
        window: int = 50,
        rounds: int = 240,
        learning_rate: float = 0.002,
        seed: int = 0,
        directory: Path | str | None = None,
    ) -> None:
        self.gate_rate, self.events, self.apart, self.cell = gate_rate, events, apart, cell
        self.hidden_size, self.window, self.rounds = hidden_size, window, rounds
        self.learning_rate, self.seed, self.directory = learning_rate, seed, directory

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as scikit-learn expects them."""
        return {name: value for name, value in vars(self).items() if name != "model_"}

    def set_params(self, **values: Any) -> EventSegmenter:
        """Change arguments of the constructor."""
        unknown = sorted(set(values) - set(self.get_params()))
        if unknown:
            raise ValueError(
                f"EventSegmenter has no parameter {', '.join(unknown)}; it has {', '.join(self.get_params())}"
            )
        for name, value in values.items():
            setattr(self, name, value)
        return self

    def fit(self, X: Sequences, y: Any = None, *, actions: Sequences | None = None) -> EventSegmenter:
        """Fit a model to sequences: a list of arrays [T, columns] or one array [N, T, columns]; ``y`` is not used."""
        from gatel0rd.recordings.fit import fit

        known = {entry.name for entry in fields(FitConfig)}
        config = FitConfig(**{name: value for name, value in self.get_params().items() if name in known})
        recordings = from_arrays(X, actions)
        if self.directory is not None:
            self.model_ = fit(recordings, config, Path(self.directory))
        else:
            with tempfile.TemporaryDirectory() as place:
                self.model_ = fit(recordings, config, Path(place))
        return self

    def segment(self, X: Sequences, *, actions: Sequences | None = None) -> list[Segmentation]:
        """Events, boundaries and segments of every sequence."""
        if not hasattr(self, "model_"):
            raise ValueError("this EventSegmenter has not been fitted; call fit first")
        recordings = from_arrays(X, actions)
        columns = len(self.model_.observation_names)
        if len(recordings.observation_names) != columns:
            found = len(recordings.observation_names)
            raise ValueError(f"the sequences have {found} columns; the model was fitted to {columns}")
        if recordings.names != tuple(map(str, range(len(X)))):
            raise ValueError(
                "some sequences are too short or have long gaps, and would be left out or split: there would not be "
                "one answer for each; leave them out or fill them in first"
            )
        return segment(self.model_, recordings, apart=self.apart)

    def predict(self, X: Sequences, *, actions: Sequences | None = None) -> list[NDArray[np.int64]]:
        """The boundaries of every sequence."""
        return [np.array(entry.boundaries, dtype=np.int64) for entry in self.segment(X, actions=actions)]

    def fit_predict(
        self,
        X: Sequences,
        y: Any = None,
        *,
        actions: Sequences | None = None,
    ) -> list[NDArray[np.int64]]:
        """Fit, and say where the same sequences have their boundaries."""
        return self.fit(X, actions=actions).predict(X, actions=actions)
