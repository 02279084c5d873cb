"""The local page in a real browser, offline."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import uvicorn
from playwright.sync_api import sync_playwright

import gatel0rd
from gatel0rd.explore import make_app, save_page
from gatel0rd.explore.subjects import prepare
from gatel0rd.explore.views import events
from gatel0rd.models import WorldModel
from gatel0rd.models.fitted import wrap_model
from gatel0rd.nn.config import CellConfig

TRAINED = Path(__file__).parents[1] / "data" / "rrc-gatel0rd"


@pytest.fixture(scope="module")
def models():
    trained = gatel0rd.load(TRAINED)
    peer = WorldModel(replace(trained.model.config, cell=CellConfig(name="gru", hidden_size=5)))
    peer.reset_parameters(torch.Generator().manual_seed(2))
    return [("ours", trained), ("peer", wrap_model(peer, info=trained.info))]


@pytest.fixture(scope="module")
def address(models):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(models, None), log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing; the page is tested in a real browser: apt install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page that must neither complain nor ask for anything elsewhere."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url[:100]}"))
    page.on(
        "request", lambda request: complaints.append(f"elsewhere: {request.url[:100]}") if foreign(request) else None
    )
    page.expected = []
    yield page
    page.close()
    assert [text for text in complaints if not any(words in text for words in page.expected)] == []


def foreign(request):
    return not request.url.startswith(("http://127.0.0.1:", "data:", "file://", "blob:"))


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
    for column, subject in enumerate(prepare(models, None)):
        course = subject.model.run(*subject.recordings.sequence(0))
        shown = traces(page, column)
        np.testing.assert_allclose(shown["robot_x predicted"], course.predictions[:, 2], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shown["h3"], course.latents[:, 2], rtol=1e-4, atol=1e-6)
    assert np.shape(traces(page, 0)["gates"]) == (8, 49)


def test_every_opening_of_a_gate_is_marked(page, address, models):
    opened(page, address)
    subject = prepare(models, None)[0]
    expected = events(subject.model.run(*subject.recordings.sequence(0)).gates)
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


def test_driving_onto_the_computer_opens_a_gate(page, address):
    def seeded(route):
        route.continue_(post_data=json.dumps({**route.request.post_data_json, "seed": 1}))

    opened(page, address)
    page.route("**/api/drive/start", seeded)
    page.click("#tab-drive")
    page.wait_for_selector("#drive[data-step='0']")

    def seen():
        return json.loads(page.get_attribute("#drive", "data-observation"))

    def press(key):
        step = int(page.get_attribute("#drive", "data-step"))
        page.keyboard.press(key)
        page.wait_for_selector(f"#drive[data-step='{step + 1}']")

    for axis, (less, more) in enumerate((("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp"))):
        while abs(seen()[axis] - 0.5) > 0.0501:
            before = seen()[axis]
            sign = 1 if before < 0.5 else -1
            press(more if sign > 0 else less)
            # a start beyond the walls is brought inside them
            assert seen()[axis] == pytest.approx(np.clip(before + 0.1 * sign, -0.95, 0.95), abs=1e-5)
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown"):
        press(key)
    assert "at the computer" in page.locator("#log").inner_text()
    assert "GateL0RD: gate" in page.locator("#log").inner_text()
    drawn = "(plot) => Object.fromEntries(plot.data.map((trace) => [trace.name, trace.z || trace.y]))"
    shown = page.locator("#watchers .plot").first.evaluate(drawn)
    steps = int(page.get_attribute("#drive", "data-step"))
    assert np.shape(shown["gates"]) == (8, steps) and np.max(np.array(shown["gates"])[:, -5:]) > 0
    assert max(np.ptp(shown[f"h{dimension}"][-5:]) for dimension in range(1, 9)) > 0.5


def test_a_mistake_is_shown_in_a_banner(page, address):
    opened(page, address)
    page.expected = ["400"]
    page.locator("#free").evaluate(
        "(slider) => { slider.min = -5; slider.value = -3; slider.oninput({target: slider}); }"
    )
    page.wait_for_selector("#banner:visible")
    assert "real_steps is -3; expected a whole number from 1 to 49" in page.locator("#banner").inner_text()


def test_a_saved_page_opens_from_its_file(page, models, tmp_path):
    (subject, *_) = prepare(models, None)
    path = save_page(models, subject.recordings, tmp_path / "page.html", sequences=3)
    opened(page, path.as_uri())
    assert page.locator("#sequences option").count() == 3
    course = subject.model.run(*subject.recordings.sequence(0))
    np.testing.assert_allclose(traces(page)["robot_x predicted"], course.predictions[:, 2], rtol=1e-4, atol=1e-6)
    before = traces(page)["agent_x recorded"]
    page.select_option("#sequences", "2")
    assert traces(page)["agent_x recorded"] != before
    assert not page.locator("#free").is_visible() and not page.locator("#tab-drive").is_visible()
    assert page.get_by_label("value of agent_x").is_disabled()
    assert page.get_by_text("A saved page").is_visible()
