"""The demo: which runs it trains, and which sequences it shows."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatel0rd.models import load_model
from gatel0rd.models.events import find_events
from gatel0rd.paper.demo.content import EARLIEST, LATEST, choose_sequences, count_events, draw_scene, summarize_events
from gatel0rd.paper.demo.training import plan_demo
from gatel0rd.paper.measures import example
from gatel0rd.worlds import registry
from gatel0rd.worlds.data import generate

TRAINED = Path(__file__).parents[1] / "data" / "rrc-gatel0rd"


@pytest.fixture(scope="module")
def data():
    return generate(replace(plan_demo()[0].evaluation_data[-1], sequences=400))


def test_both_networks_are_trained_alike_for_half_of_the_papers_epochs():
    ours, theirs = plan_demo(seed=5)
    assert (ours.network, theirs.network, ours.seed, theirs.seed) == ("gatel0rd", "gru", 5, 5)
    assert ours.length == 2500 and ours.share == 0.5 and ours.train_data == theirs.train_data
    assert replace(ours.train, sparsity_weight=0.0) == theirs.train and ours.train.sparsity_weight == 0.001
    assert [run.length for run in plan_demo(epochs=30)] == [30, 30]


def test_sequences_are_chosen_by_the_rule_that_the_page_states(data):
    model, world = load_model(TRAINED), registry.get("rrc")
    counts = count_events(model, data)
    first, second, without, plain = choose_sequences(world, data, counts)
    onset = data.labels["onset"]

    def events(index):
        return len(find_events(np.array(example(model, data, index)["gates"])))

    def way(index):
        return float(np.linalg.norm(np.diff(data.observations[index, :, 2:], axis=0), axis=-1).sum())

    with_control = np.flatnonzero(onset >= 0).tolist()
    single = {index for index in with_control if events(index) == 1}
    summary = summarize_events(data, counts)
    assert summary["single"] == pytest.approx(len(single) / len(with_control))
    assert summary["median"] == np.median([events(index) for index in with_control])
    candidates = [index for index in single if EARLIEST <= onset[index] <= LATEST]
    assert [first.index, second.index] == sorted(candidates, key=way, reverse=True)[:2]
    assert without.index == np.flatnonzero(onset < 0)[0] and plain.index == with_control[0]
    assert "travels farthest" in first.reason and f"between steps {EARLIEST} and {LATEST}" in first.reason


def test_a_scene_has_every_frame_in_its_place(data):
    world, course = registry.get("rrc"), data.observations[0, :13].astype(np.float64)
    scene = draw_scene(world, course)
    assert (scene["columns"], scene["rows"]) == (10, 2)
    with Image.open(io.BytesIO(base64.b64decode(scene["picture"].partition(",")[2]))) as sheet:
        pixels = np.asarray(sheet.convert("RGB"), dtype=int)
    height, width = scene["height"], scene["width"]
    assert pixels.shape == (2 * height, 10 * width, 3)
    eleventh = pixels[height:, width : 2 * width]
    assert np.abs(eleventh - world.draw(course[:12], height)).mean() < 3
    assert pixels[height:, 3 * width :].mean() > 254 > eleventh.mean()
