"""`iserror report`: what the failures in a log say, in bounded memory, as text, JSON and a page, safe to look at."""

from __future__ import annotations

import builtins
import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from iserror import ErrorMap
from iserror.errors.vocabulary import BUILT_IN
from iserror.logs.read import page, suggestion, summary
from iserror.logs.read import text as summary_text
from iserror.logs.read.figures import Forgotten, Summary
from iserror.logs.read.page import to_html
from iserror.logs.read.summary import summarize
from iserror.logs.read.text import columns, sparkline, to_json, to_text
from iserror.logs.read.values import moment
from tests.helpers.log_files import scaled

pytestmark = [pytest.mark.hostless, pytest.mark.newest]

BASE = 1_767_323_045  # 2026-01-02T03:04:05Z
DAY = 86_400


def stamp(seconds: float) -> str:
    """A Unix time as the log writes it."""
    return summary_text.moment_text(seconds).replace(" ", "T") + ".000000Z"


def failed(seconds: float = 0, **more: Any) -> dict[str, Any]:
    """A record of a failure, this long after the base."""
    return {
        "timestamp": stamp(BASE + seconds),
        "level": "warning",
        "event": "tool_failed",
        "schema_version": 1,
        "tool": "pay",
        "request_id": f"{int(seconds):032x}",
        "code": "INVOICE_NOT_FOUND",
        "category": "not_found",
        "mapped": True,
        "duration_ms": 1.5,
        **more,
    }


def crashed(kind: object, seconds: float = 0, **more: Any) -> dict[str, Any]:
    """A record of a crash by an exception that has no entry."""
    chain = [{"type": kind, "message": "secret words", "frames": []}]
    crash = {"level": "error", "code": "INTERNAL_ERROR", "category": "internal", "mapped": False, "exception": chain}
    return failed(seconds, **{**crash, **more})


def text(summed: Summary, width: int = 100, *, unicode: bool = True) -> str:
    return "\n".join(to_text(summed, width, unicode=unicode))


# --- counting ----------------------------------------------------------------------------------------------


def test_totals() -> None:
    """Each kind of line is counted once, and what clients did not see is counted apart."""
    records: list[Any] = [
        failed(0),
        failed(60, code="TIMEOUT"),
        failed(30, handled="retried"),
        failed(31, handled="retried"),
        failed(32, handled="recovered", code="ONLY_HANDLED"),
        failed(33, handled=["odd"]),
        {**failed(90), "event": "protocol_error", "code": "UNKNOWN_TOOL", "tool": "pya"},
        {**failed(91), "event": "tool_cancelled"},
        {**failed(92), "event": "error_returned"},
        {**failed(93), "event": "item_failed"},
        {**crashed("a.Gone", 94), "event": "item_failed"},
        {"event": "cache filled", "timestamp": stamp(BASE + 120)},
        {},
        None,
        7,
        "text",
        [],
    ]
    summed = summarize(records)
    assert (summed.records, summed.failures, summed.protocol_errors) == (17, 2, 1)
    assert (summed.item_failures, [crash.type for crash in summed.unmapped]) == (2, ["a.Gone"])
    assert (summed.cancelled, summed.returned_errors, summed.other, summed.undated) == (1, 1, 6, 0)
    assert summed.handled == (("otherwise", 1), ("recovered", 1), ("retried", 2))
    assert (summed.first, summed.last) == (BASE, BASE + 120)
    assert {(row.tool, row.code): row.count for row in summed.rows} == {
        ("pay", "INVOICE_NOT_FOUND"): 1,
        ("pay", "TIMEOUT"): 1,
        ("pya", "UNKNOWN_TOOL"): 1,
    }
    assert "ONLY_HANDLED" not in text(summed)


def test_rows() -> None:
    """A row has its first and last time and the latest example, in whatever order the records come."""
    seconds = (200, 7_300, 100, 300)
    summed = summarize(failed(at) for at in seconds)
    (row,) = summed.rows
    assert (row.tool, row.code, row.category, row.count) == ("pay", "INVOICE_NOT_FOUND", "not_found", 4)
    assert (row.first, row.last, row.request_id) == (BASE + 100, BASE + 7_300, f"{7_300:032x}")


def test_rows_are_ranked() -> None:
    """The most frequent pair comes first, equal ones by name."""
    summed = summarize([failed(tool="b"), failed(tool="c"), failed(tool="c"), failed(tool="a")])
    assert [row.tool for row in summed.rows] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("days", "width"), [(0.05, 60), (0.3, 300), (1, 900), (4, 3_600), (10, 10_800), (55, 43_200), (400, 604_800)]
)
def test_buckets(days: float, width: int) -> None:
    """Buckets are as wide as the period needs, and coarsening loses and moves nothing."""
    times = [BASE + days * DAY * step / 999 for step in range(1_000)]
    summed = summarize(failed(at - BASE, timestamp=at) for at in times)
    assert summed.bucket_seconds == width
    wanted: dict[int, int] = {}
    for at in times:
        wanted[int(at // width) * width] = wanted.get(int(at // width) * width, 0) + 1
    assert dict(summed.buckets) == wanted
    assert dict(summed.rows[0].buckets) == wanted
    assert len(wanted) <= summary.SHOWN_BUCKETS


def test_a_clock_that_is_wrong() -> None:
    """Times thousands of years apart make wide buckets, no error and no long list."""
    summed = summarize([failed(), failed(timestamp=0), failed(timestamp="9999-12-31T23:59:59.999999Z"), failed()])
    assert sum(count for _, count in summed.buckets) == 3  # the year 9999's last second is past the end
    assert summarize([failed(timestamp="9999-12-31T23:59:58Z")]).failures == 1
    assert len(columns(summed, summed.buckets, 50)) <= 50
    assert text(summed)
    charts = page._charts(summarize([failed(timestamp="9999-12-31T23:59:58Z")]))
    assert charts["time"]["layout"]["xaxis"]["range"] == ["9999-12-31 23:59:00", "9999-12-31 23:59:59"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2026-01-02T03:04:05.000000Z", BASE),
        ("2026-01-02T04:04:05+01:00", BASE),
        ("2026-01-02T03:04:05", BASE),
        ("2026-01-02 03:04:05.500z", BASE + 0.5),
        (BASE, BASE),
        (BASE + 0.25, BASE + 0.25),
        ("", None),
        ("yesterday", None),
        ("1969-12-31T23:59:59Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
        (math.nan, None),
        (math.inf, None),
        (10**5000, None),
        (-1, None),
        (True, None),
        (None, None),
        ([], None),
        ({"a": 1}, None),
    ],
    ids=lambda value: type(value).__name__,  # a number of 5,000 digits cannot be shown
)
def test_moment(value: object, wanted: float | None) -> None:
    """A time is read from what loggers write; anything else is no time."""
    assert moment({"timestamp": value}) == wanted


def test_undated() -> None:
    """A failure without a time counts, and is said to be missing from the charts."""
    summed = summarize([failed(timestamp=None), failed()])
    assert (summed.failures, summed.undated, summed.rows[0].count) == (2, 1, 2)
    assert sum(count for _, count in summed.buckets) == 1
    assert "1 failure without a time" in text(summed)


# --- loops and slow ones ---------------------------------------------------------------------------------------


def test_loops() -> None:
    """Three equal failures in a burst are a loop; two, or three that are hours apart, or other arguments, are not."""
    records = [
        *(
            failed(at, tool="loop", fingerprint="a", session_id=f"s{at // 10 % 2}")
            for at in (0, 10, 20, 30, 40_000, 40_010)
        ),
        *(failed(at, tool="twice", fingerprint="b") for at in (0, 10)),
        *(failed(at, tool="daily", fingerprint="c") for at in (0, DAY, 2 * DAY)),
        *(failed(at, tool="other", fingerprint=f"d{at}") for at in range(9)),
        *(failed(at, tool="codes", fingerprint="e", code=f"CODE_{at}") for at in range(9)),
        *(failed(at, tool="unknown", fingerprint=None) for at in range(9)),
    ]
    (loop,) = summarize(records).loops
    assert (loop.tool, loop.fingerprint, loop.count, loop.burst, loop.sessions) == ("loop", "a", 6, 4, 2)
    assert (loop.first, loop.last, loop.request_id) == (BASE, BASE + 40_010, f"{40_010:032x}")


def test_sessions_are_bounded() -> None:
    """The sessions of a loop are counted up to a limit, and said to be more."""
    (loop,) = summarize(failed(at, fingerprint="a", session_id=f"s{at}") for at in range(100)).loops
    assert (loop.sessions, loop.more_sessions) == (summary.KEEP_SESSIONS, True)
    assert f"{summary.KEEP_SESSIONS}+" in text(
        summarize(failed(n, fingerprint="a", session_id=f"{n}") for n in range(50))
    )


def test_slowest() -> None:
    """The ten slowest failures, slowest first; what is no duration is none."""
    odd: list[Any] = [math.nan, math.inf, -5, True, None, "9", [], 10**5000, 1e300]
    records = [failed(n, duration_ms=n) for n in range(100)] + [failed(duration_ms=value) for value in odd]
    summed = summarize(records)
    assert [slow.duration_ms for slow in summed.slowest] == [float(n) for n in range(99, 89, -1)]
    assert summed.slowest[0].request_id == f"{99:032x}"
    assert summed.failures == 109


# --- bounds ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    """Failures without end, all of them different, take a few megabytes; what was left out is said."""
    total = 10 * summary.KEEP_CALLS + scaled(150_000)  # each table has forgotten all of its first, several times
    sizes: list[int] = []
    tally = summary._Tally()

    def go_on(start: int, stop: int) -> None:
        for n in range(start, stop):
            tally.add(crashed(f"a.E{n}", n, tool=f"t{n}", fingerprint=f"{n:x}", session_id=f"{n}"))
            if n % 100 == 99:
                sizes.extend((len(tally.pairs.counts), len(tally.types.counts), len(tally.calls.counts)))

    go_on(0, total - 15_000)
    tracemalloc.start()  # it is slow, and all that is kept changes in what is left
    go_on(total - 15_000, total)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(sizes[0::3]) <= 2 * summary.KEEP_ROWS
    assert max(sizes[1::3]) <= 2 * summary.KEEP_TYPES
    assert max(sizes[2::3]) <= 2 * summary.KEEP_CALLS
    assert peak < 15_000_000
    summed = tally.summary()
    assert summed.failures == summed.unmapped_count == total
    assert summed.forgotten_rows.failures + sum(row.count for row in summed.rows) == total
    assert summed.forgotten_calls.keys >= total - 2 * summary.KEEP_CALLS
    assert sum(count for _, count in summed.buckets) == total
    shown = text(summed)
    for what in ("pairs of tool and code", "exception types", "calls"):
        assert re.search(rf"Too many to keep: [\d,]+ {what}", shown), what
    assert len(shown.splitlines()) < 200


def test_what_matters_is_kept() -> None:
    """The frequent and the burst are found among more keys than are kept; the frequent one with its whole count."""
    records = []
    for n in range(30_000):
        records.append(failed(n, tool=f"t{n}", fingerprint=f"{n}"))
        if n % 50 == 0:
            records.append(failed(n, tool="often", fingerprint="often"))
        if n == 20_000:
            records += [failed(n, tool="burst", fingerprint="burst")] * 5
    summed = summarize(records)
    assert (summed.rows[0].tool, summed.rows[0].count) == ("often", 600)
    assert {loop.tool for loop in summed.loops} == {"often", "burst"}


def test_a_burst_outlasts_a_full_table() -> None:
    """What was seen last is not what is forgotten when all keys are as rare."""
    rare = (failed(n, fingerprint=f"{n}") for n in range(2 * summary.KEEP_CALLS - 1))
    burst = [failed(n, fingerprint="burst") for n in range(3)]
    summed = summarize([*rare, burst[0], failed(fingerprint="one too many"), *burst[1:]])
    assert [(loop.fingerprint, loop.count) for loop in summed.loops] == [("burst", 3)]
    assert summed.forgotten_calls == Forgotten(summary.KEEP_CALLS, summary.KEEP_CALLS)


def test_texts_are_cut() -> None:
    """Of a long text its beginning is kept."""
    (row,) = summarize([failed(tool="t" * 100_000, code="C" * 100_000, request_id="r" * 100_000)]).rows
    assert {len(row.tool), len(row.code), len(row.request_id)} == {suggestion.MAX_TEXT}


def test_records_are_read_once() -> None:
    """One pass over an iterator, nothing of which is kept."""
    summed = summarize(iter([failed(), failed()]))
    assert summed.failures == 2


# --- crashes without an entry ---------------------------------------------------------------------------------

KINDS = {
    "httpx.ReadTimeout": ("READ_TIMEOUT", "deadline_exceeded"),
    "TimeoutError": ("TIMEOUT_ERROR", "deadline_exceeded"),
    "requests.exceptions.Timeout": ("REQUESTS_TIMEOUT", "deadline_exceeded"),
    "ConnectionRefusedError": ("CONNECTION_REFUSED_ERROR", "unavailable"),
    "httpx.ConnectError": ("CONNECT_ERROR", "unavailable"),
    "PermissionError": ("PERMISSION_ERROR", "permission_denied"),
    "FileNotFoundError": ("FILE_NOT_FOUND_ERROR", "not_found"),
    "KeyError": ("KEY_ERROR", "not_found"),
    "shop.rooms.RoomNotFound": ("ROOM_NOT_FOUND", "not_found"),
    "ModuleNotFoundError": ("MODULE_NOT_FOUND_ERROR", "internal"),
    "shop.Outer.InnerError": ("INNER_ERROR", "internal"),
    "lib.HTTPStatusError": ("HTTP_STATUS_ERROR", "internal"),
    "lib.HTTP2Error": ("HTTP2_ERROR", "internal"),
    "psycopg2.InternalError": ("PSYCOPG2_INTERNAL_ERROR", "internal"),
    "builtins.ValueError": ("VALUE_ERROR", "internal"),
    "lib.E": ("INTERNAL_FAILURE", "internal"),
    "lib.Größe": ("GRE", "internal"),
    "lib._9_Private__Error_": ("PRIVATE_ERROR", "internal"),
    "lib." + "LongName" * 20: (("LONG_NAME_" * 20)[:64].rstrip("_"), "internal"),
    "__main__.Oops": ("OOPS", "internal"),
    "lib.Snake_case_error": ("SNAKE_CASE_ERROR", "internal"),
}
UNNAMED: list[Any] = [
    "Exception",
    "BaseException",
    "SystemExit",
    "KeyboardInterrupt",
    "asyncio.exceptions.CancelledError",
    "mcp.server.fastmcp.exceptions.ToolError",
    "shop.service.make.<locals>.Oops",
    "NoBuiltin",
    "print",
    "a..b",
    ".a",
    "a.",
    "a.b-c",
    "a.b c",
    "1a.b",
    "a.1b",
    "a.²",
    "a.b²",
    "lib.Ошибка",  # a map takes such a class, but not its name
    'a.b", code="X"); import os; ("',
    "a.b\nimport os",
    "a.b\n",
    "a.\x1b[31m",
    "a.\u202eb",
    "a.\ud800",
    "a." + "b" * 5_000,
    "",
    None,
    7,
    ["a.b"],
    {"a": "b"},
]


def lines_of(summed: Summary) -> list[str]:
    return [crash.line for crash in summed.unmapped if crash.line]


@pytest.fixture
def no_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no pack knew any of the classes."""
    monkeypatch.setattr(summary, "pack_of", lambda kind: "")


@pytest.mark.usefixtures("no_packs")
@pytest.mark.parametrize(("kind", "wanted"), KINDS.items())
def test_lines_work(kind: str, wanted: tuple[str, str]) -> None:
    """The line for an exception type is accepted by a real map, with a sensible code and category."""
    (crash,) = summarize([crashed(kind)]).unmapped
    errors = ErrorMap()
    exec(crash.line, {"errors": errors})
    ((key, entry),) = errors.entries
    plain = kind.removeprefix("builtins.")
    assert key == (getattr(builtins, plain) if "." not in plain else plain)
    assert (entry.code, entry.category) == wanted
    assert entry.retryable is (entry.category == "unavailable")
    assert "secret words" not in crash.line
    assert re.fullmatch(r"[ -~]+", crash.line)


@pytest.mark.usefixtures("no_packs")
def test_all_lines_work_together() -> None:
    """The lines of a summary can be added to one map, where several types would have one code, or one the log has."""
    kinds = [*KINDS, "a.NotFoundTimeout", "b.Rooms", "c.Rooms", "b.TIMEOUT", "c.Timeout", "Timeout.Timeout", "c.Taken"]
    records = [crashed(kind) for kind in [*kinds, *UNNAMED]]
    records.append(failed(code="TAKEN", category="aborted"))
    records.append(failed(code="C_TAKEN", category="aborted"))
    summed = summarize(records)
    errors = ErrorMap()
    for line in lines_of(summed):
        exec(line, {"errors": errors})
    assert len(errors) == len(kinds)
    codes = {entry.code for _, entry in errors.entries}
    assert "TAKEN_2" in codes
    assert codes.isdisjoint({"TAKEN", "C_TAKEN", *BUILT_IN})


def test_a_line_maps_its_exception() -> None:
    """A pasted line is found for the exception whose type the log named."""

    class RoomGone(Exception):
        pass

    RoomGone.__module__, RoomGone.__qualname__ = "shop.rooms", "RoomGone"
    errors = ErrorMap()
    exec(lines_of(summarize([crashed("shop.rooms.RoomGone")]))[0], {"errors": errors})
    entry = errors.find(RoomGone())
    assert entry is not None
    assert entry.code == "ROOM_GONE"


@pytest.mark.parametrize("kind", UNNAMED)
def test_no_line_for_what_has_no_name(kind: object) -> None:
    """What cannot be mapped by name, or is no name at all, gets advice and no line to paste."""
    (crash,) = summarize([crashed(kind)]).unmapped
    assert crash.line == ""
    assert crash.advice
    assert "errors.add(" not in text(summarize([crashed(kind)]))


def test_library_codes() -> None:
    """The codes that a suggestion must not take are the library's."""
    assert set(BUILT_IN) == suggestion.LIBRARY_CODES


def test_what_is_unmapped() -> None:
    """Only crashes of exceptions that have no entry are gaps in the map."""
    records = [
        crashed("a.B", 5, tool="x"),
        crashed("a.B", 9, tool="y"),
        crashed("a.Mapped", mapped=True),
        crashed("a.Refused", code="INVALID_ARGUMENTS"),
        crashed("a.Output", code="INVALID_OUTPUT"),
        crashed("a.Handled", handled="retried"),
        crashed("a.Unsaid", mapped=None),
        crashed("a.Repeated", first_request_id="1" * 32),
    ]
    summed = summarize(records)
    (crash,) = summed.unmapped
    assert (crash.type, crash.count, crash.tools) == ("a.B", 2, ("x", "y"))
    assert (crash.first, crash.last, crash.request_id) == (BASE + 5, BASE + 9, f"{9:032x}")
    assert summed.unmapped_count == 2


def test_what_a_pack_knows() -> None:
    """A crash that a pack knows is no gap in the map, but a pack to include, in all three forms."""
    summed = summarize([crashed("httpx.ReadTimeout"), crashed("httpx.ConnectError"), crashed("a.B"), crashed("Mine")])
    assert sorted(crash.type for crash in summed.unmapped) == ["Mine", "a.B"]
    assert (summed.packs, summed.unmapped_count) == ((("httpx", 2),), 2)
    assert to_json(summed)["packs"] == [{"pack": "httpx", "count": 2}]
    line = "errors.include(iserror.packs.httpx)"
    text = "\n".join(to_text(summed, 100, unicode=False))
    assert f"Crashes that a pack knows: 2\n          2  {line}" in text
    assert f"<pre>{line}  # 2</pre>" in to_html(summed)


def test_place() -> None:
    """The place is the innermost frame of the author's own, and the end of its path."""
    frames: list[Any] = [
        {"file": "/srv/deep/app/shop/service.py", "line": 4, "function": "make"},
        {"file": "/srv/deep/app/shop/rooms.py", "line": 7, "function": "Rooms.find"},
        {"file": "/venv/lib/python3.12/site-packages/httpx/client.py", "line": 3, "function": "send"},
        {"file": "<frozen importlib>", "line": 3, "function": "f"},
        7,
        {"file": None},
    ]
    (crash,) = summarize([crashed("a.B", exception=[{"type": "a.B", "frames": frames}])]).unmapped
    assert crash.place == "app/shop/rooms.py:7 in Rooms.find"
    (crash,) = summarize([crashed("a.B", exception=[{"type": "a.B", "frames": frames[2:]}])]).unmapped
    assert crash.place == "<frozen importlib>:3 in f"


def test_groups() -> None:
    """Of a group whose members have one type that type is named; of several, none."""
    one, two = [{"type": "a.One"}], [{"type": "a.Two"}]
    group = {"type": "ExceptionGroup", "exceptions": [one, [{"type": "ExceptionGroup", "exceptions": [one]}]]}
    (crash,) = summarize([crashed("", exception=[group])]).unmapped
    assert crash.type == "a.One"
    group["exceptions"] = [one, two]
    (crash,) = summarize([crashed("", exception=[group])]).unmapped
    assert (crash.type, crash.line) == (suggestion.SEVERAL, "")


def test_host_errors() -> None:
    """A host's own error is passed over for what it was raised for."""
    chain = [{"type": "mcp.server.mcpserver.exceptions.ToolError"}, {"type": "a.Cause", "relation": "cause"}]
    (crash,) = summarize([crashed("", exception=chain)]).unmapped
    assert crash.type == "a.Cause"


# --- hostile and odd records ----------------------------------------------------------------------------------

SCRIPT = "<script>document.title='owned'</script>"
CONTROLS = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\u202e\u200b\ud800"
HOSTILE = f"{CONTROLS}</script>{SCRIPT}<img src=x onerror=document.title='o'>&lt;%{{y}}"
ODD: list[Any] = [
    None,
    True,
    7,
    -1,
    10**5000,
    math.nan,
    math.inf,
    "",
    "x" * 100_000,
    HOSTILE,
    [],
    [HOSTILE],
    {},
    {"a": []},
]


def odd_records() -> Iterator[Any]:
    """Our keys with every kind of value in them, one at a time and all at once."""
    keys = [*crashed("a.B"), "handled", "fingerprint", "session_id"]
    for value in ODD:
        yield value
        for base in (crashed("a.B", fingerprint="f"), {**failed(), "event": "protocol_error"}):
            for key in keys:
                if key != "event":
                    yield {**base, key: value}
            yield {**base, **{key: value for key in keys if key not in ("event", "code", "mapped", "handled")}}
        yield {"event": value}
        chains = [value, [value], [{"type": value}], [{"type": "a.B", "frames": value}], [{"exceptions": value}]]
        chains += [[{"frames": [value]}], [{"frames": [{"file": value, "line": value, "function": value}]}]]
        chains += [[{"exceptions": [value]}], [{"exceptions": [[value]]}], [{"exceptions": [[{"type": value}]]}]]
        for chain in chains:
            yield crashed("", exception=chain)


def hostile_records() -> list[dict[str, Any]]:
    """Failures of every section, with hostile text wherever text may stand."""
    texts = dict.fromkeys(("tool", "request_id", "category", "fingerprint", "session_id"), HOSTILE)
    frames = [{"file": HOSTILE, "line": HOSTILE, "function": HOSTILE}]
    chain = [{"type": HOSTILE, "message": HOSTILE, "frames": frames}]
    return [
        *(failed(n, **texts, code=HOSTILE) for n in range(5)),
        *(crashed(HOSTILE, n, **texts, exception=chain) for n in range(5)),
        {**failed(3, **texts, code=HOSTILE), "event": "protocol_error"},
        *(failed(n, tool="<b>tool</b>", code="<i>code</i>") for n in range(9)),
    ]


def test_odd_values() -> None:
    """No value in a record raises, in counting, as text, as JSON or as a page's parts."""
    records = list(odd_records())
    for batch in ([record] for record in records):
        summed = summarize(batch)
        assert summed.records == 1
        json.loads(json.dumps(to_json(summed), allow_nan=False))
        list(to_text(summed))
    summed = summarize(records)
    counted = summed.failures + summed.protocol_errors + summed.other + sum(n for _, n in summed.handled)
    assert counted == summed.records == len(records)
    json.dumps(page._charts(summed), allow_nan=False)
    assert "".join(page._body(summed)).encode()


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [1, 80, 96, 100, 200])
def test_text_is_safe(unicode: bool, width: int) -> None:
    """No line drives the terminal or is wider than it, save those to paste."""
    for records in (hostile_records(), odd_records(), [crashed("lib." + "LongName" * 15), crashed("a.\u754c" * 3)]):
        lines = list(to_text(summarize(records), width, unicode=unicode))
        for line in lines:
            assert line.isprintable(), line
            assert unicode or line.isascii()
            assert line.startswith("    errors.add(") or summary_text.columns_of(line) <= max(width, 80), line
    assert any("\\x1b]0;owned" in line for line in to_text(summarize(hostile_records()), 200))


# --- the forms ------------------------------------------------------------------------------------------------


def test_sparkline() -> None:
    """Bars by height, a space for nothing only."""
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8]) == " ▁▂▃▄▅▆▇█"
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8], unicode=False) == " .:-=+*#@"
    assert sparkline([1, 1_000_000]) == "▁█"
    assert sparkline([5]) == "█"
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""


def test_columns() -> None:
    """The columns cover the whole period and lose nothing."""
    summed = summarize([failed(0), failed(60), failed(61), failed(600), {"event": "x", "timestamp": BASE + 1_140}])
    assert columns(summed, summed.buckets, 100) == [1, 2, *[0] * 8, 1, *[0] * 9]
    assert columns(summed, summed.buckets, 10) == [3, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert columns(summed, summed.buckets, 7) == [3, 0, 0, 1, 0, 0, 0]
    assert columns(summarize([]), (), 10) == []


TEXT = """\
2026-01-02 03:04 to 2026-01-02 03:07 UTC, 7 records
6 failures, 0 protocol errors, 0 cancelled; 1 other line

Over time, a column is 1 minute, the highest 4
  █▂ ▂

By tool and code
  tool code                 count  over time     latest request id
  pay  INVOICE_NOT_FOUND        4  █             00000000000000000000000000000003
  find INTERNAL_ERROR           2   █ █          000000000000000000000000000000b4

Crashes without an entry in the map: 2
  a.Gone
    1 x in find
    iserror trace 0000000000000000000000000000003c
    errors.add("a.Gone", code="GONE", category="internal", message="The tool could not complete the call.")
  make.<locals>.Oops
    1 x in find
    iserror trace 000000000000000000000000000000b4
    A class that a function makes has no name to map: define it in a module.

Equal calls that failed again and again
  tool code                count  burst  sessions  latest request id
  pay  INVOICE_NOT_FOUND       4      4         -  00000000000000000000000000000003

Slowest failures
  tool code                      ms  request id
  find INTERNAL_ERROR        12,346  000000000000000000000000000000b4
"""


def test_text() -> None:
    """The whole text of a small log."""
    records = [
        *(failed(n, fingerprint="f", duration_ms=None) for n in range(4)),
        crashed("a.Gone", 60, tool="find", duration_ms=None),
        crashed("make.<locals>.Oops", 180, tool="find", duration_ms=12_345.6),
        {"event": "x"},
    ]
    assert text(summarize(records)) + "\n" == TEXT


def test_width() -> None:
    """A wide character takes two columns, one that is put over another takes none."""
    assert [summary_text.columns_of(shown) for shown in ("ab", "\u65e5\u672c", "e\u0301", "")] == [2, 4, 1, 0]


def test_text_of_nothing() -> None:
    """An empty log is said to be empty."""
    assert list(to_text(summarize([]))) == ["0 records", "0 failures, 0 protocol errors, 0 cancelled; 0 other lines"]


def test_text_is_short() -> None:
    """A long table is cut, and says so."""
    shown = text(summarize(failed(n, tool=f"t{n}", fingerprint=f"{n % 40}") for n in range(100)))
    assert "and 85 more pairs: --json has more" in shown


def test_json() -> None:
    """The keys and values of the JSON form, as documented."""
    records = [
        *(failed(n, fingerprint="f", session_id="s") for n in range(3)),
        crashed("a.Gone", 60, tool="find", duration_ms=9.5),
        failed(61, handled="retried"),
    ]
    found = json.loads(json.dumps(to_json(summarize(records))))
    assert list(found) == [
        *("schema_version", "period", "records", "failures", "protocol_errors", "cancelled", "returned_errors"),
        *(
            "item_failures",
            "other",
            "undated",
            "handled",
            "bucket_seconds",
            "buckets",
            "by_tool_and_code",
            "unmapped_count",
        ),
        *("unmapped", "uncoded_count", "uncoded", "packs", "loops", "slowest", "left_out"),
    ]
    assert found["period"] == {"first": "2026-01-02T03:04:05.000Z", "last": "2026-01-02T03:05:06.000Z"}
    assert found["handled"] == {"retried": 1}
    assert found["buckets"] == [["2026-01-02T03:04:00.000Z", 3], ["2026-01-02T03:05:00.000Z", 1]]
    assert found["by_tool_and_code"][0] == {
        "tool": "pay",
        "code": "INVOICE_NOT_FOUND",
        "category": "not_found",
        "count": 3,
        "first": "2026-01-02T03:04:05.000Z",
        "last": "2026-01-02T03:04:07.000Z",
        "request_id": f"{2:032x}",
        "buckets": [["2026-01-02T03:04:00.000Z", 3]],
    }
    assert found["unmapped"] == [
        {
            "type": "a.Gone",
            "count": 1,
            "first": "2026-01-02T03:05:05.000Z",
            "last": "2026-01-02T03:05:05.000Z",
            "tools": ["find"],
            "more_tools": False,
            "place": "",
            "request_id": f"{60:032x}",
            "line": 'errors.add("a.Gone", code="GONE", category="internal", '
            'message="The tool could not complete the call.")',
            "advice": None,
        }
    ]
    assert found["loops"] == [
        {
            "tool": "pay",
            "code": "INVOICE_NOT_FOUND",
            "fingerprint": "f",
            "count": 3,
            "burst": 3,
            "sessions": 1,
            "more_sessions": False,
            "first": "2026-01-02T03:04:05.000Z",
            "last": "2026-01-02T03:04:07.000Z",
            "request_id": f"{2:032x}",
        }
    ]
    assert found["slowest"][0] == {
        "tool": "find",
        "code": "INTERNAL_ERROR",
        "duration_ms": 9.5,
        "timestamp": "2026-01-02T03:05:05.000Z",
        "request_id": f"{60:032x}",
    }
    nothing = {"keys": 0, "failures": 0}
    assert found["left_out"] == {
        "loops": 0,
        "by_tool_and_code": nothing,
        "unmapped": nothing,
        "calls": nothing,
        "uncoded": nothing,
    }


def test_json_keys_are_documented() -> None:
    """Every key of the JSON form stands in docs/reference/report.md."""
    documented = (Path(__file__).parents[2] / "docs" / "reference" / "report.md").read_text()
    records = [*(failed(n, fingerprint="f") for n in range(3)), crashed("a.Gone")]

    def keys(value: Any) -> Iterator[str]:
        for key, inner in value.items() if isinstance(value, dict) else ():
            yield key
            yield from keys(inner)
        for inner in value if isinstance(value, list) else ():
            yield from keys(inner)

    assert [key for key in keys(to_json(summarize(records))) if f"`{key}`" not in documented] == []


# --- the page -------------------------------------------------------------------------------------------------


class Parsed(HTMLParser):
    """A page as a browser's parser takes it apart: its tags with their attributes, and the text outside scripts."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if not self.tags or self.tags[-1][0] not in ("script", "style"):
            self.text += data


def made(records: Iterable[Any]) -> str:
    pytest.importorskip("plotly", reason="the page needs plotly, which is an optional extra")
    return to_html(summarize(records))


def busy_records(tools: int = 8) -> Iterator[dict[str, Any]]:
    """A log with something in every section."""
    for n in range(tools * 40):
        tool = f"tool_{n % tools}"
        yield failed(n * 600, tool=tool, code=f"CODE_{n % 12}", fingerprint=f"{n}", duration_ms=n)
        if n % 9 == 0:
            yield crashed("somelib.ConnectError", n * 600, tool=tool)
    yield from (failed(n, tool="tool_1", fingerprint="again") for n in range(9))


def test_the_page_is_closed() -> None:
    """The page has two scripts, which its policy names by hash, and asks for nothing outside itself."""
    markup = made([*busy_records(), *hostile_records()])
    parsed = Parsed(markup)
    kinds = [name for name, _ in parsed.tags]
    assert kinds.count("script") == 3
    assert {"img", "link", "iframe", "a", "base", "object"}.isdisjoint(kinds)
    attributes = {key for _, found in parsed.tags for key in found}
    assert attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "id", "type"}
    (policy,) = (found["content"] for _, found in parsed.tags if found.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.partition("style-src")[0]
    assert "http" not in policy
    (charts,) = re.findall(r'id="charts">(.*?)</script>', markup, re.DOTALL)
    assert not {"<", ">", "&"} & set(charts)
    assert set(json.loads(charts)) == {"time", "tools"}


def test_the_page_shows_hostile_text() -> None:
    """Hostile text stands on the page as text, with what is not printable as escapes."""
    parsed = Parsed(made(hostile_records()))
    assert parsed.text.count(SCRIPT) >= 5
    assert "\\x1b]0;owned\\x07" in parsed.text
    assert [c for c in parsed.text if not c.isprintable() and c != "\n"] == []


def test_the_page_has_the_lines() -> None:
    """The lines to paste, the loops and the slowest stand on the page."""
    parsed = Parsed(made(busy_records()))
    summed = summarize(busy_records())
    assert lines_of(summed)[0] in parsed.text
    assert "Equal calls that failed again and again" in parsed.text
    assert f"{summed.slowest[0].duration_ms:,.0f} ms" in parsed.text


def test_charts() -> None:
    """The charts' numbers are those of the summary, for the codes and tools that have no bar of their own too."""
    summed = summarize(busy_records(60))
    charts = page._charts(summed)
    total = summed.failures + summed.protocol_errors
    time, tools = charts["time"], charts["tools"]
    assert sum(sum(bar["y"]) for bar in time["data"]) == total
    assert sum(sum(bar["x"]) for bar in tools["data"]) == total
    assert [bar["name"] for bar in time["data"]][-1] == page.OTHER_CODES
    assert len(tools["layout"]["yaxis"]["ticktext"]) == page.SHOWN_TOOLS + 1
    assert tools["layout"]["yaxis"]["ticktext"][-1] == page.OTHER_TOOLS


def test_without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without plotly the page says what to install."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'iserror[report]'")):
        to_html(summarize([]))


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no chromium, chromium-browser or google-chrome on this machine")


def looked_at(path: Path, *options: str) -> str:
    """What a browser without any network says of the page."""
    command = [
        *(browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,1600", "--virtual-time-budget=5000"),
        *(f"--user-data-dir={path.parent / 'profile'}", *options, path.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pixel_rows(png: bytes) -> list[bytes]:
    """The filtered rows of a PNG's pixels."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed, header = 8, b"", b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + length]
        header, packed = (data if kind == b"IHDR" else header), packed + (data if kind == b"IDAT" else b"")
        at += 12 + length
    width, _, depth, colours = struct.unpack(">IIBB", header[:10])
    stride = 1 + width * depth // 8 * {2: 3, 6: 4}[colours]
    pixels = zlib.decompress(packed)
    return [pixels[start : start + stride] for start in range(0, len(pixels), stride)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["busy", "hostile", "empty"])
def test_in_a_browser(name: str, tmp_path: Path) -> None:
    """A browser without a network draws the charts, shows hostile text as text and runs nothing of it."""
    records = {"busy": list(busy_records(40)), "hostile": hostile_records(), "empty": []}[name]
    path = tmp_path / "page.html"
    path.write_text(made(records), encoding="utf-8")
    dom = looked_at(path, "--dump-dom")
    picture = tmp_path / "page.png"
    looked_at(path, f"--screenshot={picture}")
    rows = pixel_rows(picture.read_bytes())
    assert len(rows) == 1600
    head = dom[: dom.index("</title>")]
    assert head.endswith("<title>Tool failures")
    charts = re.findall(r'<div class="chart[^>]*id="(time|tools)"', dom)
    bars = len(re.findall(r'<g class="point">', dom))
    if name == "empty":
        assert (charts, bars) == ([], 0)
        assert "<h2>No failures</h2>" in dom
        assert len(set(rows)) > 50
        return
    assert charts == ["time", "tools"]
    assert dom.count('class="main-svg"') >= 2
    assert bars >= (100 if name == "busy" else 2)
    assert len(set(rows)) > 300
    if name == "hostile":
        body = dom[dom.index("<body>") :]
        assert "&lt;script&gt;document.title='owned'&lt;/script&gt;" in body
        assert "<script>document.title" not in body
        assert "<img" not in body
        labels = re.findall(r'<g class="ytick"><text[^>]*>([^<]*)', body)
        assert any("\\x1b]0;owned" in label for label in labels)
        assert "&lt;b&gt;tool&lt;/b&gt;" in labels
        assert re.search(r'class="legendtext"[^>]*>&lt;i&gt;code&lt;/i&gt;</text>', body)


# --- failures without a code of their own -------------------------------------------------------------------------


def refused(message: str, cause: str | None = None, seconds: float = 0, **more: Any) -> dict[str, Any]:
    """A line of a `ToolError`, which was raised from another exception if `cause` names its class."""
    chain: list[dict[str, Any]] = [
        {"type": "mcp.server.fastmcp.exceptions.ToolError", "message": message, "frames": []}
    ]
    if cause is not None:
        chain.append({"type": cause, "message": "x", "relation": "cause", "frames": []})
    return {**failed(seconds), "code": "TOOL_ERROR", "mapped": False, "exception": chain, **more}


def returned(message: str, **more: Any) -> dict[str, Any]:
    """A line of a success that reads like an error."""
    line = {**failed(0), "event": "error_returned", "code": "RETURNED_ERROR", "message": message}
    return {**line, "returned_errors": "log", "partial": False, **more}


def test_author_words_by_pattern() -> None:
    """Failures with equal texts but for names, numbers and paths are one, with what would give them a code."""
    records = [
        *(refused(f"Issue PROJ-{n} not found in '/srv/{n}'", tool=f"t{n % 2}") for n in range(3)),
        *(refused("cannot list: gone", "redis.exceptions.ResponseError") for _ in range(2)),
        refused("cannot list: gone", "shop.errors.NoShelf"),
        refused("Something odd"),
        *(returned(f"Error getting key 'k{n}': timeout") for n in range(4)),
        {**failed(5), "code": "RETURNED_ERROR", "message": "the pod is not there"},
    ]
    summed = summarize(records)
    assert summed.uncoded_count == 12
    found = {(each.pattern, each.cause): each for each in summed.uncoded}
    issue = found["Issue … not found in …", ""]
    assert (issue.count, issue.tools, issue.code, issue.as_success) == (3, ("t0", "t1"), "TOOL_ERROR", False)
    assert issue.line == 'raise ToolFailure("...", ..., category="not_found")'
    assert found["cannot list: gone", "redis.exceptions.ResponseError"].line == "errors.include(iserror.packs.redis)"
    assert found["cannot list: gone", "shop.errors.NoShelf"].line.startswith('errors.add("shop.errors.NoShelf", code=')
    assert found["Something odd", ""].line == 'raise ToolFailure("...", ..., category=...)'
    success = found["Error getting key …: timeout", ""]
    assert (success.count, success.as_success, success.code) == (4, True, "RETURNED_ERROR")
    assert success.line == 'ToolErrors(errors, returned_errors="convert")'
    assert "is_returned_error" in found["the pod is not there", ""].advice
    said = "\n".join(to_text(summed))
    assert "Failures in an author's words, without a code of their own: 12" in said
    assert "4 x returned as a success in pay" in said
    assert "2 x TOOL_ERROR from redis.exceptions.ResponseError in pay" in said


@pytest.mark.parametrize("message", [None, 7, [], "", "x" * 10_000, "'" * 5_000, "/" * 5_000, "1" * 5_000, "\x1b[2J"])
def test_odd_texts(message: Any) -> None:
    """Whatever a line holds for a text, it counts, and nothing drives the terminal."""
    summed = summarize([returned(message), {**refused("x"), "exception": message}])
    assert summed.uncoded_count == 2
    assert all(len(each.pattern) < 200 for each in summed.uncoded)
    assert "\x1b" not in "\n".join(to_text(summed))


def test_many_texts() -> None:
    """The table is bounded, and what it drops is counted."""
    words = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    texts = (f"{a} {b} {c}" for a in words for b in words for c in words)
    summed = summarize(refused(said) for said in texts)
    assert summed.uncoded_count == 1_000
    assert len(summed.uncoded) <= 600
    assert summed.forgotten_texts.failures == 1_000 - len(summed.uncoded)
