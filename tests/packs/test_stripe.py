"""stripe's SDK fails over each of its HTTP clients and with each of its errors, and the pack says what that means."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
import requests
import stripe

import iserror
from iserror.packs._stripe import _AGAIN, _REASONS
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.sdk import answer, prove_it_was_sent, prove_names, prove_nothing_was_sent, prove_tls, said_of
from tests.packs.upstream import free_port

PACK = iserror.packs.stripe


def client(url: str, http: Any) -> stripe.StripeClient:
    return stripe.StripeClient(
        f"sk_test_{CANARY}", base_addresses={"api": url, "connect": url}, http_client=http, max_network_retries=0
    )


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


def over_urllib(url: str) -> None:
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


@pytest.mark.parametrize("post", [over_requests, _OVER_HTTPX, over_aiohttp])
def test_tls(lines: Lines, post: Any) -> None:
    """A handshake that fails is told apart from a connection that fails."""
    prove_tls(PACK, lines, post)


def test_urllib(lines: Lines) -> None:
    """Python's own client, that the SDK takes where nothing else is installed; once it has sent, its errors pass."""
    said = failure(PACK, lines, lambda: over_urllib(f"http://127.0.0.1:{free_port()}/{CANARY}"))
    assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")


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
        (503, CANARY, "", "UPSTREAM_UNAVAILABLE", None),
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


_V2 = {
    "already_canceled": "UPSTREAM_CONFLICT",
    "blocked_by_stripe": "UPSTREAM_REJECTED",
    "cannot_proceed": "UPSTREAM_REJECTED",
    "capability_not_enabled": "UPSTREAM_PERMISSION_DENIED",
    "controlled_by_alternate_resource": "UPSTREAM_CONFLICT",
    "feature_not_enabled": "UPSTREAM_PERMISSION_DENIED",
    "financial_account_not_open": "UPSTREAM_PRECONDITION_FAILED",
    "fx_quote_needs_refresh": "UPSTREAM_PRECONDITION_FAILED",
    "insufficient_funds": "UPSTREAM_PRECONDITION_FAILED",
    "invalid_payment_method": "UPSTREAM_REJECTED",
    "invalid_payout_method": "UPSTREAM_REJECTED",
    "invalid_vaulted_credential": "UPSTREAM_REJECTED",
    "not_cancelable": "UPSTREAM_CONFLICT",
    "quota_exceeded": "UPSTREAM_QUOTA_EXHAUSTED",
    "rate_limit": "UPSTREAM_RATE_LIMITED",
    "recipient_not_notifiable": "UPSTREAM_REJECTED",
    "temporary_session_expired": "UPSTREAM_PRECONDITION_FAILED",
    "verification_attempt_failed": "UPSTREAM_REJECTED",
    "verification_expired": "UPSTREAM_REJECTED",
    "verification_not_initiated": "UPSTREAM_REJECTED",
}


@pytest.mark.parametrize(("kind", "code"), _V2.items())
def test_version_2(lines: Lines, kind: str, code: str) -> None:
    """What has a type of its own in version 2 of the API is a refusal."""

    def event(url: str, timeout: float) -> None:
        blocking(url, timeout).v2.core.events.retrieve(CANARY)

    said = said_of(PACK, lines, answer(400, error(kind, CANARY)), event)
    assert (said.code, said.outcome) == (code, "not_applied")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("invalid_client", "UPSTREAM_UNAUTHENTICATED"),
        ("invalid_grant", "UPSTREAM_REJECTED"),
        ("invalid_request", "UPSTREAM_REJECTED"),
        ("invalid_scope", "UPSTREAM_REJECTED"),
        ("unsupported_grant_type", "UPSTREAM_REJECTED"),
        ("unsupported_response_type", "UPSTREAM_REJECTED"),
    ],
)
def test_oauth(lines: Lines, kind: str, code: str) -> None:
    """A platform's account is not connected; only its own identity is the operator's."""

    def token(url: str, timeout: float) -> None:
        blocking(url, timeout).oauth.token({"grant_type": "authorization_code", "code": CANARY})

    said = said_of(PACK, lines, answer(400, {"error": kind, "error_description": CANARY}), token)
    assert (said.code, said.outcome) == (code, "not_applied")


def test_before_a_request(lines: Lines) -> None:
    """No key, an object that has no address, a webhook that somebody else signed: no request was made."""

    def no_key() -> None:
        stripe.Customer.create(email=CANARY)

    def no_address() -> None:
        stripe.Customer.construct_from({"object": "customer"}, None).refresh()

    def webhook() -> None:
        stripe.Webhook.construct_event(f'{{"{CANARY}": 1}}', f"t=1,v1={CANARY}", CANARY)

    said = failure(PACK, lines, no_key)
    assert (said.code, said.outcome, said.advice) == (
        "UPSTREAM_UNAUTHENTICATED",
        "not_applied",
        "stop and tell the user",
    )
    said = failure(PACK, lines, no_address)
    assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")
    said = failure(PACK, lines, webhook)
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_INVALID_RESPONSE", "not_applied", False)
