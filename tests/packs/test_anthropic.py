"""anthropic's SDK fails at each phase of a request, with each status and in a stream; the pack says what it means."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.sdk import answer, prove_it_was_sent, prove_names, prove_nothing_was_sent, prove_tls, said_of
from tests.packs.upstream import Upstream, free_port, serving

PACK = iserror.packs.anthropic
MESSAGES: Any = [{"role": "user", "content": CANARY}]


def client(url: str, timeout: float, **settings: Any) -> anthropic.AsyncAnthropic:
    http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
    return anthropic.AsyncAnthropic(
        **{"api_key": CANARY, "base_url": url, "timeout": timeout, "max_retries": 0, "http_client": http} | settings
    )


async def ask(url: str, timeout: float, **settings: Any) -> None:
    async with client(url, timeout, **settings) as sdk:
        await sdk.messages.create(model=CANARY, messages=MESSAGES, max_tokens=9)


def ask_blocking(url: str, timeout: float) -> None:
    http = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(api_key=CANARY, base_url=url, timeout=timeout, max_retries=0, http_client=http) as sdk:
        sdk.messages.create(model=CANARY, messages=MESSAGES, max_tokens=9)


async def stream(url: str, timeout: float) -> None:
    async with client(url, timeout) as sdk:
        async for _ in await sdk.messages.create(model=CANARY, messages=MESSAGES, max_tokens=9, stream=True):
            pass


def error(kind: str, code: str | None = None) -> dict[str, Any]:
    details = {"error_code": code, "note": CANARY} if code else None
    return {"type": "error", "error": {"type": kind, "message": f"{CANARY} is wrong", "details": details}}


def test_names() -> None:
    """Every row names a class that exists, of the newest version."""
    prove_names(PACK)


@pytest.mark.parametrize("post", [ask, ask_blocking])
def test_phases(lines: Lines, post: Any) -> None:
    """`not_applied` is said of requests alone that no server received."""
    prove_nothing_was_sent(PACK, lines, post)
    prove_it_was_sent(PACK, lines, post)
    prove_tls(PACK, lines, post)


@pytest.mark.parametrize(
    ("status", "body", "headers", "code", "wait"),
    [
        (400, error("invalid_request_error"), "", "UPSTREAM_REJECTED", None),
        (401, error("authentication_error"), "", "UPSTREAM_UNAUTHENTICATED", None),
        (402, error("billing_error"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (403, error("permission_error"), "", "UPSTREAM_PERMISSION_DENIED", None),
        (404, error("not_found_error"), "", "UPSTREAM_NOT_FOUND", None),
        (408, error("timeout_error"), "", "UPSTREAM_TIMEOUT", None),
        (409, error("conflict_error"), "", "UPSTREAM_CONFLICT", None),
        (412, error("memory_precondition_failed_error"), "", "UPSTREAM_PRECONDITION_FAILED", None),
        (413, error("request_too_large"), "", "UPSTREAM_REJECTED", None),
        (418, error("invalid_request_error"), "", "UPSTREAM_REJECTED", None),
        (422, error("invalid_request_error"), "", "UPSTREAM_REJECTED", None),
        (429, error("rate_limit_error"), "retry-after: 7\r\n", "UPSTREAM_RATE_LIMITED", 7),
        (429, error("rate_limit_error", "ramp_limit_exceeded"), "retry-after: 7\r\n", "UPSTREAM_RATE_LIMITED", 7),
        (429, error("rate_limit_error", "contract_spend_limit_reached"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (429, error("rate_limit_error", "enforced_spend_limit_reached"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (429, CANARY, "", "UPSTREAM_RATE_LIMITED", None),
        (431, error("invalid_request_error"), "", "UPSTREAM_REJECTED", None),
        (499, error("api_error"), "", "CONNECTION_LOST", None),
        (500, error("api_error"), "", "UPSTREAM_ERROR", None),
        (501, error("api_error"), "", "UPSTREAM_UNIMPLEMENTED", None),
        (503, error("api_error", "change_outcome_unknown"), "retry-after: 7\r\n", "UPSTREAM_UNAVAILABLE", 7),
        (504, error("timeout_error"), "", "UPSTREAM_TIMEOUT", None),
        (529, error("overloaded_error"), "retry-after: 7\r\n", "UPSTREAM_UNAVAILABLE", 7),
    ],
)
def test_statuses(lines: Lines, status: int, body: object, headers: str, code: str, wait: float | None) -> None:
    """A status means what it says; of a 429, whether waiting helps; the wait is the server's own."""
    said = said_of(PACK, lines, answer(status, body, headers), ask, effect="read")
    assert (said.code, said.retry_after) == (code, wait)
    assert said.retryable == (
        code
        in ("UPSTREAM_RATE_LIMITED", "UPSTREAM_ERROR", "UPSTREAM_UNAVAILABLE", "UPSTREAM_TIMEOUT", "CONNECTION_LOST")
    )


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", "UPSTREAM_UNAVAILABLE"),
        ("timeout_error", "UPSTREAM_TIMEOUT"),
        ("rate_limit_error", "UPSTREAM_ERROR"),
        ("api_error", "UPSTREAM_ERROR"),
    ],
)
def test_in_a_stream(lines: Lines, kind: str, code: str) -> None:
    """An error in a stream comes after the status 200: what was done is unknown."""
    event = f"event: error\ndata: {json.dumps(error(kind))}\n\n"
    said = said_of(PACK, lines, answer(200, event, kind="text/event-stream"), stream)
    assert (said.code, said.outcome, said.retryable) == (code, "unknown", False)


def test_an_answer_that_does_not_fit(lines: Lines) -> None:
    """A message of a wrong shape, for a client that looks."""

    async def strict(url: str, timeout: float) -> None:
        await ask(url, timeout, _strict_response_validation=True)

    said = said_of(PACK, lines, answer(200, {CANARY: CANARY}), strict)
    assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def test_no_token(lines: Lines) -> None:
    """A token that cannot be read or is not given out is the operator's, unless who gives it out is not there."""

    async def with_identity(url: str, provider: Any) -> None:
        credentials = anthropic.WorkloadIdentityCredentials(
            identity_token_provider=provider, federation_rule_id=CANARY, organization_id=CANARY
        )
        await ask(url, 5, api_key=None, credentials=credentials)

    def said(provider: Any, reply: bytes) -> iserror.Failure:
        with serving(Upstream(reply)) as upstream:
            said = failure(PACK, lines, lambda: with_identity(upstream.url, provider))
            assert all(b"/oauth/token" in request for request in upstream.requests)
        return said

    unreadable = said(anthropic.IdentityTokenFile(f"/nowhere/{CANARY}"), answer(200, {}))
    refused = said(lambda: CANARY, answer(400, {"error": "invalid_grant", "error_description": CANARY}))
    for failed in (unreadable, refused):
        assert (failed.code, failed.outcome, failed.advice) == (
            "UPSTREAM_UNAUTHENTICATED",
            "not_applied",
            "stop and tell the user",
        )
    unable = said(lambda: CANARY, answer(503, {}))
    absent = failure(PACK, lines, lambda: with_identity(f"http://127.0.0.1:{free_port()}/{CANARY}", lambda: CANARY))
    for failed in (unable, absent):
        assert (failed.code, failed.outcome, failed.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)


def test_no_credentials(lines: Lines) -> None:
    """A profile that does not exist is the operator's."""

    def from_profile() -> None:
        anthropic.CredentialsFile(profile=CANARY)()

    said = failure(PACK, lines, from_profile)
    assert (said.code, said.outcome) == ("UPSTREAM_UNAUTHENTICATED", "not_applied")
