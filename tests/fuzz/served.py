"""The explorer as people start it, in a process of its own, and requests to it byte by byte."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TRAINED = ROOT / "tests" / "data" / "rrc-gatel0rd"


class ServedExplorer:
    """``gatel0rd explore`` on a free port, with what it says on standard error in a file."""

    def __init__(self, place: Path) -> None:
        self.errors = place / "stderr.txt"
        code = (
            "import functools, sys, gatel0rd; from gatel0rd.explore import serve; "
            f"serve([('rrc', gatel0rd.load({str(TRAINED)!r}))], None, port=0, open_browser=False, "
            "on_start=functools.partial(print, flush=True))"
        )
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().strip().rstrip(b"/").rpartition(b":")[2])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def resident(self) -> int:
        """Bytes of memory that it has."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def send(self, request: bytes, *, leave: bool = False, reset: bool = False, patience: float = 10.0) -> bytes:
        """Send some bytes, and return what comes back until the other side closes or patience ends.

        Nothing comes back if one leaves; closing one's own side first would count as leaving.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as client:
            if reset:  # closing it then tells the other side at once, and throws away what is on its way
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(ConnectionError, TimeoutError):
                client.sendall(request)
            return b"" if leave else receive_all(client)

    def stop(self) -> int:
        """Interrupt it; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def receive_all(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        while part := client.recv(1 << 16):
            found += part
    return found


@dataclass(frozen=True)
class Answer:
    """What the server said to one request."""

    status: int
    body: bytes


def read_answers(found: bytes) -> list[Answer]:
    """The answers in what came back over one connection, by their lengths."""
    answers = []
    while found.startswith(b"HTTP/1.1 "):
        head, _, rest = found.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0 if status < 200 else len(rest)
        answers.append(Answer(status, rest[:length]))
        found = rest[length:]
    return answers


def wait_until_quiet(explorer: ServedExplorer, seconds: float = 0.05) -> None:
    """Give it a moment to complain about a client that is gone."""
    size = -1
    while size != (size := explorer.errors.stat().st_size):
        time.sleep(seconds)
