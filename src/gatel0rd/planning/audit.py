"""What plans promise, compared with what they would lead to, where the task can simulate its own future."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gatel0rd.planning.foresight import Foresight
from gatel0rd.planning.icem import ICEM
from gatel0rd.planning.mpc import Rows
from gatel0rd.planning.noise import Array
from gatel0rd.planning.tasks import ControlTask

Measure = Callable[[Array, Array], Mapping[str, Array]]
"""Predicted and real futures of plans, [E, T, O] each -> named numbers, [E] each."""


@dataclass(frozen=True)
class AuditedPlans:
    """Numbers about the plan of every step, [P, E]: NaN where an episode was over.

    Attributes:
        predicted: costs as the model saw them.
        real: costs of the same actions in the true world, from the same moment.
        corrected: costs if one part of the prediction had been right, by the name of the part.
        measured: what else was measured.

    Example:
        >>> import numpy as np
        >>> from gatel0rd.planning import AuditedPlans
        >>> plans = AuditedPlans(np.array([[2.0, 3.0]]), np.array([[5.0, np.nan]]), {}, {})
        >>> plans.optimism(np.array([True, True]))
        3.0
    """

    predicted: Array
    real: Array
    corrected: Mapping[str, Array]
    measured: Mapping[str, Array]

    def optimism(self, episodes: Rows | Array) -> float:
        """By how much plans cost more than they promise: the mean over all plans of these episodes."""
        return float(np.nanmean((self.real - self.predicted)[:, episodes]))

    def blame(self, episodes: Rows | Array) -> dict[str, float]:
        """How much of the optimism goes away if one part of the prediction is replaced by the truth, by part.

        The parts need not add up to the whole: often one error only pays because of another one.
        """
        return {
            name: float(np.nanmean((costs - self.predicted)[:, episodes])) for name, costs in self.corrected.items()
        }


class CorrectedForesight:
    """A model some columns of whose predictions are replaced by the truth, to find out which errors plans fail by.

    Args:
        task: the task that is controlled; it is asked to simulate the candidates.
        foresight: the model.
        columns: those of the observations that are right.

    Example:
        >>> import numpy as np
        >>> import gatel0rd.worlds
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.planning import CorrectedForesight, LearnedForesight
        >>> task = gatel0rd.worlds.get("rrc").make_task()
        >>> model = LearnedForesight(WorldModel(WorldModelConfig(observation_size=4, action_size=2)))
        >>> foresight = CorrectedForesight(task, model, columns=(2, 3))
        >>> foresight.begin(task.reset(np.random.default_rng(0).spawn(1)))
        >>> actions = np.ones((1, 6, 5, 2))
        >>> np.array_equal(foresight.predict(actions)[..., 2:], task.simulate(actions)[..., 2:])
        True
    """

    def __init__(self, task: ControlTask, foresight: Foresight, *, columns: Sequence[int]) -> None:
        self.task, self.foresight, self.columns = task, foresight, list(columns)

    def begin(self, observations: Array) -> None:
        self.foresight.begin(observations)

    def ready(self) -> bool:
        return self.foresight.ready()

    def predict(self, sequences: Array) -> Array:
        futures = np.array(self.foresight.predict(sequences), dtype=np.float64)
        futures[..., self.columns] = self.task.simulate(sequences)[..., self.columns]
        return futures

    def advance(self, actions: Array, observations: Array) -> None:
        self.foresight.advance(actions, observations)

    def keep(self, rows: Rows) -> None:
        self.foresight.keep(rows)


class PlanAudit:
    """Looks at each plan of :func:`~gatel0rd.planning.control` before it is carried out; changes nothing.

    Args:
        task: the task that is controlled; it is asked to simulate the plans.
        foresight: the model that made them.
        episodes: how many there are.
        parts: columns of the observations, by name, that are replaced by the truth one part at a time.
        measure: further numbers about predicted and real futures.

    Example:
        >>> import numpy as np
        >>> import gatel0rd.worlds
        >>> from gatel0rd.planning import ICEMConfig, PlanAudit, TrueForesight, control
        >>> task = gatel0rd.worlds.get("rrc").make_task()
        >>> audit = PlanAudit(task, TrueForesight(task), episodes=2, parts={"robot": (2, 3)})
        >>> search = ICEMConfig(horizon=10, samples=16, elites=4)
        >>> rng = np.random.default_rng(0)
        >>> episodes = control(
        ...     task, TrueForesight(task), episodes=2, generator=rng, config=search, watch=audit.watch
        ... )
        >>> audit.plans().optimism(np.arange(2))  # the true world promises what it keeps
        0.0
    """

    def __init__(
        self,
        task: ControlTask,
        foresight: Foresight,
        *,
        episodes: int,
        parts: Mapping[str, Sequence[int]] | None = None,
        measure: Measure = lambda predicted, real: {},
    ) -> None:
        self.task, self.foresight, self.episodes = task, foresight, episodes
        self.parts = {} if parts is None else dict(parts)
        self.measure = measure
        self._predicted: list[Array] = []
        self._real: list[Array] = []
        self._corrected: dict[str, list[Array]] = {name: [] for name in self.parts}
        self._measured: dict[str, list[Array]] = {}

    def watch(self, planner: ICEM, rows: Rows) -> None:
        """Note the numbers of one plan per episode."""
        plan = planner.planned[:, None]  # [E, 1, T, A]
        predicted = np.asarray(self.foresight.predict(plan), dtype=np.float64)
        real = self.task.simulate(plan)
        self._predicted.append(self._spread(rows, self.task.cost(predicted, plan)[:, 0]))
        self._real.append(self._spread(rows, self.task.cost(real, plan)[:, 0]))
        for name, columns in self.parts.items():
            mixed = predicted.copy()
            mixed[..., list(columns)] = real[..., list(columns)]
            self._corrected[name].append(self._spread(rows, self.task.cost(mixed, plan)[:, 0]))
        for name, numbers in self.measure(predicted[:, 0], real[:, 0]).items():
            self._measured.setdefault(name, []).append(self._spread(rows, numbers))

    def _spread(self, rows: Rows, numbers: Array) -> Array:
        """Numbers of the episodes that are under way, with NaN for the others. Shape: [rows] -> [E]."""
        everyone = np.full(self.episodes, np.nan)
        everyone[rows] = numbers
        return everyone

    def plans(self) -> AuditedPlans:
        """All that was noted, [P, E] each."""
        if not self._real:
            raise ValueError("no plan was watched; give watch to control before asking for the plans")
        corrected, measured = (
            {name: np.stack(rows) for name, rows in table.items()} for table in (self._corrected, self._measured)
        )
        return AuditedPlans(np.stack(self._predicted), np.stack(self._real), corrected, measured)
