"""The summary as one HTML page: charts by plotly and tables, opened from disk, asking nothing of any network.

Everything that comes from a record is escaped, and the page's policy lets only its own two scripts run, by their
hashes: text that found a way into the markup would still do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from iserror.logs.read.summary import Crash, Loop, Row, Slow, Summary
from iserror.logs.read.text import clock, left_out, length_of, moment_text, names_of, sessions_of
from iserror.logs.record import printable

SHOWN_TOOLS: Final = 40
SHOWN_ROWS: Final = 200
MAX_LABEL: Final = 40

OTHER_CODES: Final = "other codes"
OTHER_TOOLS: Final = "other tools"

# Hues far apart in lightness too, for readers who see fewer of them; grey is for the rest.
_COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"),
    *("#56b4e9", "#8c564b", "#7b61c4", "#a8a032"),
)
_GREY: Final = "#8a93a0"


def to_html(summary: Summary) -> str:
    """The summary as one self-contained page.

    Raises:
        ModuleNotFoundError: plotly is not installed; the message says how to get it.
    """
    library = plotly_js()
    charts = json.dumps(_charts(summary)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in (library, _SCRIPT))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>Tool failures</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n",
            *_body(summary),
            "</main>\n",
            f'<script type="application/json" id="charts">{charts}</script>\n',
            f"<script>{library}</script>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def plotly_js() -> str:
    """The charts' script.

    Raises:
        ModuleNotFoundError: plotly is not installed; the message says how to get it.
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
    """What the page's script draws: plotly's figures without colours of text and ground, which follow the reader's."""
    codes = _most((row.code, row.count) for row in summary.rows)
    colours = dict(zip(codes, _COLOURS, strict=False))
    shown = [*colours, OTHER_CODES] if len(codes) > len(colours) else list(colours)
    return {"time": _over_time(summary, shown, colours), "tools": _by_tool(summary, shown, colours)}


def _most(counts: Iterable[tuple[str, int]]) -> list[str]:
    """Names by their counts, the highest first."""
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
    """A name as plotly shows it, which reads some HTML in labels."""
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
    """A section with a table; heads that begin with # are of numbers, and cells are markup."""
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


# --- style and script -----------------------------------------------------------------------------------------

_STYLE: Final = """
:root { --ground: #f5f6f8; --sheet: #fff; --text: #1c2127; --soft: #5b6572; --line: #e0e4e9; --code: #f1f3f6 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171c; --sheet: #1d2127; --text: #e4e8ee; --soft: #98a3b1; --line: #333a44; --code: #14171c }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--text); font: 14px/1.5 system-ui, sans-serif }
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 40px }
h1 { font-size: 24px; line-height: 1.2; margin: 0 }
h2 { font-size: 16px; margin: 0 0 8px }
h3 { font: 600 14px/1.5 ui-monospace, monospace; margin: 0; overflow-wrap: anywhere }
h3 b { font: 600 12px system-ui, sans-serif; padding: 2px 8px; border-radius: 10px; background: var(--line) }
p { margin: 0 0 10px; color: var(--soft) }
header p { margin: 4px 0 18px }
section, .card { background: var(--sheet); border: 1px solid var(--line); border-radius: 8px }
section { padding: 16px 18px; margin: 0 0 16px }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(155px, 1fr)); gap: 12px; padding: 0; border: 0;
  background: none }
.card { padding: 12px 14px; display: flex; flex-direction: column }
.card b { font-size: 24px; line-height: 1.2; font-variant-numeric: tabular-nums }
.card span { font-weight: 600 }
.card small { color: var(--soft) }
.empty { text-align: center; padding: 48px 18px }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top }
td { overflow-wrap: break-word; max-width: 320px }
time { white-space: nowrap }
th { color: var(--soft); font-weight: 600; white-space: nowrap }
tbody tr:last-child td { border-bottom: 0 }
.number { text-align: right; padding-right: 24px; font-variant-numeric: tabular-nums }
code, pre { font: 12px/1.5 ui-monospace, monospace }
article { border-top: 1px solid var(--line); padding: 12px 0 }
article:last-child { padding-bottom: 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 12px; margin: 4px 0 8px; font-size: 13px }
dt { color: var(--soft) }
dd { margin: 0; overflow-wrap: anywhere }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 6px; padding: 8px 10px; margin: 0;
  white-space: pre-wrap; overflow-wrap: anywhere; user-select: all }
.advice { margin: 6px 0 0 }
footer p { margin: 0; font-size: 12px }
"""

_SCRIPT: Final = """
(function () {
  var charts = JSON.parse(document.getElementById("charts").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function axis(own) {
    return Object.assign({ gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"),
      automargin: true, fixedrange: false }, own);
  }
  function draw() {
    Object.keys(charts).forEach(function (name) {
      var place = document.getElementById(name), chart = charts[name];
      if (!place || !chart) { return; }
      var layout = Object.assign({ barmode: "stack", bargap: 0.08, paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--text"), family: "system-ui, sans-serif", size: 12 },
        margin: { l: 56, r: 8, t: 8, b: 40 }, showlegend: true,
        legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
        hoverlabel: { align: "left" } }, chart.layout);
      layout.xaxis = axis(layout.xaxis);
      layout.yaxis = axis(layout.yaxis);
      Plotly.react(place, chart.data, layout, { responsive: true, displayModeBar: false, displaylogo: false });
    });
  }
  draw();
  dark.addEventListener("change", draw);
})();
"""
