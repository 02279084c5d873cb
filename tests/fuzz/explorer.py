"""Requests to the explorer: never an error of ours, never a traceback in the terminal, no answer to foreign pages."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from fuzz.driver import BrokenPromiseError, Target
from fuzz.mutations import ODD_VALUES, damage_bytes, damage_json, spell_json
from fuzz.served import ServedExplorer, read_answers, wait_until_quiet

METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "BREW", "", "G\0T")
PATHS = ("/", "/api/overview", "/api/sequence", "/api/predict", "/api/drive/start", "/api/drive/step", "/plotly.js")
ODD_PATHS = (
    *("//", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/", "/api/predict/", "/API/PREDICT", "*", ""),
    *("/%", "/%00", "/%ff", "/api/predict?x=1#y", "http://evil.example/api/overview", "/" + "a" * 70_000, "/ä"),
)
HOSTS = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1]", "0.0.0.0", "127.0.0.1@evil")
ORIGINS = ("http://evil.example", "null", "file://", "https://127.0.0.1", "http://127.0.0.1:1")
ODD_HEADERS = ("X" * 70_000, "Transfer-Encoding", "Host", "Expect", "Upgrade", "Content-Type", "Ä", "A:", "Cookie")
ODD_CONTENTS = ("chunked", "100-continue", "websocket", "text/plain", "x" * 70_000, "\0", "gzip", "evil.example", "")
ODD_BODIES = (
    *(b"", b"null", b"[]", b"\xff\xfe", b"9" * 5000, b'{"sequence": ' + b"9" * 5000 + b"}", b"{" * 50_000),
    *(b'{"\\ud800": 1}', b'{"sequence": "\\ud800"}', b'{"sequence": NaN}', b" " * 1_100_000, b'{"sequence": 1e999}'),
)
LOCAL = ("127.0.0.1", "localhost")
USUAL: dict[str, dict[str, Any]] = {
    "/api/sequence": {"sequence": 0},
    "/api/predict": {"model": 0, "sequence": 1, "real_steps": 3, "edits": [{"step": 2, "variable": "x", "value": 0.5}]},
    "/api/drive/start": {"scenario": "rrc", "seed": 3, "start": {}},
    "/api/drive/step": {"session": "none", "action": [0.5, -0.5]},
}
ALLOWED = {100, 200, 307, 400, 403, 404, 405, 411, 413, 414, 415, 431, 501, 505}
"""501 and 505 are the HTTP library's, for what it does not know."""


class Explorer(Target):
    """The server that people start with ``gatel0rd explore``."""

    name = "explorer"
    seconds = 30.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.served = ServedExplorer(place)
        self.variables = list(json.loads(self.ask("/api/sequence", {"sequence": 0}))["values"])
        self.session = json.loads(self.ask("/api/drive/start", USUAL["/api/drive/start"]))["session"]

    def close(self) -> None:
        self.served.stop()

    def ask(self, path: str, content: Any) -> bytes:
        """A request as the page sends it."""
        body = json.dumps(content).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.served.address}\r\nContent-Type: application/json\r\n"
        found = self.served.send(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        (answer,) = read_answers(found)
        if answer.status != 200:
            raise BrokenPromiseError(f"a usual request is answered with {answer.status}: {answer.body[:200]!r}")
        return answer.body

    def attempt(self, rng: random.Random, place: Path) -> str:
        request, foreign, whole = self.draw_request(rng)
        (place / "request.bin").write_bytes(request)
        before = self.served.errors.stat().st_size
        leave = rng.random() < 0.1
        found = self.served.send(request, leave=leave, reset=rng.random() < 0.5, patience=20.0 if whole else 0.5)
        if leave or rng.random() < 0.02:
            wait_until_quiet(self.served)
        said = self.served.errors.read_bytes()[before:]
        if b"Traceback" in said or b"Error" in said:
            raise BrokenPromiseError(f"the terminal shows an error: {said[-400:].decode(errors='replace')}")
        if self.served.process.poll() is not None:
            raise BrokenPromiseError(f"the server ended with {self.served.process.returncode}")
        if rng.random() < 0.01:  # it still works
            self.ask("/api/predict", {"model": 0, "sequence": 0})
        if leave:
            return "left before the answer"
        statuses = [answer.status for answer in read_answers(found)]
        if unknown := set(statuses) - ALLOWED:
            raise BrokenPromiseError(f"answered with {unknown}: {found[:200]!r}")
        if foreign and 200 in statuses:
            raise BrokenPromiseError(f"a foreign page is answered: {found[:200]!r}")
        kind = "foreign" if foreign else "own"
        return f"{kind}: {statuses[0] if statuses else 'no answer'}"

    def draw_request(self, rng: random.Random) -> tuple[bytes, bool, bool]:
        """The bytes of a request, whether its sender must not be answered, and whether it is whole."""
        path = rng.choice(PATHS) if rng.random() < 0.85 else rng.choice(ODD_PATHS)
        method = "POST" if path.startswith("/api/") and path != "/api/overview" else "GET"
        method = rng.choice(METHODS) if rng.random() < 0.1 else method
        host = f"{rng.choice(LOCAL)}:{self.served.port}"
        host = rng.choice(HOSTS) if rng.random() < 0.15 else host
        origin = (
            rng.choice(["http://evil.example", "null", "file://", f"https://{host}"]) if rng.random() < 0.1 else None
        )
        body = self.draw_body(rng, path)
        length = len(body) if rng.random() < 0.9 else rng.choice([0, 1, -1, 10**6, 10**7, 10**30, "x", len(body) + 5])
        headers = {"Host": host, "Content-Type": "application/json", "Content-Length": length, "Connection": "close"}
        if origin is not None:
            headers["Origin"] = origin
        if rng.random() < 0.1:
            name = rng.choice(
                ["X" * 70_000, "Transfer-Encoding", "Host", "Expect", "Upgrade", "Content-Type", "Ä", "A:"]
            )
            headers[name] = rng.choice(
                ["chunked", "100-continue", "websocket", "text/plain", "x" * 70_000, "\0", "gzip"]
            )
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        request = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body
        if rng.random() < 0.08:
            return damage_bytes(rng, request), False, False
        foreign = headers["Host"] not in [f"{name}:{self.served.port}" for name in LOCAL] or origin is not None
        usual = length == len(body) and "Expect" not in headers and "Transfer-Encoding" not in headers
        return request, foreign, usual

    def draw_body(self, rng: random.Random, path: str) -> bytes:
        """Mostly JSON of the usual form, with a few values changed."""
        content: Any = USUAL.get(path, {"sequence": 0})
        content = json.loads(json.dumps(content))
        if path == "/api/drive/step" and rng.random() < 0.9:
            content["session"] = self.session
        if path == "/api/predict":
            content["edits"][0]["variable"] = rng.choice(self.variables)
            content["point"] = rng.choice([None, 0])
            content = content if rng.random() < 0.7 else {"model": 0, "sequence": 0}
        if path == "/api/drive/start":
            self.renew_session(rng)
            content["start"] = rng.choice([{}, {"x": 1}, {"position": [0.0, 0.0]}, {"seed": ODD_VALUES[3]}])
        kind = rng.random()
        if kind < 0.3:
            return json.dumps(content).encode()
        if kind < 0.85:
            return spell_json(rng, damage_json(rng, content)).encode("utf-8", "surrogatepass")
        odd = [b"", b"null", b"[]", b"\xff\xfe", b"9" * 5000, b'{"sequence": ' + b"9" * 5000 + b"}", b"{" * 50_000]
        odd += [
            b'{"\\ud800": 1}',
            b'{"sequence": "\\ud800"}',
            b'{"sequence": NaN}',
            b" " * 1_100_000,
            b'{"sequence": 1e999}',
        ]
        return rng.choice([*odd, rng.randbytes(rng.randint(1, 3000))])

    def renew_session(self, rng: random.Random) -> None:
        """Worlds make room for newer ones: now and then take one that is there."""
        if rng.random() < 0.2:
            self.session = json.loads(self.ask("/api/drive/start", USUAL["/api/drive/start"]))["session"]
