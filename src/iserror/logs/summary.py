"""The summary of a log: what its failures say about how usable the tools are.

It is made in one pass and in bounded memory, of records that may hold anything: other programs write to logs
too, and what callers sent stands in them.
"""

from __future__ import annotations

import builtins
import heapq
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Generic, TypeVar

from iserror.logs.record import Record, printable

KEEP_ROWS: Final = 500
KEEP_TYPES: Final = 200
KEEP_CALLS: Final = 5_000
KEEP_LOOPS: Final = 100
KEEP_SLOWEST: Final = 10
KEEP_TOOLS: Final = 10
KEEP_SESSIONS: Final = 16

MIN_BURST: Final = 3
"""Identical failures in a row that make a loop: one repeat may be a sensible second try."""

BURST_GAP: Final = 300.0
"""Seconds. Identical failures further apart than this are not one burst."""

MAX_TEXT: Final = 200
MAX_BUCKETS: Final = 240
SHOWN_BUCKETS: Final = 120

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400

# Each divides the next, so that buckets merge without loss.
WIDTHS: Final = (
    *(MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY),
    *(7 * DAY, 28 * DAY, 364 * DAY, 3_640 * DAY, 36_400 * DAY),
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MOMENT: Final = 253_402_300_799.0  # the year 9999's end


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
    """The crashes by one exception type that has no entry in the map, and the line that would add one."""

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
class Loop:
    """Equal calls that failed in the same way again and again; `sessions` is 0 where the log has none."""

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
    """What a full table dropped: how many keys, with how many failures. Keys that came back count again."""

    keys: int
    failures: int


@dataclass(frozen=True)
class Summary:
    """What a log says. All but `handled` is about failures that clients saw."""

    records: int
    failures: int
    protocol_errors: int
    cancelled: int
    returned_errors: int
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
    loops: tuple[Loop, ...]
    loops_left_out: int
    slowest: tuple[Slow, ...]
    forgotten_rows: Forgotten
    forgotten_types: Forgotten
    forgotten_calls: Forgotten


def summarize(records: Iterable[Record]) -> Summary:
    """Read the records once, in any order, and say what failed, how often, when and where it went on failing.

    Memory is bounded: of the (tool, code) pairs, exception types and calls, those with the fewest failures are
    forgotten when there are too many, of equal ones those that were not seen for longest. Counts of what is kept are
    then lower bounds, and `forgotten_…` say what went.
    """
    tally = _Tally()
    for record in records:
        tally.add(record)
    return tally.summary()


def moment(record: Record) -> float | None:
    """The Unix time of a record, from an ISO 8601 `timestamp` or a number of seconds; None without a usable one."""
    value = record.get("timestamp")
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value[:-1] + "+00:00" if value[-1:] in "Zz" else value)
            if when.tzinfo is None:
                when = when.replace(tzinfo=timezone.utc)
            seconds = (when - _EPOCH).total_seconds()
        except (ValueError, OverflowError):
            return None
    else:
        number = _number(value)
        if number is None:
            return None
        seconds = number
    return seconds if 0 <= seconds <= _LAST_MOMENT else None


def _number(value: object) -> float | None:
    """A number of reasonable size that is no NaN; None of anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        return None
    return float(value)


def _text(value: object) -> str:
    """A name as a record has it, cut; empty where it is of another type."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    number = _number(value)
    return "" if number is None else f"{value}"


# --- counting ----------------------------------------------------------------------------------------------


class _Counted:
    """What every table counts: how often, when, and the latest example."""

    __slots__ = ("count", "first", "last", "request_id", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.turn = 0
        self.first: float | None = None
        self.last: float | None = None
        self.request_id = ""

    def see(self, turn: int, when: float | None, record: Record) -> bool:
        """Count one; returns whether it is the latest so far, by its time or else by its turn."""
        self.count += 1
        self.turn = turn
        latest = self.last is None or (when is not None and when >= self.last)
        if when is not None:
            self.first = when if self.first is None else min(self.first, when)
            self.last = when if self.last is None else max(self.last, when)
        if latest:
            self.request_id = _text(record.get("request_id"))
        return latest


class _Pair(_Counted):
    """A tool and a code."""

    __slots__ = ("buckets", "category")

    def __init__(self) -> None:
        super().__init__()
        self.buckets: dict[int, int] = {}
        self.category = ""


class _Type(_Counted):
    """An exception type."""

    __slots__ = ("more_tools", "place", "tools")

    def __init__(self) -> None:
        super().__init__()
        self.tools: list[str] = []
        self.more_tools = False
        self.place = ""


class _Repeated(_Counted):
    """A call with its arguments, by fingerprint."""

    __slots__ = ("burst", "longest", "sessions", "told")

    def __init__(self) -> None:
        super().__init__()
        self.burst = 0
        self.longest = 0
        self.told: float | None = None
        self.sessions: tuple[int, ...] = ()

    def repeat(self, when: float | None, session: object) -> None:
        """Go on with the burst, or begin another."""
        near = when is not None and self.told is not None and abs(when - self.told) <= BURST_GAP
        self.burst = self.burst + 1 if near or (when is None and self.told is None) else 1
        self.longest = max(self.longest, self.burst)
        self.told = when
        if isinstance(session, str) and len(self.sessions) <= KEEP_SESSIONS:
            known = hash(session)  # a session's id may be long, and is not shown
            if known not in self.sessions:
                self.sessions += (known,)


_C = TypeVar("_C", bound=_Counted)


class _Table(Generic[_C]):
    """Counts by key, twice `keep` at most: the lesser half goes when it is full.

    Whatever is kept, a key stays until `keep` others came after it: a burst is not forgotten while it lasts.
    """

    def __init__(self, kind: type[_C], keep: int) -> None:
        self.kind = kind
        self.keep = keep
        self.entries: dict[Any, _C] = {}
        self.keys = 0
        self.failures = 0

    def entry(self, key: Any) -> _C:
        found = self.entries.get(key)
        if found is None:
            if len(self.entries) >= 2 * self.keep:
                self._forget()
            found = self.entries[key] = self.kind()
        return found

    def _forget(self) -> None:
        ranked = sorted(self.entries.items(), key=lambda item: (item[1].count, item[1].turn), reverse=True)
        gone = ranked[self.keep :]
        self.keys += len(gone)
        self.failures += sum(counted.count for _, counted in gone)
        self.entries = dict(ranked[: self.keep])

    def ranked(self) -> list[tuple[Any, _C]]:
        """Most frequent first, of equal ones by key."""
        return sorted(self.entries.items(), key=lambda item: (-item[1].count, item[0]))

    def forgotten(self) -> Forgotten:
        return Forgotten(self.keys, self.failures)


class _Tally:
    """Everything that is counted while the records go by."""

    def __init__(self) -> None:
        self.turn = 0
        self.counts: Counter[str] = Counter()
        self.handled: Counter[str] = Counter()
        self.first: float | None = None
        self.last: float | None = None
        self.level = 0
        self.buckets: dict[int, int] = {}
        self.pairs = _Table(_Pair, KEEP_ROWS)
        self.types = _Table(_Type, KEEP_TYPES)
        self.calls = _Table(_Repeated, KEEP_CALLS)
        self.slowest: list[tuple[float, int, Slow]] = []

    def add(self, record: object) -> None:
        self.turn += 1
        if not isinstance(record, dict):
            self.counts["other"] += 1
            return
        when = moment(record)
        if when is not None:
            if self.first is None or when < self.first:
                self.first = when
            if self.last is None or when > self.last:
                self.last = when
        event = record.get("event")
        if event == "tool_failed":
            handled = record.get("handled")
            if handled:
                known = isinstance(handled, str) and handled in ("retried", "recovered", "cancelled")
                self.handled[str(handled) if known else "otherwise"] += 1
                return
            self.counts["failures"] += 1
            if record.get("mapped") is False and record.get("code") == "INTERNAL_ERROR":
                self._crash(record, when)
        elif event == "protocol_error":
            self.counts["protocol_errors"] += 1
        else:
            known = event == "tool_cancelled" or event == "error_returned"
            self.counts[str(event) if known else "other"] += 1
            return
        self._failure(record, when)

    def _failure(self, record: Record, when: float | None) -> None:
        tool, code = _text(record.get("tool")), _text(record.get("code"))
        pair = self.pairs.entry((tool, code))
        if pair.see(self.turn, when, record):
            pair.category = _text(record.get("category"))
        if when is None:
            self.counts["undated"] += 1
        else:
            self._bucket(pair, when)
        fingerprint = record.get("fingerprint")
        if isinstance(fingerprint, str) and fingerprint:
            call = self.calls.entry((tool, code, fingerprint[:MAX_TEXT]))
            call.see(self.turn, when, record)
            call.repeat(when, record.get("session_id"))
        took = _number(record.get("duration_ms"))
        if took is not None and took >= 0 and (len(self.slowest) < KEEP_SLOWEST or took > self.slowest[0][0]):
            slow = Slow(tool, code, took, when, _text(record.get("request_id")))
            keep = heapq.heappush if len(self.slowest) < KEEP_SLOWEST else heapq.heappushpop
            keep(self.slowest, (took, -self.turn, slow))

    def _bucket(self, pair: _Pair, when: float) -> None:
        bucket = int(when // WIDTHS[self.level])
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        pair.buckets[bucket] = pair.buckets.get(bucket, 0) + 1
        while len(self.buckets) > MAX_BUCKETS:
            self._coarsen()

    def _coarsen(self) -> None:
        factor = WIDTHS[self.level + 1] // WIDTHS[self.level]
        self.level += 1
        self.buckets = _merged(self.buckets, factor)
        for pair in self.pairs.entries.values():
            pair.buckets = _merged(pair.buckets, factor)

    def _crash(self, record: Record, when: float | None) -> None:
        kind, place = _crashed(record.get("exception"))
        crash = self.types.entry(kind)
        if crash.see(self.turn, when, record):
            crash.place = place
        tool = _text(record.get("tool"))
        if tool not in crash.tools:
            if len(crash.tools) < KEEP_TOOLS:
                crash.tools.append(tool)
            else:
                crash.more_tools = True

    def summary(self) -> Summary:
        while self._span() > SHOWN_BUCKETS and self.level + 1 < len(WIDTHS):
            self._coarsen()
        width = WIDTHS[self.level]
        rows = [_row(key, pair, width) for key, pair in self.pairs.ranked()]
        loops = [_loop(key, call) for key, call in self.calls.ranked() if call.longest >= MIN_BURST]
        slowest = sorted(self.slowest, reverse=True)
        unmapped = list(_unmapped(self.types.ranked(), rows))
        return Summary(
            records=self.turn,
            failures=self.counts["failures"],
            protocol_errors=self.counts["protocol_errors"],
            cancelled=self.counts["tool_cancelled"],
            returned_errors=self.counts["error_returned"],
            other=self.counts["other"],
            undated=self.counts["undated"],
            handled=tuple(sorted(self.handled.items())),
            first=self.first,
            last=self.last,
            bucket_seconds=width,
            buckets=_starts(self.buckets, width),
            rows=tuple(rows),
            unmapped=tuple(unmapped),
            unmapped_count=sum(crash.count for crash in unmapped) + self.types.failures,
            loops=tuple(loops[:KEEP_LOOPS]),
            loops_left_out=len(loops[KEEP_LOOPS:]),
            slowest=tuple(slow for _, _, slow in slowest),
            forgotten_rows=self.pairs.forgotten(),
            forgotten_types=self.types.forgotten(),
            forgotten_calls=self.calls.forgotten(),
        )

    def _span(self) -> float:
        """How many buckets the period has, empty ones too."""
        if self.first is None or self.last is None:
            return 0
        return self.last // WIDTHS[self.level] - self.first // WIDTHS[self.level] + 1


def _merged(buckets: dict[int, int], factor: int) -> dict[int, int]:
    merged: dict[int, int] = {}
    for bucket, count in buckets.items():
        merged[bucket // factor] = merged.get(bucket // factor, 0) + count
    return merged


def _starts(buckets: dict[int, int], width: int) -> tuple[tuple[int, int], ...]:
    return tuple((bucket * width, count) for bucket, count in sorted(buckets.items()))


def _row(key: tuple[str, str], pair: _Pair, width: int) -> Row:
    tool, code = key
    buckets = _starts(pair.buckets, width)
    return Row(tool, code, pair.category, pair.count, pair.first, pair.last, pair.request_id, buckets)


def _loop(key: tuple[str, str, str], call: _Repeated) -> Loop:
    tool, code, fingerprint = key
    return Loop(
        tool=tool,
        code=code,
        fingerprint=fingerprint,
        count=call.count,
        burst=call.longest,
        sessions=min(len(call.sessions), KEEP_SESSIONS),
        more_sessions=len(call.sessions) > KEEP_SESSIONS,
        first=call.first,
        last=call.last,
        request_id=call.request_id,
    )


# --- crashes that the map does not know -----------------------------------------------------------------------

SEVERAL: Final = "(several types in a group)"

# A `ToolError` that the host made of another server's crash: the map is asked for what it came from.
_HOST_ERRORS: Final = frozenset(
    {
        "mcp.server.fastmcp.exceptions.ToolError",
        "mcp.server.mcpserver.exceptions.ToolError",
        "fastmcp.exceptions.ToolError",
    }
)
# Of these the map is never asked: they do not come from `Exception`.
_NO_EXCEPTIONS: Final = frozenset({"asyncio.exceptions.CancelledError", "asyncio.CancelledError", "trio.Cancelled"})
_FOREIGN: Final = re.compile(r"[\\/](site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]|\A<", re.IGNORECASE)
_MAX_LEAVES: Final = 100


def _crashed(chain: object) -> tuple[str, str]:
    """The exception type that an entry would have to name, and where it was raised; empty where unknown."""
    items = [item for item in chain if isinstance(item, dict)] if isinstance(chain, list) else []
    if not items:
        return "", ""
    item = items[0]
    for following in items[1:]:
        if _type_of(item) not in _HOST_ERRORS:
            break
        item = following
    types = _types_inside(item) or {_type_of(item)}
    return (SEVERAL if len(types) > 1 else types.pop()), _place(item)


def _type_of(item: dict[str, Any]) -> str:
    return _text(item.get("type")).removeprefix("builtins.")


def _types_inside(group: dict[str, Any]) -> set[str]:
    """The types of the exceptions in a group, of groups inside it too; none of what is no group."""
    types: set[str] = set()
    pending = [group]
    for _ in range(_MAX_LEAVES):
        if not pending:
            break
        item = pending.pop()
        members = item.get("exceptions")
        if isinstance(members, list):
            tops = [chain[0] for chain in members[:_MAX_LEAVES] if isinstance(chain, list) and chain]
            pending += [top for top in tops if isinstance(top, dict)]
        elif item is not group:
            types.add(_type_of(item))
    return types


def _place(item: dict[str, Any]) -> str:
    """The innermost frame of the author's own code, else the innermost one: file, line, function."""
    frames = item.get("frames")
    found = ""
    for frame in reversed(frames if isinstance(frames, list) else []):
        if not isinstance(frame, dict) or not isinstance(frame.get("file"), str) or not frame["file"]:
            continue
        file = frame["file"]
        place = f"{_tail(file)}:{_text(frame.get('line'))} in {_text(frame.get('function'))}"
        if not _FOREIGN.search(file[-1_000:]):
            return place
        found = found or place
    return found


def _tail(file: str) -> str:
    """The last parts of a path: what tells files apart, and nothing of whose machine it was."""
    parts = re.split(r"[\\/]", file[-MAX_TEXT:])
    return "/".join(parts[-3:])


def _unmapped(ranked: Sequence[tuple[str, _Type]], rows: Iterable[Row]) -> Iterator[Crash]:
    """The crashes by type; the lines of all can be added to one map, beside the codes that the log has."""
    taken = {(row.code, row.category) for row in rows}
    for kind, crash in ranked:
        line, advice = _entry(kind, taken)
        yield Crash(
            type=kind,
            count=crash.count,
            first=crash.first,
            last=crash.last,
            tools=tuple(crash.tools),
            more_tools=crash.more_tools,
            place=crash.place,
            request_id=crash.request_id,
            line=line,
            advice=advice,
        )


# --- the entry that is missing --------------------------------------------------------------------------------

LIBRARY_CODES: Final = frozenset(
    {
        "INTERNAL_ERROR",
        "INVALID_OUTPUT",
        "TIMEOUT",
        "INVALID_ARGUMENTS",
        "UNKNOWN_TOOL",
        "TOOL_ERROR",
        "RETURNED_ERROR",
    }
)

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")
_MAX_CODE: Final = 64

# By the class's name, first match first: the category, and words that hold whatever it was.
_CATEGORIES: Final = (
    (r"ModuleNotFound", "internal"),
    (r"Time(d)?_?[Oo]ut|DeadlineExceeded", "deadline_exceeded"),
    (r"TooManyRequests|Rate_?Limit|Throttl|Quota", "resource_exhausted"),
    (r"Unauthenticated|Unauthorized|Authentication", "unauthenticated"),
    (r"Permission|Forbidden|AccessDenied", "permission_denied"),
    (r"AlreadyExists|FileExists|Duplicate", "already_exists"),
    (r"Connect|Unavailable|BrokenPipe|Network|Unreachable|gaierror", "unavailable"),
    (r"NotFound|DoesNotExist|NoSuch|NoResult|\AKeyError\Z|\ALookupError\Z", "not_found"),
    (r"NotImplemented|Unimplemented|Unsupported", "unimplemented"),
)
_WORDS: Final = {
    "deadline_exceeded": "The service behind this tool did not answer in time.",
    "resource_exhausted": "The service behind this tool takes no more requests at the moment.",
    "unauthenticated": "The service behind this tool did not accept the server's credentials.",
    "permission_denied": "The service behind this tool does not permit this.",
    "already_exists": "There is one already.",
    "unavailable": "The service behind this tool could not be reached.",
    "not_found": "There is no such item.",
    "unimplemented": "The service behind this tool does not support this.",
    "internal": "The tool could not complete the call.",
}


def _entry(kind: str, taken: set[tuple[str, str]]) -> tuple[str, str]:
    """The line that adds an entry for an exception type, and what to know of it; no line for what has no name."""
    named = _named(kind)
    if not named[0]:
        return named
    name, advice = named
    package, _, last = kind.rpartition(".")
    category = next((found for pattern, found in _CATEGORIES if re.search(pattern, last)), "internal")
    code = _code(last, package.partition(".")[0], category, taken)
    taken.add((code, category))
    retryable = ", retryable=True" if category == "unavailable" else ""
    words = _WORDS[category]
    return f'errors.add({name}, code="{code}", category="{category}"{retryable}, message="{words}")', advice


def _named(kind: str) -> tuple[str, str]:
    """How a line names the exception class, and what to know of it; the name is empty where there is none."""
    if not kind:
        return "", "The log does not say which exception it was: see the traceback."
    if kind == SEVERAL:
        return "", "Several tasks failed in different ways: see the traceback, and map what is in the group."
    if kind in _HOST_ERRORS:
        return "", "Another server's tool crashed: that server's log has the exception."
    if kind in _NO_EXCEPTIONS:
        return "", "It does not come from Exception, so no entry applies: catch it in the tool."
    if "<locals>" in kind:
        return "", "A class that a function makes has no name to map: define it in a module."
    builtin = getattr(builtins, kind, None) if kind.isidentifier() else None
    if isinstance(builtin, type) and builtin.__name__ == kind and issubclass(builtin, BaseException):
        if kind == "Exception":
            return "", "An entry for Exception would hide every crash: raise a class of your own, and map that."
        if not issubclass(builtin, Exception):
            return "", "It does not come from Exception, so no entry applies: catch it in the tool."
        return kind, "Any mistake in the code may raise it: better raise a class of your own, and map that."
    if len(kind) >= MAX_TEXT or not _DOTTED.match(kind) or not all(part.isidentifier() for part in kind.split(".")):
        return "", "This is no dotted name of a class: see the traceback, and map a class that it comes from."
    advice = "Its name holds only while its module is the one that is run." if kind.startswith("__main__.") else ""
    return '"' + kind.encode("unicode_escape").decode() + '"', advice


def _code(name: str, package: str, category: str, taken: set[tuple[str, str]]) -> str:
    """A code after the class's name that is free: neither the library's own nor known with another category."""
    known = LIBRARY_CODES | {code for code, said in taken if said != category}
    plain = _snake(name) or f"{category.upper()}_FAILURE"
    numbered = (f"{plain[:56].rstrip('_')}_{number}" for number in itertools.count(2))
    candidates = itertools.chain([plain, _snake(f"{package}_{plain}")], numbered)
    return next(code for code in candidates if code not in known)


def _snake(name: str) -> str:
    """A class's name as a code; empty where too little of it is ASCII."""
    plain = re.sub(r"[^A-Za-z0-9_]", "", name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).upper()
    code = re.sub(r"_+", "_", words).lstrip("_0123456789")[:_MAX_CODE].rstrip("_")
    return code if len(code) >= 3 else ""


# --- as JSON --------------------------------------------------------------------------------------------------


def to_json(summary: Summary) -> dict[str, Any]:
    """The summary as plain values for JSON; the keys are documented in `docs/report.md`."""
    return {
        "schema_version": 1,
        "period": {"first": _stamp(summary.first), "last": _stamp(summary.last)},
        "records": summary.records,
        "failures": summary.failures,
        "protocol_errors": summary.protocol_errors,
        "cancelled": summary.cancelled,
        "returned_errors": summary.returned_errors,
        "other": summary.other,
        "undated": summary.undated,
        "handled": dict(summary.handled),
        "bucket_seconds": summary.bucket_seconds,
        "buckets": _json_buckets(summary.buckets),
        "by_tool_and_code": [
            {
                "tool": row.tool,
                "code": row.code,
                "category": row.category,
                "count": row.count,
                "first": _stamp(row.first),
                "last": _stamp(row.last),
                "request_id": row.request_id,
                "buckets": _json_buckets(row.buckets),
            }
            for row in summary.rows
        ],
        "unmapped_count": summary.unmapped_count,
        "unmapped": [
            {
                "type": crash.type,
                "count": crash.count,
                "first": _stamp(crash.first),
                "last": _stamp(crash.last),
                "tools": list(crash.tools),
                "more_tools": crash.more_tools,
                "place": crash.place,
                "request_id": crash.request_id,
                "line": crash.line or None,
                "advice": crash.advice or None,
            }
            for crash in summary.unmapped
        ],
        "loops": [
            {
                "tool": loop.tool,
                "code": loop.code,
                "fingerprint": loop.fingerprint,
                "count": loop.count,
                "burst": loop.burst,
                "sessions": loop.sessions or None,
                "more_sessions": loop.more_sessions,
                "first": _stamp(loop.first),
                "last": _stamp(loop.last),
                "request_id": loop.request_id,
            }
            for loop in summary.loops
        ],
        "slowest": [
            {
                "tool": slow.tool,
                "code": slow.code,
                "duration_ms": slow.duration_ms,
                "timestamp": _stamp(slow.when),
                "request_id": slow.request_id,
            }
            for slow in summary.slowest
        ],
        "left_out": {
            "loops": summary.loops_left_out,
            "by_tool_and_code": vars(summary.forgotten_rows).copy(),
            "unmapped": vars(summary.forgotten_types).copy(),
            "calls": vars(summary.forgotten_calls).copy(),
        },
    }


def _stamp(when: float | None) -> str | None:
    return None if when is None else (_EPOCH + timedelta(seconds=when)).isoformat(timespec="milliseconds")[:-6] + "Z"


def _json_buckets(buckets: Iterable[tuple[int, int]]) -> list[list[Any]]:
    return [[_stamp(start), count] for start, count in buckets]


# --- as text --------------------------------------------------------------------------------------------------

_BARS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = " .:-=+*#@"
_TOP: Final = 15
_SHOWN_TOOLS: Final = 4
MIN_WIDTH: Final = 80


def sparkline(values: Sequence[int], *, unicode: bool = True) -> str:
    """One character a value, the higher the more; a space only for nothing at all."""
    bars = _BARS if unicode else _ASCII_BARS
    most = max(values, default=0)
    return "".join(bars[-(-value * (len(bars) - 1) // most)] if value > 0 else bars[0] for value in values)


def columns(summary: Summary, buckets: Iterable[tuple[int, int]], count: int) -> list[int]:
    """The counts over the whole period in at most `count` equal columns."""
    if summary.first is None or summary.last is None:
        return []
    width = summary.bucket_seconds
    start = int(summary.first // width)
    span = int(summary.last // width) - start + 1
    each = -(-span // max(1, count))
    values = [0] * -(-span // each)
    for begin, number in buckets:
        values[(begin // width - start) // each] += number
    return values


def to_text(summary: Summary, width: int = 100, *, unicode: bool = True) -> Iterator[str]:
    """The summary for a terminal, line by line: no line is wider (80 at least), but those to be pasted are whole.

    Nothing that a record says can drive the terminal: what is not printable shows as escapes.
    """
    for line in _Page(summary, max(width, MIN_WIDTH), unicode).lines():
        yield line.rstrip()


class _Page:
    """The text's layout, for one width."""

    def __init__(self, summary: Summary, width: int, unicode: bool) -> None:
        self.summary = summary
        self.width = width
        self.unicode = unicode

    def lines(self) -> Iterator[str]:
        yield from self._head()
        if self.summary.rows:
            yield from self._over_time()
            yield from self._rows()
        if self.summary.unmapped:
            yield from self._unmapped()
        if self.summary.loops:
            yield from self._loops()
        if self.summary.slowest:
            yield from self._slowest()
        yield from self._left_out()

    def _head(self) -> Iterator[str]:
        for line in headline(self.summary):
            yield self.cut(line, self.width)

    def _over_time(self) -> Iterator[str]:
        values = columns(self.summary, self.summary.buckets, self.width - 2)
        if not values:
            return
        each = span_of(self.summary, len(values))
        yield ""
        yield f"Over time, a column is {each}, the highest {max(values):,}"
        yield "  " + sparkline(values, unicode=self.unicode)

    def _rows(self) -> Iterator[str]:
        yield ""
        yield "By tool and code"
        marks = 12 if self.width >= 96 else 0  # a narrow terminal has no room for them
        rest = self.width - 2 - 9 - marks - 2 * bool(marks) - 34
        gap = "  " if marks else ""
        head = f"{gap}{'over time':<{marks}}" if marks else ""
        shown = self.summary.rows[:_TOP]
        names = self._names(((row.tool, row.code) for row in shown), rest)
        yield f"  {next(names)}{'count':>9}{head}  latest request id"
        for row in shown:
            over = sparkline(columns(self.summary, row.buckets, marks), unicode=self.unicode) if marks else ""
            yield f"  {next(names)}{row.count:>9,}{gap}{over:<{marks}}  {self.cut(row.request_id, 32)}"
        yield from self._more(len(self.summary.rows) - _TOP, "pair")

    def _unmapped(self) -> Iterator[str]:
        yield ""
        yield f"Crashes without an entry in the map: {self.summary.unmapped_count:,}"
        for crash in self.summary.unmapped[:_TOP]:
            yield self.cut(f"  {crash.type or '(no type)'}", self.width)
            yield self.cut(f"    {crash.count:,} x in {names_of(crash)}", self.width)
            if crash.place:
                yield self.cut(f"    {crash.place}", self.width)
            if crash.request_id:
                yield self.cut(f"    iserror trace {crash.request_id}", self.width)
            if crash.line:
                yield f"    {crash.line}"
            if crash.advice:
                yield from self._wrapped(crash.advice, "    ")
        yield from self._more(len(self.summary.unmapped) - _TOP, "type")

    def _loops(self) -> Iterator[str]:
        yield ""
        yield "Equal calls that failed again and again"
        shown = self.summary.loops[:_TOP]
        names = self._names(((loop.tool, loop.code) for loop in shown), self.width - 2 - 8 - 7 - 10 - 34)
        yield f"  {next(names)}{'count':>8}{'burst':>7}{'sessions':>10}  latest request id"
        for loop in shown:
            numbers = f"{loop.count:>8,}{loop.burst:>7,}{sessions_of(loop) or '-':>10}"
            yield f"  {next(names)}{numbers}  {self.cut(loop.request_id, 32)}"
        yield from self._more(len(self.summary.loops) + self.summary.loops_left_out - _TOP, "call")

    def _slowest(self) -> Iterator[str]:
        yield ""
        yield "Slowest failures"
        shown = self.summary.slowest
        names = self._names(((slow.tool, slow.code) for slow in shown), self.width - 2 - 14 - 34)
        yield f"  {next(names)}{'ms':>14}  request id"
        for slow in shown:
            took = f"{slow.duration_ms:,.0f}"[-14:]
            yield f"  {next(names)}{took:>14}  {self.cut(slow.request_id, 32)}"

    def _left_out(self) -> Iterator[str]:
        said = list(left_out(self.summary))
        if said:
            yield ""
        for line in said:
            yield from self._wrapped(line, "")

    def _more(self, count: int, what: str) -> Iterator[str]:
        if count > 0:
            yield f"  and {_count(count, f'more {what}')}: --json has more"

    def _names(self, pairs: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
        """Tools and codes side by side, their heads first, each column as wide as it needs while there is room."""
        table = [("tool", "code"), *((tool or "(none)", code or "(none)") for tool, code in pairs)]
        tools = max(columns_of(self.cut(tool, width)) for tool, _ in table)
        codes = max(columns_of(self.cut(code, width)) for _, code in table)
        left = min(tools, max(width // 2, width - 1 - codes))
        right = min(codes, width - 1 - left)
        for tool, code in table:
            yield f"{self.cell(tool, left)} {self.cell(code, right)}"

    def _wrapped(self, text: str, indent: str) -> Iterator[str]:
        """A text of ours on as many lines as it needs."""
        line = indent
        for word in text.split():
            if len(line) + len(word) > self.width and line != indent:
                yield line
                line = indent
            line += f"{word} "
        yield line

    def cell(self, text: str, width: int) -> str:
        """A text cut and filled up to a width."""
        shown = self.cut(text, width)
        return shown + " " * (width - columns_of(shown))

    def cut(self, text: str, width: int) -> str:
        """A text as it may be printed, cut to a width."""
        shown = printable(text)
        if not self.unicode:
            shown = shown.encode("ascii", "backslashreplace").decode()
        if columns_of(shown) <= width:
            return shown
        mark = "…" if self.unicode else "~"
        while columns_of(shown) > width - 1:
            shown = shown[: min(len(shown) - 1, width - 1)]
        return shown + mark


def columns_of(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def headline(summary: Summary) -> Iterator[str]:
    """The period and the totals in plain words."""
    if summary.first is None or summary.last is None:
        yield _count(summary.records, "record")
    else:
        period = f"{clock(summary.first)} to {clock(summary.last)} UTC"
        yield f"{period}, {_count(summary.records, 'record')}"
    said = [
        _count(summary.failures, "failure"),
        _count(summary.protocol_errors, "protocol error"),
        f"{summary.cancelled:,} cancelled",
    ]
    if summary.returned_errors:
        said.append(_count(summary.returned_errors, "returned error"))
    yield f"{', '.join(said)}; {_count(summary.other, 'other line')}"
    if summary.handled:
        how = ", ".join(f"{count:,} {name}" for name, count in summary.handled)
        yield f"not seen by clients, and counted nowhere else: {how}"
    if summary.undated:
        yield f"{_count(summary.undated, 'failure')} without a time: in the counts, not in the charts"


def left_out(summary: Summary) -> Iterator[str]:
    """What the summary does not show because there was too much of it; nothing where it shows all."""
    for forgotten, what in (
        (summary.forgotten_rows, "pair of tool and code"),
        (summary.forgotten_types, "exception type"),
        (summary.forgotten_calls, "call"),
    ):
        if forgotten.keys:
            keys = _count(forgotten.keys, what)
            yield (
                f"Too many to keep: {keys} with the fewest failures ({forgotten.failures:,} in all) were left out, and "
                "what came again was counted anew."
            )
    if summary.loops_left_out:
        yield f"{_count(summary.loops_left_out, 'loop')} with the fewest failures left out."


def clock(when: float) -> str:
    """A Unix time to the minute, UTC."""
    return (_EPOCH + timedelta(seconds=when)).isoformat(sep=" ")[:16]


def moment_text(when: float) -> str:
    """A Unix time to the second, UTC, as plotly reads it."""
    return (_EPOCH + timedelta(seconds=min(when, _LAST_MOMENT))).isoformat(sep=" ")[:19]


def span_of(summary: Summary, count: int) -> str:
    """How much time one of `count` columns covers."""
    if summary.first is None or summary.last is None:
        return ""
    width = summary.bucket_seconds
    span = int(summary.last // width) - int(summary.first // width) + 1
    return length_of(width * -(-span // max(1, count)))


def length_of(seconds: int) -> str:
    """A length of time in words, exact in its largest unit that divides it."""
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds % unit == 0:
            return _count(seconds // unit, name)
    return _count(seconds, "second")


def names_of(crash: Crash) -> str:
    """The tools that crashed, the first few by name."""
    names = [tool or "(none)" for tool in crash.tools[:_SHOWN_TOOLS]]
    more = len(crash.tools) - len(names)
    if more:
        names.append(f"{more}{'+' if crash.more_tools else ''} more")
    return ", ".join(names)


def sessions_of(loop: Loop) -> str:
    """The number of sessions as shown; empty where the log has none."""
    return f"{loop.sessions}{'+' if loop.more_sessions else ''}" if loop.sessions else ""


def _count(number: int, noun: str) -> str:
    plural = noun if number == 1 else noun.replace("pair of", "pairs of") if " of " in noun else f"{noun}s"
    return f"{number:,} {plural}"
