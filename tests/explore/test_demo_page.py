"""The demo's page as a file in a browser, from two networks that were hardly trained."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pytest

from gatel0rd.cli.main import main
from gatel0rd.paper.demo.training import plan_demo

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    main(["demo", "--epochs", "3", "--out", str(out), "--workers", "1", "--seed", "7"])
    return out / "demo.html"


def read_content(path):
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', path.read_text())[1])


def test_the_page_has_the_numbers_of_the_records(page_file):
    content = read_content(page_file)
    out = page_file.parent
    records = [json.loads((out / run.directory_name / "record.json").read_text()) for run in plan_demo(7, 3)]
    for errors, record in zip(content["errors"], records, strict=True):
        assert errors["like"]["ours"] == record["final"]["test"]["error"]
        assert errors["unlike"]["ours"] == record["final"]["generalization"]["error"]
    hits = {"ours": records[0]["measures"]["gating"]["hits"], "paper": {"mean": 0.978, "deviation": 0.016}}
    assert content["gating"]["hits"] == hits
    for sequence in content["sequences"]:
        ours, theirs = sequence["networks"]
        assert np.shape(ours["latents"]) == np.shape(ours["changes"]) == np.shape(theirs["changes"]) == (49, 8)
        assert theirs["changed_steps"] == 49 >= ours["changed_steps"]
        assert ours["distance"][0] == 0 and len(ours["distance"]) == sequence["steps"] == 50
    commands = [command for command, _ in content["commands"]]
    assert f"gatel0rd explore {out / plan_demo(7, 3)[0].directory_name}" in commands[1]
    page = page_file.read_text()
    order = [page.index(f'id="{name}"') for name in ("stage", "errors", "gates", "next")]
    assert order == sorted(order)
    assert not re.search(r"verdict|lack seeds|https?://(?!www\.w3\.org)", page)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_plays_as_a_file(page_file, page, width):
    content = read_content(page_file)
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(page_file.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    deadline = time.monotonic() + 60
    while int(page.locator("#time").input_value()) < 3:  # it plays by itself
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
    page.locator("#time").evaluate("(bar) => { bar.value = 30; bar.dispatchEvent(new Event('input')); }")
    assert page.locator("#play").inner_text() == "▶" and "step 30" in page.locator("#clock").inner_text()
    first = content["sequences"][0]["networks"]
    shown = page.locator(".pane h3 small").all_inner_texts()[1:]
    assert shown == [f"robot off by {network['distance'][30]:.2f}" for network in first]
    page.select_option("#sequences", label="without control")
    assert "never reaches the computer" in page.locator(".story").inner_text()
    assert page.locator("#rates td b").count() == 4 and page.locator(".bar").count() == 4
