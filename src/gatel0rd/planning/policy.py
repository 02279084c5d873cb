"""Acting by planning with a learned model, and remembering what was expected."""

from __future__ import annotations

import numpy as np

from gatel0rd.planning.diagnosis import Diagnosis, Neighbourhood, diagnose
from gatel0rd.planning.dynamics import Dynamics, Forecaster, StepCost
from gatel0rd.planning.icem import ICEMConfig
from gatel0rd.planning.noise import Array

VISITED = 20
"""Plans of an episode whose observations are compared with the data."""


class PlanningPolicy:
    """Chooses the actions of one episode with iCEM, from the memory that the model carries along.

    Args:
        observation: the first one, [O].
        cost: of steps; minus the reward if not given.
        caution: weight of the models' disagreement about a plan in its cost.
        exploration: noise that is added to actions, as a share of half their range.
        rng: of that noise.
        search_rng: of the search.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        observation: Array,
        search: ICEMConfig,
        *,
        cost: StepCost | None,
        caution: float,
        exploration: float,
        rng: np.random.Generator,
        search_rng: np.random.Generator,
    ) -> None:
        self.coding, self.horizon = dynamics.coding, search.horizon
        self.caution, self.exploration, self.rng = caution, exploration, rng
        self.planner = self.coding.make_planner(search, search_rng)
        self.forecaster = Forecaster(dynamics, cost)
        # A plan that just survives its horizon is not as good as one that is far from any end: being close to one costs
        # what ending does, the rewards of later steps. Where rewards are negative, ends are sought.
        self.price = dynamics.units.mean_reward if cost is None else 0.0
        self.closeness = 0.0  # of the next step, as planned
        self.forecaster.begin(observation)
        self.plans: list[Array] = []
        self.stds: list[float] = []
        self.visited: list[Array] = []

    def __call__(self) -> Array:
        """The next action, [A]."""
        (action,) = self.planner.plan(self._objective)
        futures = self.forecaster.predict(self.planner.planned)
        self.plans.append(futures.costs[:, 0].mean(axis=0))
        self.stds.append(float(futures.costs[:, 0].sum(axis=-1).std()))
        self.closeness = float(futures.closeness[:, 0, 0].mean())
        self.visited.append(futures.observations[:, 0].mean(axis=0))
        return self.coding.disturb(action, self.exploration, self.rng) if self.exploration else action

    def _objective(self, sequences: Array) -> Array:
        futures = self.forecaster.predict(sequences[0])
        totals = (futures.costs + self.price * futures.closeness).sum(axis=-1)  # [M, N]
        result: Array = totals.mean(axis=0) + self.caution * totals.std(axis=0)
        return result[None]

    def advance(self, action: Array, observation: Array) -> None:
        """The action that was taken, and what was seen then. Shape: [A], [O]."""
        self.forecaster.advance(action, observation)

    def diagnose(self, actions: Array, costs: Array, *, data: Array, cost_std: float) -> Diagnosis | None:
        """How what was expected compares with what came; None for an episode of a single step.

        Looks ahead as far as plans do, but no farther than half of the episode, so that there are starts to average.

        Args:
            actions: of the episode, [T, A].
            costs: that came, [T].
            data: observations that the model was fitted to, [S, O].
            cost_std: of that data.
        """
        ahead = min(self.horizon, len(actions) // 2)
        if not ahead:
            return None
        every = max(1, len(self.visited) // VISITED)
        return diagnose(
            plans=np.array(self.plans)[:, :ahead],
            plan_stds=np.array(self.stds),
            visited=np.array(self.visited[::every])[:, :ahead],
            replayed=self.forecaster.replay(actions, ahead).costs.mean(axis=0),
            costs=costs,
            neighbourhood=Neighbourhood(data, self.rng),
            cost_std=cost_std,
            gates=self.forecaster.gates,
            horizon=self.horizon,
        )
