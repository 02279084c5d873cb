"""Episodes of model-predictive control with the model of a run, counted and filmed."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gatel0rd.analysis.records import wilson
from gatel0rd.config import Preset, from_json
from gatel0rd.data import GENERATORS
from gatel0rd.experiments.animation import SCENE_HEIGHT, Frame, check_ending, compose, title_of, write_film
from gatel0rd.experiments.execute import code_commit, exclusive, one_thread, run_behind
from gatel0rd.experiments.registry import RunConfig
from gatel0rd.files import FileError, write_json
from gatel0rd.models import load_model
from gatel0rd.planning import ICEM, WORLDS, Herding, LearnedForesight, RemoteControl, TrueForesight, World, control
from gatel0rd.planning.control import Rows

GROUND_TRUTH = "ground-truth"
ELITES_SHOWN = 5


def plan_episodes(
    scenario: str,
    model: str,
    *,
    episodes: int,
    seed: int,
    preset: Preset = "text",
    film: Path | None = None,
    filmed: int = 0,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Plan episodes with a model and say how they ended.

    Args:
        scenario: ``rrc`` or ``shepherd``.
        model: directory of a finished run, or ``ground-truth``.
        film: where to write a film of an episode, ``.gif`` or ``.webp``.
        filmed: the number of that episode.
    """
    check_planned(scenario)
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; expected at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; expected 0 or more")
    if not 0 <= filmed < episodes:
        raise ValueError(f"episode {filmed} is to be filmed; there are {episodes}, counted from 0")
    if film is not None:
        check_ending(film)
    if model == GROUND_TRUTH:
        name = "the true world"
    else:
        path = Path(model) / "model.safetensors"
        if not path.exists():
            raise FileError(f"there is no {path}; give the directory of a finished run, or {GROUND_TRUTH}")
        run = run_behind(path)
        if run.scenario != scenario:
            raise ValueError(f"{model} is a model of {run.scenario}; it cannot plan in {scenario}")
        preset, name = run.preset, title_of(run)
    world = make_world(scenario, preset)
    foresight = TrueForesight(world) if model == GROUND_TRUTH else LearnedForesight(load_model(path))
    camera = Camera(scenario, name, foresight, world.enlarged, filmed)
    began = time.monotonic()
    done = control(
        world,
        foresight,
        episodes=episodes,
        generator=np.random.default_rng(seed),
        on_step=on_step,
        watch=camera.watch if film else lambda planner, rows: None,
    )
    seconds = time.monotonic() - began
    if film is not None:
        course = done.observations[: done.steps[filmed] + 1, filmed]
        write_film(camera.frames(course, succeeded=done.reached[filmed] >= 0), film)
    low, high = wilson((done.reached >= 0).sum(), episodes)
    successful = done.reached[done.reached >= 0]
    return {
        "scenario": scenario,
        "model": model,
        "preset": preset,
        "episodes": episodes,
        "seed": seed,
        "success_rate": done.success_rate,
        "confidence": [float(low), float(high)],
        "median_steps": float(np.median(successful)) if len(successful) else None,
        "reached": done.reached.tolist(),
        "seconds": round(seconds, 2),
        "control_steps_per_second": round(int(done.steps.sum()) / seconds, 2),
    }


def plan_over_training(
    directory: Path,
    *,
    episodes: int,
    course_episodes: int,
    seed: int = 0,
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Plan with the models that a finished run left in the course of training, and with the last one.

    The outcome goes into the run's record, model by model: who goes on after an interruption repeats none.
    """
    path = directory / "record.json"
    if not path.exists():
        raise FileError(f"there is no {path}; only with finished runs can be planned")
    run = from_json(RunConfig, json.loads(path.read_text())["run"])
    check_planned(run.scenario)
    files = {int(file.stem): file for file in sorted((directory / "snapshots").glob("*.safetensors"))}
    files[run.train.epochs] = directory / "model.safetensors"
    limit = WORLDS[run.scenario].task.limit
    rows: list[tuple[int, int, float]] = []
    with exclusive(directory), one_thread():
        record = json.loads(path.read_text())
        before = record.get("planning", {"seed": None})
        known = {}
        if before["seed"] == seed:
            known = dict(zip(before["epochs"], zip(before["episodes"], before["success"], strict=True), strict=True))
        for number, (epoch, file) in enumerate(files.items()):
            count = episodes if epoch == run.train.epochs else course_episodes
            if epoch in known and known[epoch][0] >= count:
                rows.append((epoch, *known[epoch]))
                continue
            outcome = control(
                make_world(run.scenario, run.preset),
                LearnedForesight(load_model(file)),
                episodes=count,
                generator=np.random.default_rng(seed),
                on_step=lambda done, _, number=number: on_step(number * limit + done, len(files) * limit),  # type: ignore[misc]
            )
            rows.append((epoch, count, outcome.success_rate))
            columns = dict(zip(("epochs", "episodes", "success"), map(list, zip(*rows, strict=True)), strict=True))
            record["planning"] = {"seed": seed, **columns, "reached": outcome.reached.tolist()}
            record["code"]["planned"] = code_commit()
            write_json(path, record)
    return path


def check_planned(scenario: str) -> None:
    """Scenarios without a task are an error."""
    if scenario not in WORLDS:
        raise ValueError(f"there is nothing to plan in {scenario!r}; there is {', '.join(WORLDS)}")


def make_world(scenario: str, preset: Preset) -> World:
    """Episodes of a scenario, by the preset's rules."""
    return Herding(preset) if scenario == "shepherd" else RemoteControl()


class Camera:
    """Films an episode: what happened so far, the plan and its runners-up, the model's memory and gates."""

    def __init__(
        self, scenario: str, name: str, foresight: TrueForesight | LearnedForesight, enlarged: float, episode: int
    ) -> None:
        self.scenes = importlib.import_module(f"gatel0rd.envs.{GENERATORS[scenario]}")
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
        frame: Frame = self.scenes.picture(history, SCENE_HEIGHT, enlarged=self.enlarged, trail_from=trail_from)
        return frame
