"""The opensearch-py clients fail over each of their HTTP clients, and the pack says what that means."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from opensearchpy import AsyncOpenSearch, OpenSearch, RequestsHttpConnection, Urllib3HttpConnection, helpers
from opensearchpy.exceptions import SerializationError, TransportError

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.upstream import Upstream, free_port, in_turn, response, serving, stalled_connect

PACK = iserror.packs.opensearch
Send = Callable[..., Any]
# Of a request that goes to https without a certificate to check, which is what the test is for.
pytestmark = pytest.mark.filterwarnings("ignore:Connecting to .* with verify_certs=False")


def over(connection: Any) -> Send:
    def send(url: str, timeout: float = 5, document: Any = None, **settings: Any) -> None:
        client = OpenSearch(
            url, connection_class=connection, timeout=timeout, max_retries=0, trust_env=False, **settings
        )
        with client:
            client.index(index=CANARY, body=document or {CANARY: CANARY})

    return send


async def aiohttp(url: str, timeout: float = 5, **settings: Any) -> None:
    async with AsyncOpenSearch(url, timeout=timeout, max_retries=0, **settings) as client:
        await client.index(index=CANARY, body={CANARY: CANARY})


urllib3 = over(Urllib3HttpConnection)
each = pytest.mark.parametrize(
    "send", [urllib3, over(RequestsHttpConnection), aiohttp], ids=["urllib3", "requests", "aiohttp"]
)


@each
def test_nothing_was_sent(lines: Lines, send: Send) -> None:
    """A refused connection, a name that does not exist: nothing reached a server."""
    for url in (f"http://127.0.0.1:{free_port()}", f"http://{CANARY}.invalid:9200"):
        said = failure(PACK, lines, lambda: send(url))
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)


def test_a_connect_timeout(lines: Lines) -> None:
    """Of a timeout is told apart whether it was one of connecting, where the HTTP client tells."""
    listener, port = stalled_connect()
    for send in (urllib3, over(RequestsHttpConnection)):
        said = failure(PACK, lines, lambda: send(f"http://127.0.0.1:{port}", 0.1))
        assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")
    said = failure(PACK, lines, lambda: aiohttp(f"http://127.0.0.1:{port}", 0.1))
    assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")
    listener.close()


@each
@pytest.mark.parametrize(
    ("upstream", "codes"),
    [
        (Upstream(ends="stall"), {"UPSTREAM_TIMEOUT"}),
        (Upstream(ends="close"), {"CONNECTION_LOST"}),
        (Upstream(ends="reset"), {"CONNECTION_LOST"}),
        (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "stall"), {"CONNECTION_LOST", "UPSTREAM_TIMEOUT"}),
        (Upstream(b"no HTTP at all\r\n\r\n"), {"UPSTREAM_INVALID_RESPONSE"}),
    ],
)
def test_it_was_sent(lines: Lines, send: Send, upstream: Upstream, codes: set[str]) -> None:
    """Where the server received the request and no good answer came, what it did is unknown."""
    before = len(upstream.requests)
    with serving(upstream):
        said = failure(PACK, lines, lambda: send(f"http://127.0.0.1:{upstream.port}", upstream.patience))
    assert len(upstream.requests) == before + 1
    assert said.code in codes
    assert (said.outcome, said.retryable) == ("unknown", False)


@each
def test_tls(lines: Lines, send: Send) -> None:
    """A handshake that fails is told apart from a connection that fails."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(PACK, lines, lambda: send(f"https://127.0.0.1:{upstream.port}", verify_certs=False))
    assert (said.code, said.outcome) == ("TLS_FAILED", "not_applied")


STATUSES = [
    (307, "UPSTREAM_INVALID_RESPONSE", "unknown"),
    (400, "UPSTREAM_REJECTED", "not_applied"),
    (401, "UPSTREAM_UNAUTHENTICATED", "not_applied"),
    (402, "UPSTREAM_QUOTA_EXHAUSTED", "not_applied"),
    (403, "UPSTREAM_PERMISSION_DENIED", "not_applied"),
    (404, "UPSTREAM_NOT_FOUND", "not_applied"),
    (405, "UPSTREAM_UNIMPLEMENTED", "not_applied"),
    (407, "UPSTREAM_UNAUTHENTICATED", "not_applied"),
    (408, "UPSTREAM_TIMEOUT", "unknown"),
    (409, "UPSTREAM_CONFLICT", "not_applied"),
    (410, "UPSTREAM_NOT_FOUND", "not_applied"),
    (412, "UPSTREAM_PRECONDITION_FAILED", "not_applied"),
    (413, "UPSTREAM_REJECTED", "not_applied"),
    (428, "UPSTREAM_PRECONDITION_FAILED", "not_applied"),
    (429, "UPSTREAM_RATE_LIMITED", "not_applied"),
    (500, "UPSTREAM_ERROR", "unknown"),
    (501, "UPSTREAM_UNIMPLEMENTED", "not_applied"),
    (502, "UPSTREAM_UNAVAILABLE", "unknown"),
    (503, "UPSTREAM_UNAVAILABLE", "unknown"),
    (504, "UPSTREAM_TIMEOUT", "unknown"),
]
BODY = json.dumps({"error": {"type": CANARY, "reason": CANARY, "root_cause": [{"reason": CANARY}]}})


def test_statuses(lines: Lines) -> None:
    """A status means what RFC 9110 says, in whichever exception; it keeps no headers, so that there is no wait."""
    answers = [response(status, "retry-after: 7\r\n", BODY) for status, *_ in STATUSES]
    with serving(Upstream()) as upstream:
        said = failures(PACK, lines, in_turn(upstream, answers, lambda: urllib3(f"http://127.0.0.1:{upstream.port}")))
    assert [(one.code, one.outcome) for one in said] == [row[1:] for row in STATUSES]
    assert not any(one.retry_after for one in said)
    named = {status for (status, *_), one in zip(STATUSES, said, strict=True) if "status" in one.message}
    assert named == {400, 413, 500}


def test_answers_that_cannot_be_read(lines: Lines) -> None:
    """JSON that is none, and a document that is no JSON, which is told apart."""
    answer = response(200).replace(b"text/plain", b"application/json")
    with serving(Upstream(answer)) as upstream:
        url = f"http://127.0.0.1:{upstream.port}"
        said = failure(PACK, lines, lambda: urllib3(url, document={CANARY: object()}))
        assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")
        assert upstream.requests == []
        said = failure(PACK, lines, lambda: urllib3(url))
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def test_helpers(lines: Lines) -> None:
    """Of many documents some may be stored; of a scroll some shards may not have answered."""
    item = {"index": {"_index": CANARY, "_id": CANARY, "status": 429, "error": {"reason": CANARY}}}
    shards = {"total": 2, "successful": 1, "skipped": 0, "failed": 1}
    for action, body, retryable in (
        (lambda client: helpers.bulk(client, [{"_index": CANARY}]), {"errors": True, "items": [item]}, False),
        (
            lambda client: list(helpers.scan(client, clear_scroll=False)),
            {"_scroll_id": CANARY, "_shards": shards, "hits": {"hits": [{}]}},
            True,
        ),
    ):
        answer = response(200, body=json.dumps(body)).replace(b"text/plain", b"application/json")
        with serving(Upstream(answer)) as upstream, OpenSearch(f"http://127.0.0.1:{upstream.port}") as client:
            said = failure(PACK, lines, lambda: action(client))
            assert (said.code, said.outcome) == ("UPSTREAM_ERROR", "unknown")
            assert failure(PACK, lines, lambda: action(client), effect="read").retryable == retryable


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (TransportError("N/A", CANARY, CANARY), "CONNECTION_LOST"),
        (SerializationError(CANARY), "UPSTREAM_INVALID_RESPONSE"),
    ],
)
def test_made_by_hand(lines: Lines, exc: Exception, code: str) -> None:
    """What sniffing, and a serializer of the author's own, raise."""

    def fail() -> None:
        raise exc

    said = failure(PACK, lines, fail)
    assert (said.code, said.outcome) == (code, "unknown")


def test_names() -> None:
    """Every row is a class of the installed library."""
    for name in PACK.rows:
        module, _, kind = name.rpartition(".")
        assert getattr(importlib.import_module(module), kind).__module__ == module
