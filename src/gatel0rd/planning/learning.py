"""From an environment to a planner that has learned it: collect, fit, plan, and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from gatel0rd.config import content_hash
from gatel0rd.files import FileError, exclusive, load_arrays, read_json, save_arrays, write_sealed_json
from gatel0rd.planning.control_record import make_record
from gatel0rd.planning.dynamics import Dynamics, StepCost
from gatel0rd.planning.environment import time_limit
from gatel0rd.planning.experience import ActionCoding, EpisodeKind, RecordedEpisode, episode_path, load_episodes
from gatel0rd.planning.learn_config import LearnConfig
from gatel0rd.planning.noise import Array
from gatel0rd.planning.policy import PlanningPolicy
from gatel0rd.planning.units import find_units, read_units
from gatel0rd.training.loop import derive_seed

DYNAMICS_FILE = "dynamics.safetensors"
RECORD_FILE = "control.json"
FORMAT = 1
"""Of a directory; raised when the same files would mean something else."""


@dataclass(frozen=True)
class Progress:
    """How far learning is.

    Attributes:
        doing: what happens now, in words.
        steps: environment steps so far, without tests.
        total: budget of steps.
        part, parts: how far what happens now is.
        last_return: of the last episode that ended; None before.
    """

    doing: str
    steps: int
    total: int
    part: int
    parts: int
    last_return: float | None


OnProgress = Callable[[Progress], None]


def learn(
    env: gymnasium.Env[Any, Any],
    directory: Path | str,
    config: LearnConfig | None = None,
    *,
    cost: StepCost | None = None,
    on_progress: OnProgress = lambda progress: None,
    on_episode: Callable[[int, RecordedEpisode], None] = lambda number, episode: None,
) -> dict[str, Any]:
    """Learn to control an environment within a budget of steps; returns the record, which is also in the directory.

    Random actions come first; then a recurrent world model is fitted, episodes are planned with iCEM from the memory it
    carries, the model is fitted to them too, and so on. Called again with the same arguments it resumes, wherever it
    was killed; with more steps or tests it continues.

    Args:
        env: with a time limit; observations of any space that Gymnasium can flatten, actions from a bounded Box of one
            dimension or from Discrete.
        directory: keeps episodes, models and the record.
        cost: of a step, (observations [..., O] after the actions, actions [..., A]) -> [...]; minus the reward if not
            given. Discrete actions are one-hot vectors.
        on_progress: told after each step and each update.
        on_episode: told the number of each episode that is over, and shown it.

    Example:
        >>> import tempfile
        >>> import gymnasium
        >>> from gatel0rd.planning import DynamicsConfig, ICEMConfig, LearnConfig, learn
        >>> tiny = LearnConfig(
        ...     steps=60,
        ...     random_steps=30,
        ...     tests=1,
        ...     search=ICEMConfig(horizon=5, samples=8, elites=2),
        ...     dynamics=DynamicsConfig(window=10, first_updates=5, updates=5),
        ... )
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     record = learn(gymnasium.make("Pendulum-v1", max_episode_steps=30), directory, tiny)
        >>> [episode["kind"] for episode in record["episodes"]]
        ['random', 'planned', 'test']
    """
    learner = ControlLearner(env, Path(directory), config or LearnConfig(), cost=cost)
    with exclusive(learner.directory):
        learner.resume()
        return learner.run(on_progress, on_episode)


def film_episode(
    env: gymnasium.Env[Any, Any],
    directory: Path | str,
    config: LearnConfig,
    *,
    cost: StepCost | None = None,
    on_frame: Callable[[int], None] = lambda done: None,
) -> list[NDArray[np.uint8]]:
    """Pictures of the first test episode of what was learned in a directory, which is run once more.

    Args:
        env: as it was learned, made with ``render_mode="rgb_array"``.
    """
    learner = ControlLearner(env, Path(directory), config, cost=cost)
    learner.resume()
    if learner.dynamics is None:
        raise FileError(f"{directory} has no model yet; learn there first")
    frames: list[NDArray[np.uint8]] = []

    def draw() -> None:
        picture: Any = env.render()
        if not isinstance(picture, np.ndarray):
            raise ValueError(
                f"the environment gave no picture but {type(picture).__name__}; make it with render_mode='rgb_array'"
            )
        frames.append(picture.astype(np.uint8))
        on_frame(len(frames))

    learner.run_episode(len(learner.episodes) - len(learner.tests), "test", draw)
    return frames


class ControlLearner:
    """The loop of :func:`learn`, and what it knows so far.

    Attributes:
        episodes: all so far, tests at the end.
        dynamics: the model; None before the first fit.
        fitted: how many episodes it was fitted to.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], directory: Path, config: LearnConfig, *, cost: StepCost | None = None
    ) -> None:
        self.env, self.directory, self.config, self.cost = env, directory, config, cost
        self.coding = ActionCoding(env.action_space)
        if not env.observation_space.is_np_flattenable:
            raise ValueError(f"the observation space is {env.observation_space}; expected one that can be flattened")
        self.observation_size = int(spaces.flatdim(env.observation_space))
        self.limit = time_limit(env)
        self.episodes: list[RecordedEpisode] = []
        self.dynamics: Dynamics | None = None
        self.fitted = 0
        self.rounds = 0
        self.terms: list[dict[str, float]] = []
        self.fit_seconds: list[float] = []
        self.on_progress: OnProgress = lambda progress: None

    # ---- what is on the disk ----

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a directory to be one's own; with more steps or tests, learning there continues."""
        return {
            "format": FORMAT,
            "environment": "" if self.env.spec is None else self.env.spec.id,
            "limit": self.limit,
            "observation_size": self.observation_size,
            "shown": self.env.get_wrapper_attr("shown") if self.env.has_wrapper_attr("shown") else None,
            "actions": str(self.env.action_space),
            "own_cost": self.cost is not None,
            "settings": content_hash(replace(self.config, steps=self.config.random_steps, tests=0)),
        }

    def resume(self) -> None:
        """Continue with what the directory holds; one that belongs to other settings is an error."""
        settings = self.directory / "settings.json"
        if settings.exists():
            found = read_json(settings)
            if found != self.identity:
                differing = ", ".join(sorted(name for name in self.identity if found.get(name) != self.identity[name]))
                raise FileError(
                    f"{self.directory} was learned with other settings ({differing}); use another directory, or delete "
                    "this one to start over"
                )
        else:
            write_sealed_json(settings, self.identity)
        self.episodes = load_episodes(self.directory)
        if (self.directory / DYNAMICS_FILE).exists():
            arrays, kept = load_arrays(self.directory / DYNAMICS_FILE, kind="dynamics")
            self.dynamics = Dynamics(
                self.coding,
                self.observation_size,
                read_units(kept["units"]),
                self.config.dynamics,
                seed=self.config.seed,
            )
            self.dynamics.restore_arrays(arrays, self.directory / DYNAMICS_FILE)
            self.dynamics.ends = kept["ends"]
            self.fitted, self.rounds = kept["fitted"], kept["rounds"]
            self.terms, self.fit_seconds = kept["terms"], kept["seconds"]
        if self.fitted > len(self.learned_from):
            raise FileError(
                f"{self.directory} has a model of {self.fitted} episodes, but {len(self.learned_from)} of them; "
                "restore the others, or use another directory"
            )

    def _save_dynamics(self) -> None:
        assert self.dynamics is not None
        kept = {
            "units": self.dynamics.units.describe(),
            "ends": self.dynamics.ends,
            "fitted": self.fitted,
            "rounds": self.rounds,
            "terms": self.terms,
            "seconds": self.fit_seconds,
        }
        path = self.directory / DYNAMICS_FILE
        save_arrays(path, self.dynamics.read_arrays(), kind="dynamics", metadata=kept)

    # ---- the loop ----

    @property
    def learned_from(self) -> list[RecordedEpisode]:
        """All episodes but tests."""
        return [episode for episode in self.episodes if episode.kind != "test"]

    @property
    def tests(self) -> list[RecordedEpisode]:
        """Test episodes of the last model; there may be others, from before the budget was raised."""
        return list(takewhile(lambda episode: episode.kind == "test", reversed(self.episodes)))[::-1]

    @property
    def steps(self) -> int:
        """Environment steps so far, without tests."""
        return sum(episode.steps for episode in self.learned_from)

    def run(self, on_progress: OnProgress, on_episode: Callable[[int, RecordedEpisode], None]) -> dict[str, Any]:
        """Collect, fit and plan until the budget is used up, then test."""
        self.on_progress = on_progress
        while (kind := self._next()) is not None:
            if kind != "random" and self._fit_is_due():
                self._fit()
                continue
            number = len(self.episodes)
            episode = self.run_episode(number, kind)
            episode.save(episode_path(self.directory, number))
            self.episodes.append(episode)
            on_episode(number, episode)
            write_sealed_json(self.directory / RECORD_FILE, make_record(self))
        record = make_record(self)
        write_sealed_json(self.directory / RECORD_FILE, record)
        return record

    def _next(self) -> EpisodeKind | None:
        if self.steps < self.config.random_steps:
            return "random"
        if self.steps < self.config.steps:
            return "planned"
        return "test" if len(self.tests) < self.config.tests else None

    def _fit_is_due(self) -> bool:
        new = sum(episode.steps for episode in self.learned_from[self.fitted :])
        return self.dynamics is None or new >= self.config.fit_every or (new > 0 and self.steps >= self.config.steps)

    def _fit(self) -> None:
        episodes, began = self.learned_from, time.monotonic()
        units = find_units(episodes)
        first = self.dynamics is None or self.dynamics.units.are_outgrown_by(units)
        if self.dynamics is None or first:
            self.dynamics = Dynamics(
                self.coding, self.observation_size, units, self.config.dynamics, seed=self.config.seed
            )
        terms = self.dynamics.fit(
            episodes,
            seed=derive_seed(self.config.seed, 2 * self.rounds),
            first=first,
            on_update=lambda done, total: self._tell("fitting", done, total),
        )
        self.terms.append(terms)
        self.fit_seconds.append(round(time.monotonic() - began, 2))
        self.fitted, self.rounds = len(episodes), self.rounds + 1
        self._save_dynamics()

    def run_episode(
        self, number: int, kind: EpisodeKind, on_frame: Callable[[], None] = lambda: None
    ) -> RecordedEpisode:
        """One episode; everything random in it follows from the seed and its number."""
        began = time.monotonic()
        reset_seed, *seeds = np.random.SeedSequence([self.config.seed, number]).spawn(3)
        rng, search_rng = map(np.random.default_rng, seeds)
        seen = self._flat(self.env.reset(seed=int(reset_seed.generate_state(1)[0] >> 1))[0])
        policy = None if kind == "random" else self._plan(seen, kind, rng, search_rng)
        random = self.coding.draw(self.limit, self.config.random_exponent, rng) if policy is None else np.empty(0)
        observations, ended, terminated = [seen], False, False
        actions: list[Array] = []
        rewards: list[float] = []
        on_frame()
        while not ended:
            action = random[len(actions)] if policy is None else policy()
            observation, reward, terminated, truncated, info = self.env.step(self.coding.decode(action))
            ended = bool(terminated or truncated)
            observations.append(self._flat(observation))
            actions.append(action)
            rewards.append(float(reward))
            if not np.isfinite(observations[-1]).all() or not np.isfinite(rewards[-1]):
                raise ValueError(
                    f"step {len(actions)} of episode {number} gave the observation {observations[-1]} and the reward "
                    f"{rewards[-1]}; expected finite numbers"
                )
            if policy is not None:
                policy.advance(action, observations[-1])
            on_frame()
            self._tell(f"{kind} episode", len(actions), self.limit)
        episode = RecordedEpisode(
            observations=np.array(observations),
            actions=np.array(actions),
            rewards=np.array(rewards),
            terminated=bool(terminated),
            kind=kind,
            seconds=round(time.monotonic() - began, 3),
            last_closeness=0.0 if policy is None else policy.closeness,
            findings={"is_success": bool(info["is_success"])} if "is_success" in info else {},
        )
        return episode if policy is None else self._diagnose(policy, episode)

    def _plan(
        self, seen: Array, kind: EpisodeKind, rng: np.random.Generator, search_rng: np.random.Generator
    ) -> PlanningPolicy:
        assert self.dynamics is not None
        return PlanningPolicy(
            self.dynamics,
            seen,
            self.config.search,
            cost=self.cost,
            caution=self.config.caution,
            exploration=self.config.exploration if kind == "planned" else 0.0,
            rng=rng,
            search_rng=search_rng,
        )

    def _diagnose(self, policy: PlanningPolicy, episode: RecordedEpisode) -> RecordedEpisode:
        known = self.learned_from[: self.fitted]
        found = policy.diagnose(
            episode.actions,
            self.real_costs(episode),
            data=np.concatenate([one.observations for one in known]),
            cost_std=float(np.concatenate([self.real_costs(one) for one in known]).std()),
        )
        diagnosis = {} if found is None else {"diagnosis": found.to_json()}
        return replace(episode, findings={**episode.findings, **diagnosis})

    def _flat(self, observation: Any) -> Array:
        flat: Array = np.asarray(spaces.flatten(self.env.observation_space, observation), dtype=np.float64)
        return flat

    def real_costs(self, episode: RecordedEpisode) -> Array:
        """What each step cost. Shape: [T]."""
        if self.cost is None:
            return -episode.rewards
        return np.asarray(self.cost(episode.observations[1:], episode.actions), dtype=np.float64)

    def _tell(self, doing: str, part: int, parts: int) -> None:
        under_way = part if doing in ("random episode", "planned episode") else 0
        last = float(self.episodes[-1].rewards.sum()) if self.episodes else None
        self.on_progress(Progress(doing, self.steps + under_way, self.config.steps, part, parts, last))
