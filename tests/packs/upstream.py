"""A loopback HTTP server that fails at each phase of a request, and tells what it received."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.packs.failing import CANARY
from tests.packs.loopback import listening


@dataclass
class Upstream:
    """A server that treats every connection in one way.

    Args:
        answer: The bytes that answer a request; None reads it and says nothing.
        ends: After the answer, or instead of it: `close`, `reset`, or `stall`.
        reads: Whether it reads the request at all.
        tls: With what it speaks TLS, if it does.
    """

    answer: bytes | None = None
    ends: str = "close"
    reads: bool = True
    tls: ssl.SSLContext | None = None
    requests: list[bytes] = field(default_factory=list)
    """Each request that was received as a whole, headers and body."""
    port: int = 0

    @property
    def patience(self) -> float:
        """Seconds that a client may wait for it: few only where it never answers, since the machine may be busy."""
        return 0.5 if self.ends == "stall" else 10

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/{CANARY}"


def response(status: int, headers: str = "", body: str = CANARY) -> bytes:
    """A whole response, after which no client should use the connection again; `headers` are lines that end in CRLF."""
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(body)}\r\ncontent-type: text/plain\r\n{headers}"
    head += "connection: close\r\n\r\n"
    return (head + body).encode()


def in_turn(upstream: Upstream, answers: Iterable[bytes], action: Callable[[], Any]) -> list[Callable[[], Any]]:
    """The same action for each of the answers."""

    def answered(answer: bytes) -> Callable[[], Any]:
        def act() -> Any:
            upstream.answer = answer
            return action()

        return act

    return [answered(answer) for answer in answers]


@contextmanager
def serving(upstream: Upstream) -> Iterator[Upstream]:
    """Run it until the block ends."""

    def one(connection: socket.socket, over: threading.Event) -> None:
        if upstream.tls is not None:
            try:
                connection = upstream.tls.wrap_socket(connection, server_side=True)
            except OSError:
                return
        with connection:
            if upstream.reads and not _read(connection, upstream):
                return
            if upstream.answer is not None:
                connection.sendall(upstream.answer)
            if upstream.ends == "stall":
                over.wait(20)
            if upstream.ends == "reset":  # RST in place of FIN
                linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    with listening(one) as upstream.port:
        yield upstream


def _read(connection: socket.socket, upstream: Upstream) -> bool:
    """Read one request; False if the connection ended before it was whole."""
    connection.settimeout(20)
    received = b""
    try:
        while b"\r\n\r\n" not in received:
            if not (more := connection.recv(65_536)):
                return False
            received += more
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(
            (int(v) for k, _, v in (h.partition(b":") for h in head.split(b"\r\n")) if k.lower() == b"content-length"),
            0,
        )
        while len(body) < length:
            if not (more := connection.recv(65_536)):
                return False
            body += more
    except OSError:
        return False
    upstream.requests.append(head + b"\r\n\r\n" + body)
    return True


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def stalled_connect() -> tuple[socket.socket, int]:
    """A port whose queue of connections is full: the next one is neither taken nor refused."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = int(listener.getsockname()[1])
    for _ in range(8):
        waiting = socket.socket()
        waiting.setblocking(False)
        waiting.connect_ex(("127.0.0.1", port))
        _KEPT.append(waiting)
    time.sleep(0.05)
    return listener, port


_KEPT: list[socket.socket] = []
