"""What `gatel0rd fit` tells people: how data was understood, how it goes, what came out, what comes next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gatel0rd.cli.console import format_duration

if TYPE_CHECKING:
    from pathlib import Path

    from gatel0rd.recordings import Recordings

MOST_COLUMNS = 12
"""Columns that the preview shows one by one."""
MOST_POINTS = 8
"""Of the curve of events and errors."""
FIRST_VALUES = 4
USEFUL = 0.9
"""Errors below this share of those of simple predictions are worth something."""
LONGEST_NAME, WIDTH = 20, 80


def describe_columns(recordings: Recordings) -> list[str]:
    """The columns with their ranges and first values, for people; of many only the first ones."""
    entries = [
        (name, role, values[:, place])
        for role, names, values in (
            ("predicted", recordings.observation_names, recordings.observations),
            ("given", recordings.action_names, recordings.actions),
        )
        for place, name in enumerate(names)
    ]
    width = min(LONGEST_NAME, max(len(name) for name, _, _ in entries[:MOST_COLUMNS]))
    lines = []
    for name, role, values in entries[:MOST_COLUMNS]:
        shown = name if len(name) <= width else name[: width - 1] + "…"
        spread = f"{format_number(values.min())} to {format_number(values.max())}"
        line = f"  {shown:<{width}}  {role:<9}  {spread:<20} "
        for number in map(format_number, values[:FIRST_VALUES]):
            line += f" {number}" if len(line) + len(number) + 3 <= WIDTH else ""
        lines.append(f"{line} …")
    if len(entries) > MOST_COLUMNS:
        lines.append(f"  … and {len(entries) - MOST_COLUMNS} more")
    return lines


def format_number(value: float) -> str:
    """A number with as many digits as a table has room for; large ones keep their whole part."""
    value = float(value)
    return f"{value:.8g}" if abs(value) >= 1000 else f"{value:.3g}"


def describe_round(metrics: dict[str, Any]) -> str:
    """A round of a fit, for people."""
    text = f"error {metrics['error']:.3g}"
    return text + f", {metrics['open_rate']:.1%} open" if "open_rate" in metrics else text


def describe_fit(info: dict[str, Any]) -> list[str]:
    """What came out of a fit, for people."""
    what = "over whole windows" if info["config"]["objective"] == "free-run" else "of the next step"
    lines = [
        f"trained {info['rounds']} rounds in {format_duration(info['seconds'])}",
        f"error {what}, on the validation part: {info['error']:.3g} of the variance; "
        f"{info['persistence_error']:.3g} if nothing changed",
    ]
    if info["error"] >= USEFUL * min(1.0, info["persistence_error"]):
        lines.append(
            "note: predicting the mean, or no change, is about as good: the data may have nothing that a prediction "
            "can use, and then its gates and events mean little"
        )
    if info.get("extended"):
        lines.append(
            f"note: it was given more rounds after {' and '.join(map(str, info['extended']))}, for which the learning "
            "rate rose once more; a fit with all of them at once ends otherwise, in another directory"
        )
    lines += describe_curve(info)
    if "open_rate" in info:
        lines.append(
            f"gates: {info['open_rate']:.1%} are open, {info['events']:.1f} events per sequence (on whole recordings "
            "of the validation part)"
        )
    if not info["held"]:
        lines.append(
            "the gates are not as active as you asked for; give it more --rounds, which continue this fit, or fit with "
            "another target in another directory"
        )
    if "segmentation" in info:
        lines += describe_method(info["segmentation"])
    if "purpose" in info:
        lines.append(f"good for: {info['purpose']}")
    return lines


def describe_curve(info: dict[str, Any]) -> list[str]:
    """Events against errors, the highest price of open gates first, with a mark at what was chosen."""
    curve = info.get("curve") or []
    if not curve:
        return []
    chosen = info.get("chosen")
    count = min(MOST_POINTS, len(curve))
    places = {place * (len(curve) - 1) // max(1, count - 1) for place in range(count)} | {chosen}
    lines = ["the price of open gates, and what it leads to:", "      price  events   open      error"]
    for place in sorted((place for place in places if place is not None), reverse=True):
        point, mark = curve[place], "  chosen" if place == chosen else ""
        share = f"{point['open_rate']:.1%}"
        lines.append(f"  {point['price']:9.2g} {point['events']:7.1f} {share:>6} {point['error']:10.3g}{mark}")
    return lines


def describe_method(segmentation: dict[str, Any]) -> list[str]:
    """How sequences will be segmented, and why, for people."""
    evidence = segmentation["evidence"]
    compared = ", ".join(f"{name} {value:.3f}" for name, value in sorted(evidence.items()))
    lines = [f"segment will use: {segmentation['method']} (nats per step of the validation part: {compared})"]
    if segmentation["method"] == "changes":
        name = segmentation["detector"]["name"]
        lines.append(f"changes are changes of: {name}")
        if "same row" in name:
            lines.append(
                "note: actions explain the observations of their own row, not of the next one; --same-row moves them"
            )
    return lines


def describe_next(out: Path, data: Sequence[str]) -> list[str]:
    """The commands that come next, as they can be pasted."""
    named = list(data) if len(data) <= 2 else [*data[:1], "…"]
    words = " ".join(name if name == "…" else shlex.quote(name) for name in [str(out), *named])
    return [f"wrote {out}; next:", f"  gatel0rd segment {words}", f"  gatel0rd explore {words}"]
