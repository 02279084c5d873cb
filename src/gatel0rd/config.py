"""Configurations as plain data: to JSON, from JSON, and a hash that names them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, TypeVar, cast, get_type_hints

T = TypeVar("T")


def to_json(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON data."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_json(kind: type[T], plain: dict[str, Any]) -> T:
    """A configuration from :func:`to_json`'s data; unknown or missing fields are an error."""
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(cast(Any, kind))]
    unknown = set(plain) - set(known)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    values: dict[str, Any] = {}
    for name, value in plain.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            values[name] = from_json(hint, value)
        elif isinstance(value, list):
            item: Any = getattr(hint, "__args__", (None,))[0]
            values[name] = tuple(from_json(item, entry) if isinstance(entry, dict) else entry for entry in value)
        else:
            values[name] = value
    return kind(**values)


def content_hash(config: Any) -> str:
    """Ten hexadecimal digits that name a configuration, or plain JSON data, by its whole content.

    Fields at their default value count too: who changes a default changes the name.
    """
    plain = to_json(config) if dataclasses.is_dataclass(config) else config
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]
