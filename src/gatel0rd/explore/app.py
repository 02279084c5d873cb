"""The page and its API as an ASGI application: routes, and how requests become answers."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gatel0rd.explore.assets import list_assets, plotly_source, read_asset

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from gatel0rd.models.fitted import FittedModel
    from gatel0rd.recordings import Recordings

    Endpoint = Callable[[Request], Awaitable[Response]]

LARGEST_BODY = 1_000_000
Answer = Callable[[dict[str, Any]], Any]


def make_app(models: Sequence[tuple[str, FittedModel]], recordings: Recordings | None) -> Starlette:
    """The page and its API as an ASGI application.

    Args:
        models: names and models, shown side by side.
        recordings: what they are run on; models of the paper's worlds can generate some themselves.

    Example:
        >>> import numpy as np
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.explore import make_app
        >>> from gatel0rd.models.fitted import wrap_model
        >>> from gatel0rd.recordings import from_arrays
        >>> model = wrap_model(WorldModel(WorldModelConfig(observation_size=2, action_size=0)))
        >>> app = make_app([("untrained", model)], from_arrays(np.random.rand(5, 20, 2)))
        >>> "/api/overview" in [route.path for route in app.routes]
        True
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.routing import Route

    from gatel0rd.explore.api import Api
    from gatel0rd.explore.guard import Guard
    from gatel0rd.explore.models import prepare_models

    api = Api(prepare_models(models, recordings))
    one_at_a_time = threading.Lock()
    paths = {name: "/" if name == "page.html" else f"/{name}" for name, _ in list_assets()}
    return Starlette(
        routes=[
            *(Route(paths[name], text_endpoint(partial(read_asset, name), kind)) for name, kind in list_assets()),
            Route("/plotly.js", text_endpoint(plotly_source, "text/javascript")),
            Route("/api/overview", overview_endpoint(api.overview)),
            *(
                Route(f"/api/{path}", json_endpoint(answer, one_at_a_time), methods=["POST"])
                for path, answer in api.answers.items()
            ),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={HTTPException: explain_refusal, Exception: hide_failure},
    )


def text_endpoint(read: Callable[[], str], media_type: str) -> Endpoint:
    """Sends a text."""
    from starlette.responses import Response

    async def endpoint(request: Request) -> Response:
        return Response(read(), media_type=media_type)

    return endpoint


def overview_endpoint(overview: Callable[[], Any]) -> Endpoint:
    """Sends what the page needs first."""
    from starlette.responses import JSONResponse

    async def endpoint(request: Request) -> Response:
        return JSONResponse(overview())

    return endpoint


def json_endpoint(answer: Answer, lock: threading.Lock) -> Endpoint:
    """Takes a JSON object and sends what ``answer`` makes of it; models and worlds are used by one at a time."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse

    from gatel0rd.explore.requests import RequestError, parse_body

    def answer_alone(content: dict[str, Any]) -> Any:
        with lock:
            return answer(content)

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return JSONResponse({"error": "expected a request of type application/json"}, 415)
        try:
            body = await read_body(request)
        except ClientDisconnect:  # nobody is there to be answered, and nothing went wrong here
            return JSONResponse({"error": "the request ended too early"}, 400)
        if body is None:
            return JSONResponse({"error": f"the request is larger than {LARGEST_BODY} bytes"}, 413)
        try:
            return JSONResponse(await run_in_threadpool(answer_alone, parse_body(body)))
        except RequestError as error:
            return JSONResponse({"error": str(error)}, 400)

    return endpoint


async def read_body(request: Request) -> bytes | None:
    """What was sent; None if it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            return None
    return body


async def explain_refusal(request: Request, error: Exception) -> Response:
    """Paths and methods that do not exist, as JSON like everything else."""
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse

    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def hide_failure(request: Request, error: Exception) -> Response:
    """An error of ours: its stack trace is for the terminal only."""
    from starlette.responses import JSONResponse

    return JSONResponse({"error": "the server failed; the terminal in which it runs says more"}, 500)
