"""httpx fails at each phase of a request and with each status, and the pack says what that means."""

from __future__ import annotations

import httpx
import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.upstream import Upstream, free_port, response, serving, stalled_connect

PACK = iserror.packs.httpx


async def post(url: str, timeout: float = 5.0, **settings: object) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=timeout) as client:
        (await client.post(url, content=CANARY, **settings)).raise_for_status()  # type: ignore[arg-type]


def test_nothing_was_sent(lines: Lines) -> None:
    """A refused connection, a name that does not exist, a connect timeout, a full pool: nothing reached a server."""

    async def full_pool(url: str) -> None:
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(5, pool=0.05), limits=limits) as client:
            async with client.stream("GET", url):
                await client.post(url, content=CANARY)

    listener, port = stalled_connect()
    refused = failure(PACK, lines, lambda: post(f"http://127.0.0.1:{free_port()}/{CANARY}"))
    unknown = failure(PACK, lines, lambda: post(f"http://{CANARY}.invalid/"))
    stalled = failure(PACK, lines, lambda: post(f"http://127.0.0.1:{port}/{CANARY}", 0.1))
    listener.close()
    for said in (refused, unknown, stalled):
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    with serving(Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "stall")) as upstream:
        said = failure(PACK, lines, lambda: full_pool(upstream.url))
        assert [request[:3] for request in upstream.requests] == [b"GET"]
    assert (said.code, said.outcome) == ("DEPENDENCY_BUSY", "not_applied")


@pytest.mark.parametrize(
    ("upstream", "timeout", "code"),
    [
        (Upstream(ends="stall"), 0.1, "UPSTREAM_TIMEOUT"),
        (Upstream(ends="close"), 5, "CONNECTION_LOST"),
        (Upstream(ends="reset"), 5, "CONNECTION_LOST"),
        (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "reset"), 5, "CONNECTION_LOST"),
        (Upstream(b"no HTTP at all\r\n\r\n"), 5, "CONNECTION_LOST"),
        (Upstream(response(200, "content-encoding: gzip\r\n")), 5, "UPSTREAM_INVALID_RESPONSE"),
    ],
)
def test_it_was_sent(lines: Lines, upstream: Upstream, timeout: float, code: str) -> None:
    """Where the server received the request and no good answer came, what it did is unknown, and no repeat is safe."""
    with serving(upstream):
        said = failure(PACK, lines, lambda: post(upstream.url, timeout))
    assert len(upstream.requests) == 1
    assert (said.code, said.outcome, said.retryable) == (code, "unknown", False)


def test_tls(lines: Lines) -> None:
    """A handshake that fails is told apart from a connection that fails."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(PACK, lines, lambda: post(upstream.url.replace("http:", "https:")))
    assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
    assert said.advice == "stop and tell the user"


@pytest.mark.parametrize(
    ("status", "headers", "code", "retryable", "wait"),
    [
        (301, "", "UPSTREAM_INVALID_RESPONSE", False, None),
        (400, "", "UPSTREAM_REJECTED", False, None),
        (401, "", "UPSTREAM_UNAUTHENTICATED", False, None),
        (403, "", "UPSTREAM_PERMISSION_DENIED", False, None),
        (404, "", "UPSTREAM_NOT_FOUND", False, None),
        (409, "", "UPSTREAM_CONFLICT", False, None),
        (422, "", "UPSTREAM_REJECTED", False, None),
        (429, "retry-after: 7\r\n", "UPSTREAM_RATE_LIMITED", True, 7),
        (429, "retry-after-ms: 250\r\n", "UPSTREAM_RATE_LIMITED", True, 0.25),
        (500, "", "UPSTREAM_ERROR", False, None),
        (503, "retry-after: 7\r\n", "UPSTREAM_UNAVAILABLE", False, None),
        (504, "", "UPSTREAM_TIMEOUT", False, None),
    ],
)
def test_statuses(lines: Lines, status: int, headers: str, code: str, retryable: bool, wait: float | None) -> None:
    """A status means what RFC 9110 says; the wait is the server's own."""
    with serving(Upstream(response(status, headers))) as upstream:
        said = failure(PACK, lines, lambda: post(upstream.url))
    assert (said.code, said.retryable, said.retry_after) == (code, retryable, wait)


def test_reading_is_repeated(lines: Lines) -> None:
    """A tool that only reads may be called again after an answer that never came."""
    with serving(Upstream(response(503, "retry-after: 7\r\n"))) as upstream:
        said = failure(PACK, lines, lambda: post(upstream.url), effect="read")
    assert (said.code, said.retryable, said.retry_after) == ("UPSTREAM_UNAVAILABLE", True, 7)


def test_the_request_is_wrong(lines: Lines) -> None:
    """What cannot be sent is the tool's own mistake."""
    said = failure(PACK, lines, lambda: post(f"gopher://{CANARY}/"))
    assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")
