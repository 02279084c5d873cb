"""The page at an address of this machine, until interrupted."""

from __future__ import annotations

import contextlib
import socket
import webbrowser
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gatel0rd.explore.app import make_app
from gatel0rd.explore.guard import HOST

if TYPE_CHECKING:
    from gatel0rd.models.fitted import FittedModel
    from gatel0rd.recordings import Recordings


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
        models: names and models, shown side by side.
        recordings: what they are run on; models of the paper's worlds can generate some themselves.
        port: where; 0 chooses a free one.
        open_browser: whether to show it in a browser.
        on_start: called with the page's address.

    Example:
        >>> from queue import Queue
        >>> from threading import Thread
        >>> from urllib.request import urlopen
        >>> import numpy as np
        >>> from gatel0rd import WorldModel, WorldModelConfig
        >>> from gatel0rd.explore import serve
        >>> from gatel0rd.models.fitted import wrap_model
        >>> from gatel0rd.recordings import from_arrays
        >>> models = [("untrained", wrap_model(WorldModel(WorldModelConfig(observation_size=2, action_size=0))))]
        >>> addresses, recordings = Queue(), from_arrays(np.random.rand(5, 20, 2))
        >>> options = {"port": 0, "open_browser": False, "on_start": addresses.put}
        >>> Thread(target=serve, args=(models, recordings), kwargs=options, daemon=True).start()
        >>> with urlopen(addresses.get()) as page:
        ...     page.status
        200
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
