"""Live worlds in a real browser: the page steers them as the server describes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_models import small_model

import gatel0rd
from gatel0rd.explore import make_app
from gatel0rd.recordings import from_arrays

pytestmark = pytest.mark.browser
TRAINED = Path(__file__).parents[1] / "data" / "rrc-gatel0rd"
SIZES = {"shepherd": (7, 3), "billiard": (2, 0)}


@pytest.fixture(scope="module")
def address(serve_app):
    """Robot Remote Control with a trained model."""
    return serve_app(make_app([("rrc", gatel0rd.load(TRAINED))], None))


@pytest.fixture(scope="module")
def other_addresses(serve_app):
    """The other worlds with untrained models."""

    def serve(scenario):
        observed, acted = SIZES[scenario]
        names = ([f"x{i}" for i in range(observed)], [f"a{i}" for i in range(acted)])
        model = small_model(observed=names[0], acted=names[1], run={"scenario": scenario, "preset": "text"})
        return serve_app(
            make_app([(scenario, model)], from_arrays(np.zeros((1, 4, observed)), np.zeros((1, 4, acted))))
        )

    return {scenario: serve(scenario) for scenario in SIZES}


def open_drive(page, address):
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.click("#tab-drive")
    page.wait_for_selector("#drive[data-step='0']")


def observation(page):
    return json.loads(page.get_attribute("#drive", "data-observation"))


def wait_for_step(page, step):
    """Wait until the world is at least as old; time may run while we look."""
    for _ in range(300):
        if int(page.get_attribute("#drive", "data-step")) >= step:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"the world does not reach step {step}")


def press(page, key):
    """Press a key, wait for the step that it takes, and return the action that was sent."""
    step = int(page.get_attribute("#drive", "data-step"))
    with page.expect_request("**/api/drive/step") as request:
        page.keyboard.press(key)
    page.wait_for_selector(f"#drive[data-step='{step + 1}']")
    return request.value.post_data_json["action"]


def test_driving_onto_the_computer_opens_a_gate(page, address):
    def seeded(route):
        route.continue_(post_data=json.dumps({**route.request.post_data_json, "seed": 1}))

    page.route("**/api/drive/start", seeded)
    open_drive(page, address)
    for axis, (less, more) in enumerate((("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp"))):
        while abs(observation(page)[axis] - 0.5) > 0.0501:
            before = observation(page)[axis]
            sign = 1 if before < 0.5 else -1
            press(page, more if sign > 0 else less)
            # a start beyond the walls is brought inside them
            assert observation(page)[axis] == pytest.approx(np.clip(before + 0.1 * sign, -0.95, 0.95), abs=1e-5)
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown"):
        press(page, key)
    assert "at the computer" in page.locator("#log").inner_text()
    assert "GateL0RD: gate" in page.locator("#log").inner_text()
    drawn = "(plot) => Object.fromEntries(plot.data.map((trace) => [trace.name, trace.z || trace.y]))"
    shown = page.locator("#watchers .plot").first.evaluate(drawn)
    steps = int(page.get_attribute("#drive", "data-step"))
    assert np.shape(shown["gates"]) == (8, steps) and np.max(np.array(shown["gates"])[:, -5:]) > 0
    assert max(np.ptp(shown[f"h{dimension}"][-5:]) for dimension in range(1, 9)) > 0.5


def test_keys_are_those_that_the_server_names(page, address):
    def with_other_keys(route):
        answer = route.fetch()
        content = answer.json()
        steering = content["drives"][0]["steering"]
        steering |= {
            "keys": {"w": [0, 0.5], "d": [1, 0]},
            "wait_key": "x",
            "help": "Some <b>help</b>.",
            "waiting": "Go!",
        }
        content["drives"][0]["title"] = "Some world"
        route.fulfill(response=answer, json=content)

    page.route("**/api/overview", with_other_keys)
    open_drive(page, address)
    assert page.locator("#scenario option").all_inner_texts() == ["Some world"]
    assert page.locator("#keys span").inner_text() == "Some <b>help</b>."
    assert page.locator("#keys button").all_inner_texts() == ["w", "d", "x"]
    assert page.locator("#now").inner_text() == "Go!" and not page.locator("#running").is_visible()
    page.keyboard.press("ArrowLeft")
    assert press(page, "w") == [0, 0.5]
    assert press(page, "x") == [0, 0]
    page.keyboard.down("w")
    wait_for_step(page, 3)
    with page.expect_request(
        lambda request: "drive/step" in request.url and request.post_data_json["action"] == [1, 0.5]
    ):
        page.keyboard.down("d")
    page.keyboard.up("w")
    page.keyboard.up("d")


def test_a_key_can_be_clicked(page, address):
    open_drive(page, address)
    before = observation(page)
    with page.expect_request("**/api/drive/step") as request:
        page.locator("#keys button", has_text="↓" if before[1] > 0 else "↑").click()
    page.wait_for_selector("#drive[data-step]:not([data-step='0'])")
    towards_the_middle = -1 if before[1] > 0 else 1  # where no wall is near, wherever the world starts
    assert request.value.post_data_json["action"] == [0, towards_the_middle]
    assert (observation(page)[1] - before[1]) * towards_the_middle > 0
    page.wait_for_timeout(400)
    steps = page.get_attribute("#drive", "data-step")
    page.wait_for_timeout(400)
    assert page.get_attribute("#drive", "data-step") == steps  # the key was let go


def test_toggles_waiting_and_time(page, other_addresses):
    open_drive(page, other_addresses["shepherd"])
    assert "holding the cage" in page.locator("#clock").inner_text()
    assert press(page, ".") == [0, 0, 1]
    assert press(page, "ArrowLeft") == [-1, 0, 1]
    assert press(page, " ") == [0, 0, -1]
    assert "hands free" in page.locator("#clock").inner_text()
    assert "The agent put the cage down" in page.locator("#log").inner_text()
    assert not page.locator("#running").is_checked()
    page.locator("#running").check()
    wait_for_step(page, 6)
    page.locator("#running").uncheck()
    page.click("#new-world")
    page.wait_for_selector("#drive[data-step='0']")
    assert press(page, "ArrowUp") == [0, 1, 1]


def test_a_click_places_and_a_drag_shoots(page, other_addresses):
    open_drive(page, other_addresses["billiard"])
    box = page.locator("#frame").bounding_box()

    def pixel(x, y):
        """From metres, with the origin in the middle of the table, which has a frame of 0.09 m around it."""
        return box["x"] + box["width"] * (1 + x / 1.09) / 2, box["y"] + box["height"] * (1 - y / 0.59) / 2

    def drag(start, end):
        with page.expect_response("**/api/drive/start") as answer:
            page.mouse.move(*pixel(*start))
            page.mouse.down()
            page.mouse.move(*pixel(*end), steps=3)
            page.mouse.up()
        return answer.value.request.post_data_json["start"], answer.value.json()

    start, placed = drag((-0.4, 0.2), (-0.4, 0.2))
    assert start["velocity"] == [0, 0] and start["position"] == pytest.approx([-0.4, 0.4], abs=0.01)
    assert placed["observation"] == pytest.approx(start["position"], abs=1e-5)
    page.wait_for_timeout(400)
    assert page.get_attribute("#drive", "data-step") == "0" and page.locator("#now").inner_text() == "The ball waits."
    start, _ = drag((0.1, 0.1), (0.5, -0.1))
    assert start["velocity"] == pytest.approx([0.8, -0.4], abs=0.02)
    assert start["position"] == pytest.approx([-0.4, 0.4], abs=0.01)
    wait_for_step(page, 4)  # time runs by itself
    assert observation(page)[0] > -0.4 and observation(page)[1] < 0.4
    start, _ = drag((-0.9, -0.4), (0.9, 0.4))
    assert np.hypot(*start["velocity"]) == pytest.approx(2.0)
    start, _ = drag((1.05, 0.55), (1.05, 0.55))
    assert start["position"] == [0.96, 0.93]


@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_is_wider_than_the_window(page, address, width):
    page.set_viewport_size({"width": width, "height": 860})
    open_drive(page, address)
    size = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    assert page.evaluate(size) == [width, width]
    page.click("#tab-explore")
    page.wait_for_timeout(300)
    wide, room = page.evaluate(size)
    assert wide == room
    plot = page.locator("#columns .plot").first.bounding_box()
    assert plot["x"] >= 0 and plot["x"] + plot["width"] <= width and plot["width"] > 0.6 * min(width, 900)
