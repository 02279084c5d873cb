"""What happens in sequences: boundaries, segments and what they have in common, by gates or by changes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.files import write_atomically
from gatel0rd.models.events import APART, Event, boundaries, event_starts, find_events, segments
from gatel0rd.models.fitted import FittedModel
from gatel0rd.recordings.detector import ChangeDetector
from gatel0rd.recordings.method import MethodChoice, MethodName
from gatel0rd.recordings.recordings import Recordings

NOISY_RUNS = 16
"""Runs with gate noise that vote on each event."""
GATE_COLUMNS = ["sequence", "time", "duration", "dimensions", "strengths"]
CHANGE_COLUMNS = ["sequence", "time", "probability", "label", "variables"]
SAME_MEMORY = 0.25
"""Segments whose memories differ by less in every dimension (which reach from -1 to 1) have the same label."""


class NoGatesError(ValueError):
    """A model without gates has no events of its own."""


@dataclass(frozen=True)
class Segmentation:
    """What happens in one sequence: boundaries, the segments between them, and the events of the gates.

    Times are steps, counted from the first one of the sequence; ``first`` is its place in the recording it is from.

    Attributes:
        events: openings of gates, if that is the method.
        method: what found the boundaries.
        probabilities: of each boundary: that the segments around it differ, or the share of runs with gate noise in
            which a gate opens there, too.
        votes: of each boundary, the share of fits with other seeds (and this one) that find it, too; none if there is
            one fit.
        variables: of each boundary, how much each observed variable has to do with it, as shares.
        labels: of each segment; equal ones have equal labels, also in other sequences.
    """

    name: str
    length: int
    events: tuple[Event, ...]
    boundaries: tuple[int, ...]
    first: int = 0
    method: MethodName = "gates"
    probabilities: tuple[float, ...] = ()
    votes: tuple[float, ...] = ()
    variables: tuple[dict[str, float], ...] = ()
    labels: tuple[int, ...] = ()

    @property
    def segments(self) -> list[tuple[int, int]]:
        return segments(self.boundaries, self.length)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Boundaries as rows of the recording, from whose edges rows without values may have been cut off."""
        return np.array(self.boundaries, dtype=np.int64) + self.first

    def row_labels(self) -> NDArray[np.int64]:
        """The label of the segment that each row is in, [T]."""
        rows = np.zeros(self.length, dtype=np.int64)
        for number, (first, last) in enumerate(self.segments):
            rows[first:last] = self.labels[number] if number < len(self.labels) else number
        return rows


def read_choice(fitted: FittedModel) -> MethodChoice | None:
    """The method that a fit chose; None for models from elsewhere."""
    content = fitted.info.get("segmentation")
    return None if content is None else MethodChoice.from_json(content)


def segment(
    fitted: FittedModel,
    recordings: Recordings,
    *,
    apart: int = APART,
    method: MethodName | None = None,
    voters: Sequence[FittedModel] = (),
) -> list[Segmentation]:
    """Boundaries of every sequence, by the method that the fit chose.

    With ``gates`` they are when the model's gates open after all were closed, while it is fed real observations; with
    ``changes`` when the coefficients or the noise of a regression change.

    Args:
        apart: boundaries less than this many steps after another belong to it.
        method: another method than the fit's.
        voters: fits of the same recordings with other seeds, which vote on each boundary.
    """
    if apart < 0:
        raise ValueError(f"apart is {apart}; expected 0 steps or more")
    choice = read_choice(fitted)
    has_gates = bool(fitted.model.core.noise_size)
    chosen = method or ("gates" if choice is None else choice.method)
    if chosen == "gates" and not has_gates:
        raise NoGatesError(f"the model's cell is {fitted.cell}, which has no gates; fit one with --cell gatel0rd")
    recordings = recordings.select_columns(fitted.observation_names, fitted.action_names, "the model")
    if chosen == "gates":
        found = segment_by_gates(fitted, recordings, apart=apart)
    elif choice is None:
        raise ValueError("the model was not fitted by `gatel0rd fit`, which learns to find changes; use its gates")
    else:
        found = segment_by_changes(choice.detector, recordings, apart=apart)
    return count_votes(found, [segment(voter, recordings, apart=apart, method=chosen) for voter in voters], apart)


def count_votes(
    found: list[Segmentation], others: Sequence[Sequence[Segmentation]], apart: int = APART
) -> list[Segmentation]:
    """The same with the share of segmentations, this one included, that have a boundary less than ``apart`` away."""
    if not others:
        return found

    def share(place: int, cut: int) -> float:
        agree = [any(abs(time - cut) < apart for time in other[place].boundaries) for other in others]
        return (1 + sum(agree)) / (1 + len(others))

    return [
        replace(entry, votes=tuple(share(place, cut) for cut in entry.boundaries)) for place, entry in enumerate(found)
    ]


def segment_by_changes(detector: ChangeDetector, recordings: Recordings, *, apart: int = APART) -> list[Segmentation]:
    """Boundaries where the regression changes."""
    changes = detector.find(recordings, apart=apart)
    statistics = [
        detector.segment_statistics(design, [change.time for change in own])
        for design, own in zip(detector.designs(recordings), changes, strict=True)
    ]
    labels = detector.label_segments(statistics)
    names = recordings.observation_names
    return [
        Segmentation(
            recordings.names[index],
            int(recordings.lengths[index]),
            (),
            tuple(change.time for change in own),
            recordings.origins[index][1],
            "changes",
            tuple(change.probability for change in own),
            (),
            tuple(as_shares(names, change.variables) for change in own),
            tuple(labels[index]),
        )
        for index, own in enumerate(changes)
    ]


def as_shares(names: Sequence[str], amounts: Sequence[float] | NDArray[np.float64]) -> dict[str, float]:
    """Amounts as shares of their sum, by name."""
    total = float(np.sum(amounts)) or 1.0
    return {name: float(amount) / total for name, amount in zip(names, amounts, strict=True)}


def segment_by_gates(fitted: FittedModel, recordings: Recordings, *, apart: int = APART) -> list[Segmentation]:
    """Boundaries where gates open."""
    found = []
    kinds: list[NDArray[np.float32]] = []
    for index, name in enumerate(recordings.names):
        observations, actions = recordings.sequence(index)
        trajectory = fitted.run(observations, actions)
        assert trajectory.gates is not None
        events = find_events(trajectory.gates)
        cuts = boundaries(events, apart=apart, after_start=True)
        ends = [last - 2 for _, last in segments(cuts, len(observations))]  # before the next event begins
        found.append(
            Segmentation(
                name,
                len(observations),
                tuple(events),
                tuple(cuts.tolist()),
                recordings.origins[index][1],
                "gates",
                vote(fitted, observations, actions, cuts),
                (),
                tuple(explain_event(fitted, observations, actions, trajectory.latents, int(cut)) for cut in cuts),
                tuple(label_memory(trajectory.latents[max(0, end)], kinds) for end in ends),
            )
        )
    return found


@torch.no_grad()
def vote(
    fitted: FittedModel, observations: NDArray[np.float32], actions: NDArray[np.float32], cuts: NDArray[np.int64]
) -> tuple[float, ...]:
    """Of each boundary, the share of runs with gate noise in which an event begins within a step of it."""
    if not len(cuts):
        return ()
    seen, given = (part.expand(-1, NOISY_RUNS, -1) for part in fitted.inputs(observations, actions))
    noise = fitted.model.sample_noise(len(seen) - 1, NOISY_RUNS, torch.Generator().manual_seed(0))
    gates = fitted.model(seen[:-1].contiguous(), given[:-1].contiguous(), None, noise).gates
    assert gates is not None
    begins = event_starts((gates > 0).any(-1).T.numpy())  # [runs, T]
    near = begins.copy()
    near[:, 1:] |= begins[:, :-1]
    near[:, :-1] |= begins[:, 1:]
    return tuple(float(near[:, cut].mean()) for cut in cuts.tolist())


@torch.no_grad()
def explain_event(
    fitted: FittedModel,
    observations: NDArray[np.float32],
    actions: NDArray[np.float32],
    latents: NDArray[np.float32],
    cut: int,
) -> dict[str, float]:
    """How much the prediction of each variable changes if the memory is set back to what it was before an event."""
    seen, given = fitted.inputs(observations[cut : cut + 1], actions[cut : cut + 1])
    recent = tuple(seen.new_zeros(1, size) for size in fitted.model.recent_sizes)
    predictions = []
    for place in (max(0, cut - 1), cut):
        core = fitted.model.core.state_from(torch.from_numpy(latents[place : place + 1].copy()))
        closed = closed_prediction(fitted, core, seen[0], given[0], recent)
        predictions.append(closed)
    difference = np.abs(predictions[1] - predictions[0])
    return as_shares(fitted.observation_names, difference)


def closed_prediction(
    fitted: FittedModel,
    core: tuple[torch.Tensor, ...],
    seen: torch.Tensor,
    given: torch.Tensor,
    recent: tuple[torch.Tensor, ...],
) -> NDArray[np.float32]:
    """The next observation, in the model's units, while no gate opens. Shape: [O]."""
    noise = seen.new_full((1, fitted.model.core.noise_size), -1e6)
    prediction = fitted.model.step((*core, *recent), seen, given, noise).observation[0].numpy()
    return np.asarray(prediction, dtype=np.float32)


def label_memory(memory: NDArray[np.float32], kinds: list[NDArray[np.float32]]) -> int:
    """The number of the first memory that is about the same; ``kinds`` collects those that are new."""
    for number, kind in enumerate(kinds):
        if np.abs(memory - kind).max() < SAME_MEMORY:
            return number
    kinds.append(memory)
    return len(kinds) - 1


def write_events(found: Sequence[Segmentation], path: Path, recordings: Recordings | None = None) -> None:
    """Write a CSV file with a row per event; or, if the name ends in .json, all about each sequence.

    Of gates: sequence, time, duration (steps until all gates are closed again), dimensions of the latent state whose
    gates open, and their strengths (how far each gate opens at most); the last two are lists, separated by spaces.
    Of changes: sequence, time, probability, the label of the segment that begins, and the observed variables that
    change, with their shares. Where several fits voted, the share of fits that find the boundary follows as ``votes``,
    with gates after the share of noisy passes in which it opens (``probability``); a gate that opens again soon has
    those of the boundary that it belongs to. Times are steps of the recording, counted from 0, also where gaps in it
    cut a sequence into pieces.

    Args:
        recordings: what was segmented; if it has time stamps, those of events are written in a last column.
    """
    stamps = [None] * len(found) if recordings is None else list_stamps(recordings)
    if path.suffix == ".json":
        content = [describe_sequence(entry, own) for entry, own in zip(found, stamps, strict=True)]
        write_atomically(path, json.dumps(content, indent=1) + "\n")
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    by_changes, voted = bool(found) and found[0].method == "changes", any(entry.votes for entry in found)
    columns, extra = (CHANGE_COLUMNS, ["votes"]) if by_changes else (GATE_COLUMNS, ["probability", "votes"])
    stamped = any(own is not None for own in stamps)
    rows.writerow([*columns, *(extra if voted else []), *(["stamp"] if stamped else [])])
    for entry, own in zip(found, stamps, strict=True):
        times = entry.boundaries if by_changes else [event.time for event in entry.events]
        listed = list_changes(entry, voted) if by_changes else list_events(entry, voted)
        rows.writerows([*row, *([] if own is None else [own[time]])] for row, time in zip(listed, times, strict=True))
    write_atomically(path, text.getvalue())


def describe_sequence(entry: Segmentation, stamps: list[str] | None) -> dict[str, Any]:
    """All about a sequence, as plain data."""
    boundaries = zip(entry.boundaries, entry.probabilities, entry.variables, strict=True)
    return {
        "sequence": entry.name,
        "length": entry.length,
        "method": entry.method,
        "events": [asdict(event) | {"time": event.time + entry.first} for event in entry.events],
        "boundaries": [
            {"time": cut + entry.first, "probability": probability, "variables": variables}
            | ({"votes": entry.votes[number]} if entry.votes else {})
            | ({} if stamps is None else {"stamp": stamps[cut]})
            for number, (cut, probability, variables) in enumerate(boundaries)
        ],
        "segments": [(first + entry.first, last + entry.first) for first, last in entry.segments],
        "labels": list(entry.labels),
    }


def list_stamps(recordings: Recordings) -> list[list[str] | None]:
    """The time stamps of the rows of every sequence as texts; None where there are none."""
    if recordings.times is None:
        return [None] * len(recordings)
    times = recordings.times
    texts = list(map(format_time, times.tolist())) if times.dtype.kind != "M" else times.astype(str).tolist()
    texts = [text.removesuffix(".000000") for text in texts]
    return [texts[start : start + length] for start, length in zip(recordings.starts, recordings.lengths, strict=True)]


def format_time(time: float) -> str:
    """A time stamp with all its digits, but for those that computing left behind: 0.3 and not 0.30000000000000004."""
    exact, short = (np.format_float_positional(value, trim="-") for value in (time, float(f"{time:.15g}")))
    return short if len(short) < len(exact) - 2 else exact


def list_changes(entry: Segmentation, voted: bool) -> Iterator[list[str]]:
    """A row of the CSV file per boundary."""
    for number, cut in enumerate(entry.boundaries):
        shares = sorted(entry.variables[number].items(), key=lambda item: -item[1])
        named = " ".join(f"{name}={share:.2f}" for name, share in shares if share >= 0.05)
        row = [entry.name, str(cut + entry.first), f"{entry.probabilities[number]:.4g}"]
        row += [str(entry.labels[number + 1]), named]
        yield [*row, f"{entry.votes[number]:.4g}"] if voted else row


def list_events(entry: Segmentation, voted: bool) -> Iterator[list[str]]:
    """A row of the CSV file per event of the gates."""
    for event in entry.events:
        strengths = " ".join(f"{strength:.6g}" for strength in event.strengths)
        dimensions = " ".join(map(str, event.dimensions))
        row = [entry.name, str(event.time + entry.first), str(event.duration), dimensions, strengths]
        if voted:
            number = sum(cut <= event.time for cut in entry.boundaries) - 1  # of the boundary that it belongs to
            shares = (entry.probabilities[number], entry.votes[number]) if number >= 0 else ()
            row += [f"{share:.4g}" for share in shares] or ["", ""]
        yield row
