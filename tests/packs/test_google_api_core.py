"""google-api-core makes exceptions of what a gRPC server and an HTTP server on loopback answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
import requests
from google.api_core import exceptions, grpc_helpers, grpc_helpers_async, retry
from google.auth import default
from google.auth import exceptions as auth
from google.auth.transport.requests import Request
from google.oauth2.credentials import Credentials

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.rpc import serving_rpc
from tests.packs.upstream import Upstream, free_port, in_turn, response, serving

PACK = iserror.packs.google_api_core


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with serving_rpc() as (address, _):
        yield address


def rpc(target: str, method: str) -> None:
    with grpc.insecure_channel(target) as channel:
        grpc_helpers.wrap_errors(channel.unary_unary(f"/x/{method}"))(CANARY.encode(), timeout=5)


async def aio_rpc(target: str, method: str) -> None:
    async with grpc.aio.insecure_channel(target) as channel:
        await grpc_helpers_async.wrap_errors(channel.unary_unary(f"/x/{method}"))(CANARY.encode(), timeout=5)


def get(url: str) -> None:
    """What the clients of the JSON APIs, and the REST transport of the others, do with a response."""
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(url, data=CANARY, timeout=5, allow_redirects=False)
        if not 200 <= answer.status_code < 300:
            raise exceptions.from_http_response(answer)


def error(code: int, *details: dict[str, Any], reason: str | None = None, headers: str = "") -> bytes:
    said: dict[str, Any] = {"code": code, "message": CANARY, "details": [*details]}
    if reason:
        said["errors"] = [{"message": CANARY, "domain": CANARY, "reason": reason}]
    return response(code, headers, json.dumps({"error": said}))


RPCS = {
    "CANCELLED": ("UPSTREAM_ERROR", "unknown"),
    "UNKNOWN": ("UPSTREAM_ERROR", "unknown"),
    "INVALID_ARGUMENT": ("UPSTREAM_REJECTED", "not_applied"),
    "DEADLINE_EXCEEDED": ("UPSTREAM_TIMEOUT", "unknown"),
    # What an earlier attempt may have done: a channel that repeats has no record of it.
    "NOT_FOUND": ("UPSTREAM_NOT_FOUND", "unknown"),
    "ALREADY_EXISTS": ("ALREADY_EXISTS", "unknown"),
    "PERMISSION_DENIED": ("UPSTREAM_PERMISSION_DENIED", "not_applied"),
    "UNAUTHENTICATED": ("UPSTREAM_UNAUTHENTICATED", "not_applied"),
    "RESOURCE_EXHAUSTED": ("UPSTREAM_RATE_LIMITED", "unknown"),
    "exhausted": ("UPSTREAM_RATE_LIMITED", "not_applied"),
    "FAILED_PRECONDITION": ("UPSTREAM_PRECONDITION_FAILED", "unknown"),
    "ABORTED": ("UPSTREAM_CONFLICT", "unknown"),
    "aborted": ("TRANSACTION_CONFLICT", "not_applied"),
    "OUT_OF_RANGE": ("UPSTREAM_REJECTED", "not_applied"),
    "UNIMPLEMENTED": ("UPSTREAM_UNIMPLEMENTED", "not_applied"),
    "INTERNAL": ("UPSTREAM_ERROR", "unknown"),
    "UNAVAILABLE": ("UPSTREAM_UNAVAILABLE", "unknown"),
    "DATA_LOSS": ("UPSTREAM_ERROR", "unknown"),
}


@pytest.mark.parametrize("call", [rpc, aio_rpc])
def test_rpcs(lines: Lines, target: str, call: Any) -> None:
    """Each status of gRPC has its meaning, in an exception that names it; the wait is the server's own."""
    said = failures(PACK, lines, [partial(call, target, method) for method in RPCS])
    assert [(one.code, one.outcome) for one in said] == list(RPCS.values())
    waits = {method: one.retry_after for method, one in zip(RPCS, said, strict=True) if one.retry_after is not None}
    assert waits == {"exhausted": 3.5, "aborted": 3.5}


def test_rich_status(lines: Lines, target: str) -> None:
    """Of a gRPC status are read the fields that are wrong, and the wait before another reading."""
    said = failure(PACK, lines, lambda: rpc(target, "invalid"))
    assert said.details == {"fields": "amount, customer.emails[0].kind"}
    said = failure(PACK, lines, lambda: rpc(target, "unavailable"), effect="read")
    assert (said.retryable, said.retry_after) == (True, 3.5)


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}
BAD_REQUEST = {
    "@type": "type.googleapis.com/google.rpc.BadRequest",
    "fieldViolations": [{"field": "amount", "description": CANARY}, {"field": f"the {CANARY}"}],
}


ANSWERS = [
    (error(301), "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    (error(304), "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    (error(307), "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    (error(308), "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    (error(400), "UPSTREAM_REJECTED", "not_applied", None),
    (error(401), "UPSTREAM_UNAUTHENTICATED", "not_applied", None),
    (error(402), "UPSTREAM_QUOTA_EXHAUSTED", "not_applied", None),
    (error(403), "UPSTREAM_PERMISSION_DENIED", "not_applied", None),
    (
        error(403, reason="rateLimitExceeded", headers="retry-after: 7\r\n"),
        "UPSTREAM_RATE_LIMITED",
        "not_applied",
        7,
    ),
    (error(403, reason="quotaExceeded"), "UPSTREAM_QUOTA_EXHAUSTED", "not_applied", None),
    (error(403, reason="accessDenied"), "UPSTREAM_PERMISSION_DENIED", "not_applied", None),
    (error(404), "UPSTREAM_NOT_FOUND", "not_applied", None),
    (error(405), "UPSTREAM_UNIMPLEMENTED", "not_applied", None),
    (error(409), "UPSTREAM_CONFLICT", "not_applied", None),
    (error(411), "UPSTREAM_REJECTED", "not_applied", None),
    (error(412), "UPSTREAM_PRECONDITION_FAILED", "not_applied", None),
    (error(416), "UPSTREAM_REJECTED", "not_applied", None),
    (error(418), "UPSTREAM_REJECTED", "not_applied", None),
    (error(429), "UPSTREAM_RATE_LIMITED", "not_applied", None),
    (error(429, headers="retry-after: 7\r\n"), "UPSTREAM_RATE_LIMITED", "not_applied", 7),
    (error(429, RETRY_INFO, headers="retry-after: 7\r\n"), "UPSTREAM_RATE_LIMITED", "not_applied", 3.5),
    (error(499), "UPSTREAM_ERROR", "unknown", None),
    (error(500), "UPSTREAM_ERROR", "unknown", None),
    (error(501), "UPSTREAM_UNIMPLEMENTED", "not_applied", None),
    (error(502), "UPSTREAM_UNAVAILABLE", "unknown", None),
    (error(503, RETRY_INFO), "UPSTREAM_UNAVAILABLE", "unknown", None),
    (error(504), "UPSTREAM_TIMEOUT", "unknown", None),
    (error(599), "UPSTREAM_ERROR", "unknown", None),
]


def test_statuses(lines: Lines) -> None:
    """Each status of HTTP has its meaning; the wait is a `RetryInfo` in the answer, or else a header."""
    with serving(Upstream()) as upstream:
        said = failures(PACK, lines, in_turn(upstream, [row[0] for row in ANSWERS], lambda: get(upstream.url)))
    assert [(one.code, one.outcome, one.retry_after) for one in said] == [row[1:] for row in ANSWERS]


def test_a_wait_before_reading(lines: Lines) -> None:
    """A tool that only reads is told the wait of a server that could not answer."""
    with serving(Upstream()) as upstream:
        answers = [error(code, RETRY_INFO) for code in (500, 502, 503, 504)]
        said = failures(PACK, lines, in_turn(upstream, answers, lambda: get(upstream.url)), effect="read")
    assert {(one.retryable, one.retry_after) for one in said} == {(True, 3.5)}


def test_fields(lines: Lines) -> None:
    """Of the fields that are wrong, those are shown that look like names of a schema."""
    with serving(Upstream(error(400, {"@type": CANARY}, BAD_REQUEST))) as upstream:
        said = failure(PACK, lines, lambda: get(upstream.url))
    assert (said.code, said.details) == ("UPSTREAM_REJECTED", {"fields": "amount"})


def test_retries_end(lines: Lines, target: str) -> None:
    """When the time for repeats is over, what the requests did is unknown."""
    again = retry.Retry(retry.if_exception_type(exceptions.NotFound), initial=0.01, timeout=0.02)
    said = failure(PACK, lines, lambda: again(rpc)(target, "NOT_FOUND"))
    assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")


def test_credentials(lines: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Without credentials, or with those that cannot be refreshed, nothing is sent, and the operator is told."""
    (tmp_path / CANARY).write_text(CANARY)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / CANARY))

    def refresh(url: str) -> None:
        with requests.Session() as session:
            session.trust_env = False
            Credentials(None, refresh_token=CANARY, token_uri=url, client_id=CANARY, client_secret=CANARY).refresh(
                Request(session)
            )

    with serving(Upstream(response(400, body=json.dumps({"error": "invalid_grant"})))) as upstream:
        for action in (default, lambda: refresh(upstream.url)):
            said = failure(PACK, lines, action)
            assert (said.code, said.outcome) == ("UPSTREAM_UNAUTHENTICATED", "not_applied")
            assert said.advice == "stop and tell the user"
    said = failure(PACK, lines, lambda: refresh(f"http://127.0.0.1:{free_port()}/{CANARY}"))
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


def raising(exc: Exception) -> Any:
    def action() -> None:
        raise exc

    return action


@pytest.mark.parametrize(
    ("exc", "code", "outcome"),
    [
        (auth.RefreshError(CANARY, retryable=True), "DEPENDENCY_UNAVAILABLE", "not_applied"),
        (auth.ReauthFailError(CANARY), "UPSTREAM_UNAUTHENTICATED", "not_applied"),
        (auth.UserAccessTokenError(CANARY), "UPSTREAM_UNAUTHENTICATED", "not_applied"),
        (auth.OAuthError(CANARY), "UPSTREAM_UNAUTHENTICATED", "not_applied"),
        (auth.MutualTLSChannelError(CANARY), "TLS_FAILED", "not_applied"),
        (auth.ClientCertError(CANARY), "TLS_FAILED", "not_applied"),
        (auth.TimeoutError(CANARY), "UPSTREAM_TIMEOUT", "unknown"),
        (auth.ResponseError(CANARY), "CONNECTION_LOST", "unknown"),
        (exceptions.TransferStalledError(CANARY), "UPSTREAM_TIMEOUT", "unknown"),
        (exceptions.UnseekableStreamError(CANARY), "CONNECTION_LOST", "unknown"),
        (exceptions.UploadCancelledError(CANARY), "UPSTREAM_ERROR", "unknown"),
        (exceptions.MissingStatusHeaderError(CANARY), "UPSTREAM_INVALID_RESPONSE", "unknown"),
        (exceptions.GoogleAPICallError(CANARY), "UPSTREAM_INVALID_RESPONSE", "unknown"),
    ],
)
def test_made_by_hand(lines: Lines, exc: Exception, code: str, outcome: str) -> None:
    """What needs a token server that fails again and again, a browser, a certificate of a company or minutes."""
    said = failure(PACK, lines, raising(exc))
    assert (said.code, said.outcome) == (code, outcome)


def test_names() -> None:
    """Every row is a class of the installed libraries, and every class that an answer can become has a row."""
    for name in PACK.rows:
        module, _, kind = name.rpartition(".")
        assert getattr({"google.api_core.exceptions": exceptions}.get(module, auth), kind).__module__ == module
    made = [*exceptions._HTTP_CODE_TO_EXCEPTION.values(), *exceptions._GRPC_CODE_TO_EXCEPTION.values()]
    assert {f"{cls.__module__}.{cls.__qualname__}" for cls in made} <= set(PACK.rows)
