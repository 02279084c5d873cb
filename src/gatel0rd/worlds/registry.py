"""The worlds by name. One call of :func:`register` makes a world known to all commands.

A module of your own that registers worlds is found by every command, and by the processes that they start, if it is
named in the environment variable ``GATEL0RD_WORLDS``: names of modules or paths of Python files, separated by commas.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path

from gatel0rd.worlds.base import EnvironmentSpec, World

VARIABLE = "GATEL0RD_WORLDS"
_worlds: dict[str, World] = {}
_loaded: set[str] = set()


def register(world: World) -> World:
    """Make a world known, and its environment known to Gymnasium; a name that is taken is an error.

    Example:
        >>> from gatel0rd.worlds import World, names, register, unregister
        >>> class Ring(World):
        ...     name, title = "ring", "A ring"
        >>> _ = register(Ring())
        >>> names()[-1]
        'ring'
        >>> unregister("ring")
    """
    if not isinstance(world, World):
        raise TypeError(f"the world is {world!r}; expected an instance of a subclass of gatel0rd.worlds.World")
    name = getattr(world, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise ValueError(f"the world's name is {name!r}; expected lower-case letters, digits and hyphens")
    if not getattr(world, "title", None):
        raise ValueError(f"the world {name!r} has no title; reports need one")
    if name in _worlds:
        raise ValueError(f"there is a world {name!r} already ({_worlds[name].title}); choose another name")
    if world.environment is not None:
        register_environment(world.environment)
    _worlds[name] = world
    return world


def unregister(name: str) -> None:
    """Forget a world.

    Example:
        >>> from gatel0rd.worlds import World, names, register, unregister
        >>> class Ring(World):
        ...     name, title = "ring", "A ring"
        >>> _ = register(Ring())
        >>> unregister("ring")
        >>> "ring" in names()
        False
    """
    world = _worlds.pop(get(name).name)
    spec = world.environment
    if spec is not None and all(other.environment != spec for other in _worlds.values()):
        with contextlib.suppress(ModuleNotFoundError):
            import gymnasium

            gymnasium.registry.pop(spec.id, None)


def names() -> tuple[str, ...]:
    """The names of all worlds, in the order in which they were registered.

    Example:
        >>> from gatel0rd.worlds import names
        >>> names()[:3]
        ('billiard', 'rrc', 'shepherd')
    """
    _load_own()
    return tuple(_worlds)


def all_worlds() -> tuple[World, ...]:
    """All worlds, in the order in which they were registered.

    Example:
        >>> from gatel0rd.worlds import all_worlds
        >>> [world.title for world in all_worlds()][:2]
        ['Billiard Ball', 'Robot Remote Control']
    """
    return tuple(_worlds[name] for name in names())


def find(name: str | None) -> World | None:
    """The world with this name, None if there is none."""
    return _worlds[name] if name in names() else None


def get(name: str) -> World:
    """The world with this name; an unknown name is an error that suggests the nearest.

    Example:
        >>> from gatel0rd.worlds import get
        >>> get("rrc").title
        'Robot Remote Control'
    """
    world = find(name)
    if world is not None:
        return world
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(
        f"there is no world {name!r}{hint}; there are {', '.join(names())}. "
        f"If it is one of your own, name its module in the environment variable {VARIABLE}"
    )


def register_environment(spec: EnvironmentSpec) -> None:
    """Make an environment known to ``gymnasium.make``; does nothing the second time, and without Gymnasium."""
    with contextlib.suppress(ModuleNotFoundError):  # data and experiments need no Gymnasium
        import gymnasium

        if spec.id not in gymnasium.registry:
            gymnasium.register(
                spec.id, entry_point=spec.entry_point, max_episode_steps=spec.time_limit, kwargs=spec.options
            )


def _load_own() -> None:
    """Import the modules and files that the environment variable names, each once."""
    for place in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        if place in _loaded:
            continue
        _loaded.add(place)  # first, as the module may ask for worlds while it is imported
        try:
            _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        except Exception as error:
            _loaded.discard(place)
            raise ValueError(
                f"{VARIABLE} names {place!r}, which cannot be imported ({type(error).__name__}: {error}); "
                "expected names of modules or paths of Python files, separated by commas"
            ) from error


def _load_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
