"""The local page: routes, a guard in front of them, and the same page as one file."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gatel0rd.models.fitted import FittedModel
    from gatel0rd.recordings.reading import Recordings

HERE = Path(__file__).parent
HOST = "127.0.0.1"
LOCAL_NAMES = (HOST, "localhost")
LARGEST_BODY = 1_000_000
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
Answer = Callable[[dict[str, Any]], Any]


def make_app(models: Sequence[tuple[str, FittedModel]], recordings: Recordings | None) -> Starlette:
    """The page and its API as an ASGI application.

    Args:
        models: names and models, shown side by side.
        recordings: what they are run on; models of the paper's scenarios can make some themselves.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from gatel0rd.explore import requests, views
    from gatel0rd.explore.driving import Garage
    from gatel0rd.explore.subjects import prepare

    subjects = prepare(models, recordings)
    garage = Garage(subjects)

    def sequence(content: dict[str, Any]) -> Any:
        requests.allow(content, "sequence")
        return {"values": views.recorded(subjects, requests.sequence_index(content, subjects))}

    def predict(content: dict[str, Any]) -> Any:
        requests.allow(content, "model", "sequence", "real_steps", "edits")
        subject = subjects[requests.whole(content, "model", 0, len(subjects) - 1)]
        index = requests.sequence_index(content, subjects)
        steps = views.shown_length(int(subject.recordings.lengths[index]))
        real = None if content.get("real_steps") is None else requests.whole(content, "real_steps", 1, steps - 1)
        edits = requests.edit_list(content, subjects, index)
        return views.predicted(subject, index, real_steps=real, edits=edits)

    def start(content: dict[str, Any]) -> Any:
        requests.allow(content, "scenario", "seed", "start")
        seed = None if content.get("seed") is None else requests.whole(content, "seed", 0, 2**31 - 1)
        return garage.start(str(content.get("scenario")), seed, requests.start_options(content))

    def step(content: dict[str, Any]) -> Any:
        requests.allow(content, "session", "action")
        return garage.step(str(content.get("session")), requests.number_list(content, "action"))

    one_at_a_time = threading.Lock()

    def answering(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        from starlette.concurrency import run_in_threadpool

        def locked(content: dict[str, Any]) -> Any:
            with one_at_a_time:
                return answer(content)

        async def endpoint(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return JSONResponse({"error": "expected a request of type application/json"}, 415)
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    return JSONResponse({"error": f"the request is larger than {LARGEST_BODY} bytes"}, 413)
            try:
                return JSONResponse(await run_in_threadpool(locked, requests.parse(body)))
            except requests.RequestError as error:
                return JSONResponse({"error": str(error)}, 400)

        return endpoint

    async def show_overview(request: Request) -> Response:
        return JSONResponse({**views.overview(subjects), "drives": garage.scenarios, "live": True})

    def serving(read: Callable[[], str], kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return Response(read(), media_type=kind)

        return endpoint

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    async def failed(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "this failed inside; the terminal in which the server runs says more"}, 500)

    files = {
        "/": ("page.html", "text/html"),
        "/page.css": ("page.css", "text/css"),
        "/page.js": ("page.js", "text/javascript"),
    }
    return Starlette(
        routes=[
            *(Route(path, serving(partial(asset, name), kind)) for path, (name, kind) in files.items()),
            Route("/plotly.js", serving(plotly_source, "text/javascript")),
            Route("/api/overview", show_overview),
            Route("/api/sequence", answering(sequence), methods=["POST"]),
            Route("/api/predict", answering(predict), methods=["POST"]),
            Route("/api/drive/start", answering(start), methods=["POST"]),
            Route("/api/drive/step", answering(step), methods=["POST"]),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={HTTPException: refused, Exception: failed},
    )


class Guard:
    """Answers only requests to this machine by its own name, from its own page.

    A page elsewhere that made a name of its own point here (DNS rebinding) sends that name as its host.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.datastructures import Headers, MutableHeaders
        from starlette.responses import JSONResponse

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.partition(":")[0] not in LOCAL_NAMES or origin not in (None, f"http://{host}"):
            answer = JSONResponse({"error": f"this page is only at {HOST} and localhost, and only for itself"}, 403)
            await answer(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


def asset(name: str) -> str:
    """One of the page's own files."""
    return (HERE / name).read_text(encoding="utf-8")


def plotly_source() -> str:
    """Plotly's script, from the Python package of that name."""
    from importlib.resources import files

    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def serve(
    models: Sequence[tuple[str, FittedModel]],
    recordings: Recordings | None,
    *,
    port: int,
    open_browser: bool,
    on_start: Callable[[str], None],
) -> None:
    """Show the page at 127.0.0.1 until interrupted.

    Args:
        port: where; 0 chooses a free one.
        open_browser: whether to show it in a browser.
        on_start: called with the page's address.
    """
    import uvicorn

    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(128)
        except (OSError, OverflowError) as error:
            other = port + 1 if 1024 <= port < 65535 else 8765
            raise ValueError(
                f"port {port} cannot be used ({getattr(error, 'strerror', None) or error}); "
                f"choose another one, as in --port {other}"
            ) from error
        app = make_app(models, recordings)
        address = f"http://{HOST}:{listener.getsockname()[1]}/"
        on_start(address)
        if open_browser:
            webbrowser.open(address)
        config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def save_page(
    models: Sequence[tuple[str, FittedModel]], recordings: Recordings | None, out: Path, *, sequences: int = 20
) -> Path:
    """The page as one HTML file with everything inside, for looking without a server: nothing can be predicted anew.

    Args:
        sequences: how many of the recordings, from the first on.
    """
    from gatel0rd.explore import views
    from gatel0rd.explore.subjects import prepare

    if sequences < 1:
        raise ValueError(f"sequences is {sequences}; expected at least 1")
    subjects = prepare(models, recordings)
    shown = range(min(sequences, len(subjects[0].recordings)))
    content = {**views.overview(subjects), "drives": [], "live": False}
    content["sequences"] = content["sequences"][: len(shown)]
    content["saved"] = [
        {
            "values": views.recorded(subjects, index),
            "courses": [views.predicted(subject, index) for subject in subjects],
        }
        for index in shown
    ]
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    page = asset("page.html")
    for place, inside in (
        ('<link rel="stylesheet" href="page.css">', f"<style>\n{asset('page.css')}</style>"),
        ('<script src="plotly.js"></script>', f"<script>{plotly_source()}</script>"),
        (
            '<script src="page.js"></script>',
            f'<script type="application/json" id="saved">{data}</script>\n<script>\n{asset("page.js")}</script>',
        ),
    ):
        before, found, after = page.partition(place)
        assert found, f"page.html has no {place}"
        page = before + inside + after
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    return out
