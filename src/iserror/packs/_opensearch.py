"""`opensearch-py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import by_cause
from iserror.packs.http import SOME_REFUSED, statuses


def _status(exc: Any) -> int:
    return int(exc.status_code)


def _why(exc: Any) -> Any:
    return exc.info


def _what(exc: Any) -> str:
    return type(exc.args[1]).__name__


# It keeps no headers, so that there is no wait; and a status that is a text is that of nothing that was answered.
_HTTP: Final = By(
    "status",
    _status,
    {
        **{key: replace(entry, retry_after=None) for key, entry in statuses(_why, ("status_code",)).items()},
        "3": codes.UPSTREAM_INVALID_RESPONSE,
    },
    codes.CONNECTION_LOST,
)
_O: Final = "opensearchpy.exceptions."

opensearch: Final = Pack(
    name="opensearch",
    sources=(
        "https://opensearch-project.github.io/opensearch-py/api-ref/exceptions.html",
        "https://github.com/opensearch-project/opensearch-py/blob/main/opensearchpy/exceptions.py",
    ),
    rows={
        f"{_O}TransportError": _HTTP,
        f"{_O}RequestError": _HTTP.entries["4"],
        f"{_O}AuthenticationException": _HTTP.entries["401"],
        f"{_O}AuthorizationException": _HTTP.entries["403"],
        f"{_O}NotFoundError": _HTTP.entries["404"],
        f"{_O}ConflictError": _HTTP.entries["409"],
        f"{_O}ConnectionError": by_cause(codes.CONNECTION_LOST, _why),
        f"{_O}ConnectionTimeout": by_cause(codes.UPSTREAM_TIMEOUT, _why),
        f"{_O}SSLError": codes.TLS_FAILED,
        # The request or the answer: only the exception below tells them apart.
        f"{_O}SerializationError": By(
            "cause", _what, {"TypeError": codes.REQUEST_INVALID}, codes.UPSTREAM_INVALID_RESPONSE
        ),
        "opensearchpy.helpers.errors.BulkIndexError": SOME_REFUSED,
        "opensearchpy.helpers.errors.ScanError": codes.UPSTREAM_ERROR,
    },
)
