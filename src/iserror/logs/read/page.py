"""The summary as one HTML page: charts by plotly and tables, opened from disk, asking nothing of any network.

Everything that comes from a record is escaped, and the page's policy lets only its own two scripts run, by their
hashes: text that found a way into the markup would still do nothing. The frame of the page, its style and its script
are files in `templates`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

from iserror.logs.read.figures import Crash, Loop, Row, Slow, Summary
from iserror.logs.read.text import clock, left_out, length_of, moment_text, names_of, sessions_of, told_as
from iserror.logs.record import printable

SHOWN_TOOLS: Final = 40
SHOWN_ROWS: Final = 200
MAX_LABEL: Final = 40

OTHER_CODES: Final = "other codes"
OTHER_TOOLS: Final = "other tools"

_COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"),
    *("#56b4e9", "#8c564b", "#7b61c4", "#a8a032"),
)
"""Hues that differ in lightness too, for readers who see fewer of them."""
_GREY: Final = "#8a93a0"
"""The color of all other codes."""


def to_html(summary: Summary) -> str:
    """Return the summary as one self-contained page.

    Raises:
        ModuleNotFoundError: If plotly isn't installed; the message says how to get it.
    """
    library = plotly_js()
    script = "\n" + _file("page.js")
    charts = json.dumps(_charts(summary)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (library, script))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_file("page.html")).substitute(
        policy=policy,
        style=_file("page.css"),
        body="".join(_body(summary)),
        charts=charts,
        library=library,
        script=script,
    )


def _file(name: str) -> str:
    return Path(__file__).with_name("templates").joinpath(name).read_text(encoding="utf-8")


def plotly_js() -> str:
    """Return the charts' script.

    Raises:
        ModuleNotFoundError: If plotly isn't installed; the message says how to get it.
    """
    try:
        offline = importlib.import_module("plotly.offline")
    except ModuleNotFoundError as exc:
        message = "the page's charts need plotly: pip install 'iserror[report]'"
        raise ModuleNotFoundError(message, name="plotly") from exc
    # A browser reads every line end as \n, and takes the hash of that.
    library = str(offline.get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    return library.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


# --- charts ---------------------------------------------------------------------------------------------------


def _charts(summary: Summary) -> dict[str, Any]:
    """Return plotly's figures for the page's script, which adds colors of text and background."""
    codes = _most((row.code, row.count) for row in summary.rows)
    colours = dict(zip(codes, _COLOURS, strict=False))
    shown = [*colours, OTHER_CODES] if len(codes) > len(colours) else list(colours)
    return {"time": _over_time(summary, shown, colours), "tools": _by_tool(summary, shown, colours)}


def _most(counts: Iterable[tuple[str, int]]) -> list[str]:
    """Return names by their counts, the highest first."""
    total: dict[str, int] = {}
    for name, count in counts:
        total[name] = total.get(name, 0) + count
    return sorted(total, key=lambda name: (-total[name], name))


def _over_time(summary: Summary, shown: Sequence[str], colours: dict[str, str]) -> dict[str, Any] | None:
    if not summary.buckets or summary.first is None or summary.last is None:
        return None
    width = summary.bucket_seconds
    start = int(summary.first // width)
    times = [bucket * width for bucket in range(start, int(summary.last // width) + 1)]
    counts = {code: dict.fromkeys(times, 0) for code in shown}
    for row in summary.rows:
        into = counts[row.code if row.code in colours else OTHER_CODES]
        for begin, count in row.buckets:
            into[begin] += count
    x = [moment_text(begin + width / 2) for begin in times]
    spans = [f"{moment_text(begin)} to {moment_text(begin + width)}" for begin in times]
    bars = [
        {
            **_bar(code, colours),
            "x": x,
            "y": list(counts[code].values()),
            "width": [width * 920] * len(x),
            "customdata": spans,
            "hovertemplate": "%{fullData.name}: %{y:,}<br>%{customdata} UTC<extra></extra>",
        }
        for code in shown
    ]
    axes = {
        "xaxis": {"type": "date", "range": [moment_text(times[0]), moment_text(times[-1] + width)]},
        "yaxis": {"title": {"text": f"failures per {_per(width)}"}, "rangemode": "tozero"},
    }
    return {"data": bars, "layout": {**axes, "height": 340}}


def _per(width: int) -> str:
    text = length_of(width)
    return text.removeprefix("1 ")


def _by_tool(summary: Summary, shown: Sequence[str], colours: dict[str, str]) -> dict[str, Any] | None:
    if not summary.rows:
        return None
    tools = _most((row.tool, row.count) for row in summary.rows)
    named = {tool: place for place, tool in enumerate(tools[:SHOWN_TOOLS])}
    places = len(named) + (len(tools) > len(named))
    counts = {code: [0] * places for code in shown}
    for row in summary.rows:
        counts[row.code if row.code in colours else OTHER_CODES][named.get(row.tool, len(named))] += row.count
    labels = [*map(_label, named), *([OTHER_TOOLS] if places > len(named) else [])]
    bars = [
        {
            **_bar(code, colours),
            "orientation": "h",
            "x": counts[code],
            "y": list(range(places)),
            "customdata": labels,
            "hovertemplate": "%{fullData.name}: %{x:,}<br>%{customdata}<extra></extra>",
        }
        for code in shown
    ]
    axes = {
        "xaxis": {"title": {"text": "failures"}, "rangemode": "tozero"},
        "yaxis": {
            "tickvals": list(range(places)),
            "ticktext": labels,
            "range": [places - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
            "ticklabelstandoff": 8,
        },
    }
    return {
        "data": bars,
        "layout": {**axes, "height": 90 + 26 * places, "bargap": 0.3, "showlegend": not summary.buckets},
    }


def _bar(code: str, colours: dict[str, str]) -> dict[str, Any]:
    return {"type": "bar", "name": _label(code), "marker": {"color": colours.get(code, _GREY)}}


def _label(text: str) -> str:
    """Return a name for plotly, which reads some HTML in labels."""
    shown = printable(text) or "(none)"
    cut = shown if len(shown) <= MAX_LABEL else shown[: MAX_LABEL - 1] + "…"
    return html.escape(cut, quote=False)


# --- tables ---------------------------------------------------------------------------------------------------


def _body(summary: Summary) -> Iterator[str]:
    yield "<header>\n<h1>Tool failures</h1>\n"
    if summary.first is not None and summary.last is not None:
        yield f"<p>{clock(summary.first)} to {clock(summary.last)} UTC, {summary.records:,} records read</p>\n"
    else:
        yield f"<p>{summary.records:,} records read</p>\n"
    yield "</header>\n"
    yield from _cards(summary)
    if not summary.rows:
        yield '<section class="empty"><h2>No failures</h2><p>No call failed in what was read.</p></section>\n'
    else:
        yield from _charts_of(summary)
    yield from _unmapped(summary)
    yield from _packs(summary)
    yield from _uncoded(summary)
    yield from _loops(summary.loops)
    yield from _slowest(summary.slowest)
    yield from _rows(summary.rows)
    yield from _notes(summary)


def _cards(summary: Summary) -> Iterator[str]:
    handled = sum(count for _, count in summary.handled)
    cards = [
        (summary.failures, "failures", "that clients saw"),
        (summary.protocol_errors, "protocol errors", "answered as JSON-RPC errors"),
        (summary.unmapped_count, "unmapped", "crashes, told as INTERNAL_ERROR"),
        (len(summary.loops) + summary.loops_left_out, "loops", "equal calls, failing again and again"),
        (handled, "handled", ", ".join(f"{n:,} {name}" for name, n in summary.handled) or "not seen by clients"),
        (summary.cancelled, "cancelled", "given up by the caller"),
    ]
    yield '<section class="cards">\n'
    for number, name, what in cards:
        yield f'<div class="card"><b>{number:,}</b><span>{name}</span><small>{what}</small></div>\n'
    yield "</section>\n"


def _charts_of(summary: Summary) -> Iterator[str]:
    if summary.buckets:
        yield '<section><h2>Over time, by code</h2><div class="chart" id="time"></div></section>\n'
    yield '<section><h2>By tool and code</h2><div class="chart" id="tools"></div></section>\n'


def _unmapped(summary: Summary) -> Iterator[str]:
    if not summary.unmapped:
        return
    yield "<section>\n<h2>Crashes without an entry in the map</h2>\n"
    yield (
        "<p>The model was told INTERNAL_ERROR and nothing else. Paste a line beside the other entries, and say in "
        "its message what was observed and in a <code>hint</code> what to do next.</p>\n"
    )
    for crash in summary.unmapped:
        yield from _crash(crash)
    yield "</section>\n"


def _packs(summary: Summary) -> Iterator[str]:
    if summary.packs:
        lines = "\n".join(f"errors.include(iserror.packs.{pack})  # {count:,}" for pack, count in summary.packs)
        yield "<section>\n<h2>Crashes that a pack knows</h2>\n"
        yield f"<p>The model was told INTERNAL_ERROR and nothing else.</p>\n<pre>{lines}</pre>\n</section>\n"


def _uncoded(summary: Summary) -> Iterator[str]:
    if not summary.uncoded:
        return
    yield f"<section>\n<h2>In an author's words, without a code of their own: {summary.uncoded_count:,}</h2>\n"
    yield "<p>The model read the text. A client can't tell these failures apart.</p>\n"
    for each in summary.uncoded:
        yield f"<article><h3>{_escaped(each.pattern or '(no text)')} <b>{each.count:,}</b></h3>\n<dl>"
        yield f"<dt>told as</dt><dd>{_escaped(told_as(each))}</dd><dt>in</dt><dd>{_escaped(names_of(each))}</dd>"
        yield f"<dt>seen</dt><dd>{_period(each.first, each.last)}</dd>"
        yield f"<dt>latest</dt><dd><code>{_escaped(each.request_id)}</code></dd></dl>\n"
        if each.line:
            yield f"<pre>{_escaped(each.line)}</pre>\n"
        yield f'<p class="advice">{_escaped(each.advice)}</p>\n</article>\n'
    yield "</section>\n"


def _crash(crash: Crash) -> Iterator[str]:
    yield f"<article><h3>{_escaped(crash.type or '(no type)')} <b>{crash.count:,}</b></h3>\n<dl>"
    yield f"<dt>in</dt><dd>{_escaped(names_of(crash))}</dd>"
    if crash.place:
        yield f"<dt>at</dt><dd>{_escaped(crash.place)}</dd>"
    yield f"<dt>seen</dt><dd>{_period(crash.first, crash.last)}</dd>"
    yield f"<dt>latest</dt><dd><code>{_escaped(crash.request_id)}</code></dd></dl>\n"
    if crash.line:
        yield f"<pre>{_escaped(crash.line)}</pre>\n"
    if crash.advice:
        yield f'<p class="advice">{_escaped(crash.advice)}</p>\n'
    yield "</article>\n"


def _loops(loops: Sequence[Loop]) -> Iterator[str]:
    if loops:
        yield from _table(
            "Equal calls that failed again and again",
            "The same tool with the same arguments, three or more times within minutes of one another.",
            ["tool", "code", "#failures", "#longest burst", "#sessions", "seen", "latest request id"],
            (
                (
                    *(_escaped(loop.tool or "(none)"), _escaped(loop.code or "(none)"), f"{loop.count:,}"),
                    *(f"{loop.burst:,}", sessions_of(loop) or "–", _period(loop.first, loop.last)),
                    _id(loop.request_id),
                )
                for loop in loops
            ),
        )


def _slowest(slowest: Sequence[Slow]) -> Iterator[str]:
    if slowest:
        yield from _table(
            "Slowest failures",
            "",
            ["tool", "code", "#duration", "when (UTC)", "request id"],
            (
                (
                    *(_escaped(slow.tool or "(none)"), _escaped(slow.code or "(none)")),
                    *(f"{slow.duration_ms:,.0f} ms", _period(slow.when, slow.when)),
                    _id(slow.request_id),
                )
                for slow in slowest
            ),
        )


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        more = len(rows) - SHOWN_ROWS
        yield from _table(
            "Every tool and code",
            f"The {SHOWN_ROWS} with the most failures; {more:,} more are in the JSON." if more > 0 else "",
            ["tool", "code", "category", "#failures", "seen", "latest request id"],
            (
                (
                    *(_escaped(row.tool or "(none)"), _escaped(row.code or "(none)"), _escaped(row.category)),
                    *(f"{row.count:,}", _period(row.first, row.last), _id(row.request_id)),
                )
                for row in rows[:SHOWN_ROWS]
            ),
        )


def _table(title: str, said: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a section with a table. Heads that begin with # stand for numbers; cells are markup."""
    kinds = [' class="number"' if head.startswith("#") else "" for head in heads]
    yield f"<section>\n<h2>{title}</h2>\n"
    if said:
        yield f"<p>{said}</p>\n"
    yield '<div class="wide"><table><thead><tr>'
    for head, kind in zip(heads, kinds, strict=True):
        yield f"<th{kind}>{head.removeprefix('#')}</th>"
    yield "</tr></thead><tbody>\n"
    for row in rows:
        yield "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>\n"
    yield "</tbody></table></div>\n</section>\n"


def _notes(summary: Summary) -> Iterator[str]:
    notes = list(left_out(summary))
    if summary.undated:
        notes.append(f"{summary.undated:,} failures had no time that could be read: in the counts, not in the chart.")
    if summary.returned_errors:
        notes.append(f"{summary.returned_errors:,} results read like errors, but were returned as successes.")
    if summary.item_failures:
        notes.append(
            f"{summary.item_failures:,} items failed in calls that went on: only their crashes are in the tables."
        )
    notes.append(f"{summary.other:,} lines of the log were of something else. Follow a request id with iserror trace.")
    yield "<footer>" + "".join(f"<p>{_escaped(note)}</p>" for note in notes) + "</footer>\n"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _id(request_id: str) -> str:
    return f"<code>{_escaped(request_id)}</code>"


def _period(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return "–"
    times = dict.fromkeys((clock(first), clock(last)))
    return " to ".join(f"<time>{time}</time>" for time in times)
