"""slack_sdk fails with each of Slack's errors over its clients, and the pack says what that means."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.models.blocks import ButtonElement
from slack_sdk.oauth.installation_store import Bot
from slack_sdk.oauth.token_rotation import TokenRotator
from slack_sdk.socket_mode.builtin.connection import Connection
from slack_sdk.web.async_client import AsyncWebClient

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.sdk import answer, prove_names, said_of
from tests.packs.upstream import Upstream, serving

PACK = iserror.packs.slack_sdk


def client(url: str) -> WebClient:
    return WebClient(f"xoxb-{CANARY}", base_url=f"{url}/", retry_handlers=[])


def post(url: str, timeout: float) -> None:
    client(url).chat_postMessage(channel=CANARY, text=CANARY)


def client_async(url: str) -> AsyncWebClient:
    return AsyncWebClient(f"xoxb-{CANARY}", base_url=f"{url}/", retry_handlers=[])


async def post_async(url: str, timeout: float) -> None:
    await client_async(url).chat_postMessage(channel=CANARY, text=CANARY)


def error(said: str) -> dict[str, Any]:
    return {"ok": False, "error": said, "needed": CANARY, "response_metadata": {"messages": [CANARY]}}


def test_names() -> None:
    """Every row names a class that exists, of the newest version."""
    prove_names(PACK)


@pytest.mark.parametrize("send", [post, post_async])
@pytest.mark.parametrize(
    ("status", "body", "headers", "code", "outcome", "wait"),
    [
        (429, error("ratelimited"), "Retry-After: 7\r\n", "UPSTREAM_RATE_LIMITED", "not_applied", 7),
        (429, CANARY, "Retry-After: 7\r\n", "UPSTREAM_RATE_LIMITED", "not_applied", 7),
        (200, error(CANARY), "", "UPSTREAM_REJECTED", "not_applied", None),
        (403, error(CANARY), "", "UPSTREAM_PERMISSION_DENIED", "not_applied", None),
        (500, error("internal_error"), "", "UPSTREAM_ERROR", "unknown", None),
        (503, CANARY, "", "UPSTREAM_UNAVAILABLE", "unknown", None),
        (200, f"<html> {CANARY}", "", "UPSTREAM_INVALID_RESPONSE", "unknown", None),
        (200, {CANARY: 1}, "", "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    ],
)
def test_statuses(
    lines: Lines, send: Any, status: int, body: object, headers: str, code: str, outcome: str, wait: float | None
) -> None:
    """Slack's word counts, then the status; the wait is the server's own."""
    said = said_of(PACK, lines, answer(status, body, headers), send)
    assert (said.code, said.outcome, said.retry_after) == (code, outcome, wait)


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("rate_limited", "UPSTREAM_RATE_LIMITED"),
        ("not_authed", "UPSTREAM_UNAUTHENTICATED"),
        ("invalid_auth", "UPSTREAM_UNAUTHENTICATED"),
        ("token_revoked", "UPSTREAM_UNAUTHENTICATED"),
        ("missing_scope", "UPSTREAM_PERMISSION_DENIED"),
        ("not_allowed_token_type", "UPSTREAM_PERMISSION_DENIED"),
        ("channel_not_found", "UPSTREAM_NOT_FOUND"),
        ("name_taken", "ALREADY_EXISTS"),
        ("not_in_channel", "UPSTREAM_PRECONDITION_FAILED"),
        ("unknown_method", "UPSTREAM_UNIMPLEMENTED"),
        ("fatal_error", "UPSTREAM_ERROR"),
        ("service_unavailable", "UPSTREAM_UNAVAILABLE"),
        ("msg_too_long", "UPSTREAM_REJECTED"),
    ],
)
def test_words(lines: Lines, word: str, code: str) -> None:
    """What Slack says with a status 200; only of its own failures does it say that some of it may have been done."""
    said = said_of(PACK, lines, answer(200, error(word)), post)
    assert said.code == code
    assert said.outcome == ("unknown" if code in ("UPSTREAM_ERROR", "UPSTREAM_UNAVAILABLE") else "not_applied")


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer(200, error("invalid_refresh_token")), "UPSTREAM_UNAUTHENTICATED"),
        (answer(503, CANARY), "DEPENDENCY_UNAVAILABLE"),
    ],
)
def test_token_rotation(lines: Lines, reply: bytes, code: str) -> None:
    """A token that is not renewed: the request that needs it was not made."""

    def rotate(url: str, timeout: float) -> None:
        rotator = TokenRotator(client_id=CANARY, client_secret=CANARY, client=client(url))
        bot = Bot(bot_token=CANARY, bot_id=CANARY, bot_user_id=CANARY, bot_refresh_token=CANARY, installed_at=1.0)
        bot.bot_token_expires_at = 1
        rotator.perform_bot_token_rotation(bot=bot)

    said = said_of(PACK, lines, reply, rotate)
    assert (said.code, said.outcome) == (code, "not_applied")


def test_before_a_request(lines: Lines) -> None:
    """Arguments and blocks that cannot be, a buffer that is too small: no request was made."""

    def arguments() -> None:
        client("http://127.0.0.1:1").files_upload_v2(channels=[CANARY])

    def block() -> None:
        ButtonElement(text=CANARY, action_id=CANARY * 100, value=CANARY).to_dict()

    for action, code in (
        (arguments, "REQUEST_INVALID"),
        (block, "REQUEST_INVALID"),
        (lambda: connection(1), "FEATURE_UNAVAILABLE"),
    ):
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome) == (code, "not_applied")


def connection(size: int = 1_024) -> Connection:
    return Connection(url=f"ws://{CANARY}.invalid", logger=logging.getLogger(CANARY), receive_buffer_size=size)


def test_not_connected(lines: Lines) -> None:
    """A message to a WebSocket that broke: nobody knows what of it arrived."""

    def send() -> None:
        here, there = socket.socketpair()
        broken = connection()
        broken.sock = here
        there.close()
        with here:
            broken.send(CANARY)

    said = failure(PACK, lines, send)
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


def test_an_upload_that_fails(lines: Lines) -> None:
    """The second of three requests, whose answer the SDK tells in the words of a wrong argument."""
    with serving(Upstream(answer(500, CANARY))) as storage:
        first = answer(200, {"ok": True, "file_id": CANARY, "upload_url": storage.url})
        with serving(Upstream(first)) as upstream:
            said = failure(PACK, lines, lambda: client_async(upstream.url).files_upload_v2(content=CANARY))
        assert len(storage.requests) == 1
    assert (said.code, said.outcome) == ("UPSTREAM_ERROR", "unknown")
