"""`elasticsearch`, and the `elastic-transport` below it."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import cause_of
from iserror.packs.http import SOME_REFUSED, by_status


def _cause(exc: Any) -> str | None:
    """Return the code that fits every attempt. `errors` has the failures of the attempts before."""
    said = {_attempt(attempt) for attempt in (exc, *exc.errors)}
    return said.pop() if len(said) == 1 else None


def _attempt(exc: Any) -> str | None:
    # Over aiohttp and requests it is raised `from None` where theirs is caught, and has no other trace of it.
    return cause_of(exc) or (cause_of(exc.__context__) if exc.__context__ else None)


def _by_phase(sent: Entry) -> By:
    return By("cause", _cause, {"DEPENDENCY_UNAVAILABLE": codes.DEPENDENCY_UNAVAILABLE}, sent)


def _why(exc: Any) -> str:
    return type(exc.errors[0]).__name__


_HTTP: Final = by_status("meta.status", lambda exc: exc.meta.headers)
_T: Final = "elastic_transport."
_E: Final = "elasticsearch."
_H: Final = "elasticsearch.helpers."

elasticsearch: Final = Pack(
    name="elasticsearch",
    sources=(
        "https://elasticsearch-py.readthedocs.io/en/latest/exceptions.html",
        "https://elastic-transport-python.readthedocs.io/en/latest/exceptions.html",
    ),
    rows={
        f"{_T}ConnectionError": _by_phase(codes.CONNECTION_LOST),
        f"{_T}ConnectionTimeout": _by_phase(codes.UPSTREAM_TIMEOUT),
        f"{_T}TlsError": codes.TLS_FAILED,
        f"{_T}SniffingError": codes.DEPENDENCY_UNAVAILABLE,
        # The request or the answer: only the exception below tells them apart.
        f"{_T}SerializationError": By(
            "cause", _why, {"TypeError": codes.REQUEST_INVALID}, codes.UPSTREAM_INVALID_RESPONSE
        ),
        f"{_T}ApiError": _HTTP,
        f"{_E}ApiError": _HTTP,
        f"{_E}BadRequestError": _HTTP.entries["4"],
        f"{_E}AuthenticationException": _HTTP.entries["401"],
        f"{_E}AuthorizationException": _HTTP.entries["403"],
        f"{_E}NotFoundError": _HTTP.entries["404"],
        f"{_E}ConflictError": _HTTP.entries["409"],
        f"{_E}UnsupportedProductError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_H}BulkIndexError": SOME_REFUSED,
        f"{_H}ScanError": codes.UPSTREAM_ERROR,
    },
)
