"""PyGithub and githubkit fail with each of GitHub's answers, and the packs say what that means."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import github
import githubkit
import pytest
from github.GithubRetry import GithubRetry
from githubkit import OAuthTokenAuthStrategy

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.sdk import answer, prove_it_was_sent, prove_names, prove_nothing_was_sent, prove_tls, said_of
from tests.packs.upstream import Upstream, serving


def py(url: str, timeout: float, **settings: Any) -> github.Github:
    settings = {
        "retry": None,
        "seconds_between_requests": None,
        "seconds_between_writes": None,
        "lazy": True,
    } | settings
    return github.Github(auth=github.Auth.Token(CANARY), base_url=url, **settings)


def py_create(url: str, timeout: float, **settings: Any) -> None:
    with py(url, timeout, **settings) as sdk:
        sdk.get_repo(f"{CANARY}/{CANARY}").create_issue(CANARY)


async def kit_create(url: str, timeout: float, auth: Any = CANARY) -> None:
    sdk: Any = githubkit.GitHub(
        auth, base_url=url, timeout=timeout, auto_retry=False, http_cache=False, trust_env=False
    )
    async with sdk:
        await sdk.arequest("POST", f"/repos/{CANARY}/{CANARY}/issues", json={"title": CANARY})


def kit_create_blocking(url: str, timeout: float) -> None:
    sdk: Any = githubkit.GitHub(
        CANARY, base_url=url, timeout=timeout, auto_retry=False, http_cache=False, trust_env=False
    )
    with sdk:
        sdk.request("POST", f"/repos/{CANARY}/{CANARY}/issues", json={"title": CANARY})


BOTH = pytest.mark.parametrize(
    ("pack", "create"), [(iserror.packs.github, py_create), (iserror.packs.githubkit, kit_create)]
)


def error(message: str = CANARY, **more: Any) -> dict[str, Any]:
    return {"message": message, "documentation_url": f"https://{CANARY}", "status": CANARY, **more}


@pytest.mark.parametrize("pack", [iserror.packs.github, iserror.packs.githubkit])
def test_names(pack: Any) -> None:
    """Every row names a class that exists, of the newest version."""
    prove_names(pack)


@pytest.mark.parametrize("create", [kit_create, kit_create_blocking])
def test_phases(lines: Lines, create: Any) -> None:
    """`not_applied` is said of requests alone that no server received; PyGithub lets requests' exceptions pass."""
    prove_nothing_was_sent(iserror.packs.githubkit, lines, create)
    prove_it_was_sent(iserror.packs.githubkit, lines, create)
    prove_tls(iserror.packs.githubkit, lines, create)


@BOTH
@pytest.mark.parametrize(
    ("status", "body", "headers", "code"),
    [
        (400, error(), "", "UPSTREAM_REJECTED"),
        (401, error("Bad credentials"), "", "UPSTREAM_UNAUTHENTICATED"),
        (401, error("Must specify two-factor"), "X-GitHub-OTP: required; app\r\n", "UPSTREAM_UNAUTHENTICATED"),
        (401, error(), "", "UPSTREAM_UNAUTHENTICATED"),
        (403, error("Resource not accessible"), "x-ratelimit-remaining: 9\r\n", "UPSTREAM_PERMISSION_DENIED"),
        (404, error("Not Found"), "", "UPSTREAM_NOT_FOUND"),
        (404, error(), "", "UPSTREAM_NOT_FOUND"),
        (405, error("Pull Request is not mergeable"), "", "UPSTREAM_PRECONDITION_FAILED"),
        (409, error(), "", "UPSTREAM_CONFLICT"),
        (410, error("Issues are disabled"), "", "UPSTREAM_NOT_FOUND"),
        (422, error("Validation Failed", errors=[{"code": "missing_field", "field": CANARY}]), "", "UPSTREAM_REJECTED"),
        (422, error("Validation Failed", errors=[{"code": "already_exists", "field": CANARY}]), "", "ALREADY_EXISTS"),
        (422, error("Validation Failed", errors=[CANARY]), "", "UPSTREAM_REJECTED"),
        (500, error(), "", "UPSTREAM_ERROR"),
        (502, CANARY, "", "UPSTREAM_UNAVAILABLE"),
    ],
)
def test_statuses(lines: Lines, pack: Any, create: Any, status: int, body: object, headers: str, code: str) -> None:
    """A status means what GitHub says."""
    said = said_of(pack, lines, answer(status, body, headers), create)
    assert (said.code, said.retryable) == (code, False)
    assert said.outcome == ("unknown" if status >= 500 else "not_applied")


@BOTH
@pytest.mark.parametrize(
    ("status", "message", "headers", "wait"),
    [
        (403, "API rate limit exceeded", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: RESET\r\n", 120),
        (429, "API rate limit exceeded", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: RESET\r\n", 120),
        (403, "You have exceeded a secondary rate limit.", "retry-after: 7\r\n", 7),
        (429, "You have exceeded a secondary rate limit.", "retry-after: 7\r\n", 7),
    ],
)
def test_rate_limits(
    lines: Lines, pack: Any, create: Any, status: int, message: str, headers: str, wait: float
) -> None:
    """The primary limit, which answers 403 too, and the secondary one; the wait is the server's own."""
    headers = headers.replace("RESET", str(int(time.time()) + 120))
    said = said_of(pack, lines, answer(status, error(message), headers), create)
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_RATE_LIMITED", "not_applied", True)
    assert said.retry_after is not None
    assert wait - 60 < said.retry_after <= wait


def test_what_only_pygithub_reads(lines: Lines) -> None:
    """A rate limit without headers, a wait longer than its own repeats would wait, a bad user agent."""
    pack = iserror.packs.github
    secondary = answer(403, error("You have exceeded a secondary rate limit. Please wait a few minutes."))
    said = said_of(pack, lines, secondary, py_create)
    assert (said.code, said.retry_after) == ("UPSTREAM_RATE_LIMITED", None)
    headers = f"X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: {int(time.time()) + 120}\r\n"
    retry = GithubRetry(total=1, max_rate_limit_wait=1)
    limited = answer(403, error("API rate limit exceeded"), headers)
    said = said_of(pack, lines, limited, lambda url, timeout: py_create(url, timeout, retry=retry))
    assert said.code == "UPSTREAM_RATE_LIMITED"
    assert said.retry_after is not None
    assert 60 < said.retry_after <= 121
    agent = answer(403, error("Missing or invalid User Agent string"))
    said = said_of(pack, lines, agent, py_create)
    assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")


def test_an_answer_that_does_not_fit(lines: Lines) -> None:
    """An attribute of a wrong type, an object that lacks its address."""

    def wrong_type(url: str, timeout: float) -> None:
        with py(url, timeout) as sdk:
            _ = sdk.get_repo(f"{CANARY}/{CANARY}").id

    said = said_of(iserror.packs.github, lines, answer(200, {"id": CANARY, "url": "x"}), wrong_type)
    assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    def no_address() -> None:
        with py("http://127.0.0.1:1", 5) as sdk:
            github.Issue.Issue(sdk.requester, {}, {"title": CANARY}).complete()

    said = failure(iserror.packs.github, lines, no_address)
    assert said.code == "UPSTREAM_INVALID_RESPONSE"


def test_no_login(lines: Lines) -> None:
    """A login that cannot be, or has expired, within a request or before: no request was made."""
    long_ago = datetime.fromtimestamp(1, timezone.utc)
    expired = OAuthTokenAuthStrategy(
        CANARY,
        CANARY,
        token=CANARY,
        expire_time=long_ago,
        refresh_token=CANARY,
        refresh_token_expire_time=long_ago,
    )
    with serving(Upstream(answer(200, {}))) as upstream:
        said = failure(iserror.packs.githubkit, lines, lambda: kit_create(upstream.url, 5, expired))
        assert upstream.requests == []
    assert (said.code, said.outcome, said.advice) == (
        "UPSTREAM_UNAUTHENTICATED",
        "not_applied",
        "stop and tell the user",
    )
    said = failure(iserror.packs.githubkit, lines, lambda: OAuthTokenAuthStrategy(CANARY, CANARY))
    assert (said.code, said.outcome) == ("UPSTREAM_UNAUTHENTICATED", "not_applied")


@pytest.mark.parametrize(
    ("data", "kinds", "code", "outcome"),
    [
        ({"node": None}, ["NOT_FOUND"], "UPSTREAM_NOT_FOUND", "not_applied"),
        (None, ["FORBIDDEN"], "UPSTREAM_PERMISSION_DENIED", "not_applied"),
        (None, ["INSUFFICIENT_SCOPES"], "UPSTREAM_PERMISSION_DENIED", "not_applied"),
        (None, ["UNPROCESSABLE"], "UPSTREAM_REJECTED", "not_applied"),
        (None, ["SERVICE_UNAVAILABLE"], "UPSTREAM_REJECTED", "unknown"),
        (None, [None], "UPSTREAM_REJECTED", "unknown"),
        (None, ["NOT_FOUND", "FORBIDDEN"], "UPSTREAM_REJECTED", "unknown"),
        ({"first": {"id": CANARY}, "second": None}, ["NOT_FOUND"], "UPSTREAM_REJECTED", "unknown"),
        (None, ["RATE_LIMITED"], "UPSTREAM_RATE_LIMITED", "not_applied"),
    ],
)
def test_graphql(lines: Lines, data: Any, kinds: list[Any], code: str, outcome: str) -> None:
    """One field that was refused is known; where another may have been done, nobody knows what was."""

    async def mutate(url: str, timeout: float) -> None:
        sdk: Any = githubkit.GitHub(CANARY, base_url=url, auto_retry=False, http_cache=False, trust_env=False)
        await sdk.async_graphql(f"mutation {{ {CANARY} }}")

    errors = [{"type": kind, "message": CANARY, "path": [CANARY]} for kind in kinds]
    said = said_of(iserror.packs.githubkit, lines, answer(200, {"data": data, "errors": errors}), mutate)
    assert (said.code, said.outcome) == (code, outcome)
