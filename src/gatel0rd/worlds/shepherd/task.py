"""Shepherd as a control problem (Suppl. B.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask, Flags, distances
from gatel0rd.training.recipe import Preset
from gatel0rd.worlds.shepherd import ShepherdWorld
from gatel0rd.worlds.shepherd import dynamics as shepherd


class Herding(ControlTask):
    """Place the cage, open the gate, have the sheep caught. Radii are 1.5 times the data's (1.2 in ``reference``)."""

    name = "shepherd"
    horizon, limit, idle = 100, 60, (0.0, 0.0, 1.0)
    far = 2.0
    """The cost of a sheep that is out of reach."""

    def __init__(self, preset: Preset = "text") -> None:
        self.rules = shepherd.rules_of(preset)
        self.enlarged = 1.5 if preset == "text" else 1.2
        self.lever_radius, self.cage_radius = (
            self.enlarged * radius for radius in (shepherd.LEVER_RADIUS, shepherd.CAGE_RADIUS)
        )

    def reset(self, generators: Sequence[np.random.Generator]) -> Array:
        lowest, highest = shepherd.LOWEST[1], shepherd.HIGHEST[1]
        agent = np.array([(shepherd.START_X, generator.uniform(lowest, highest)) for generator in generators])
        sheep = zip(*(shepherd.sample_sheep(generator, self.rules) for generator in generators), strict=True)
        self.state = shepherd.start(agent, *map(np.stack, sheep))
        return shepherd.observe(self.state, self.rules.mask)

    def step(self, actions: Array) -> tuple[Array, Flags]:
        self.state = self._next(self.state, np.clip(actions, -1, 1))
        return shepherd.observe(self.state, self.rules.mask), self.state.caught

    def keep(self, rows: NDArray[np.int64]) -> None:
        self.state = shepherd.ShepherdState._make(part[rows] for part in self.state)

    def simulate(self, sequences: Array) -> Array:
        episodes, count, steps, _ = sequences.shape
        state = shepherd.ShepherdState._make(np.repeat(part[:, None], count, axis=1) for part in self.state)
        observations = np.empty((episodes, count, steps, len(ShepherdWorld.observation_names)))
        for t in range(steps):
            state = self._next(state, sequences[:, :, t])
            observations[:, :, t] = shepherd.observe(state, self.rules.mask)
        return observations

    def cost(self, observations: Array, actions: Array) -> Array:
        """Distance of sheep and cage, at most 2; 2 while the sheep is hidden or above the gate (y > -0.1)."""
        cage = observations[..., 2:4] / shepherd.MEADOW_SCALE + shepherd.MEADOW_SHIFT
        sheep = observations[..., 4:6] + shepherd.SHEEP_SHIFT
        distance = np.minimum(distances(sheep, cage), self.far)
        out_of_reach = sheep[..., 1] > -0.1
        if self.rules.mask[1] < -0.1:  # a mask that looks like a sheep below the gate
            out_of_reach |= distances(observations[..., 4:6], np.array(self.rules.mask)) < shepherd.NEAR_MASK
        total: Array = np.where(out_of_reach, self.far, distance).sum(axis=-1)
        return total

    def _next(self, state: shepherd.ShepherdState, actions: Array) -> shepherd.ShepherdState:
        return shepherd.transition(state, actions, self.lever_radius, self.cage_radius)
