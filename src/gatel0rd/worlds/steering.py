"""How a person drives a world in the explorer, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ARROWS: Mapping[str, tuple[float, ...]] = {
    "ArrowLeft": (-1.0, 0.0),
    "ArrowUp": (0.0, 1.0),
    "ArrowDown": (0.0, -1.0),
    "ArrowRight": (1.0, 0.0),
}
"""Keys that move something in the plane, in the order in which the page shows them."""


@dataclass(frozen=True, kw_only=True)
class Toggle:
    """A key that flips one number of the action between 1 and -1.

    Attributes:
        index: which number of the action.
        status: entry of the environment's ``info`` that says whether it is on.
        on, off: what the page says next to the clock.
    """

    index: int
    status: str
    on: str
    off: str


@dataclass(frozen=True, kw_only=True)
class Shot:
    """The environment is not driven by actions: a click places something, a drag gives it a velocity.

    Attributes:
        place, velocity: options of the environment's ``reset``, two numbers each.
        half_picture: half of the picture's width and height in the units of ``place``, whose origin is in the middle.
        reach: largest numbers of ``place``; a click farther out is brought there.
        speed: velocity per unit of ``place`` that is dragged.
        fastest: largest length of ``velocity``; a click may be dragged by a twentieth of it.
        observed: which numbers of the observation are the present place.
        stopped: entry of ``info`` that says that nothing will move any more; None: there is none.
        longest: number of steps after which time stops.
    """

    place: str
    velocity: str
    half_picture: tuple[float, float] = (1.0, 1.0)
    reach: tuple[float, float] = (1.0, 1.0)
    speed: tuple[float, float] = (1.0, 1.0)
    fastest: float = 1.0
    observed: tuple[int, int] = (0, 1)
    stopped: str | None = None
    longest: int = 300


@dataclass(frozen=True, kw_only=True)
class Steering:
    """How a person drives a world.

    Attributes:
        help: one or two sentences, plain text.
        waiting: what the page says before the first step.
        keys: name of a key, as browsers call it -> what it adds to the action while it is held.
        toggles: name of a key -> what it flips.
        wait_key: a key that takes a step in which nothing is done; None: there is none.
        may_run: whether time can be left to run without a key.
        shot: for worlds without actions.
        messages: entry of ``info`` -> what is said when it becomes true, and when it becomes false.
        ended: what is said when the episode ends.
    """

    help: str
    waiting: str
    keys: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    toggles: Mapping[str, Toggle] = field(default_factory=dict)
    wait_key: str | None = None
    may_run: bool = False
    shot: Shot | None = None
    messages: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    ended: str | None = None
