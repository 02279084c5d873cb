"""Reading the bodies of requests: everything that is not as expected is a :class:`RequestError` that says so."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from gatel0rd.explore.subjects import Subject
from gatel0rd.explore.views import Edit, shown_length

MOST_EDITS = 1000
LARGEST_VALUE = 1e30


class RequestError(ValueError):
    """A request that cannot be answered; the message is for the person at the page."""


def parse(body: bytes) -> dict[str, Any]:
    """A JSON object without NaN and infinity."""

    def refuse(constant: str) -> Any:
        raise RequestError(f"the request holds {constant}; expected finite numbers")

    try:
        content = json.loads(body, parse_constant=refuse)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("the request is not JSON") from error
    if not isinstance(content, dict):
        raise RequestError("the request is not a JSON object")
    return content


def allow(content: dict[str, Any], *names: str) -> None:
    """Refuse fields of other names."""
    unknown = sorted(set(content) - set(names))
    if unknown:
        raise RequestError(f"the request has unknown fields ({', '.join(unknown)}); expected {', '.join(names)}")


def whole(content: dict[str, Any], name: str, low: int, high: int) -> int:
    """An integer in [low, high]."""
    value = content.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name} is {value!r}; expected a whole number from {low} to {high}")
    return value


def real(value: Any, name: str) -> float:
    """A finite number of a reasonable size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > LARGEST_VALUE:
        raise RequestError(f"{name} is {value!r}; expected a finite number")
    if not math.isfinite(value):
        raise RequestError(f"{name} is {value!r}; expected a finite number")
    return float(value)


def sequence_index(content: dict[str, Any], subjects: Sequence[Subject]) -> int:
    """Which sequence is meant."""
    return whole(content, "sequence", 0, len(subjects[0].recordings) - 1)


def edit_list(content: dict[str, Any], subjects: Sequence[Subject], index: int) -> list[Edit]:
    """Changed values: [{step, variable, value}, …]."""
    entries = content.get("edits", [])
    if not isinstance(entries, list) or len(entries) > MOST_EDITS:
        raise RequestError(f"edits are not a list of at most {MOST_EDITS}")
    named = (name for s in subjects for name in (*s.model.observation_names, *s.model.action_names))
    known = list(dict.fromkeys(named))
    last = shown_length(int(subjects[0].recordings.lengths[index])) - 1
    edits = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise RequestError(f"an edit is {entry!r}; expected step, variable and value")
        allow(entry, "step", "variable", "value")
        if entry.get("variable") not in known:
            raise RequestError(f"there is no variable {entry.get('variable')!r}; there are {', '.join(known)}")
        edits.append(Edit(whole(entry, "step", 0, last), entry["variable"], real(entry.get("value"), "value")))
    return edits


def number_list(content: dict[str, Any], name: str) -> list[float]:
    """A short list of numbers."""
    values = content.get(name)
    if not isinstance(values, list) or len(values) > 16:
        raise RequestError(f"{name} is {values!r}; expected a list of numbers")
    return [real(value, name) for value in values]


def start_options(content: dict[str, Any]) -> dict[str, Any]:
    """Where a world starts: names with a number or some numbers each; the world itself knows which."""
    options = content.get("start", {})
    if not isinstance(options, dict):
        raise RequestError(f"start is {options!r}; expected names with numbers")
    return {
        str(name): number_list(options, name) if isinstance(value, list) else real(value, str(name))
        for name, value in options.items()
    }
