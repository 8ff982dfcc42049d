"""The record: what a line of the log holds, how its time is written, and how a line is read back.

The writing and the reading side share this schema. It imports nothing heavy: `iserror trace` starts with it.
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

SCHEMA_VERSION: Final = 1

LOG_VARIABLE: Final = "ISERROR_LOG"
"""The environment variable that names the log for its writers and readers: a file, a folder or `stderr`."""

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
"""The levels of a line, the least first, with the standard library's numbers."""

SHORTEST_PREFIX: Final = 4
ID: Final = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},32}}")
"""A request id or trace id in the log's form, or the first digits of one."""

Record = dict[str, Any]

TIMESTAMP_KEY: Final = b'{"timestamp": "'
"""How a line of ours begins. It is found after a torn line on the same line, too."""

STAMP_LENGTH: Final = len("2026-01-01T00:00:00.000000Z")

_TORN: Final = 4
"""How many torn lines, or objects like ours in them, may come before a whole line."""

FINAL: Final = frozenset({"tool_failed", "tool_finished", "protocol_error", "tool_cancelled"})
"""The events that may end a call; the line that did has `lines`."""


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return the path with `~` as the home folder.

    Raises:
        ValueError: If there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"the path {os.fspath(path)!r} has no home folder: write it without ~") from None


def stamp(nanoseconds: int) -> str:
    """Return a Unix time in nanoseconds in the log's form: UTC, ISO 8601, microseconds, `Z`.

    All have one length, so that they compare as texts.
    """
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, timezone.utc).isoformat()[:19]}.{rest // 1000:06d}Z"


def stamp_of(when: datetime) -> str:
    """Return a point in time in the log's form; without a zone it is UTC.

    Raises:
        OverflowError: If it is within a day of the year 1 or 9999.
    """
    utc = when.replace(tzinfo=timezone.utc) if when.tzinfo is None else when.astimezone(timezone.utc)
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def minted(request_id: str) -> str | None:
    """Return when a request id was minted, or None if it isn't a UUIDv7 of 32 hex digits (RFC 9562, section 5.7)."""
    if len(request_id) != 32 or request_id[12] != "7" or request_id[16] not in "89ab":
        return None
    try:
        return stamp(int(request_id[:12], 16) * 1_000_000)
    except (ValueError, OverflowError, OSError):  # after the year 9999
        return None


def parse(line: bytes) -> Record | None:
    """Return the record of a line, or None if it isn't one (torn, another program's).

    A line that a full disk tore may come before ours on the same line.
    """
    at = 0
    for _ in range(_TORN):
        record = _parse(line[at:])
        at = line.find(TIMESTAMP_KEY, at + 1)
        if record is not None or at < 0:
            return record
    return None


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else None


def time_of(line: bytes) -> str | None:
    """Return the time of a line, as text. A line that begins as ours do isn't read as JSON for that."""
    if line.startswith(TIMESTAMP_KEY) and not line.rfind(TIMESTAMP_KEY):
        start = len(TIMESTAMP_KEY)
        found = line[start : start + STAMP_LENGTH]
        if found[10:11] == b"T" and found[26:] == b"Z" and found.isascii():
            return found.decode()
    record = parse(line)
    return None if record is None else stamp_in(record)


def stamp_in(record: Record) -> str:
    """Return the time of a record in our form, whatever program wrote it; empty without a time."""
    found = record.get("timestamp")
    if not isinstance(found, str):
        return ""
    if len(found) == STAMP_LENGTH and found[10] == "T" and found[-1] == "Z":
        return found
    try:
        return stamp_of(datetime.fromisoformat(found.replace("Z", "+00:00")))
    except (ValueError, OverflowError):
        return ""


def is_outside(time: str, since: str, until: str) -> bool:
    """Return True if a time is before the one or after the other. An empty time sets no limit."""
    return bool((since and time < since) or (until and time > until))


def is_own(record: Record, wanted: str) -> bool:
    """Return True if the request id or trace id of a record is, or begins with, `wanted`."""
    return any(
        isinstance(found, str) and found.startswith(wanted) for found in map(record.get, ("request_id", "trace_id"))
    )


def printable(value: object) -> str:
    """Return any value as printable text on one line, with escapes for what could drive a terminal."""
    text = value if isinstance(value, str) else _repr(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python prints, deep nesting
        return f"({type(value).__name__} that cannot be shown)"
