"""The local page in a real browser, offline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import gatel0rd
from gatel0rd.explore import make_app, save_page
from gatel0rd.explore.models import prepare_models
from gatel0rd.explore.views import list_events
from gatel0rd.models import WorldModel
from gatel0rd.models.fitted import wrap_model
from gatel0rd.nn.config import CellConfig

pytestmark = pytest.mark.browser
TRAINED = Path(__file__).parents[1] / "data" / "rrc-gatel0rd"


@pytest.fixture(scope="module")
def models():
    trained = gatel0rd.load(TRAINED)
    peer = WorldModel(replace(trained.model.config, cell=CellConfig(name="gru", hidden_size=5)))
    peer.reset_parameters(torch.Generator().manual_seed(2))
    return [("ours", trained), ("peer", wrap_model(peer, info=trained.info))]


@pytest.fixture(scope="module")
def address(models, serve_app):
    return serve_app(make_app(models, None))


def opened(page, address):
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return page


def traces(page, column=0):
    """Name -> y (or z) of what is plotted in one model's column."""
    script = "(plot) => Object.fromEntries(plot.data.map((trace) => [trace.name, trace.z || trace.y]))"
    return page.locator("#columns .plot").nth(column).evaluate(script)


def slide(page, step):
    page.locator("#free").fill(str(step))
    page.wait_for_selector(f"#free-text:has-text('from step {step} on')")


def test_models_are_side_by_side_and_equal_their_runs(page, address, models):
    opened(page, address)
    assert page.locator("#columns h3").all_inner_texts() == ["GateL0RD", "GRU"]
    assert page.locator("#sequences option").count() == 64
    for column, subject in enumerate(prepare_models(models, None)):
        trajectory = subject.model.run(*subject.recordings.sequence(0))
        shown = traces(page, column)
        np.testing.assert_allclose(shown["robot_x predicted"], trajectory.predictions[:, 2], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shown["h3"], trajectory.latents[:, 2], rtol=1e-4, atol=1e-6)
    assert np.shape(traces(page, 0)["gates"]) == (8, 49)


def test_every_opening_of_a_gate_is_marked(page, address, models):
    opened(page, address)
    subject = prepare_models(models, None)[0]
    expected = list_events(subject.model.run(*subject.recordings.sequence(0)).gates)
    script = "(plot) => plot.data.filter((trace) => trace.name === 'events').map((trace) => trace.x)"
    marks = page.locator("#columns .plot").first.evaluate(script)
    assert len(expected) > 0 and len(marks) == 6
    assert all(panel[::3] == expected for panel in marks)


def test_sliding_predicts_anew_and_shows_the_error(page, address):
    opened(page, address)
    before = traces(page, 1)["agent_x predicted"]
    assert "one-step error" in page.locator(".summary").first.inner_text()
    slide(page, 10)
    after = traces(page, 1)["agent_x predicted"]
    assert before[:10] == after[:10] and before[10:] != after[10:]
    assert "error after 10" in page.locator(".summary").first.inner_text()


def test_a_click_pins_a_time_whose_values_can_be_edited_and_reset(page, address):
    opened(page, address)
    holder = page.locator(".holder").first
    holder.hover(position={"x": 120, "y": 100})
    assert page.locator("#columns .cursor:not(.pin)").nth(1).is_visible()
    holder.click(position={"x": 160, "y": 100})
    step = int(page.locator("#at").inner_text().removeprefix("at step "))
    assert 0 < step < 49
    before = traces(page)["agent_x predicted"]
    page.get_by_label("value of agent_x").fill("0.9")
    page.keyboard.press("Enter")
    page.wait_for_selector("#reset:enabled")
    shown = traces(page)
    assert shown["agent_x edited"] == [0.9] and shown["agent_x recorded"][step] == 0.9
    assert shown["agent_x predicted"][:step] == before[:step] and shown["agent_x predicted"][step] != before[step]
    page.click("#reset")
    page.wait_for_selector("#reset:disabled")
    assert traces(page)["agent_x predicted"] == before


def test_variables_are_hidden_and_shown(page, address):
    opened(page, address)
    page.locator(".variable[data-name=robot_y] input[type=checkbox]").uncheck()
    page.locator(".variable[data-name=move_x] input[type=checkbox]").check()
    assert "robot_y predicted" not in traces(page) and "move_x recorded" in traces(page)


def test_another_sequence_is_shown(page, address):
    opened(page, address)
    before = traces(page)["agent_x recorded"]
    with page.expect_response("**/api/predict"):
        page.select_option("#sequences", "3")
    for _ in range(50):
        if traces(page)["agent_x recorded"] != before:
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail("the plots still show the first sequence")


def test_zooming_in_one_column_zooms_all(page, address):
    opened(page, address)
    box = page.locator(".holder").first.bounding_box()
    page.mouse.move(box["x"] + 150, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=5)
    page.mouse.up()
    ranges = [
        page.locator("#columns .plot").nth(place).evaluate("(plot) => plot.layout.xaxis.range") for place in (0, 1)
    ]
    assert ranges[0] == ranges[1] and 0 < ranges[0][0] < ranges[0][1] < 49
    page.mouse.dblclick(box["x"] + 200, box["y"] + 60)
    page.wait_for_timeout(500)
    whole = page.locator("#columns .plot").nth(1).evaluate("(plot) => plot.layout.xaxis.range")
    assert whole == [-0.5, 49.5]


def test_a_mistake_is_shown_in_a_banner(page, address):
    opened(page, address)
    page.expected = ["400"]
    page.locator("#free").evaluate(
        "(slider) => { slider.min = -5; slider.value = -3; slider.oninput({target: slider}); }"
    )
    page.wait_for_selector("#banner:visible")
    assert "real_steps is -3; expected a whole number from 1 to 49" in page.locator("#banner").inner_text()


def test_a_saved_page_opens_from_its_file(page, models, tmp_path):
    (subject, *_) = prepare_models(models, None)
    path = save_page(models, subject.recordings, tmp_path / "page.html", sequences=3)
    opened(page, path.as_uri())
    assert page.locator("#sequences option").count() == 3
    trajectory = subject.model.run(*subject.recordings.sequence(0))
    np.testing.assert_allclose(traces(page)["robot_x predicted"], trajectory.predictions[:, 2], rtol=1e-4, atol=1e-6)
    before = traces(page)["agent_x recorded"]
    page.select_option("#sequences", "2")
    assert traces(page)["agent_x recorded"] != before
    assert not page.locator("#free").is_visible() and not page.locator("#tab-drive").is_visible()
    assert page.get_by_label("value of agent_x").is_disabled()
    assert page.get_by_text("A saved page").is_visible()
