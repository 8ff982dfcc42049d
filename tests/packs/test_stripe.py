"""stripe's SDK fails over each of its HTTP clients and with each of its errors, and the pack says what that means."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
import requests
import stripe

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.sdk import answer, prove_it_was_sent, prove_names, prove_nothing_was_sent, prove_tls, said_of
from tests.packs.upstream import Upstream, serving

PACK = iserror.packs.stripe


def client(url: str, http: Any) -> stripe.StripeClient:
    return stripe.StripeClient(f"sk_test_{CANARY}", base_addresses={"api": url, "connect": url}, http_client=http)


def blocking(url: str, timeout: float) -> stripe.StripeClient:
    session = requests.Session()
    session.trust_env = False
    return client(url, stripe.RequestsClient(timeout=timeout, session=session))


def over_requests(url: str, timeout: float) -> None:
    blocking(url, timeout).v1.customers.create({"email": CANARY})


async def over_httpx(url: str, timeout: float) -> None:
    http = stripe.HTTPXClient(timeout=timeout)
    try:
        await client(url, http).v1.customers.create_async({"email": CANARY})
    finally:
        await http.close_async()


async def over_aiohttp(url: str, timeout: float) -> None:
    # Without a limit of its own a connection that takes too long is like an answer that does.
    http = stripe.AIOHTTPClient(timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=timeout / 2))
    try:
        await client(url, http).v1.customers.create_async({"email": CANARY})
    finally:
        await http.close_async()


def over_urllib(url: str, timeout: float) -> None:
    client(url, stripe.UrllibClient()).v1.customers.create({"email": CANARY})


def error(kind: str, code: str | None = None, **more: str) -> dict[str, Any]:
    return {"error": {"type": kind, "code": code, "message": f"{CANARY} is wrong", "param": CANARY, **more}}


def test_names() -> None:
    """Every row names a class that exists, of the newest version."""
    prove_names(PACK)


# stripe gives httpx its bytes in a way that httpx has given up.
_OVER_HTTPX = pytest.param(over_httpx, marks=pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"))


@pytest.mark.parametrize("post", [over_requests, _OVER_HTTPX, over_aiohttp])
def test_phases(lines: Lines, post: Any) -> None:
    """`not_applied` is said of requests alone that no server received."""
    prove_nothing_was_sent(PACK, lines, post)
    # While it reads the body, the SDK lets aiohttp's exception pass, which is that pack's.
    prove_it_was_sent(PACK, lines, post, body=post is not over_aiohttp)


@pytest.mark.parametrize("post", [_OVER_HTTPX, over_aiohttp])
def test_tls(lines: Lines, post: Any) -> None:
    """These clients tell a failed handshake from a failed connection."""
    prove_tls(PACK, lines, post)


def test_less_is_known(lines: Lines) -> None:
    """Where requests or urllib cannot tell whether it was sent, nobody says that it was not."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(PACK, lines, lambda: over_requests(upstream.url.replace("http:", "https:"), 5))
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")
    with serving(Upstream(ends="close")) as upstream:
        said = failure(PACK, lines, lambda: over_urllib(upstream.url))
        assert len(upstream.requests) == 1
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")
    said = failure(PACK, lines, lambda: over_urllib(f"http://127.0.0.1:{free_port()}/{CANARY}"))
    assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")


def test_a_certificate_that_nobody_knows(lines: Lines) -> None:
    """It is found out before anything is sent, over requests too."""
    said, received = with_certificate(lambda url: failure(PACK, lines, lambda: over_requests(url, 5)))
    assert (said.code, said.outcome, received) == ("TLS_FAILED", "not_applied", b"")


@pytest.mark.parametrize(
    ("status", "body", "headers", "code", "wait"),
    [
        (400, error("invalid_request_error", "parameter_missing"), "", "UPSTREAM_REJECTED", None),
        (400, error("invalid_request_error", "resource_missing"), "", "UPSTREAM_NOT_FOUND", None),
        (400, error("invalid_request_error", "resource_already_exists"), "", "ALREADY_EXISTS", None),
        (400, error("invalid_request_error", "rate_limit"), "retry-after: 7\r\n", "UPSTREAM_RATE_LIMITED", 7),
        (400, error("idempotency_error"), "", "UPSTREAM_CONFLICT", None),
        (401, error("invalid_request_error", "api_key_expired"), "", "UPSTREAM_UNAUTHENTICATED", None),
        (402, error("card_error", "card_declined", decline_code=CANARY), "", "PAYMENT_DECLINED", None),
        (403, error("invalid_request_error"), "", "UPSTREAM_PERMISSION_DENIED", None),
        (404, error("invalid_request_error"), "", "UPSTREAM_NOT_FOUND", None),
        (409, error("invalid_request_error", "idempotency_key_in_use"), "", "UPSTREAM_CONFLICT", None),
        (424, error("api_error"), "", "UPSTREAM_ERROR", None),
        (429, error("invalid_request_error", "lock_timeout"), "Retry-After: 7\r\n", "UPSTREAM_RATE_LIMITED", 7),
        (500, error("api_error"), "", "UPSTREAM_ERROR", None),
        (503, CANARY, "", "UPSTREAM_INVALID_RESPONSE", None),
        (503, {CANARY: CANARY}, "", "UPSTREAM_UNAVAILABLE", None),
        (200, CANARY, "", "UPSTREAM_INVALID_RESPONSE", None),
    ],
)
def test_statuses(lines: Lines, status: int, body: object, headers: str, code: str, wait: float | None) -> None:
    """A status and a code mean what Stripe says; the wait is the server's own."""
    said = said_of(PACK, lines, answer(status, body, headers), over_requests, effect="read")
    assert (said.code, said.retry_after) == (code, wait)


@pytest.mark.parametrize("reason", [*_REASONS, *_AGAIN, "fraudulent", "stolen_card"])
def test_declined(lines: Lines, reason: str) -> None:
    """The reason is named if the card's owner may know it; a repeat can help where Stripe says so."""
    body = error("card_error", "card_declined", decline_code=reason)
    said = said_of(PACK, lines, answer(402, body), over_requests)
    told = reason not in ("fraudulent", "stolen_card")
    assert said.message == (f"The payment was declined ({reason})." if told else "The payment was declined.")
    assert (said.code, said.outcome, said.retryable) == ("PAYMENT_DECLINED", "not_applied", reason in _AGAIN)


def test_declined_without_a_reason(lines: Lines) -> None:
    """The code counts where no issuer gave a reason."""
    said = said_of(PACK, lines, answer(402, error("card_error", "expired_card")), over_requests)
    assert said.message == "The payment was declined (expired_card)."


@pytest.mark.parametrize(
    "name", [name for name in PACK.rows if PACK.rows[name] in _V2 and name.startswith("stripe._error.")]
)
def test_version_2(lines: Lines, name: str) -> None:
    """The errors that have a type in version 2 of the API."""
