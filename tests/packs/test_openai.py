"""openai's SDK fails at each phase of a request, with each status and in a stream; the pack says what it means."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import openai
import pydantic
import pytest
from openai._send_queue import SendQueue, SendReceipt
from openai.auth._workload import k8s_service_account_token_provider

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.sdk import (
    answer,
    prove_it_was_sent,
    prove_names,
    prove_nothing_was_sent,
    prove_tls,
    said_of,
)
from tests.packs.upstream import Upstream, serving

PACK = iserror.packs.openai
MESSAGES: Any = [{"role": "user", "content": CANARY}]


def client(url: str, timeout: float | httpx2.Timeout, **settings: Any) -> openai.AsyncOpenAI:
    http = openai.DefaultAsyncHttpx2Client(trust_env=False)
    return openai.AsyncOpenAI(
        **{"api_key": f"sk-{CANARY}", "base_url": url, "timeout": timeout, "max_retries": 0, "http_client": http}
        | settings
    )


async def ask(url: str, timeout: float, **settings: Any) -> None:
    async with client(url, timeout, **settings) as sdk:
        await sdk.chat.completions.create(model=CANARY, messages=MESSAGES)


def ask_blocking(url: str, timeout: float) -> None:
    http = openai.DefaultHttpx2Client(trust_env=False)
    with openai.OpenAI(api_key=CANARY, base_url=url, timeout=timeout, max_retries=0, http_client=http) as sdk:
        sdk.chat.completions.create(model=CANARY, messages=MESSAGES)


def error(code: str | None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": f"{CANARY} is wrong", "type": kind, "param": CANARY, "code": code}}


def test_names() -> None:
    """Every row names a class that exists, of the newest version."""
    prove_names(PACK)


@pytest.mark.parametrize("post", [ask, ask_blocking])
def test_phases(lines: Lines, post: Any) -> None:
    """`not_applied` is said of requests alone that no server received."""
    prove_nothing_was_sent(PACK, lines, post)
    prove_it_was_sent(PACK, lines, post)
    prove_tls(PACK, lines, post)


def test_full_pool(lines: Lines) -> None:
    """A request that waits in vain for a connection was not sent."""

    async def full(url: str) -> None:
        http = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=1), trust_env=False)
        async with client(url, httpx2.Timeout(5, pool=0.05), http_client=http) as sdk:
            async with http.stream("GET", url):
                await sdk.chat.completions.create(model=CANARY, messages=MESSAGES)

    with serving(Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "stall")) as upstream:
        said = failure(PACK, lines, lambda: full(upstream.url))
        assert [request[:3] for request in upstream.requests] == [b"GET"]
    assert (said.code, said.outcome) == ("DEPENDENCY_BUSY", "not_applied")


@pytest.mark.parametrize(
    ("status", "body", "headers", "code", "wait"),
    [
        (400, error("context_length_exceeded"), "", "UPSTREAM_REJECTED", None),
        (400, error("billing_hard_limit_reached"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (401, error("invalid_api_key"), "", "UPSTREAM_UNAUTHENTICATED", None),
        (403, error("unsupported_country_region_territory"), "", "UPSTREAM_PERMISSION_DENIED", None),
        (404, error("model_not_found"), "", "UPSTREAM_NOT_FOUND", None),
        (409, error(None), "", "UPSTREAM_CONFLICT", None),
        (418, error(None), "", "UPSTREAM_REJECTED", None),
        (422, error(None), "", "UPSTREAM_REJECTED", None),
        (429, error("rate_limit_exceeded", "tokens"), "retry-after-ms: 250\r\n", "UPSTREAM_RATE_LIMITED", 0.25),
        (
            429,
            error("rate_limit_exceeded", "tokens"),
            "x-ratelimit-remaining-requests: 9\r\nx-ratelimit-reset-requests: 9m\r\n"
            "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 1m30s\r\n",
            "UPSTREAM_RATE_LIMITED",
            90,
        ),
        (429, CANARY, "", "UPSTREAM_RATE_LIMITED", None),
        (429, error("insufficient_quota", "insufficient_quota"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (429, error("project_spend_limit_exceeded", "insufficient_quota"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (429, error("credit_balance_exhausted", "billing"), "", "UPSTREAM_QUOTA_EXHAUSTED", None),
        (500, error(None, "server_error"), "", "UPSTREAM_ERROR", None),
        (503, error("server_is_overloaded"), "retry-after: 7\r\n", "UPSTREAM_UNAVAILABLE", 7),
    ],
)
def test_statuses(lines: Lines, status: int, body: object, headers: str, code: str, wait: float | None) -> None:
    """A status means what it says; of a 429, whether waiting helps; the wait is the server's own."""
    said = said_of(PACK, lines, answer(status, body, headers), ask, effect="read")
    assert (said.code, said.retry_after) == (code, wait)
    assert said.retryable == (code in ("UPSTREAM_RATE_LIMITED", "UPSTREAM_ERROR", "UPSTREAM_UNAVAILABLE"))
    if code == "UPSTREAM_QUOTA_EXHAUSTED":
        assert said.advice == "do not repeat it unchanged"


def test_in_a_stream(lines: Lines) -> None:
    """An error in a stream, or its end too soon, comes after the status 200: what was done is unknown."""

    async def stream(url: str, timeout: float) -> None:
        async with client(url, timeout) as sdk:
            async for _ in await sdk.chat.completions.create(model=CANARY, messages=MESSAGES, stream=True):
                pass

    event = f'data: {{"error": {{"message": "{CANARY}", "code": "{CANARY}"}}}}\n\n'
    said = said_of(PACK, lines, answer(200, event, kind="text/event-stream"), stream)
    assert (said.code, said.outcome) == ("UPSTREAM_ERROR", "unknown")
    with serving(Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "stall")) as upstream:
        said = failure(PACK, lines, lambda: stream(upstream.url, 0.2))
    assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")


def test_answers_that_do_not_fit(lines: Lines) -> None:
    """A completion of a wrong shape, cut short, or held back by a filter."""

    class Parsed(pydantic.BaseModel):
        value: int

    async def parse(url: str, timeout: float) -> None:
        async with client(url, timeout) as sdk:
            await sdk.chat.completions.parse(model=CANARY, messages=MESSAGES, response_format=Parsed)

    async def strict(url: str, timeout: float) -> None:
        await ask(url, timeout, _strict_response_validation=True)

    def completion(reason: str) -> bytes:
        message = {"role": "assistant", "content": f'{{"{CANARY}'}
        choices = [{"index": 0, "finish_reason": reason, "message": message}]
        whole = {"id": CANARY, "object": "chat.completion", "created": 1, "model": CANARY, "choices": choices}
        return answer(200, whole)

    shape = said_of(PACK, lines, answer(200, {CANARY: CANARY}), strict)
    cut = said_of(PACK, lines, completion("length"), parse)
    held = said_of(PACK, lines, completion("content_filter"), parse)
    assert [(said.code, said.outcome) for said in (shape, cut, held)] == [
        ("UPSTREAM_INVALID_RESPONSE", "unknown"),
        ("UPSTREAM_INVALID_RESPONSE", "unknown"),
        ("UPSTREAM_REJECTED", "not_applied"),
    ]


def test_no_token(lines: Lines) -> None:
    """A token that cannot be read or is not given out is the operator's; no request was made."""

    async def with_identity(url: str, timeout: float, provider: Any) -> None:
        identity = {"identity_provider_id": CANARY, "service_account_id": CANARY, "provider": provider}
        async with client(url, timeout, api_key=None, workload_identity=identity) as sdk:
            assert sdk._workload_identity_auth is not None
            sdk._workload_identity_auth.token_exchange_url = f"{url}/token"
            await sdk.chat.completions.create(model=CANARY, messages=MESSAGES)

    unreadable = k8s_service_account_token_provider(f"/nowhere/{CANARY}")
    with serving(Upstream(answer(200, {}))) as upstream:
        said = failure(PACK, lines, lambda: with_identity(upstream.url, 5, unreadable))
        assert upstream.requests == []
    assert (said.code, said.outcome, said.advice) == (
        "UPSTREAM_UNAUTHENTICATED",
        "not_applied",
        "stop and tell the user",
    )
    given: Any = {"token_type": "jwt", "get_token": lambda: CANARY}
    refused = answer(400, {"error": "invalid_grant", "error_description": CANARY})
    said = said_of(PACK, lines, refused, lambda url, timeout: with_identity(url, timeout, given))
    assert (said.code, said.outcome) == ("UPSTREAM_UNAUTHENTICATED", "not_applied")


def test_websocket_queue(lines: Lines) -> None:
    """A queue of messages that is full, or ends with some left; the SDK's own queue, without a server behind it."""

    def full() -> None:
        SendQueue(max_bytes=4).enqueue(CANARY)

    def ends() -> None:
        queue, receipt = SendQueue(), SendReceipt()
        queue.enqueue(CANARY, receipt=receipt)
        queue.drain()
        receipt.raise_if_unsent()

    said = failure(PACK, lines, full)
    assert (said.code, said.outcome) == ("DEPENDENCY_BUSY", "not_applied")
    said = failure(PACK, lines, ends)
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


def test_webhook(lines: Lines) -> None:
    """A webhook that somebody else signed: no request was made."""

    def webhook() -> None:
        headers = {
            "webhook-signature": f"v1,{CANARY}",
            "webhook-timestamp": str(int(time.time())),
            "webhook-id": CANARY,
        }
        with openai.OpenAI(api_key=CANARY, webhook_secret=CANARY) as sdk:
            sdk.webhooks.unwrap("{}", headers)

    said = failure(PACK, lines, webhook)
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_INVALID_RESPONSE", "not_applied", False)
