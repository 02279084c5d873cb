"""Episodes of model-predictive control with the model of a run, counted and filmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gatel0rd.config import to_json
from gatel0rd.files import FileError, exclusive, read_json, write_sealed_json
from gatel0rd.models import load_model
from gatel0rd.models.io import MODEL_FILE
from gatel0rd.models.zoo import resolve
from gatel0rd.paper.execute import find_run, one_thread
from gatel0rd.paper.films import SCENE_HEIGHT, Frame, check_film, compose, write_film
from gatel0rd.paper.provenance import code_commit
from gatel0rd.paper.records import wilson
from gatel0rd.paper.schema import read_run
from gatel0rd.paper.world_model_run import WorldModelRun, find_snapshots
from gatel0rd.planning import ICEM, ControlTask, LearnedForesight, TrueForesight, control
from gatel0rd.planning.mpc import Episodes, Rows
from gatel0rd.training.dataset import Progress, ignore_progress
from gatel0rd.training.recipe import Preset
from gatel0rd.worlds import World, all_worlds, registry

GROUND_TRUTH = "ground-truth"
ELITES_SHOWN = 5
SIDE_BY_SIDE = 100
"""Episodes that are planned at once; a hundred of Shepherd take about 400 MB."""


def plan_episodes(
    scenario: str,
    model: str,
    *,
    episodes: int,
    seed: int,
    only: Sequence[int] | None = None,
    preset: Preset = "text",
    film: Path | None = None,
    filmed: int | None = None,
    on_step: Progress = ignore_progress,
) -> dict[str, Any]:
    """Plan episodes with a model and say how they ended.

    Args:
        scenario: name of a world with a task.
        model: directory of a finished run, name of an entry of the zoo, or ``ground-truth``.
        only: numbers of the episodes to run; all if not given.
        film: where to write a film of an episode, ``.gif`` or ``.webp``.
        filmed: the number of that episode; the first if not given.
    """
    world = world_with_task(scenario)
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; expected at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; expected 0 or more")
    rows = list(range(episodes)) if only is None else list(only)
    filmed = rows[0] if filmed is None else filmed
    unknown = {*rows, filmed} - set(range(episodes))
    if unknown:
        raise ValueError(f"there is no episode {unknown.pop()}; there are {episodes}, counted from 0")
    if filmed not in rows:
        raise ValueError(f"episode {filmed} is to be filmed; only {', '.join(map(str, rows))} will be planned")
    if film is not None:
        check_film(film)
    if model == GROUND_TRUTH:
        name = "the true world"
    else:
        path = resolve(model) / MODEL_FILE
        if not path.exists():
            raise FileError(f"there is no {path}; give the directory of a finished run, or {GROUND_TRUTH}")
        run = find_run(path)
        if run.scenario != scenario:
            raise ValueError(f"{model} is a model of {run.scenario}; it cannot plan in {scenario}")
        preset, name = run.preset, run.network_title
    task = world.make_task(preset)
    foresight = TrueForesight(task) if model == GROUND_TRUTH else LearnedForesight(load_model(path))
    camera = Camera(world, name, foresight, task.enlarged, filmed)
    began = time.monotonic()
    done = control_in_parts(
        task,
        foresight,
        episodes=episodes,
        seed=seed,
        rows=rows,
        on_step=on_step,
        watch=camera.watch if film else lambda planner, rows: None,
    )
    seconds = time.monotonic() - began
    if film is not None:
        episode = done[rows.index(filmed)]
        write_film(camera.frames(episode.observations[:, 0], succeeded=episode.reached[0] >= 0), film)
    reached = np.array([episode.reached[0] for episode in done])
    steps = sum(int(episode.steps[0]) for episode in done)
    successes = reached[reached >= 0]
    low, high = wilson(len(successes), len(rows))
    return {
        "scenario": scenario,
        "model": model,
        "preset": preset,
        "episodes": len(rows),
        **({} if only is None else {"only": rows, "of": episodes}),
        "seed": seed,
        "planner": planner_of(task),
        "success_rate": len(successes) / len(rows),
        "confidence": [float(low), float(high)],
        "median_steps": float(np.median(successes)) if len(successes) else None,
        "reached": reached.tolist(),
        "seconds": round(seconds, 2),
        "control_steps_per_second": round(steps / seconds, 2),
    }


def control_in_parts(
    task: ControlTask,
    foresight: TrueForesight | LearnedForesight,
    *,
    episodes: int,
    seed: int,
    rows: Sequence[int],
    on_step: Progress,
    watch: Callable[[ICEM, Rows], None] = lambda planner, rows: None,
) -> list[Episodes]:
    """Some of ``episodes`` episodes, each alone in its :class:`Episodes`; at most :data:`SIDE_BY_SIDE` at a time."""
    done: list[Episodes] = []
    parts = [np.array(rows[first : first + SIDE_BY_SIDE]) for first in range(0, len(rows), SIDE_BY_SIDE)]
    limit = task.limit
    for number, part in enumerate(parts):
        together = control(
            task,
            foresight,
            episodes=episodes,
            generator=np.random.default_rng(seed),
            only=part,
            on_step=lambda step, _, number=number: on_step(number * limit + step, len(parts) * limit),  # type: ignore[misc]
            watch=watch,
        )
        for column, steps in enumerate(together.steps):
            here = slice(column, column + 1)
            done.append(
                Episodes(
                    together.observations[: steps + 1, here],
                    together.actions[:steps, here],
                    together.reached[here],
                    together.steps[here],
                )
            )
    return done


def plan_over_training(
    directory: Path, *, episodes: int, course_episodes: int, seed: int = 0, on_step: Progress = ignore_progress
) -> Path:
    """Plan with the models that a finished run left in the course of training, and with the last one.

    The outcome goes into the run's record, model by model: after an interruption none is repeated.
    """
    path = directory / "record.json"
    if not path.exists():
        raise FileError(f"there is no {path}; only with finished runs can be planned")
    run = read_run(read_json(path), path, WorldModelRun)
    task = world_with_task(run.scenario).make_task(run.preset)
    # the last model first: its success counts most if planning is interrupted
    files = {run.train.epochs: directory / MODEL_FILE}
    files |= {epoch: file for epoch, file in find_snapshots(directory).items() if epoch not in files}
    settings = {"seed": seed, "planner": planner_of(task)}
    with exclusive(directory), one_thread():
        record = read_json(path)
        before = record.get("planning", {})
        rows: dict[int, dict[str, Any]] = {}
        if {name: before.get(name) for name in settings} == settings:
            rows = {epoch: {name: before[name][i] for name in COLUMNS} for i, epoch in enumerate(before["epochs"])}
        for number, (epoch, file) in enumerate(files.items()):
            count = episodes if epoch == run.train.epochs else course_episodes
            if epoch in rows and rows[epoch]["episodes"] >= count:
                continue
            began = time.monotonic()
            done = control_in_parts(
                task,
                LearnedForesight(load_model(file)),
                episodes=count,
                seed=seed,
                rows=range(count),
                on_step=lambda done, total, number=number: on_step(number * total + done, len(files) * total),  # type: ignore[misc]
            )
            reached = [int(episode.reached[0]) for episode in done]
            rows[epoch] = {
                "episodes": count,
                "success": sum(steps >= 0 for steps in reached) / count,
                "reached": reached,
                "seconds": round(time.monotonic() - began, 1),
                "commits": code_commit(),
            }
            epochs = sorted(rows)
            columns = {name: [rows[epoch][name] for epoch in epochs] for name in COLUMNS}
            record["planning"] = {**settings, "epochs": epochs, **columns}
            write_sealed_json(path, record)
    return path


COLUMNS = ("episodes", "success", "reached", "seconds", "commits")
"""What a record keeps of planning, for every epoch."""


def planner_of(task: ControlTask) -> dict[str, Any]:
    """How a task is planned, as plain data."""
    return {**to_json(task.search), "limit": task.limit, "enlarged": task.enlarged}


def world_with_task(name: str) -> World:
    """The world of this name; one without a task is an error."""
    world = registry.get(name)
    if not world.has_task:
        known = ", ".join(other.name for other in all_worlds() if other.has_task)
        raise ValueError(f"there is nothing to plan in {name!r}; there is {known}")
    return world


class Camera:
    """Films an episode: what happened so far, the plan and its runners-up, the model's memory and gates."""

    def __init__(
        self, world: World, name: str, foresight: TrueForesight | LearnedForesight, enlarged: float, episode: int
    ) -> None:
        self.world = world
        self.name, self.foresight, self.enlarged, self.episode = name, foresight, enlarged, episode
        self.futures: list[Any] = []
        self.latents: list[Any] = []
        self.gates: list[Any] = []

    def watch(self, planner: ICEM, rows: Rows) -> None:
        """Note what the planner sees ahead."""
        if self.episode not in rows:
            return
        (place,) = np.flatnonzero(rows == self.episode)
        self.futures.append(self.foresight.predict(planner.elites[:, :ELITES_SHOWN])[place])
        if isinstance(self.foresight, LearnedForesight) and self.foresight.state is not None:
            self.latents.append(self.foresight.model.core.latents(self.foresight.state)[place].numpy())
            gates = self.foresight.gates
            self.gates.append(None if gates is None else gates[place].numpy())

    def frames(self, course: Any, *, succeeded: bool) -> list[Frame]:
        """One frame per plan, and one of the end. Shape: course, all observations of the episode, [T+1, O]."""
        first = len(course) - 1 - len(self.futures)  # steps in which the model had not seen enough
        late = len(self.futures) - len(self.latents)
        remembers = bool(self.latents)
        frames = []
        for index, futures in enumerate(self.futures):
            now = course[: first + index + 1]
            plans = [self._draw(np.concatenate([now, path]), trail_from=len(now) - 1) for path in futures]
            weights = np.array([0.5, *[0.5 / max(1, len(plans) - 1)] * (len(plans) - 1)])
            faded = np.tensordot(weights / weights.sum(), np.stack(plans).astype(float), axes=1).astype(np.uint8)
            titles = (f"t = {len(now) - 1}", f"planned with {self.name}, runners-up faded")
            memory = self._memory(index - late + 1) if index >= late and remembers else None
            frames.append(compose([self._draw(now), faded], titles, memory, with_chart=remembers))
        end = self._draw(course)
        verdict = "goal reached" if succeeded else "the time is over"
        memory = self._memory(len(self.latents)) if remembers else None
        frames.append(compose([end, end], (f"t = {len(course) - 1}", verdict), memory, with_chart=remembers))
        return frames

    def _memory(self, steps: int) -> dict[str, Any]:
        gates = self.gates[:steps]
        return {
            "latents": np.stack(self.latents[:steps]) - self.latents[0],
            "gates": None if gates[0] is None else np.stack(gates),
            "events": {},
            "steps": len(self.latents),
        }

    def _draw(self, history: Any, trail_from: int = 0) -> Frame:
        return self.world.draw(history, SCENE_HEIGHT, enlarged=self.enlarged, trail_from=trail_from)
