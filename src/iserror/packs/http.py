"""The entries that the packs of HTTP clients share: of a status, and of a failed handshake."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By
from iserror.errors.template import Template
from iserror.packs import codes
from iserror.packs.retry import limited, wait_of
from iserror.support.look import look

# RFC 9110 section 15, RFC 6585, and the statuses of a gateway in between (502, 504).
STATUSES: Final = {
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
"""The entries whose message names the status."""


def by_status(path: str, headers: Callable[[Any], Any]) -> By:
    """Return the entries of an exception that stands for a response.

    A 403 with a time to come back counts as a 429.

    Args:
        path: The status' attribute path, as in a template: `response.status_code`.
        headers: Reads the response's headers. If it raises, there are none.
    """
    names = tuple(path.split("."))

    def status(exc: Any) -> object:
        value = exc
        for name in names:
            value = getattr(value, name)
        if value == 403 and look(lambda: limited(headers(exc)), False):
            return 429
        return int(value) if 100 <= int(value) < 600 else None

    return By("status", status, statuses(lambda exc: wait_of(headers(exc)), names), codes.UPSTREAM_INVALID_RESPONSE)


def statuses(wait: Callable[[Any], object], names: tuple[str, ...] = ()) -> dict[str, Entry]:
    """Return the entries by status.

    Args:
        wait: Reads the wait from the exception. If it raises, there is none.
        names: The attributes that lead to the status, for the messages that name it.
    """
    entries = {key: replace(entry, retry_after=wait) if entry.retryable else entry for key, entry in STATUSES.items()}
    if names:
        for key in _NAMED:
            message = Template((f"{str(entries[key].message)[:-1]} (status ", names, ")."))
            entries[key] = replace(entries[key], message=message)
    return entries


def unreached() -> By:
    """Return the entries of an exception for a connection that failed, because of TLS or the network."""
    return By("cause", _tls, {"TLS": codes.TLS_FAILED}, codes.DEPENDENCY_UNAVAILABLE)


def _tls(exc: BaseException) -> str:
    return "TLS" if any(map(is_tls, below(exc))) else ""


def is_tls(exc: BaseException) -> bool:
    """Return True for an `ssl.SSLError`. A server without TLS hasn't loaded the class."""
    return isinstance(exc, getattr(sys.modules.get("ssl"), "SSLError", ()))


def below(exc: BaseException) -> Iterator[BaseException]:
    """Yield the exception, then up to nine that it was explicitly made from.

    `__context__` doesn't count: in a tool that asks a second server when the first one fails, it leads to the first
    failure. `reason` is the attribute of urllib and urllib3. httpcore and requests wrap the first argument.
    """
    link: BaseException | None = exc
    for _ in range(10):
        if link is None:
            return
        yield link
        said = (link.__cause__, getattr(link, "reason", None), *link.args[:1])
        link = next((found for found in said if isinstance(found, BaseException)), None)


NO_CREDENTIALS: Final = replace(
    codes.UPSTREAM_UNAUTHENTICATED,
    message=Template(("This server has no valid credentials for a service that this tool needs; nothing was sent.",)),
    claimless=Template(("This server has no valid credentials for a service that this tool needs.",)),
)
"""An SDK's refusal before it sends anything."""

UNSIGNED: Final = replace(
    codes.UPSTREAM_INVALID_RESPONSE,
    message=Template(("What came in the name of a service that this tool needs is not signed by it.",)),
    outcome="not_applied",
)
"""An SDK's refusal of a webhook."""

SOME_REFUSED: Final = replace(
    codes.UPSTREAM_ERROR,
    retryable=False,
    message=Template(("A service that this tool needs did not take all of the items.",)),
)
"""The answer to a bulk request that the service did in part."""
