"""A trained run as a short film: the real and the predicted sequence side by side, memory and gates below."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatel0rd.files import check_writable, write_atomically
from gatel0rd.models import load_model
from gatel0rd.models.io import MODEL_FILE
from gatel0rd.models.zoo import resolve, zoo_name
from gatel0rd.paper.execute import find_run
from gatel0rd.paper.measures import example
from gatel0rd.paper.world_model_run import WorldModelRun
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import obtain, obtain_examples

Frame = NDArray[np.uint8]
DIMENSION_COLORS = (
    *("#c0392b", "#2f6fa7", "#6f9a3e", "#8569b0", "#e19c24", "#18a0a0", "#8c564b", "#d170a8"),
    *("#e9877c", "#8fc1ea", "#b4d98a", "#c6b2e6", "#f4cd7c", "#7fd6d6", "#c49c94", "#444444"),
)
SCENE_HEIGHT, STRIP, CHART_HEIGHT, GAP, OVERSAMPLING = 220, 26, 150, 10, 2
INK, PAPER, PALE = "#2b2b2b", "#ffffff", "#e3e3e3"
SHINE = (0.25, 0.5, 1.0)
"""How strong a lamp's colour is in its halo, outside, inside, and in the lamp."""
FORMATS = {".gif": "GIF", ".webp": "WEBP"}
MILLISECONDS = 90


def animate(
    run_directory: Path, out: Path, *, sequence: int | None = None, on_frame: Callable[[int, int], None]
) -> Path:
    """Write a film of one test sequence, predicted by the model of a finished run.

    Args:
        run_directory: where the run left ``model.safetensors``, or the name of an entry of the zoo.
        out: a ``.gif`` or ``.webp`` file.
        sequence: number of the sequence in the test set (the generalization set where there is one); one with much to
            see if not given. With a model of the zoo there are some 64 sequences of it.
        on_frame: told the number of each frame that is ready, and how many there will be.
    """
    check_film(out)
    path = resolve(run_directory) / MODEL_FILE
    run = find_run(path)
    recipe = run.evaluation_data[-1]
    if zoo_name(run_directory) is None:
        data = obtain(recipe, run_directory.resolve().parent.parent / "data")
    else:
        data = obtain_examples(recipe)
    if sequence is None:
        sequence = next(iter(registry.get(run.scenario).examples(data).values()), 0)
    if not 0 <= sequence < len(data.observations):
        name = run.evaluation_names[-1]
        raise ValueError(f"sequence is {sequence}; the {name} set has {len(data.observations)}, counted from 0")
    frames = film(run, example(load_model(path), data, sequence), on_frame)
    return write_film(frames, out)


def check_film(out: Path) -> None:
    """A film can be written there: the name ends in one of FORMATS, and Pillow is installed."""
    import PIL  # noqa: F401  # if it is missing, say so before the work

    if out.suffix not in FORMATS:
        raise ValueError(f"{out} ends in {out.suffix or 'nothing'}; films are written as {' or '.join(FORMATS)}")
    check_writable(out)


def film(run: WorldModelRun, content: dict[str, Any], on_frame: Callable[[int, int], None]) -> list[Frame]:
    """The frames of one example, [H, W, 3] each."""
    world = registry.get(run.scenario)
    real = np.array([content["start"], *content["observations"]])
    given = content["given"]
    predicted = np.concatenate([real[:given], np.array(content["predictions"])[given - 1 :]])
    latents = np.array(content["latents"])  # [T-1, H], after the input of that time
    gates = None if content["gates"] is None else np.array(content["gates"])
    frames = []
    for t in range(len(real)):
        pair = [world.draw(history[: t + 1], SCENE_HEIGHT) for history in (real, predicted)]
        memory = {
            "latents": latents[: t + 1],
            "gates": None if gates is None else gates[: t + 1],
            "events": content["events"],
            "steps": len(latents),
        }
        state = "given" if t < given else f"predicted by {run.network_title} on its own"
        frames.append(compose(pair, (f"real, t = {t}", state), memory))
        on_frame(t + 1, len(real))
    return frames


def compose(
    pair: list[Frame], titles: tuple[str, str], content: dict[str, Any] | None, *, with_chart: bool = True
) -> Frame:
    """Two scenes with their titles, and below them the lamps of the gates and the latent states, if there are any."""
    from PIL import Image, ImageDraw, ImageFont

    width = 2 * pair[0].shape[1] + GAP
    strip = Image.new("RGB", (width, STRIP), PAPER)
    draw = ImageDraw.Draw(strip)
    room = (width - GAP) // 2 - 12
    for title, left, ink in ((titles[0], 6, INK), (titles[1], (width + GAP) // 2 + 6, "#c0392b")):
        font = ImageFont.load_default(14)
        font = ImageFont.load_default(min(14, 14 * room / draw.textlength(title, font)))  # smaller, if it has to be
        draw.text((left, 5), title, ink, font)
    between, below = (np.full((*shape, 3), 255, dtype=np.uint8) for shape in ((SCENE_HEIGHT, GAP), (GAP, width)))
    scenes = np.concatenate([pair[0], between, pair[1]], axis=1)
    if not with_chart:
        return np.concatenate([np.asarray(strip, dtype=np.uint8), scenes])
    chart = np.full((CHART_HEIGHT, width, 3), 255, dtype=np.uint8) if content is None else _chart(content, width)
    return np.concatenate([np.asarray(strip, dtype=np.uint8), scenes, below, chart])


def _chart(content: dict[str, Any], width: int) -> Frame:
    """Lamps that light up with the last gates, and the latent states with the events up to now.

    ``content``: latents and gates [t, H] up to now, events, and in ``steps`` how many there will be.
    """
    from PIL import Image, ImageDraw, ImageFont

    scale = OVERSAMPLING
    image = Image.new("RGB", (width * scale, CHART_HEIGHT * scale), PAPER)
    draw = ImageDraw.Draw(image)
    font, small_font = (ImageFont.load_default(points * scale) for points in (11, 9))
    latents, steps = content["latents"], content["steps"]
    now, size = len(latents) - 1, latents.shape[1]
    left, right, top, bottom = 150, width - 12, 14, CHART_HEIGHT - 22

    def place(time: float, value: float) -> tuple[float, float]:
        x = left + (right - left) * time / steps
        return x * scale, (top + (bottom - top) * (1 - (np.clip(value, -2, 2) + 2) / 4)) * scale

    for value in (-1, 0, 1):
        draw.line([place(0, value), place(steps, value)], PALE, scale)
    free_from = 0.0
    for time, kind in sorted(
        (time, kind) for kind, times in content["events"].items() for time in times if time <= now
    ):
        x, _ = place(time, 2)
        draw.line([place(time, -2), place(time, 2)], "#b8ad94", scale)
        if x >= free_from:  # names do not overlap
            draw.text((x + 2 * scale, 0), kind, "#8a7f66", small_font)
            free_from = x + draw.textlength(kind, small_font) + 6 * scale
    for dim in range(size):
        points = [place(0, 0), *(place(time, latents[time, dim]) for time in range(now + 1))]
        draw.line(points, DIMENSION_COLORS[dim % len(DIMENSION_COLORS)], 2 * scale, joint="curve")
    draw.text((left * scale, (bottom + 4) * scale), "latent state, relative to its start", INK, font)

    if content["gates"] is not None:
        is_open = content["gates"] > 0
        draw.text((12 * scale, (bottom + 4) * scale), "gates", INK, font)
        rows = -(-size // 4)
        big = 1.0 if rows <= 2 else 2 / rows
        for dim in range(size):
            color = DIMENSION_COLORS[dim % len(DIMENSION_COLORS)]
            x, y = (26 + 30 * (dim % 4)) * scale, (top + (26 + 44 * (dim // 4)) * big) * scale
            fill = _mix("#f1f1f1", PAPER, 1.0)
            if is_open[now, dim]:
                for radius, strength in zip((15, 12), SHINE, strict=False):
                    draw.ellipse(_around(x, y, radius * big * scale), fill=_mix(color, PAPER, strength))
                fill = _mix(color, PAPER, 1.0)
            elif is_open[max(0, now - 2) : now, dim].any():  # an afterglow, or a short opening would be missed
                fill = _mix(color, PAPER, SHINE[0])
            draw.ellipse(_around(x, y, 8 * big * scale), fill=fill, outline="#9a9a9a", width=scale)
    return np.asarray(image.resize((width, CHART_HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)


def _around(x: float, y: float, radius: float) -> list[tuple[float, float]]:
    return [(x - radius, y - radius), (x + radius, y + radius)]


def _mix(color: str, other: str, share: float) -> tuple[int, ...]:
    """Some of one colour, the rest of another."""
    first, second = (np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)]) for text in (color, other))
    return tuple(int(value) for value in share * first + (1 - share) * second)


def write_film(frames: list[Frame], out: Path) -> Path:
    """Write frames as an animation, in the format that the name's ending says."""
    from PIL import Image

    # one palette for all frames, made from several of them, so that nothing flickers and files stay small
    swatches = [
        np.full((40, frames[0].shape[1], 3), _mix(c, PAPER, s), np.uint8) for c in DIMENSION_COLORS for s in SHINE
    ]
    sample = Image.fromarray(np.concatenate([*swatches, *frames[:: max(1, len(frames) // 6)]]))
    palette = sample.quantize(200, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    if out.suffix == ".webp":
        images = [Image.fromarray(frame) for frame in frames]
    durations = [MILLISECONDS] * (len(images) - 1) + [1500]
    content = io.BytesIO()
    images[0].save(
        content, FORMATS[out.suffix], save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True
    )
    write_atomically(out, content.getvalue())
    return out
