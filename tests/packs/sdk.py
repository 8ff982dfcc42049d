"""What every SDK's tests prove of its connection, and answers in a vendor's own JSON."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from iserror import Failure
from iserror.errors.pack import Pack
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.upstream import Upstream, free_port, serving, stalled_connect

Post = Callable[[str, float], Any]
"""Posts a request with the canary in it to a base URL, within a timeout in seconds, and never again."""


def answer(status: int, body: object, headers: str = "", kind: str = "application/json") -> bytes:
    """A whole response; `headers` are lines that end in CRLF."""
    content = (body if isinstance(body, str) else json.dumps(body)).encode()
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(content)}\r\ncontent-type: {kind}\r\n{headers}\r\n"
    return head.encode() + content


def prove_nothing_was_sent(pack: Pack, lines: Lines, post: Post) -> None:
    """A refused connection, a name that does not exist, a connect timeout, a failed handshake: no request arrived."""
    listener, port = stalled_connect()
    with listener:
        said = failure(pack, lines, lambda: post(f"http://127.0.0.1:{port}/{CANARY}", 0.1))
    assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    for url in (f"http://127.0.0.1:{free_port()}/{CANARY}", f"http://{CANARY}.invalid/"):
        said = failure(pack, lines, lambda url=url: post(url, 5))
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True), url


_UNANSWERED = (
    (Upstream(ends="stall"), 0.2, "UPSTREAM_TIMEOUT"),
    (Upstream(ends="close"), 5, "CONNECTION_LOST"),
    (Upstream(ends="reset"), 5, "CONNECTION_LOST"),
    (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "reset"), 5, "CONNECTION_LOST"),
)


def prove_it_was_sent(pack: Pack, lines: Lines, post: Post, *, body: bool = True) -> None:
    """Where the server received the request and no good answer came, the outcome is unknown, and no repeat is safe.

    Args:
        body: Whether the SDK's own exception tells too that the answer ended within its body.
    """
    for upstream, timeout, code in _UNANSWERED[: None if body else -1]:
        with serving(replace(upstream, requests=[])) as received:
            said = failure(pack, lines, lambda timeout=timeout, url=received.url: post(url, timeout))
        assert len(received.requests) == 1
        assert CANARY.encode() in received.requests[0]
        assert (said.code, said.outcome, said.retryable) == (code, "unknown", False), upstream


def prove_tls(pack: Pack, lines: Lines, post: Post) -> None:
    """A handshake that fails is told apart from a connection that fails."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(pack, lines, lambda: post(upstream.url.replace("http:", "https:"), 5))
    assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)


def said_of(pack: Pack, lines: Lines, reply: bytes, post: Post, *, effect: str = "write") -> Failure:
    """The failure of a request that gets this reply."""
    with serving(Upstream(reply)) as upstream:
        said = failure(pack, lines, lambda: post(upstream.url, 5), effect=effect)
        assert len(upstream.requests) == 1
    return said


def prove_names(pack: Pack) -> None:
    """Every row names a class that exists in the newest version, and is what that class calls itself."""
    for name in pack.rows:
        module, _, cls = name.rpartition(".")
        found = getattr(importlib.import_module(module), cls)
        assert issubclass(found, Exception), name
        assert f"{found.__module__}.{found.__qualname__}" == name
