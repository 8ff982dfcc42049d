"""The figures of a report: what a summary of a log holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400

WIDTHS: Final = (
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY),
    *(7 * DAY, 28 * DAY, 364 * DAY, 3_640 * DAY, 36_400 * DAY),
)
"""Seconds of a bucket. Each divides the next, so that buckets merge without loss."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
LAST_MOMENT: Final = 253_402_300_799.0
"""The end of the year 9999, as a Unix time."""


@dataclass(frozen=True)
class Row:
    """The failures of one tool with one code. Times are Unix times; `request_id` is the latest example."""

    tool: str
    code: str
    category: str
    count: int
    first: float | None
    last: float | None
    request_id: str
    buckets: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Crash:
    """The crashes by one exception type that has no entry in the map, and the line that adds one."""

    type: str
    count: int
    first: float | None
    last: float | None
    tools: tuple[str, ...]
    more_tools: bool
    place: str
    request_id: str
    line: str
    advice: str


@dataclass(frozen=True)
class Uncoded:
    """Failures told in an author's words alone, and what would give them a code of their own."""

    code: str
    as_success: bool
    """Whether clients saw a success that only read like an error."""
    type: str
    """The exception's; "" for what a tool returned."""
    cause: str
    """The type of what led to it; "" if nothing did."""
    pattern: str
    """The text, with `…` for what varies."""
    count: int
    first: float | None
    last: float | None
    tools: tuple[str, ...]
    more_tools: bool
    request_id: str
    line: str
    advice: str


@dataclass(frozen=True)
class Loop:
    """Equal calls that failed in the same way again and again. `sessions` is 0 if the log names none."""

    tool: str
    code: str
    fingerprint: str
    count: int
    burst: int
    sessions: int
    more_sessions: bool
    first: float | None
    last: float | None
    request_id: str


@dataclass(frozen=True)
class Slow:
    """One slow failure."""

    tool: str
    code: str
    duration_ms: float
    when: float | None
    request_id: str


@dataclass(frozen=True)
class Forgotten:
    """The keys that a full table dropped, and how many failures they had. A key that comes back counts again."""

    keys: int
    failures: int


@dataclass(frozen=True)
class Summary:
    """The figures of a log. All except `handled` are about failures that clients saw."""

    records: int
    failures: int
    protocol_errors: int
    cancelled: int
    returned_errors: int
    item_failures: int
    other: int
    undated: int
    handled: tuple[tuple[str, int], ...]
    first: float | None
    last: float | None
    bucket_seconds: int
    buckets: tuple[tuple[int, int], ...]
    rows: tuple[Row, ...]
    unmapped: tuple[Crash, ...]
    unmapped_count: int
    packs: tuple[tuple[str, int], ...]
    """The packs that know further crashes, and how many."""
    uncoded: tuple[Uncoded, ...]
    uncoded_count: int
    loops: tuple[Loop, ...]
    loops_left_out: int
    slowest: tuple[Slow, ...]
    forgotten_rows: Forgotten
    forgotten_types: Forgotten
    forgotten_calls: Forgotten
    forgotten_texts: Forgotten
