"""Generated recordings of several kinds whose boundaries are known exactly: for tests, for the guide and for trying.

Every family is a function of a random generator and sizes; :data:`FAMILIES` names them, with what counts as found.
Some are without any event: white noise, a random walk and a sine wave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gatel0rd.models.events import Agreement, Times, agreement
from gatel0rd.recordings.arrays import from_arrays
from gatel0rd.recordings.recordings import Recordings

Array = NDArray[np.float64]
Sequence1 = tuple[Array, Array | None, list[int]]
"""One sequence: observations [T, O], actions [T, A] or None, and its boundaries."""
SHORTEST_SEGMENT = 12
"""Steps that lie between two boundaries at least, except for contacts, which physics decides."""


@dataclass(frozen=True)
class LabelledRecordings:
    """Recordings and the true boundaries of every sequence."""

    recordings: Recordings
    boundaries: list[Times]
    tolerance: int

    def agree(self, found: Sequence[Sequence[int] | Times]) -> Agreement:
        """How well boundaries agree with the true ones."""
        return agreement(found, self.boundaries, int(self.recordings.lengths.max()), self.tolerance)


@dataclass(frozen=True)
class Family:
    """A kind of recordings.

    Attributes:
        make: one sequence of so many steps.
        tolerance: steps within which a boundary counts as found.
        wanted: F1 that the default should reach; None where there are no events, of which at most 0.1 per sequence
            should then be found.
        summary: what happens, in words.
    """

    make: Callable[[np.random.Generator, int], Sequence1]
    tolerance: int
    wanted: float | None
    summary: str


def make_family(name: str, *, seed: int = 0, sequences: int = 60, steps: int = 100) -> LabelledRecordings:
    """Recordings of a family.

    Args:
        name: one of :data:`FAMILIES`.
        seed: what differs between recordings of one family, such as the size of the noise, follows from it, too.
    """
    if name not in FAMILIES:
        raise ValueError(f"there is no family {name!r}; expected one of {', '.join(FAMILIES)}")
    family = FAMILIES[name]
    rng = np.random.default_rng([seed, sorted(FAMILIES).index(name)])
    made = [family.make(rng, steps) for _ in range(sequences)]
    actions = [entry[1] for entry in made if entry[1] is not None]
    recordings = from_arrays([entry[0] for entry in made], actions or None)
    return LabelledRecordings(recordings, [np.array(entry[2], dtype=np.int64) for entry in made], family.tolerance)


def draw_boundaries(rng: np.random.Generator, steps: int, *, mean: float = 30) -> list[int]:
    """Boundaries whose distances are at least :data:`SHORTEST_SEGMENT` steps and ``mean`` on average."""
    found: list[int] = []
    time = 0
    while True:
        time += SHORTEST_SEGMENT + int(rng.exponential(mean - SHORTEST_SEGMENT))
        if time > steps - SHORTEST_SEGMENT:
            return found
        found.append(time)


def count_segments(cuts: Sequence[int], steps: int) -> NDArray[np.int64]:
    """The number of the segment that each step is in, [T]."""
    return np.searchsorted(np.asarray(cuts, dtype=np.int64), np.arange(steps), side="right").astype(np.int64)


def signalled_switch(rng: np.random.Generator, steps: int) -> Sequence1:
    """A tank fills or empties; a press of a button, which is given, turns the hidden switch between the two."""
    cuts = draw_boundaries(rng, steps)
    pressed = np.zeros((steps, 1))
    pressed[cuts] = 1
    direction = rng.choice([-1.0, 1.0]) * (-1.0) ** count_segments(cuts, steps)  # of the change after each row
    change = 0.1 * direction + 0.01 * rng.normal(size=steps)
    level = rng.normal() + np.concatenate([[0.0], np.cumsum(change)[:-1]])
    return level[:, None], pressed, cuts


def lamp_switch(rng: np.random.Generator, steps: int) -> Sequence1:
    """As above, but an observed lamp flashes when the switch turns, and nothing is given."""
    observations, pressed, cuts = signalled_switch(rng, steps)
    assert pressed is not None
    return np.concatenate([observations, pressed], axis=1), None, cuts


def _driven(rng: np.random.Generator, steps: int, gains: tuple[float, float]) -> Sequence1:
    """A position that random actions move, by a gain that nothing shows."""
    cuts = draw_boundaries(rng, steps)
    actions = rng.uniform(-1, 1, size=(steps, 1))
    gain = np.array(gains)[(count_segments(cuts, steps) + rng.integers(2)) % 2]
    change = gain * actions[:, 0] + 0.02 * rng.normal(size=steps)
    position = rng.normal() + np.concatenate([[0.0], np.cumsum(change)[:-1]])
    return position[:, None], actions, cuts


def hidden_gain(rng: np.random.Generator, steps: int) -> Sequence1:
    """Actions move something strongly or weakly."""
    return _driven(rng, steps, (0.1, 1.0))


def sign_flip(rng: np.random.Generator, steps: int) -> Sequence1:
    """Actions move something in their direction or against it."""
    return _driven(rng, steps, (-1.0, 1.0))


def oscillation(rng: np.random.Generator, steps: int) -> Sequence1:
    """Three channels that oscillate, all with another frequency and amplitude in every segment."""
    cuts = draw_boundaries(rng, steps, mean=50)
    segment = count_segments(cuts, steps)
    count = len(cuts) + 1
    periods = np.exp(rng.uniform(np.log(4), np.log(16), size=(count, 3)))
    amplitudes = np.exp(rng.uniform(np.log(0.3), np.log(3), size=(count, 3)))
    phase = np.cumsum(2 * np.pi / periods[segment], axis=0) + rng.uniform(0, 2 * np.pi, size=3)
    values = amplitudes[segment] * np.sin(phase) + 0.1 * rng.normal(size=(steps, 3))
    return values, None, cuts


def level_shift(rng: np.random.Generator, steps: int) -> Sequence1:
    """Noise around a level that shifts by three to six standard deviations."""
    cuts = draw_boundaries(rng, steps)
    shifts = rng.choice([-1, 1], size=len(cuts) + 1) * rng.uniform(3, 6, size=len(cuts) + 1)
    levels = np.cumsum(shifts)[count_segments(cuts, steps)]
    return (levels + rng.normal(size=steps))[:, None], None, cuts


def contacts(rng: np.random.Generator, steps: int) -> Sequence1:
    """A ball between four walls."""
    place, angle = rng.uniform(-0.9, 0.9, size=2), rng.uniform(0, 2 * np.pi)
    speed = rng.uniform(0.04, 0.08) * np.array([np.cos(angle), np.sin(angle)])
    places, cuts = [], []
    for time in range(steps):
        places.append(place)
        place = place + speed
        outside = np.abs(place) > 1
        if outside.any() and time + 1 < steps:
            place = np.where(outside, 2 * np.sign(place) - place, place)
            speed = np.where(outside, -speed, speed)
            cuts.append(time + 1)
    return np.array(places) + 0.002 * rng.normal(size=(steps, 2)), None, cuts


def white_noise(rng: np.random.Generator, steps: int) -> Sequence1:
    """Independent normal numbers."""
    return rng.normal(size=(steps, 2)), None, []


def random_walk(rng: np.random.Generator, steps: int) -> Sequence1:
    """Sums of independent normal numbers."""
    return np.cumsum(rng.normal(size=(steps, 2)), axis=0), None, []


def sine(rng: np.random.Generator, steps: int) -> Sequence1:
    """A sine wave without noise."""
    phase = rng.uniform(0, 2 * np.pi) + np.arange(steps) * 2 * np.pi / 17
    return np.sin(phase)[:, None], None, []


FAMILIES: dict[str, Family] = {
    "signalled-switch": Family(signalled_switch, 3, 0.9, "a button turns a hidden switch"),
    "lamp-switch": Family(lamp_switch, 3, 0.9, "a hidden switch turns, and a lamp flashes"),
    "hidden-gain": Family(hidden_gain, 3, 0.9, "the effect of actions becomes strong or weak"),
    "sign-flip": Family(sign_flip, 3, 0.9, "the effect of actions is reversed"),
    "contacts": Family(contacts, 3, 0.9, "a ball meets walls"),
    "level-shift": Family(level_shift, 3, 0.8, "the level of noise shifts"),
    "oscillation": Family(oscillation, 10, 0.8, "three channels change frequency and amplitude"),
    "white-noise": Family(white_noise, 3, None, "nothing happens"),
    "random-walk": Family(random_walk, 3, None, "nothing happens"),
    "sine": Family(sine, 3, None, "nothing happens"),
}
