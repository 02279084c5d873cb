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
from gatel0rd.experiments.execute import exclusive, one_thread, run_behind
from gatel0rd.experiments.registry import RunConfig
from gatel0rd.files import FileError, write_json
from gatel0rd.models import load_model
from gatel0rd.planning import ICEM, WORLDS, Herding, LearnedForesight, RemoteControl, TrueForesight, World, control

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
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Plan episodes with a model and say how they ended.

    Args:
        scenario: ``rrc`` or ``shepherd``.
        model: directory of a finished run, or ``ground-truth``.
        film: where to write a film of the first episode, ``.gif`` or ``.webp``.
    """
    check_planned(scenario)
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; expected at least 1")
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
    camera = Camera(scenario, name, foresight, world.enlarged)
    began = time.monotonic()
    done = control(
        world,
        foresight,
        episodes=episodes,
        generator=np.random.default_rng(seed),
        on_step=on_step,
        watch=camera.watch if film else lambda planner: None,
    )
    seconds = time.monotonic() - began
    if film is not None:
        end = done.reached[0] if done.reached[0] >= 0 else len(done.actions)
        write_film(camera.frames(done.observations[:, 0], end), film)
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
        "control_steps_per_second": round(done.actions.shape[0] * episodes / seconds, 2),
    }


def plan_over_training(
    directory: Path, *, episodes: int, seed: int = 0, on_step: Callable[[int, int], None] = lambda done, total: None
) -> Path:
    """Plan with the models that a finished run left in the course of training; the outcome goes into its record."""
    path = directory / "record.json"
    if not path.exists():
        raise FileError(f"there is no {path}; only with finished runs can be planned")
    run = from_json(RunConfig, json.loads(path.read_text())["run"])
    check_planned(run.scenario)
    files = sorted((directory / "snapshots").glob("*.safetensors")) or [directory / "model.safetensors"]
    epochs = [int(file.stem) if file.stem.isdigit() else run.train.epochs for file in files]
    limit = WORLDS[run.scenario].task.limit
    outcomes = []
    with exclusive(directory), one_thread():
        for number, file in enumerate(files):
            world = make_world(run.scenario, run.preset)
            outcomes.append(
                control(
                    world,
                    LearnedForesight(load_model(file)),
                    episodes=episodes,
                    generator=np.random.default_rng(seed),
                    on_step=lambda done, _, number=number: on_step(number * limit + done, len(files) * limit),  # type: ignore[misc]
                )
            )
        record = json.loads(path.read_text())
        record["planning"] = {
            "episodes": episodes,
            "seed": seed,
            "epochs": epochs,
            "success": [outcome.success_rate for outcome in outcomes],
            "reached": outcomes[-1].reached.tolist(),
        }
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
    """Films the first episode: what happened so far, the plan and its runners-up, the model's memory and gates."""

    def __init__(self, scenario: str, name: str, foresight: TrueForesight | LearnedForesight, enlarged: float) -> None:
        self.scenes = importlib.import_module(f"gatel0rd.envs.{GENERATORS[scenario]}")
        self.name, self.foresight, self.enlarged = name, foresight, enlarged
        self.futures: list[Any] = []
        self.latents: list[Any] = []
        self.gates: list[Any] = []

    def watch(self, planner: ICEM) -> None:
        """Note what the planner sees ahead."""
        self.futures.append(self.foresight.predict(planner.elites[:, :ELITES_SHOWN])[0])
        if isinstance(self.foresight, LearnedForesight) and self.foresight.state is not None:
            self.latents.append(self.foresight.model.core.latents(self.foresight.state)[0].numpy())
            gates = self.foresight.gates
            self.gates.append(None if gates is None else gates[0].numpy())

    def frames(self, observations: Any, end: int) -> list[Frame]:
        """One frame per plan up to the end of the episode. Shape: observations [T+1, O]."""
        first = len(observations) - 1 - len(self.futures)  # steps in which the model had not seen enough
        late = len(self.futures) - len(self.latents)
        frames = []
        for index, futures in enumerate(self.futures[: end - first]):
            now = observations[: first + index + 1]
            plans = [self._draw(np.concatenate([now, path]), trail_from=len(now) - 1) for path in futures]
            weights = np.array([0.5, *[0.5 / max(1, len(plans) - 1)] * (len(plans) - 1)])
            faded = np.tensordot(weights / weights.sum(), np.stack(plans).astype(float), axes=1).astype(np.uint8)
            content = None
            if index >= late and self.latents:
                latents = np.stack(self.latents[: index - late + 1])
                gates = self.gates[: index - late + 1]
                content = {
                    "latents": latents - self.latents[0],
                    "gates": None if gates[0] is None else np.stack(gates),
                    "events": {},
                    "steps": len(self.latents),
                }
            pair = [self._draw(now), faded]
            titles = (f"t = {len(now) - 1}", f"planned with {self.name}, runners-up faded")
            frames.append(compose(pair, titles, content))
        return frames

    def _draw(self, history: Any, trail_from: int = 0) -> Frame:
        frame: Frame = self.scenes.picture(history, SCENE_HEIGHT, enlarged=self.enlarged, trail_from=trail_from)
        return frame
