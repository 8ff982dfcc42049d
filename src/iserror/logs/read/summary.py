"""The summary of a log: how usable the tools are, by their failures.

It is made in one pass and in bounded memory. Records may hold anything: other programs write to logs too, and records
hold what callers sent.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from iserror.logs.read.counting import KEEP_SESSIONS, Pair, Repeated, Table, TypeCount
from iserror.logs.read.crashes import crashed, pack_of
from iserror.logs.read.figures import WIDTHS, Crash, Loop, Row, Slow, Summary, Uncoded
from iserror.logs.read.suggestion import suggested_entry
from iserror.logs.read.uncoded import UNCODED, Key, key_of, remedy_of
from iserror.logs.read.values import MAX_TEXT, moment, number, text
from iserror.logs.record import Record

KEEP_ROWS: Final = 500
KEEP_TYPES: Final = 200
KEEP_CALLS: Final = 5_000
KEEP_TEXTS: Final = 300
KEEP_LOOPS: Final = 100
KEEP_SLOWEST: Final = 10
KEEP_TOOLS: Final = 10

MIN_BURST: Final = 3
"""Equal failures in a row that make a loop: one retry may be sensible."""

MAX_BUCKETS: Final = 240
SHOWN_BUCKETS: Final = 120


def summarize(records: Iterable[Record]) -> Summary:
    """Read the records once, in any order, and count what failed, when and where it kept failing.

    Memory is bounded. If there are too many (tool, code) pairs, exception types or calls, those with the fewest
    failures are dropped, of equal ones those that were not seen for longest. The counts of the others are then lower
    bounds, and `forgotten_...` has the number of dropped ones.
    """
    tally = _Tally()
    for record in records:
        tally.add(record)
    return tally.summary()


class _Tally:
    """All counts of one pass over the records."""

    def __init__(self) -> None:
        self.turn = 0
        self.counts: Counter[str] = Counter()
        self.handled: Counter[str] = Counter()
        self.first: float | None = None
        self.last: float | None = None
        self.level = 0
        self.buckets: dict[int, int] = {}
        self.pairs = Table(Pair, KEEP_ROWS)
        self.types = Table(TypeCount, KEEP_TYPES)
        self.calls = Table(Repeated, KEEP_CALLS)
        self.texts = Table(TypeCount, KEEP_TEXTS)
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
        # Only the library's lines have a version; other lines may look like one.
        event = record.get("event") if "schema_version" in record else None
        if event == "tool_failed":
            handled = record.get("handled")
            if handled:
                known = isinstance(handled, str) and handled in ("retried", "recovered", "cancelled")
                self.handled[str(handled) if known else "otherwise"] += 1
                return
            self.counts["failures"] += 1
            self._crash(record, when)
            if text(record.get("code")) in UNCODED and "first_request_id" not in record:
                self._uncoded(key_of(record), record, when)
        elif event == "item_failed":
            # A call may have thousands, and did not fail itself: count them apart. A gap in the map still is one.
            self.counts["item_failures"] += 1
            self._crash(record, when)
            return
        elif event == "protocol_error":
            self.counts["protocol_errors"] += 1
        else:
            if event == "error_returned":
                self._uncoded(key_of(record, as_success=True), record, when)
            known = event == "tool_cancelled" or event == "error_returned"
            self.counts[str(event) if known else "other"] += 1
            return
        self._failure(record, when)

    def _failure(self, record: Record, when: float | None) -> None:
        tool, code = text(record.get("tool")), text(record.get("code"))
        pair = self.pairs.of((tool, code))
        if pair.see(self.turn, when, record):
            pair.category = text(record.get("category"))
        if when is None:
            self.counts["undated"] += 1
        else:
            self._bucket(pair, when)
        fingerprint = record.get("fingerprint")
        if isinstance(fingerprint, str) and fingerprint:
            call = self.calls.of((tool, code, fingerprint[:MAX_TEXT]))
            call.see(self.turn, when, record)
            call.repeat(when, record.get("session_id"))
        took = number(record.get("duration_ms"))
        if took is not None and took >= 0 and (len(self.slowest) < KEEP_SLOWEST or took > self.slowest[0][0]):
            slow = Slow(tool, code, took, when, text(record.get("request_id")))
            keep = heapq.heappush if len(self.slowest) < KEEP_SLOWEST else heapq.heappushpop
            keep(self.slowest, (took, -self.turn, slow))

    def _bucket(self, pair: Pair, when: float) -> None:
        bucket = int(when // WIDTHS[self.level])
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        pair.buckets[bucket] = pair.buckets.get(bucket, 0) + 1
        while len(self.buckets) > MAX_BUCKETS:
            self._coarsen()

    def _coarsen(self) -> None:
        factor = WIDTHS[self.level + 1] // WIDTHS[self.level]
        self.level += 1
        self.buckets = _merged(self.buckets, factor)
        for pair in self.pairs.counts.values():
            pair.buckets = _merged(pair.buckets, factor)

    def _crash(self, record: Record, when: float | None) -> None:
        # A retry with an idempotency key did not crash: the first call did.
        again = "first_request_id" in record
        if record.get("mapped") is not False or record.get("code") != "INTERNAL_ERROR" or again:
            return
        kind, place = crashed(record.get("exception"))
        crash = self.types.of(kind)
        if crash.see(self.turn, when, record):
            crash.place = place
        _note_tool(crash, record)

    def _uncoded(self, key: Key, record: Record, when: float | None) -> None:
        counted = self.texts.of(key)
        counted.see(self.turn, when, record)
        _note_tool(counted, record)

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
            if pack := pack_of(kind):
                packs[pack] += crash.count
            else:
                unknown.append((kind, crash))
        unmapped = list(_unmapped(unknown, rows))
        uncoded = list(_uncoded(self.texts.ranked(), rows))
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
            uncoded=tuple(uncoded),
            uncoded_count=sum(each.count for each in uncoded) + self.texts.failures,
            loops=tuple(loops[:KEEP_LOOPS]),
            loops_left_out=len(loops[KEEP_LOOPS:]),
            slowest=tuple(slow for _, _, slow in slowest),
            forgotten_rows=self.pairs.forgotten(),
            forgotten_types=self.types.forgotten(),
            forgotten_calls=self.calls.forgotten(),
            forgotten_texts=self.texts.forgotten(),
        )

    def _span(self) -> float:
        """Return how many buckets the period has, empty ones too."""
        if self.first is None or self.last is None:
            return 0
        return self.last // WIDTHS[self.level] - self.first // WIDTHS[self.level] + 1


def _note_tool(counted: TypeCount, record: Record) -> None:
    tool = text(record.get("tool"))
    if tool not in counted.tools:
        if len(counted.tools) < KEEP_TOOLS:
            counted.tools.append(tool)
        else:
            counted.more_tools = True


def _uncoded(ranked: Sequence[tuple[Key, TypeCount]], rows: Iterable[Row]) -> Iterator[Uncoded]:
    taken = {(row.code, row.category) for row in rows}
    for key, counted in ranked:
        line, advice = remedy_of(key, taken)
        yield Uncoded(
            *key,
            count=counted.count,
            first=counted.first,
            last=counted.last,
            tools=tuple(counted.tools),
            more_tools=counted.more_tools,
            request_id=counted.request_id,
            line=line,
            advice=advice,
        )


def _merged(buckets: dict[int, int], factor: int) -> dict[int, int]:
    merged: dict[int, int] = {}
    for bucket, count in buckets.items():
        merged[bucket // factor] = merged.get(bucket // factor, 0) + count
    return merged


def _starts(buckets: dict[int, int], width: int) -> tuple[tuple[int, int], ...]:
    return tuple((bucket * width, count) for bucket, count in sorted(buckets.items()))


def _row(key: tuple[str, str], pair: Pair, width: int) -> Row:
    tool, code = key
    buckets = _starts(pair.buckets, width)
    return Row(tool, code, pair.category, pair.count, pair.first, pair.last, pair.request_id, buckets)


def _loop(key: tuple[str, str, str], call: Repeated) -> Loop:
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


def _unmapped(ranked: Sequence[tuple[str, TypeCount]], rows: Iterable[Row]) -> Iterator[Crash]:
    """Yield the crashes by type. All lines fit into one map, together with the codes that the log has."""
    taken = {(row.code, row.category) for row in rows}
    for kind, crash in ranked:
        line, advice = suggested_entry(kind, taken)
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
