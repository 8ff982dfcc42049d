"""The elasticsearch clients fail over each of their HTTP clients, and the pack says what that means."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from elastic_transport import ConnectionError, HttpxAsyncHttpNode, SerializationError, SniffingError
from elasticsearch import AsyncElasticsearch, Elasticsearch, helpers

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.upstream import Upstream, free_port, in_turn, response, serving, stalled_connect

PACK = iserror.packs.elasticsearch
Send = Callable[..., Any]
PRODUCT = "x-elastic-product: Elasticsearch\r\n"
# Of a request that goes to https without a certificate to check, which is what the test is for.
pytestmark = pytest.mark.filterwarnings("ignore::elastic_transport.SecurityWarning")


def json_of(answer: bytes) -> bytes:
    return answer.replace(b"text/plain", b"application/json")


def over(node: Any) -> Send:
    def send(url: str, timeout: float = 5, retries: int = 0, document: Any = None, **settings: Any) -> None:
        with Elasticsearch(
            url, node_class=node, request_timeout=timeout, max_retries=retries, retry_on_timeout=False, **settings
        ) as client:
            client.index(index=CANARY, document=document or {CANARY: CANARY})

    return send


def aio_over(node: Any) -> Send:
    async def send(url: str, timeout: float = 5, retries: int = 0, **settings: Any) -> None:
        async with AsyncElasticsearch(
            url, node_class=node, request_timeout=timeout, max_retries=retries, **settings
        ) as client:
            await client.index(index=CANARY, document={CANARY: CANARY})

    return send


urllib3 = over("urllib3")
each = pytest.mark.parametrize(
    "send",
    [urllib3, over("requests"), aio_over("aiohttp"), aio_over(HttpxAsyncHttpNode)],
    ids=["urllib3", "requests", "aiohttp", "httpx"],
)


@each
def test_nothing_was_sent(lines: Lines, send: Send) -> None:
    """A refused connection, a name that does not exist: nothing reached a server, in none of the attempts."""
    for url, retries in ((f"http://127.0.0.1:{free_port()}", 0), (f"http://{CANARY}.invalid:9200", 1)):
        said = failure(PACK, lines, lambda: send(url, retries=retries))
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)


def test_a_connect_timeout(lines: Lines) -> None:
    """Of a timeout is told apart whether it was one of connecting, where the HTTP client tells."""
    listener, port = stalled_connect()
    for send, code in ((urllib3, "DEPENDENCY_UNAVAILABLE"), (aio_over("aiohttp"), "UPSTREAM_TIMEOUT")):
        said = failure(PACK, lines, lambda: send(f"http://127.0.0.1:{port}", 0.1))
        assert said.code == code
    listener.close()


@each
@pytest.mark.parametrize(
    ("upstream", "codes"),
    [
        (Upstream(ends="stall"), {"UPSTREAM_TIMEOUT"}),
        (Upstream(ends="close"), {"CONNECTION_LOST"}),
        (Upstream(ends="reset"), {"CONNECTION_LOST"}),
        (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "stall"), {"CONNECTION_LOST", "UPSTREAM_TIMEOUT"}),
        (Upstream(b"no HTTP at all\r\n\r\n"), {"CONNECTION_LOST"}),
    ],
)
def test_it_was_sent(lines: Lines, send: Send, upstream: Upstream, codes: set[str]) -> None:
    """Where the server received the request and no good answer came, what it did is unknown."""
    # A POST: aiohttp itself sends a PUT twice.
    before = len(upstream.requests)
    with serving(upstream):
        said = failure(PACK, lines, lambda: send(f"http://127.0.0.1:{upstream.port}", upstream.patience))
    assert len(upstream.requests) == before + 1
    assert said.code in codes
    assert (said.outcome, said.retryable) == ("unknown", False)


def test_an_attempt_that_was_sent(lines: Lines) -> None:
    """When the last of several attempts was refused, one before may have worked."""
    upstream = Upstream(ends="close")

    def two() -> None:
        with Elasticsearch(
            [f"http://127.0.0.1:{upstream.port}", f"http://127.0.0.1:{free_port()}"],
            max_retries=1,
            randomize_nodes_in_pool=False,
        ) as client:
            client.index(index=CANARY, document={})

    with serving(upstream):
        said = failure(PACK, lines, two)
    assert len(upstream.requests) == 1
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


def test_another_failure_in_hand(lines: Lines) -> None:
    """A request that is made while the tool deals with a refused connection was sent all the same."""

    def second_try(url: str) -> None:
        try:
            urllib3(f"http://127.0.0.1:{free_port()}")
        except ConnectionError:
            urllib3(url)

    with serving(Upstream(ends="close")) as upstream:
        said = failure(PACK, lines, lambda: second_try(f"http://127.0.0.1:{upstream.port}"))
    assert len(upstream.requests) == 1
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


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
    # What an earlier attempt may have done: an ApiError has no record of one.
    (404, "UPSTREAM_NOT_FOUND", "unknown"),
    (405, "UPSTREAM_UNIMPLEMENTED", "not_applied"),
    (407, "UPSTREAM_UNAUTHENTICATED", "not_applied"),
    (408, "UPSTREAM_TIMEOUT", "unknown"),
    (409, "UPSTREAM_CONFLICT", "unknown"),
    (410, "UPSTREAM_NOT_FOUND", "unknown"),
    (412, "UPSTREAM_PRECONDITION_FAILED", "unknown"),
    (413, "UPSTREAM_REJECTED", "not_applied"),
    (428, "UPSTREAM_PRECONDITION_FAILED", "unknown"),
    (429, "UPSTREAM_RATE_LIMITED", "not_applied"),
    (500, "UPSTREAM_ERROR", "unknown"),
    (501, "UPSTREAM_UNIMPLEMENTED", "not_applied"),
    (502, "UPSTREAM_UNAVAILABLE", "unknown"),
    (503, "UPSTREAM_UNAVAILABLE", "unknown"),
    (504, "UPSTREAM_TIMEOUT", "unknown"),
]
BODY = json.dumps({"error": {"type": CANARY, "reason": CANARY, "root_cause": [{"reason": CANARY}]}})


def test_statuses(lines: Lines) -> None:
    """A status means what RFC 9110 says, in whichever exception; the wait is the server's own."""
    answers = [json_of(response(status, f"{PRODUCT}retry-after: 7\r\n", BODY)) for status, *_ in STATUSES]
    with serving(Upstream()) as upstream:
        actions = in_turn(upstream, answers, lambda: urllib3(f"http://127.0.0.1:{upstream.port}"))
        said = failures(PACK, lines, actions)
        assert [(one.code, one.outcome) for one in said] == [row[1:] for row in STATUSES]
        assert {one.code for one in said if one.retry_after == 7} == {"UPSTREAM_RATE_LIMITED"}
        said = failures(PACK, lines, actions, effect="read")
        assert {one.code for one in said if one.retry_after == 7} >= {"UPSTREAM_RATE_LIMITED", "UPSTREAM_UNAVAILABLE"}


def test_answers_that_cannot_be_read(lines: Lines) -> None:
    """Another product, and JSON that is none; a document that is no JSON is told apart."""
    answer = json_of(response(200, PRODUCT))
    for upstream in (Upstream(response(200)), Upstream(answer)):
        with serving(upstream):
            said = failure(PACK, lines, lambda: urllib3(f"http://127.0.0.1:{upstream.port}"))
            assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")
            assert len(upstream.requests) == 1
    with serving(Upstream(answer)) as upstream:
        said = failure(PACK, lines, lambda: urllib3(f"http://127.0.0.1:{upstream.port}", document={CANARY: object()}))
        assert upstream.requests == []
    assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")


def test_helpers(lines: Lines) -> None:
    """Of many documents some may be stored; of a scroll some shards may not have answered."""

    def bulk(url: str) -> None:
        with Elasticsearch(url) as client:
            helpers.bulk(client, [{"_index": CANARY, "_id": CANARY}])

    def scan(url: str) -> None:
        with Elasticsearch(url) as client:
            list(helpers.scan(client, scroll="1m", clear_scroll=False))

    item = {"index": {"_index": CANARY, "_id": CANARY, "status": 429, "error": {"reason": CANARY}}}
    shards = {"total": 2, "successful": 1, "skipped": 0, "failed": 1}
    for action, body, code, retryable in (
        (bulk, {"errors": True, "items": [item]}, "UPSTREAM_ERROR", False),
        (scan, {"_scroll_id": CANARY, "_shards": shards, "hits": {"hits": [{}]}}, "UPSTREAM_ERROR", True),
    ):
        answer = json_of(response(200, PRODUCT, json.dumps(body)))
        with serving(Upstream(answer)) as upstream:
            url = f"http://127.0.0.1:{upstream.port}"
            said = failure(PACK, lines, lambda: action(url))
            assert (said.code, said.outcome) == (code, "unknown")
            assert failure(PACK, lines, lambda: action(url), effect="read").retryable == retryable


def test_sniffing(lines: Lines) -> None:
    """Nodes that cannot be found out are found out before a request is sent."""

    def sniff() -> None:
        with Elasticsearch(f"http://127.0.0.1:{free_port()}", sniff_on_start=True) as client:
            client.info()

    said = failure(PACK, lines, sniff)
    assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")
    assert SniffingError.__name__ in {name.rpartition(".")[2] for name in PACK.rows}


def test_made_by_hand(lines: Lines) -> None:
    """A serializer of the author's own may fail without saying why."""

    def fail() -> None:
        raise SerializationError(CANARY)

    said = failure(PACK, lines, fail)
    assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def test_names() -> None:
    """Every row is a class of the installed libraries."""
    for name in PACK.rows:
        module, _, kind = name.rpartition(".")
        assert getattr(importlib.import_module(module), kind).__module__ == module
