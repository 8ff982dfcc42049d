"""Single values of records, which may hold anything: other programs write to logs too."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from iserror.logs.read.figures import EPOCH, LAST_MOMENT
from iserror.logs.record import Record

MAX_TEXT: Final = 200
"""Characters of a name; a longer one is cut."""


def moment(record: Record) -> float | None:
    """Return the Unix time of a record, from an ISO 8601 `timestamp` or a number of seconds, or None without one."""
    value = record.get("timestamp")
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value[:-1] + "+00:00" if value[-1:] in "Zz" else value)
            if when.tzinfo is None:
                when = when.replace(tzinfo=timezone.utc)
            seconds = (when - EPOCH).total_seconds()
        except (ValueError, OverflowError):
            return None
    else:
        given = number(value)
        if given is None:
            return None
        seconds = given
    return seconds if 0 <= seconds <= LAST_MOMENT else None


def number(value: object) -> float | None:
    """Return a number of reasonable size, or None for NaN and anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        return None
    return float(value)


def text(value: object) -> str:
    """Return a name in a record, cut, or an empty text for a value of another type."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    return "" if number(value) is None else f"{value}"
