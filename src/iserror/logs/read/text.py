"""A summary as JSON, and as text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from iserror.logs.read.figures import DAY, EPOCH, HOUR, LAST_MOMENT, MINUTE, Crash, Loop, Summary, Uncoded
from iserror.logs.record import printable

# --- as JSON --------------------------------------------------------------------------------------------------


def to_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as plain values for JSON. `docs/report.md` documents the keys."""
    return {
        "schema_version": 1,
        "period": {"first": _stamp(summary.first), "last": _stamp(summary.last)},
        "records": summary.records,
        "failures": summary.failures,
        "protocol_errors": summary.protocol_errors,
        "cancelled": summary.cancelled,
        "returned_errors": summary.returned_errors,
        "item_failures": summary.item_failures,
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
        "uncoded_count": summary.uncoded_count,
        "uncoded": [
            {
                "code": each.code,
                "as_success": each.as_success,
                "type": each.type or None,
                "cause": each.cause or None,
                "pattern": each.pattern,
                "count": each.count,
                "first": _stamp(each.first),
                "last": _stamp(each.last),
                "tools": list(each.tools),
                "more_tools": each.more_tools,
                "request_id": each.request_id,
                "line": each.line or None,
                "advice": each.advice or None,
            }
            for each in summary.uncoded
        ],
        "packs": [{"pack": pack, "count": count} for pack, count in summary.packs],
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
            "uncoded": vars(summary.forgotten_texts).copy(),
        },
    }


def _stamp(when: float | None) -> str | None:
    return None if when is None else (EPOCH + timedelta(seconds=when)).isoformat(timespec="milliseconds")[:-6] + "Z"


def _json_buckets(buckets: Iterable[tuple[int, int]]) -> list[list[Any]]:
    return [[_stamp(start), count] for start, count in buckets]


# --- as text --------------------------------------------------------------------------------------------------

_BARS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = " .:-=+*#@"
_TOP: Final = 15
_SHOWN_TOOLS: Final = 4
MIN_WIDTH: Final = 80


def sparkline(values: Sequence[int], *, unicode: bool = True) -> str:
    """Return one character per value, the higher the more; a space only for zero."""
    bars = _BARS if unicode else _ASCII_BARS
    most = max(values, default=0)
    return "".join(bars[-(-value * (len(bars) - 1) // most)] if value > 0 else bars[0] for value in values)


def columns(summary: Summary, buckets: Iterable[tuple[int, int]], count: int) -> list[int]:
    """Return the counts over the whole period in up to `count` equal columns."""
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
    """Yield the summary for a terminal, line by line. Only lines to be pasted are wider than `width` (at least 80).

    Nothing in a record can drive the terminal: unprintable characters show as escapes.
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
        if self.summary.packs:
            yield from self._packs()
        if self.summary.uncoded:
            yield from self._uncoded()
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

    def _uncoded(self) -> Iterator[str]:
        yield ""
        yield f"Failures in an author's words, without a code of their own: {self.summary.uncoded_count:,}"
        for each in self.summary.uncoded[:_TOP]:
            yield self.cut(f"  {each.pattern or '(no text)'}", self.width)
            yield self.cut(f"    {each.count:,} x {told_as(each)} in {names_of(each)}", self.width)
            if each.request_id:
                yield self.cut(f"    iserror trace {each.request_id}", self.width)
            if each.line:
                yield f"    {each.line}"
            if each.advice:
                yield from self._wrapped(each.advice, "    ")
        yield from self._more(len(self.summary.uncoded) - _TOP, "text")

    def _packs(self) -> Iterator[str]:
        yield ""
        yield f"Crashes that a pack knows: {sum(count for _, count in self.summary.packs):,}"
        for pack, count in self.summary.packs:
            yield f"  {count:>9,}  errors.include(iserror.packs.{pack})"

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
        """Yield a text of ours on as many lines as it needs."""
        line = indent
        for word in text.split():
            if len(line) + len(word) > self.width and line != indent:
                yield line
                line = indent
            line += f"{word} "
        yield line

    def cell(self, text: str, width: int) -> str:
        """Return a text cut and filled up to a width."""
        shown = self.cut(text, width)
        return shown + " " * (width - columns_of(shown))

    def cut(self, text: str, width: int) -> str:
        """Return a text in printable form, cut to a width."""
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
    """Return how many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def headline(summary: Summary) -> Iterator[str]:
    """Yield the period and the totals in plain words."""
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
    if summary.item_failures:
        said.append(_count(summary.item_failures, "failed item"))
    yield f"{', '.join(said)}; {_count(summary.other, 'other line')}"
    if summary.handled:
        how = ", ".join(f"{count:,} {name}" for name, count in summary.handled)
        yield f"not seen by clients, and counted nowhere else: {how}"
    if summary.undated:
        yield f"{_count(summary.undated, 'failure')} without a time: in the counts, not in the charts"


def left_out(summary: Summary) -> Iterator[str]:
    """Yield what the summary leaves out because there was too much of it."""
    for forgotten, what in (
        (summary.forgotten_rows, "pair of tool and code"),
        (summary.forgotten_texts, "text"),
        (summary.forgotten_types, "exception type"),
        (summary.forgotten_calls, "call"),
    ):
        if forgotten.keys:
            keys = _count(forgotten.keys, what)
            yield (
                f"Too many to keep: {keys} with the fewest failures ({forgotten.failures:,} in all) were left out, and "
                "their later failures were counted from zero."
            )
    if summary.loops_left_out:
        yield f"{_count(summary.loops_left_out, 'loop')} with the fewest failures left out."


def clock(when: float) -> str:
    """Return a Unix time to the minute, UTC."""
    return (EPOCH + timedelta(seconds=when)).isoformat(sep=" ")[:16]


def moment_text(when: float) -> str:
    """Return a Unix time to the second, UTC, for plotly."""
    return (EPOCH + timedelta(seconds=min(when, LAST_MOMENT))).isoformat(sep=" ")[:19]


def span_of(summary: Summary, count: int) -> str:
    """Return how much time one of `count` columns covers."""
    if summary.first is None or summary.last is None:
        return ""
    width = summary.bucket_seconds
    span = int(summary.last // width) - int(summary.first // width) + 1
    return length_of(width * -(-span // max(1, count)))


def length_of(seconds: int) -> str:
    """Return a length of time in words, in its largest unit that divides it."""
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds % unit == 0:
            return _count(seconds // unit, name)
    return _count(seconds, "second")


def told_as(each: Uncoded) -> str:
    """Return how a failure without a code of its own was told, and what led to it."""
    if each.as_success:
        return "returned as a success"
    return each.code + (f" from {each.cause}" if each.cause else "")


def names_of(crash: Crash | Uncoded) -> str:
    """Return the tools that failed so, the first few by name."""
    names = [tool or "(none)" for tool in crash.tools[:_SHOWN_TOOLS]]
    more = len(crash.tools) - len(names)
    if more:
        names.append(f"{more}{'+' if crash.more_tools else ''} more")
    return ", ".join(names)


def sessions_of(loop: Loop) -> str:
    """Return the number of sessions for display, or an empty text if the log names none."""
    return f"{loop.sessions}{'+' if loop.more_sessions else ''}" if loop.sessions else ""


def _count(number: int, noun: str) -> str:
    plural = noun if number == 1 else noun.replace("pair of", "pairs of") if " of " in noun else f"{noun}s"
    return f"{number:,} {plural}"
