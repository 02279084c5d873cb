"""Ways to damage bytes and JSON."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

DEEP = 100_000
ODD_NUMBERS = (0, -1, 1, 2, 3, 7, 2**31, 2**63, 2**64, 10**39, 10**400, 0.5, -0.0, 1e-300, 1e308)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "8", "NaN", "\ud800", "x" * 1000, "../../up", "\0", [], {}, [[]], [None], {"": None}),
    *(*ODD_NUMBERS, float("nan"), float("inf"), float("-inf")),
)


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """What disks, networks and editors do to a file."""
    changed = bytearray(data)
    place = rng.randrange(max(1, len(data)))
    match rng.randrange(9):
        case 0 | 1 | 2 if data:
            for _ in range(rng.choice([1, 1, 1, 2, 8])):
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 3:
            del changed[place:]
        case 4:
            del changed[place : place + rng.randint(1, 64)]
        case 5:
            changed[place:place] = rng.randbytes(rng.randint(1, 64))
        case 6:
            changed[place : place + 512] = bytes(min(512, len(data) - place))
        case 7:
            changed += rng.choice([b"\0", b"\n", rng.randbytes(100), data])
        case _:
            end = rng.randrange(place, len(data) + 1)
            changed[place:end] = rng.randbytes(end - place)
    return bytes(changed)


def list_places(content: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to everything inside of JSON data: keys and indices from the outside in."""
    found: list[tuple[Any, ...]] = []
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in entries:
        found += [(*way, key), *list_places(value, (*way, key))]
    return found


def damage_json(rng: random.Random, content: Any) -> Any:
    """JSON data with something removed, added, renamed, or of another type; the data itself is left alone."""
    changed = json.loads(json.dumps(content))
    for _ in range(rng.choice([1, 1, 2, 3])):
        places = list_places(changed)
        if not places:
            return rng.choice(ODD_VALUES)
        *outer, key = rng.choice(places)
        parent = changed
        for step in outer:
            parent = parent[step]
        match rng.randrange(6):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(["unknown", "", "\ud800", f"{key}2"])] = parent.pop(key)
            case 2 if isinstance(parent[key], (int, float)):
                parent[key] = rng.choice(ODD_NUMBERS)
            case 3:
                parent[key] = [parent[key]]
            case _:
                parent[key] = deepcopy(rng.choice(ODD_VALUES))  # the next change may be inside it
    return changed


def spell_json(rng: random.Random, content: Any) -> str:
    """JSON data as a text, sometimes nested deeper than any parser follows, or with a key twice."""
    text = json.dumps(content)
    match rng.randrange(24):
        case 0:
            return '{"a":' * DEEP + text + "}" * DEEP
        case 1:
            return "[" * DEEP
        case 2 if isinstance(content, dict) and content:
            return (
                text[:-1] + f", {json.dumps(rng.choice(list(content)))}: {rng.choice(['null', '1e999', '9' * 400])}}}"
            )
        case _:
            return text
