"""The meaning of gRPC's status codes, and of the details: how long to wait, which fields are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.template import Template
from iserror.packs import codes
from iserror.redact import Safe
from iserror.support.look import look

_MAX_FIELDS: Final = 10
_MAX_FIELD: Final = 64
_STATUS: Final = "grpc-status-details-bin"
_TYPES: Final = "type.googleapis.com/google.rpc."


def wait_of(exc: Any) -> float | None:
    """Return the `RetryInfo` of an RPC's status, in seconds."""
    for value in _details(exc, "RetryInfo"):
        delay = dict(_fields(dict(_fields(value))[1]))
        seconds = delay.get(1, 0) + delay.get(2, 0) / 1e9
        # A negative number is encoded as a very large one.
        return seconds if seconds < 1 << 63 else None
    return None


def invalid_fields(exc: Any) -> Safe | None:
    """Return the names of the fields in an RPC's `BadRequest`: names of a schema with dots, never values."""
    found = (dict(_fields(v))[1].decode() for d in _details(exc, "BadRequest") for n, v in _fields(d) if n == 1)
    return names_of(found)


def names_of(fields: Iterable[str]) -> Safe | None:
    """Join the names that look like paths of fields, with indexes in brackets. Anything else may be data."""
    names = [
        name
        for name in fields
        if len(name) <= _MAX_FIELD and name.isascii() and re.sub(r"\[\d+\]|\.", "_", name).isidentifier()
    ]
    return Safe(", ".join(names[:_MAX_FIELDS])) if names else None


def status(exc: Any) -> str:
    """Return the name of an RPC's status code. Two of them include whether the server asks to wait."""
    name: str = exc.code().name
    if name in ("ABORTED", "RESOURCE_EXHAUSTED") and look(_told_to_wait, False, exc):
        return f"{name} with RetryInfo"
    return name


def _told_to_wait(exc: Any) -> bool:
    # Not parsed: this runs on every look-up of an entry.
    return any(key == _STATUS and b"google.rpc.RetryInfo" in value for key, value in exc.trailing_metadata() or ())


def _details(exc: Any, kind: str) -> Iterator[bytes]:
    """Yield the messages of one type in the `google.rpc.Status` of an RPC's trailing metadata."""
    for key, value in exc.trailing_metadata() or ():
        if key == _STATUS:
            for number, detail in _fields(value):
                if number == 3:
                    found = dict(_fields(detail))
                    if found.get(1) == (_TYPES + kind).encode():
                        yield found[2]


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Read protobuf's wire format. grpc comes without protobuf, and these messages have only varints and bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError("no field of the messages that are read here")


# https://grpc.github.io/grpc/core/md_doc_statuscodes.html, https://google.aip.dev/194
# A client also makes UNAVAILABLE, DEADLINE_EXCEEDED, INTERNAL, UNKNOWN, CANCELLED and RESOURCE_EXHAUSTED itself, before
# or after it sent the request. Only the text of `details()` tells them apart, and a server can choose that text. So
# their outcome is unknown.
STATUSES: Final = {
    "CANCELLED": codes.UPSTREAM_ERROR,
    "UNKNOWN": codes.UPSTREAM_ERROR,
    "INVALID_ARGUMENT": replace(codes.UPSTREAM_REJECTED, details=(("fields", invalid_fields),)),
    "DEADLINE_EXCEEDED": codes.UPSTREAM_TIMEOUT,
    "NOT_FOUND": codes.UPSTREAM_NOT_FOUND,
    "ALREADY_EXISTS": codes.ALREADY_EXISTS,
    "PERMISSION_DENIED": codes.UPSTREAM_PERMISSION_DENIED,
    "UNAUTHENTICATED": codes.UPSTREAM_UNAUTHENTICATED,
    # A response that is too large for the client has this status too. The server has done its work by then.
    "RESOURCE_EXHAUSTED": codes.UPSTREAM_RATE_LIMITED.unproven(),
    "RESOURCE_EXHAUSTED with RetryInfo": codes.UPSTREAM_RATE_LIMITED,
    "FAILED_PRECONDITION": codes.UPSTREAM_PRECONDITION_FAILED,
    # "Retry at a higher level": data that was read before may be wrong by now. With a wait (Spanner, Firestore) it's a
    # transaction that lost, and the whole tool can run again.
    "ABORTED": codes.UPSTREAM_CONFLICT,
    "ABORTED with RetryInfo": codes.TRANSACTION_CONFLICT,
    "OUT_OF_RANGE": codes.UPSTREAM_REJECTED,
    "UNIMPLEMENTED": codes.UPSTREAM_UNIMPLEMENTED,
    "INTERNAL": codes.UPSTREAM_ERROR,
    "UNAVAILABLE": replace(
        codes.UPSTREAM_UNAVAILABLE,
        message=Template(("A service that this tool needs is unavailable; whether it got the request is not known.",)),
    ),
    "DATA_LOSS": replace(codes.UPSTREAM_ERROR, retryable=False),
}


def waiting(entry: Entry, wait: Any = wait_of) -> Entry:
    """Return the entry with its wait, if a retry can help."""
    return replace(entry, retry_after=wait) if entry.retryable else entry
