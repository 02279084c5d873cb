"""Reads the bodies of requests; what is not as expected raises a :class:`RequestError` that says so."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from gatel0rd.explore.models import ExploredModel
from gatel0rd.explore.views import Edit, shown_length

MOST_EDITS = 1000
LARGEST_VALUE = 1e30
MOST_DIGITS = 40
"""Of a whole number."""


class RequestError(ValueError):
    """A request that cannot be answered; the message is for the person at the page."""


def parse_body(body: bytes) -> dict[str, Any]:
    """A JSON object without NaN and infinity."""

    def refuse(constant: str) -> Any:
        raise RequestError(f"the request has {constant} in it; expected finite numbers")

    def parse_integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise RequestError(f"the request has a number of {len(digits)} digits; expected at most {MOST_DIGITS}")
        return int(digits)

    try:
        content = json.loads(body, parse_constant=refuse, parse_int=parse_integer)
        json.dumps(content, ensure_ascii=False).encode()  # lone surrogates are no text that could be sent back
    except (json.JSONDecodeError, UnicodeError, RecursionError) as error:
        raise RequestError("the request is not JSON in UTF-8") from error
    if not isinstance(content, dict):
        raise RequestError("the request is not a JSON object")
    return content


def allow_fields(content: dict[str, Any], *names: str) -> None:
    """Refuse fields of other names."""
    unknown = sorted(set(content) - set(names))
    if unknown:
        raise RequestError(f"the request has unknown fields ({', '.join(unknown)}); expected {', '.join(names)}")


def read_integer(content: dict[str, Any], name: str, low: int, high: int) -> int:
    """An integer in [low, high]."""
    value = content.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name} is {value!r}; expected a whole number from {low} to {high}")
    return value


def check_number(value: Any, name: str) -> float:
    """A finite number of a reasonable size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > LARGEST_VALUE:
        raise RequestError(f"{name} is {value!r}; expected a finite number")
    if not math.isfinite(value):
        raise RequestError(f"{name} is {value!r}; expected a finite number")
    return float(value)


def read_sequence(content: dict[str, Any], models: Sequence[ExploredModel]) -> int:
    """The index of a sequence."""
    return read_integer(content, "sequence", 0, len(models[0].recordings) - 1)


def read_edits(content: dict[str, Any], models: Sequence[ExploredModel], index: int) -> list[Edit]:
    """Changed values: [{step, variable, value}, …]."""
    entries = content.get("edits", [])
    if not isinstance(entries, list) or len(entries) > MOST_EDITS:
        raise RequestError(f"edits are not a list of at most {MOST_EDITS}")
    named = (name for e in models for name in (*e.model.observation_names, *e.model.action_names))
    known = list(dict.fromkeys(named))
    last = shown_length(int(models[0].recordings.lengths[index])) - 1
    edits = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise RequestError(f"an edit is {entry!r}; expected step, variable and value")
        allow_fields(entry, "step", "variable", "value")
        if entry.get("variable") not in known:
            raise RequestError(f"there is no variable {entry.get('variable')!r}; there are {', '.join(known)}")
        edits.append(
            Edit(read_integer(entry, "step", 0, last), entry["variable"], check_number(entry.get("value"), "value"))
        )
    return edits


def read_numbers(content: dict[str, Any], name: str) -> list[float]:
    """A short list of numbers."""
    values = content.get(name)
    if not isinstance(values, list) or len(values) > 16:
        raise RequestError(f"{name} is {values!r}; expected a list of numbers")
    return [check_number(value, name) for value in values]


def read_start(content: dict[str, Any]) -> dict[str, Any]:
    """How a world starts: names with a number or some numbers each; the world itself knows which it takes."""
    options = content.get("start", {})
    if not isinstance(options, dict):
        raise RequestError(f"start is {options!r}; expected names with numbers")
    return {
        str(name): read_numbers(options, name) if isinstance(value, list) else check_number(value, str(name))
        for name, value in options.items()
    }
