"""The models of a fit's curve and the changes of its recordings, in the page and in a saved one."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gatel0rd
from gatel0rd.explore import make_app, save_page
from gatel0rd.explore.models import prepare_models
from gatel0rd.explore.views import list_events, predict_sequence
from gatel0rd.recordings import from_arrays
from gatel0rd.recordings.config import FitConfig
from gatel0rd.recordings.fit import fit
from gatel0rd.recordings.segmentation import segment

STEPS, JUMP = 40, 23


@pytest.fixture(scope="module")
def recordings():
    rng = np.random.default_rng(0)
    levels = [np.where(np.arange(STEPS) < JUMP, 0.0, 4.0)[:, None] + rng.normal(0, 0.3, (STEPS, 1)) for _ in range(10)]
    return from_arrays(levels, observation_names=["level"])


@pytest.fixture(scope="module")
def models(recordings, tmp_path_factory):
    directory = tmp_path_factory.mktemp("fit") / "model"
    fit(recordings, FitConfig(rounds=20, round_updates=4, hidden_size=3), directory)
    return [("levels", gatel0rd.load(directory))]


@pytest.fixture(params=["served", "saved"])
def curve_page(request, page, models, recordings, serve_app, tmp_path):
    if request.param == "served":
        page.goto(serve_app(make_app(models, recordings)))
    else:
        page.goto(save_page(models, recordings, tmp_path / "page.html").as_uri())
    page.wait_for_selector("body[data-ready]")
    return page


def read_traces(page, name):
    script = f"(plot) => plot.data.filter((trace) => trace.name === '{name}').map((trace) => trace.z || trace.x)"
    return page.locator("#columns .plot").evaluate(script)


@pytest.mark.browser
def test_sliding_along_the_curve_changes_gates_events_and_text(curve_page, models, recordings):
    model = models[0][1]
    chosen, last = model.info["chosen"], len(model.variants) - 1
    text = curve_page.locator(".curve .point")
    assert "the fit's choice" in text.inner_text()
    assert curve_page.locator(".curve circle").count() == len(model.variants) >= 3
    before = read_traces(curve_page, "gates")[0]
    np.testing.assert_allclose(before, model.run(*recordings.sequence(0)).gates.T, rtol=1e-4, atol=1e-6)
    assert chosen != 0
    curve_page.locator(".curve input").fill(str(last))  # the lowest price: the first point of the sweep
    curve_page.wait_for_function("() => !document.querySelector('.curve .point').textContent.includes('choice')")
    expected = model.take_variant(0).run(*recordings.sequence(0)).gates
    after = read_traces(curve_page, "gates")[0]
    np.testing.assert_allclose(after, expected.T, rtol=1e-4, atol=1e-6)
    assert after != before
    assert all(panel[::3] == list_events(expected) for panel in read_traces(curve_page, "events"))
    assert text.inner_text().startswith(f"{model.info['curve'][0]['events']:.1f} event")
    curve_page.locator(".curve circle").last.wait_for()
    curve_page.locator(".curve input").fill(str(last - chosen))
    curve_page.wait_for_selector(".curve .point:has-text('choice')")
    assert read_traces(curve_page, "gates")[0] == before


@pytest.mark.browser
def test_changes_are_marked_and_named(curve_page, models, recordings):
    (found,) = segment(models[0][1], recordings.take([0]), method="changes")
    marks = read_traces(curve_page, "changes")
    assert found.boundaries == (JUMP,) and len(marks) == 3
    assert all(panel[::3] == [JUMP] for panel in marks)
    assert curve_page.locator("#legend .changed").is_visible()
    assert "1 change ·" in curve_page.locator(".summary").inner_text()
    box = curve_page.locator(".holder").bounding_box()
    inside = box["width"] - 48
    curve_page.mouse.move(box["x"] + 40 + inside * (JUMP + 0.5) / STEPS, box["y"] + 60)
    assert f"a change at {JUMP} of level (100 %)" in curve_page.locator(".reading").inner_text()
    curve_page.mouse.move(box["x"] + 40 + inside * 5 / STEPS, box["y"] + 60)
    assert "segment 1" in curve_page.locator(".reading").inner_text()


def test_points_are_predicted_and_survive_being_saved(models, recordings):
    (explored,) = prepare_models(models, recordings)
    model = explored.model
    assert len(model.variants) == len(model.info["curve"]) and model.take_variant(model.info["chosen"]) is model
    for point in range(len(model.variants)):
        shown = predict_sequence(explored, 1, point=point)
        expected = model.take_variant(point).run(*recordings.sequence(1))
        np.testing.assert_allclose(shown["latents"], expected.latents.T, rtol=1e-4, atol=1e-6)
    assert predict_sequence(explored, 1, point=0)["latents"] != predict_sequence(explored, 1)["latents"]


def test_a_saved_page_has_as_many_points_as_it_has_room_for(models, recordings, tmp_path, monkeypatch):
    def saved():
        page = save_page(models, recordings, tmp_path / "page.html", sequences=2).read_text()
        content = page.partition('id="saved">')[2].partition("</script>")[0]
        return json.loads(content)

    whole = saved()["models"][0]["curve"]
    assert len(whole) == len(models[0][1].variants)
    monkeypatch.setattr("gatel0rd.explore.assets.MOST_NUMBERS", 4 * 2 * STEPS * 7)
    thin = saved()
    assert 4 <= len(thin["models"][0]["curve"]) <= 5 and thin["models"][0]["chosen"] is not None
    points = {str(entry["point"]) for entry in thin["models"][0]["curve"]} - {str(thin["models"][0]["chosen"])}
    assert set(thin["saved"][1]["points"][0]) == points
    monkeypatch.setattr("gatel0rd.explore.assets.MOST_NUMBERS", 2 * 2 * STEPS * 7)
    assert saved()["models"][0]["curve"] == []
