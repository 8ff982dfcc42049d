"""azure-core's pipeline fails over both of its HTTP clients, and the pack says what that means."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
from azure.core import AsyncPipelineClient, PipelineClient, exceptions
from azure.core.exceptions import map_error
from azure.core.pipeline.policies import RedirectPolicy
from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport
from azure.core.rest import HttpRequest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.upstream import Upstream, free_port, in_turn, response, serving, stalled_connect

PACK = iserror.packs.azure_core
Send = Callable[..., Any]
# What every generated client maps, and some do.
MAP = {
    400: exceptions.ODataV4Error,
    403: exceptions.ClientAuthenticationError,
    304: exceptions.ResourceNotModifiedError,
    401: exceptions.ClientAuthenticationError,
    404: exceptions.ResourceNotFoundError,
    409: exceptions.ResourceExistsError,
    412: exceptions.ResourceModifiedError,
}


def request(url: str) -> HttpRequest:
    return HttpRequest("POST", url, content=CANARY)


def check(answer: Any) -> None:
    if not 200 <= answer.status_code < 300:
        map_error(answer.status_code, answer, MAP)
        raise exceptions.HttpResponseError(response=answer)


def sync_send(url: str, stream: bool = False, **timeouts: float) -> None:
    transport = RequestsTransport(use_env_settings=False, **timeouts)
    with PipelineClient(url, policies=[], transport=transport) as client:
        pipeline_response = client._pipeline.run(request(url), stream=stream)  # as generated clients do
        answer: Any = pipeline_response.http_response
        check(answer)
        answer.read()


async def aio_send(url: str, stream: bool = False, **timeouts: float) -> None:
    transport = AioHttpTransport(use_env_settings=False, **timeouts)
    async with AsyncPipelineClient(url, policies=[], transport=transport) as client:
        pipeline_response = await client._pipeline.run(request(url), stream=stream)
        answer: Any = pipeline_response.http_response
        check(answer)
        await answer.read()


both = pytest.mark.parametrize("send", [sync_send, aio_send])


@both
def test_nothing_was_sent(lines: Lines, send: Send) -> None:
    """A refused connection, a name that does not exist, a connect timeout: nothing reached a server."""
    listener, port = stalled_connect()
    for action in (
        lambda: send(f"http://127.0.0.1:{free_port()}/{CANARY}"),
        lambda: send(f"http://{CANARY}.invalid/"),
        lambda: send(f"http://127.0.0.1:{port}/{CANARY}", connection_timeout=0.1),
    ):
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    listener.close()


@both
@pytest.mark.parametrize(
    ("upstream", "codes"),
    [
        (Upstream(ends="stall"), {"UPSTREAM_TIMEOUT"}),
        (Upstream(ends="close"), {"CONNECTION_LOST"}),
        (Upstream(ends="reset"), {"CONNECTION_LOST"}),
        (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"), {"CONNECTION_LOST"}),
        (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "stall"), {"CONNECTION_LOST", "UPSTREAM_TIMEOUT"}),
        (Upstream(b"no HTTP at all\r\n\r\n"), {"CONNECTION_LOST"}),
    ],
)
def test_it_was_sent(lines: Lines, send: Send, upstream: Upstream, codes: set[str]) -> None:
    """Where the server received the request and no good answer came, what it did is unknown, whatever azure says."""
    with serving(upstream):
        before = len(upstream.requests)
        said = failure(PACK, lines, lambda: send(upstream.url, read_timeout=upstream.patience))
        assert len(upstream.requests) == before + 1
    assert said.code in codes
    assert (said.outcome, said.retryable) == ("unknown", False)


@both
def test_tls(lines: Lines, send: Send) -> None:
    """A handshake that fails is told apart from a connection that fails."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(PACK, lines, lambda: send(upstream.url.replace("http:", "https:")))
    assert (said.code, said.outcome) == ("TLS_FAILED", "not_applied")


STATUSES = [
    (304, "", "UPSTREAM_PRECONDITION_FAILED", "not_applied", None),
    (307, "", "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    (400, "", "UPSTREAM_REJECTED", "not_applied", None),
    (401, "", "UPSTREAM_UNAUTHENTICATED", "not_applied", None),
    (402, "", "UPSTREAM_QUOTA_EXHAUSTED", "not_applied", None),
    (403, "", "UPSTREAM_PERMISSION_DENIED", "not_applied", None),
    (404, "", "UPSTREAM_NOT_FOUND", "not_applied", None),
    (405, "", "UPSTREAM_UNIMPLEMENTED", "not_applied", None),
    (407, "", "UPSTREAM_UNAUTHENTICATED", "not_applied", None),
    (408, "", "UPSTREAM_TIMEOUT", "unknown", None),
    (409, "", "UPSTREAM_CONFLICT", "not_applied", None),
    (409, "x-ms-error-code: LeaseAlreadyPresent\r\n", "UPSTREAM_CONFLICT", "not_applied", None),
    (409, "x-ms-error-code: BlobAlreadyExists\r\n", "ALREADY_EXISTS", "not_applied", None),
    (410, "", "UPSTREAM_NOT_FOUND", "not_applied", None),
    (412, "", "UPSTREAM_PRECONDITION_FAILED", "not_applied", None),
    (428, "", "UPSTREAM_PRECONDITION_FAILED", "not_applied", None),
    (429, "", "UPSTREAM_RATE_LIMITED", "not_applied", None),
    (429, "retry-after: 7\r\n", "UPSTREAM_RATE_LIMITED", "not_applied", 7),
    (429, "retry-after-ms: 250\r\n", "UPSTREAM_RATE_LIMITED", "not_applied", 0.25),
    (429, "x-ms-retry-after-ms: 250\r\n", "UPSTREAM_RATE_LIMITED", "not_applied", 0.25),
    (500, "", "UPSTREAM_ERROR", "unknown", None),
    (501, "", "UPSTREAM_UNIMPLEMENTED", "not_applied", None),
    (502, "", "UPSTREAM_UNAVAILABLE", "unknown", None),
    (503, "retry-after: 7\r\n", "UPSTREAM_UNAVAILABLE", "unknown", None),
    (504, "", "UPSTREAM_TIMEOUT", "unknown", None),
]


def test_statuses(lines: Lines) -> None:
    """A status means what RFC 9110 says, in whichever exception; the wait is the server's own."""
    body = json.dumps({"error": {"code": CANARY, "message": CANARY}})
    answers = [response(status, headers, "" if status == 304 else body) for status, headers, *_ in STATUSES]
    with serving(Upstream()) as upstream:
        said = failures(PACK, lines, in_turn(upstream, answers, lambda: sync_send(upstream.url)))
    assert [(one.code, one.outcome, one.retry_after) for one in said] == [row[2:] for row in STATUSES]


@both
def test_reading_is_repeated(lines: Lines, send: Send) -> None:
    """A tool that only reads is told the wait of a server that is unavailable, over either client."""
    with serving(Upstream(response(503, "retry-after: 7\r\n"))) as upstream:
        said = failure(PACK, lines, lambda: send(upstream.url), effect="read")
    assert (said.code, said.retryable, said.retry_after) == ("UPSTREAM_UNAVAILABLE", True, 7)


def test_answers_that_cannot_be_read(lines: Lines) -> None:
    """A body that cannot be unpacked while it streams, and redirects without end."""
    with serving(Upstream(response(200, "content-encoding: gzip\r\n"))) as upstream:
        said = failure(PACK, lines, lambda: sync_send(upstream.url, stream=True))
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

        def redirected() -> None:
            transport = RequestsTransport(use_env_settings=False)
            policies = [RedirectPolicy(permit_redirects=True, redirect_max=1)]
            with PipelineClient(upstream.url, policies=policies, transport=transport) as client:
                client.send_request(HttpRequest("GET", upstream.url))

        upstream.answer = response(302, f"location: {upstream.url}\r\n")
        said = failure(PACK, lines, redirected)
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def raising(exc: Exception) -> Any:
    def action() -> None:
        raise exc

    return action


@pytest.mark.parametrize(
    ("exc", "code", "outcome"),
    [
        (exceptions.ClientAuthenticationError(CANARY), "UPSTREAM_UNAUTHENTICATED", "not_applied"),
        (exceptions.HttpResponseError(CANARY), "UPSTREAM_INVALID_RESPONSE", "unknown"),
        (exceptions.ServiceRequestTimeoutError(CANARY), "UPSTREAM_TIMEOUT", "unknown"),
        (exceptions.DeserializationError(CANARY), "UPSTREAM_INVALID_RESPONSE", "unknown"),
        (exceptions.SerializationError(CANARY), "REQUEST_INVALID", "not_applied"),
    ],
)
def test_made_by_hand(lines: Lines, exc: Exception, code: str, outcome: str) -> None:
    """What azure-identity and generated clients make, which are not here."""
    said = failure(PACK, lines, raising(exc))
    assert (said.code, said.outcome) == (code, outcome)


def test_names() -> None:
    """Every row is a class of the installed library."""
    for name in PACK.rows:
        module, _, kind = name.rpartition(".")
        cls = getattr(exceptions, kind)
        assert inspect.isclass(cls)
        assert cls.__module__ == module
