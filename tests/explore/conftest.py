"""A web browser, and the page in it."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window; where there is none, tests are skipped, except in continuous integration."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no browser found; install chromium to test the page")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page that must neither report errors nor ask for anything elsewhere."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    reported: list[str] = []

    def report_message(message):
        if message.type in ("error", "warning"):
            reported.append(message.text)

    def report_foreign(request):
        if not request.url.startswith(("http://127.0.0.1:", "data:", "file://", "blob:")):
            reported.append(f"elsewhere: {request.url[:100]}")

    page.on("console", report_message)
    page.on("pageerror", lambda error: reported.append(str(error)))
    page.on("requestfailed", lambda request: reported.append(f"failed: {request.url[:100]}"))
    page.on("request", report_foreign)
    page.expected = []
    yield page
    page.close()
    assert [text for text in reported if not any(words in text for words in page.expected)] == []


@contextmanager
def running(app):
    import uvicorn

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # now, so that a request that comes before the server waits for it
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def serve_app(browser):
    """Serves an application until the module's tests are over, and returns its address."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(running(app))
