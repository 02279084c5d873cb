"""An agent at work, as a film: the world, what the agent sees of it, its memory and its gates over time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from gatel0rd.models.actor_critic import ActorCritic
from gatel0rd.paper.films import GAP, INK, PAPER, SCENE_HEIGHT, STRIP, check_film, write_film
from gatel0rd.training.ppo.rollout import clip_actions
from gatel0rd.training.vector_env import copy_observation, import_packages, observation_type

Frame = NDArray[np.uint8]
TILE, CHART, MOST_FRAMES = 32, 128, 400
LOW, MIDDLE, HIGH = np.array([47, 111, 167]), np.array([250, 248, 244]), np.array([192, 57, 43])
"""Colours of a memory's negative, zero and positive numbers."""


def drawn_environment(environment: str, out: Path) -> gymnasium.Env[Any, Any]:
    """An environment that draws itself, for a film that can be written; what stands against it is an error."""
    check_film(out)
    import_packages(environment)
    with gymnasium.make(environment, disable_env_checker=True) as env:  # of wrappers only the finished one says it
        modes = env.metadata.get("render_modes") or ()
    if "rgb_array" not in modes:
        raise ValueError(
            f"{environment} does not draw itself; leave out the film, or give the environment the render mode rgb_array"
        )
    try:
        drawn = gymnasium.make(environment, render_mode="rgb_array", disable_env_checker=True)
    except TypeError as error:
        raise ValueError(
            f"{environment} cannot be made with render_mode='rgb_array' ({error}); let what makes it take a render_mode"
        ) from error
    if drawn.render_mode != "rgb_array":
        drawn.close()
        raise ValueError(f"{environment} ignores render_mode='rgb_array'; pass it on to the environment inside")
    drawn.reset(seed=0)
    picture: Any = drawn.render()  # better now than after hours of work
    if not isinstance(picture, np.ndarray):
        drawn.close()
        raise ValueError(
            f"{environment} gave no picture but {type(picture).__name__}; let its render() return an array of "
            "(height, width, 3) where render_mode is rgb_array"
        )
    return drawn


@torch.no_grad()
def film_agent(
    agent: ActorCritic,
    env: gymnasium.Env[Any, Any],
    out: Path,
    *,
    name: str,
    seed: int,
    greedy: bool,
    on_frame: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Film one episode in a :func:`drawn_environment`. Long episodes are cut after some hundred steps."""
    assert env.spec is not None
    environment = env.spec.id
    generator = torch.Generator().manual_seed(seed)
    act = agent.prepare(starts=False, noise=False)
    seen, _ = env.reset(seed=seed)
    state, over, total = agent.initial_state(1), False, 0.0
    pictures: list[tuple[Frame, Frame | None]] = []
    latents, gates = [], []
    while not over and len(pictures) < MOST_FRAMES:
        observation = copy_observation(seen, observation_type(env.observation_space))
        output = act(torch.from_numpy(observation[None]), state, None, None)
        state = output.state
        chosen = output.policy.mode() if greedy else output.policy.sample(generator)
        pictures.append((fitted(env.render()), view_of(env)))
        latents.append(None if output.latents is None else output.latents[0, 0].numpy())
        gates.append(None if output.gates is None else output.gates[0, 0].numpy() > 0)
        seen, reward, terminated, truncated, _ = env.step(clip_actions(chosen[0].numpy(), env.action_space)[0])
        total += float(reward)
        over = terminated or truncated
    pictures.append((fitted(env.render()), view_of(env)))
    env.close()
    frames = []
    brightest = max([0.01, *(np.abs(numbers).max() for numbers in latents if numbers is not None)])
    for t, (scene, view) in enumerate(pictures):
        now = min(t, len(latents) - 1)
        title = f"{environment}, t = {t}" + (f", reward {total:.2f}" if t == len(latents) else "")
        scenes = [scene] if view is None else [scene, view]
        frames.append(compose(scenes, title, name, latents[: now + 1], gates[: now + 1], len(latents), brightest))
        on_frame(t + 1, len(pictures))
    write_film(frames, out)


def view_of(env: gymnasium.Env[Any, Any]) -> Frame | None:
    """What a MiniGrid agent sees; None elsewhere."""
    inner: Any = env.unwrapped
    return fitted(inner.get_pov_render(TILE)) if hasattr(inner, "get_pov_render") else None


def fitted(picture: Any) -> Frame:
    """A picture at the height of our films."""
    from PIL import Image

    image = Image.fromarray(np.asarray(picture, dtype=np.uint8))
    width = max(1, round(image.width * SCENE_HEIGHT / image.height))
    return np.asarray(image.resize((width, SCENE_HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)


def compose(
    scenes: list[Frame],
    title: str,
    name: str,
    latents: list[Any],
    gates: list[Any],
    steps: int,
    brightest: float,
) -> Frame:
    """Titles, scenes side by side, and below them memory and gates: a row per dimension, a column per step.

    ``brightest``: the number that gets the full colour.
    """
    from PIL import Image

    between = np.full((SCENE_HEIGHT, GAP, 3), 255, dtype=np.uint8)
    row = scenes[0] if len(scenes) == 1 else np.concatenate([scenes[0], between, scenes[1]], axis=1)
    width = max(row.shape[1], 2 * SCENE_HEIGHT + GAP)
    row = np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=255)
    panels: list[tuple[str, NDArray[np.uint8]]] = []
    if latents[0] is not None:
        panels.append((f"memory of {name}", colored(np.stack(latents, axis=1) / brightest)))
    if gates[0] is not None:
        share = np.mean(gates)
        lit = np.where(np.stack(gates, axis=1)[..., None], HIGH, MIDDLE).astype(np.uint8)
        panels.append((f"gates, {share:.1%} open", lit))
    parts = [_strip(width, [(title, 6)]), row]
    if panels:
        room = (width - GAP * (len(panels) - 1)) // len(panels)
        drawn = []
        for _, panel in panels:
            full = np.full((panel.shape[0], steps, 3), 255, dtype=np.uint8)
            full[:, : panel.shape[1]] = panel
            image = Image.fromarray(full).resize((room, CHART), Image.Resampling.NEAREST)
            drawn += [np.asarray(image, dtype=np.uint8), np.full((CHART, GAP, 3), 255, dtype=np.uint8)]
        chart = np.concatenate(drawn[:-1], axis=1)
        chart = np.pad(chart, ((0, 0), (0, width - chart.shape[1]), (0, 0)), constant_values=255)
        titles = [(text, 6 + index * (room + GAP)) for index, (text, _) in enumerate(panels)]
        parts += [_strip(width, titles), chart]
    return np.concatenate(parts)


def colored(numbers: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Numbers from -1 to 1 as colours. Shape: [H, T] -> [H, T, 3]."""
    strength = np.clip(numbers, -1, 1)[..., None]
    end = np.where(strength < 0, LOW, HIGH)
    shades: NDArray[np.uint8] = (MIDDLE + np.abs(strength) * (end - MIDDLE)).astype(np.uint8)
    return shades


def _strip(width: int, texts: list[tuple[str, int]]) -> Frame:
    """A line of texts, each at its distance from the left."""
    from PIL import Image, ImageDraw, ImageFont

    strip = Image.new("RGB", (width, STRIP), PAPER)
    draw = ImageDraw.Draw(strip)
    for text, left in texts:
        draw.text((left, 6), text, INK, ImageFont.load_default(13))
    return np.asarray(strip, dtype=np.uint8)
