"""The form of a record: what reports and runs may rely on, whoever wrote it and whatever became of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NUMBERS = (int, float)


class FormError(ValueError):
    """A record whose parts do not have the form that they should have."""


def check_form(content: dict[str, Any]) -> None:
    """Raise a :class:`FormError` if a record's measurements are not numbers in the places where they should be."""
    for name in ("parameters", "wall_seconds"):
        _require(is_number(content.get(name)), name, "a number")
    share, length = content.get("share_of_paper", ""), content["run"].get("length_override")
    _require(share is None or is_number(share), "share_of_paper", "a number")
    _require(length is None or (is_number(length) and length >= 1), "run.length_override", "at least 1")
    for part, name in (("code", "commit"), ("machine", "processor")):
        _require(isinstance(_part(content, part).get(name), str), f"{part}.{name}", "a text")
    if "curves" in content:  # the records of the zoo have none
        _check_curves(_part(content, "curves"), "frames" if content["kind"] == "agent" else "epoch")
    for name, values in _part(content, "final").items():
        known = isinstance(values, dict) and all(map(_is_plain, values.values()))
        _require(known, f"final.{name}", "names with numbers or texts")
    if content.get("measures") is not None:
        _check_measures(_part(content, "measures"))
    if "planning" in content:
        _check_planning(_part(content, "planning"))


def is_number(value: Any) -> bool:
    """Whether something is a finite number."""
    return isinstance(value, NUMBERS) and not isinstance(value, bool) and abs(value) < math.inf


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool)) or is_number(value)


def _require(fits: bool, name: str, expected: str) -> None:
    if not fits:
        raise FormError(f"{name} is damaged; expected {expected}")


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    _require(isinstance(part, dict), name, "an object")
    found: dict[str, Any] = part or {}
    return found


def _check_curves(curves: dict[str, Any], time: str) -> None:
    times = curves.get(time)
    _require(isinstance(times, list) and all(map(is_number, times)), f"curves.{time}", "a list of numbers")
    for name, values in curves.items():
        fits = isinstance(values, list) and len(values) == len(curves[time])
        fits = fits and all(value is None or is_number(value) for value in values)
        _require(fits, f"curves.{name}", f"{len(curves[time])} numbers")


def _check_measures(measures: dict[str, Any]) -> None:
    for name in ("gating", "latents"):
        found = measures.get(name)
        _require(found is None or (isinstance(found, dict) and _holds_numbers(found)), f"measures.{name}", "numbers")
    examples = measures.get("examples", {})
    _require(isinstance(examples, dict), "measures.examples", "an object")
    for name, example in examples.items():
        _require(isinstance(example, dict), f"measures.examples.{name}", "an object")
        for series in ("observations", "predictions", "latents", "gates"):
            rows = example.get(series)
            _require(
                (rows is None and series == "gates") or _is_matrix(rows),
                f"measures.examples.{name}.{series}",
                "rows of numbers",
            )


def _holds_numbers(content: Any) -> bool:
    if isinstance(content, (dict, list)):
        return all(map(_holds_numbers, content.values() if isinstance(content, dict) else content))
    return content is None or is_number(content)


def _is_matrix(rows: Any) -> bool:
    try:
        array = np.array(rows)
    except ValueError:  # rows of different lengths
        return False
    return array.ndim == 2 and array.dtype.kind in "fiu" and bool(np.isfinite(array).all())


def _check_planning(planning: dict[str, Any]) -> None:
    epochs = planning.get("epochs")
    _require(isinstance(epochs, list) and all(map(is_number, epochs)), "planning.epochs", "a list of numbers")
    for name in ("episodes", "success", "reached", "seconds", "commits"):
        values = planning.get(name)
        fits = isinstance(values, list) and len(values) == len(planning["epochs"])
        counted = name in ("episodes", "success", "seconds")
        fits = fits and (not counted or all(map(is_number, values or ())))
        _require(fits, f"planning.{name}", f"{len(planning['epochs'])} entries, one for each epoch")
