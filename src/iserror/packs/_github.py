"""`github` (PyGithub), and `githubkit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import by_cause
from iserror.packs.http import NO_CREDENTIALS, by_status
from iserror.support.look import look


def _by_status(path: str, headers: Callable[[Any], Any], body: Callable[[Any], Any]) -> By:
    """GitHub's statuses; of a 422, whether one of its errors is a name that is taken."""
    by = by_status(path, headers)

    def key(exc: Any) -> object:
        status = by.key(exc)
        taken = status == 422 and look(lambda: any(e["code"] == "already_exists" for e in body(exc)["errors"]), False)
        return "422 already_exists" if taken else status

    # 405 of a pull request that cannot be merged.
    more = {"405": codes.UPSTREAM_PRECONDITION_FAILED, "422 already_exists": codes.ALREADY_EXISTS}
    return By(by.what, key, {**by.entries, **more}, by.otherwise)


_GITHUB: Final = _by_status("status", lambda exc: exc.headers, lambda exc: exc.data)
_KIT: Final = _by_status(
    "response.status_code", lambda exc: exc.response.headers, lambda exc: exc.response.raw_response.json()
)
_WAIT: Final = replace(codes.UPSTREAM_RATE_LIMITED, retry_after=lambda exc: exc.retry_after)
_SOURCES: Final = (
    "https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api",
    "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
    "https://docs.github.com/en/rest/pulls/pulls#merge-a-pull-request",
)

_G: Final = "github.GithubException."
_K: Final = "githubkit.exception."

# The exceptions of requests pass it, which have their pack.
github: Final = Pack(
    name="github",
    sources=("https://pygithub.readthedocs.io/en/stable/utilities.html#exceptions", *_SOURCES),
    rows={
        # A 403 by its status; some of them have nothing but their words, which PyGithub has read.
        f"{_G}RateLimitExceededException": _GITHUB.entries["429"],
        f"{_G}RateLimitExceededExceedsMaxWait": replace(codes.UPSTREAM_RATE_LIMITED, retry_after=lambda exc: exc.wait),
        f"{_G}BadCredentialsException": codes.UPSTREAM_UNAUTHENTICATED,
        f"{_G}TwoFactorException": codes.UPSTREAM_UNAUTHENTICATED,
        f"{_G}UnknownObjectException": codes.UPSTREAM_NOT_FOUND,
        f"{_G}BadUserAgentException": codes.REQUEST_INVALID,
        # What an earlier answer lacked, or had of another type.
        f"{_G}IncompletableObject": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_G}BadAttributeException": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_G}GithubException": _GITHUB,
    },
)


def _refused(exc: Any) -> object:
    """Return GraphQL's type of the only error, if no field succeeded."""
    response = exc.response
    done = any(value is not None for value in (response.data or {}).values())
    return None if done or len(response.errors) > 1 else response.errors[0].type or "other"


_CAUSE: Final = by_cause()


def _cause(exc: BaseException) -> object:
    """Return the cause, or None for a login that failed within a request: its own exception has a row."""
    if type(exc.__cause__).__module__ == "githubkit.exception":
        return None
    code = _CAUSE.key(exc)
    return code if code in _CAUSE.entries else "other"


githubkit: Final = Pack(
    name="githubkit",
    sources=("https://github.com/yanyongyu/githubkit/blob/master/githubkit/exception.py", *_SOURCES),
    # Not here: what a mistake in the tool raises (CacheUnsupportedError, WebhookTypeNotFound, and the kinds of
    # GraphQLPaginationError, of a query that does not ask for what pages need).
    rows={
        f"{_K}RequestTimeout": by_cause(codes.UPSTREAM_TIMEOUT),
        f"{_K}PrimaryRateLimitExceeded": _WAIT,
        f"{_K}SecondaryRateLimitExceeded": _WAIT,
        f"{_K}RateLimitExceeded": _WAIT,
        f"{_K}RequestFailed": _KIT,
        f"{_K}RequestError": By("cause", _cause, {**_CAUSE.entries, "other": codes.CONNECTION_LOST}),
        f"{_K}AuthCredentialError": NO_CREDENTIALS,
        f"{_K}AuthExpiredError": NO_CREDENTIALS,
        # With a status of 200. Fields that did not fail may have done their work.
        f"{_K}GraphQLFailed": By(
            "type",
            _refused,
            {
                "NOT_FOUND": codes.UPSTREAM_NOT_FOUND,
                "FORBIDDEN": codes.UPSTREAM_PERMISSION_DENIED,
                "INSUFFICIENT_SCOPES": codes.UPSTREAM_PERMISSION_DENIED,
                "UNPROCESSABLE": codes.UPSTREAM_REJECTED,
            },
            codes.UPSTREAM_REJECTED.unproven(),
        ),
    },
)
