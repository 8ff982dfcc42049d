"""What the packs of HTTP clients share: the meaning of a status, and of a handshake that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from iserror.errormap import Entry, Template
from iserror.packs import codes
from iserror.packs.pack import By
from iserror.packs.retry import wait_of

# RFC 9110 section 15, RFC 6585, and what a gateway between says (502, 504).
_STATUSES: Final = {
    "401": codes.UPSTREAM_UNAUTHENTICATED,
    "402": codes.UPSTREAM_QUOTA_EXHAUSTED,
    "403": codes.UPSTREAM_PERMISSION_DENIED,
    "404": codes.UPSTREAM_NOT_FOUND,
    "405": codes.UPSTREAM_UNIMPLEMENTED,
    "407": codes.UPSTREAM_UNAUTHENTICATED,
    "408": codes.UPSTREAM_TIMEOUT,
    "409": codes.UPSTREAM_CONFLICT,
    "410": codes.UPSTREAM_NOT_FOUND,
    "412": codes.UPSTREAM_PRECONDITION_FAILED,
    "428": codes.UPSTREAM_PRECONDITION_FAILED,
    "429": codes.UPSTREAM_RATE_LIMITED,
    "4": codes.UPSTREAM_REJECTED,
    "501": codes.UPSTREAM_UNIMPLEMENTED,
    "502": codes.UPSTREAM_UNAVAILABLE,
    "503": codes.UPSTREAM_UNAVAILABLE,
    "504": codes.UPSTREAM_TIMEOUT,
    "5": codes.UPSTREAM_ERROR,
}
_NAMED: Final = ("4", "5")
"""Whose message names the status."""


def by_status(path: str, headers: Callable[[Any], Any]) -> By:
    """The entries of an exception that stands for a response.

    Args:
        path: Where it has the status, as in a template: `response.status_code`.
        headers: Reads the response's headers; what it raises counts as none.
    """
    names = tuple(path.split("."))

    def status(exc: Any) -> object:
        for name in names:
            exc = getattr(exc, name)
        return int(exc)

    return By("status", status, statuses(lambda exc: wait_of(headers(exc)), names), codes.UPSTREAM_INVALID_RESPONSE)


def statuses(wait: Callable[[Any], object], names: tuple[str, ...] = ()) -> dict[str, Entry]:
    """The entries by status, with a function of the exception for the wait.

    Args:
        wait: What it raises counts as none.
        names: The attributes that lead to the status, for the messages that name it.
    """
    entries = {key: replace(entry, retry_after=wait) if entry.retryable else entry for key, entry in _STATUSES.items()}
    if names:
        for key in _NAMED:
            message = Template((f"{str(entries[key].message)[:-1]} (status ", names, ")."))
            entries[key] = replace(entries[key], message=message)
    return entries


def unreached() -> By:
    """The entries of an exception for a connection that was not made: with TLS to blame, or the network."""
    return By("cause", _tls, {"TLS": codes.TLS_FAILED}, codes.DEPENDENCY_UNAVAILABLE)


def by_phase(why: Callable[[Any], Any], sent: Entry) -> By:
    """The entries of an SDK's exception for a request that got no answer, by what the HTTP client below it raised.

    Args:
        why: Reads that exception; what it raises counts as none.
        sent: Of a request that was sent, or may have been.
    """
    return By(
        "cause",
        lambda exc: phase(why(exc)),
        {"TLS": codes.TLS_FAILED, "not sent": codes.DEPENDENCY_UNAVAILABLE},
        sent,
    )


# Raised where a connection is made, and nowhere else: urllib3's `connection.py` and `connectionpool.py`, aiohttp's
# `connector.py` and the `connect` in its `client.py`, `requests.adapters`, httpcore's `connection.py`.
_CONNECTING: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectorError",
        "aiohttp.client_exceptions.ConnectionTimeoutError",
        "httpx.ConnectTimeout",
        "requests.exceptions.ConnectTimeout",
        "urllib3.exceptions.ConnectTimeoutError",  # and NewConnectionError, which is one
    }
)
_HANDSHAKE: Final = frozenset({"requests.exceptions.SSLError", "ssl.SSLError", "urllib3.exceptions.SSLError"})


def phase(exc: BaseException) -> str:
    """What an exception of an HTTP client, or one that it was made from, says of the request: `not sent`, `TLS`."""
    found = ""
    for link in below(exc):
        kind: Any = type(link)
        said = _phase(kind)
        if said in ("TLS", "not sent"):
            return said
        found = said or found
    return "not sent" if found else ""


@lru_cache(maxsize=64)
def _phase(kind: Any) -> str:
    # By name: what is not in use is not loaded.
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in kind.__mro__}
    if names & _HANDSHAKE:
        return "TLS"
    if names & _CONNECTING:
        return "not sent"
    return "not sent, or TLS" if "httpx.ConnectError" in names else ""


def below(exc: BaseException) -> Iterator[BaseException]:
    """The exception, then those that it was made from, as their makers say: ten at most.

    Not `__context__`: in a tool that asks a second server when the first one fails, it leads on to the first failure.
    `reason` is urllib's and urllib3's; httpcore and requests give what they wrap as the first argument.
    """
    link: object = exc
    for _ in range(10):
        if not isinstance(link, BaseException):
            return
        yield link
        link = link.__cause__ or getattr(link, "reason", None) or (link.args[0] if link.args else None)


def _tls(exc: BaseException) -> str:
    link: BaseException | None = exc
    for _ in range(10):
        if link is None:
            break
        # By name: a server that speaks no TLS has not loaded it.
        if any((cls.__module__, cls.__name__) == ("ssl", "SSLError") for cls in type(link).__mro__):
            return "TLS"
        link = link.__cause__ or link.__context__
    return ""


NO_CREDENTIALS: Final = replace(
    codes.UPSTREAM_UNAUTHENTICATED,
    message=Template(("This server has no valid credentials for a service that this tool needs; nothing was sent.",)),
)
"""What an SDK says before it sends anything."""
