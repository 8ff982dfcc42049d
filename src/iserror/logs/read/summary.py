"""The summary of a log: what its failures say about how usable the tools are.

It is made in one pass and in bounded memory, of records that may hold anything: other programs write to logs
too, and what callers sent stands in them.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, Generic, TypeVar

from iserror.logs.read.entry import HOST_ERRORS, MAX_TEXT, SEVERAL, entry
from iserror.logs.record import Record

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

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
LAST_MOMENT: Final = 253_402_300_799.0  # the year 9999's end


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
    """The packs that would cover further crashes, and how many."""
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
            seconds = (when - EPOCH).total_seconds()
        except (ValueError, OverflowError):
            return None
    else:
        number = _number(value)
        if number is None:
            return None
        seconds = number
    return seconds if 0 <= seconds <= LAST_MOMENT else None


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
        # Only lines of the library's own have a version; what others log may look like one.
        event = record.get("event") if "schema_version" in record else None
        if event == "tool_failed":
            handled = record.get("handled")
            if handled:
                known = isinstance(handled, str) and handled in ("retried", "recovered", "cancelled")
                self.handled[str(handled) if known else "otherwise"] += 1
                return
            self.counts["failures"] += 1
            self._crash(record, when)
        elif event == "item_failed":
            # One call may have thousands, and did not fail itself: they are counted apart. A gap in the map is one.
            self.counts["item_failures"] += 1
            self._crash(record, when)
            return
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
        # A repeat of a call with an idempotency key crashed nowhere: its first call did.
        again = "first_request_id" in record
        if record.get("mapped") is not False or record.get("code") != "INTERNAL_ERROR" or again:
            return
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
        packs: Counter[str] = Counter()
        unknown = []
        for kind, crash in self.types.ranked():
            if pack := _pack_of(kind):
                packs[pack] += crash.count
            else:
                unknown.append((kind, crash))
        unmapped = list(_unmapped(unknown, rows))
        return Summary(
            records=self.turn,
            failures=self.counts["failures"],
            protocol_errors=self.counts["protocol_errors"],
            cancelled=self.counts["tool_cancelled"],
            returned_errors=self.counts["error_returned"],
            item_failures=self.counts["item_failures"],
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
            packs=tuple(packs.most_common()),
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

_FOREIGN: Final = re.compile(r"[\\/](site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]|\A<", re.IGNORECASE)
_MAX_LEAVES: Final = 100


def _crashed(chain: object) -> tuple[str, str]:
    """The exception type that an entry would have to name, and where it was raised; empty where unknown."""
    items = [item for item in chain if isinstance(item, dict)] if isinstance(chain, list) else []
    if not items:
        return "", ""
    item = items[0]
    for following in items[1:]:
        if _type_of(item) not in HOST_ERRORS:
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


def _pack_of(kind: str) -> str:
    """The pack that knows an exception class by its name; empty if none does."""
    if not kind or kind == SEVERAL:
        return ""
    from iserror import packs  # they need pydantic, and most logs have no such crash

    return packs.named_by(kind if "." in kind else f"builtins.{kind}")


def _unmapped(ranked: Sequence[tuple[str, _Type]], rows: Iterable[Row]) -> Iterator[Crash]:
    """The crashes by type; the lines of all can be added to one map, beside the codes that the log has."""
    taken = {(row.code, row.category) for row in rows}
    for kind, crash in ranked:
        line, advice = entry(kind, taken)
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
