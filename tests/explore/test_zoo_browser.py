"""Models of the zoo in a real browser: one command in an empty directory, and nothing is trained or written."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def address(tmp_path):
    """Where `gatel0rd explore` shows two models of the zoo."""
    command = [
        sys.executable,
        "-m",
        "gatel0rd",
        "explore",
        "zoo:rrc/gatel0rd",
        "zoo:rrc/gru",
        "--port",
        "0",
        "--no-browser",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    found = re.search(r"open (http://127\.0\.0\.1:\d+/) in a browser", process.stdout.readline())
    yield found[1]
    process.terminate()
    process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_two_models_are_shown_by_one_command(page, address):
    page.goto(address)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    assert page.locator("#columns h3").all_inner_texts() == ["GateL0RD", "GRU"]
    assert page.locator("#columns h3").first.get_attribute("title") == "rrc/gatel0rd"
    assert page.locator("#sequences option").count() == 64
    script = "(plot) => plot.data.filter((trace) => trace.name === 'gates').map((trace) => trace.z.flat())"
    (gates,) = page.locator("#columns .plot").first.evaluate(script)
    share = sum(value is not None and value > 0 for value in gates) / len(gates)
    assert len(gates) == 8 * 49 and 0 < share < 0.1  # sparse, as trained ones are
    page.click("#tab-drive")
    page.wait_for_selector("#frame[src^='data:']", timeout=60_000)
