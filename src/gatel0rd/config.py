"""Configurations as plain data: to JSON, from JSON, and a hash that names them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from numbers import Integral
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def check_numbers(*, least: int = 1, **numbers: Any) -> None:
    """An argument that is no whole number, or one below ``least``, is an error."""
    for name, value in numbers.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name} is {_show(value)}; expected a whole number of at least {least}")


def to_json(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON data."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_json(kind: type[T], plain: Any) -> T:
    """A configuration from :func:`to_json`'s data; fields that are unknown, missing or of another type are an error."""
    if not isinstance(plain, dict):
        raise ValueError(f"{kind.__name__} is {_show(plain)}; expected an object with its fields")
    fields = dataclasses.fields(cast(Any, kind))
    known = [field.name for field in fields]
    unknown = set(plain) - set(known)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    missing = [
        field.name
        for field in fields
        if field.default is field.default_factory is dataclasses.MISSING and field.name not in plain
    ]
    if missing:
        raise ValueError(f"{kind.__name__} lacks {', '.join(missing)}")
    hints = get_type_hints(kind)
    return kind(**{name: _convert(value, hints[name], f"{kind.__name__}.{name}") for name, value in plain.items()})


def _convert(value: Any, hint: Any, where: str) -> Any:
    """A value of JSON as the type that a field has; another type is an error."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _convert_to_one(value, arguments, where)
    if origin is tuple:
        fits = isinstance(value, list | tuple) and (arguments[-1] is Ellipsis or len(arguments) == len(value))
        if fits:
            kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
            return tuple(_convert(entry, of, where) for entry, of in zip(value, kinds, strict=True))
    elif origin is Literal:
        fits = value in arguments
    elif hint is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        expected = origin or hint
        fits = not isinstance(expected, type) or isinstance(value, expected)
    if not fits:
        raise ValueError(f"{where} is {_show(value)}; expected {getattr(hint, '__name__', hint)}")
    return value


def _convert_to_one(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    errors: list[ValueError] = []
    for hint in hints:
        try:
            return _convert(value, hint, where)
        except ValueError as error:
            errors.append(error)
    raise errors[0]


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def content_hash(config: Any) -> str:
    """Ten hexadecimal digits that name a configuration, or plain JSON data, by its whole content.

    Fields at their default value count too: who changes a default changes the name.
    """
    plain = to_json(config) if dataclasses.is_dataclass(config) else config
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]
