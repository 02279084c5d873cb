"""Which extra of this package brings a module that is missing; the package's own metadata says so."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

DISTRIBUTIONS = {"PIL": "pillow", "pygame": "pygame-ce", "h5py": "minari", "sb3_contrib": "sb3-contrib"}
"""Module -> the distribution that brings it, where the names differ by more than case and underscores."""
REQUIREMENT = re.compile(r"""^\s*(?P<name>[\w.-]+).*?;.*?extra\s*==\s*["'](?P<extra>[\w.-]+)["']""")


def distribution_of(module: str) -> str:
    """The name under which a module is installed."""
    top = module.partition(".")[0]
    return re.sub(r"[-_.]+", "-", DISTRIBUTIONS.get(top, top)).lower()


def find_extra(module: str) -> str | None:
    """The extra that brings a module, the first that ``pyproject.toml`` names; None if no extra does."""
    try:
        requirements = requires("gatel0rd") or []
    except PackageNotFoundError:
        return None
    wanted = distribution_of(module)
    if wanted == "gatel0rd":  # extras that name others of our own
        return None
    for requirement in requirements:
        match = REQUIREMENT.match(requirement)
        if match is not None and distribution_of(match["name"].replace(".", "-")) == wanted:
            return match["extra"]
    return None


def advise(error: ModuleNotFoundError) -> str:
    """What to do about a module that is missing."""
    if error.name is None or "pip install" in str(error):
        return str(error)
    extra = find_extra(error.name)
    if extra is None:
        return f"{error.name} is missing, and no extra of this package brings it"
    return f"{error.name} is missing; pip install 'gatel0rd[{extra}]'"
