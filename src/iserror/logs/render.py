"""A call's records as text for people at a terminal.

Log lines hold what callers sent, so nothing is printed that could drive the terminal: control characters show as
escapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iserror.logs import frames
from iserror.logs.frames import Chain
from iserror.logs.record import Record, printable

_SHOWN: Final = frozenset(
    {
        "timestamp",
        "level",
        "event",
        "schema_version",
        "server",
        "tool",
        "request_id",
        "trace_id",
        "code",
        "category",
        "retryable",
        "outcome",
        "duration_ms",
        "lines",
        "exception",
        "stack",
    }
)


def render(records: Sequence[Record]) -> str:
    """Return everything about one call: the failure, who called, how long it took, its traceback, the other lines."""
    failures = [record for record in records if "code" in record]
    others = [record for record in records if "code" not in record]
    lines = [line for record in failures for line in _record(record)]
    if failures and others:
        lines.append("Around it:")
        lines += [f"  {line}" for record in others for line in _other(record)]
        lines.append("")
    else:
        lines += [line for record in others for line in _record(record)]
    return "\n".join(lines) + "\n"


def render_line(record: Record) -> str:
    """Return a record on one line."""
    shown = [_head(record)]
    if "code" in record:
        shown.append(f"{printable(record.get('tool', ''))} {printable(record['code'])}")
        if chain := frames.read(record.get("exception")):
            shown.append(f"{printable(chain[0].type)}: {printable(chain[0].message)[:200]}")
        shown += [f"{key}={printable(record[key])}" for key in ("item", "handled", "request_id") if record.get(key)]
    else:
        skipped = ("timestamp", "level", "event", "schema_version", "exception", "stack", "lines")
        shown += [f"{printable(key)}={printable(value)[:200]}" for key, value in record.items() if key not in skipped]
    return " ".join(shown)


def _head(record: Record) -> str:
    return " ".join(printable(record.get(key, "")) for key in ("timestamp", "level", "event")).strip()


def _other(record: Record) -> Iterator[str]:
    """Yield a line that a call's tool logged itself, without what every line of the call has."""
    rest = {key: value for key, value in record.items() if key not in _SHOWN and key != "jsonrpc_id"}
    yield " ".join([_head(record), *(f"{printable(key)}={printable(value)}" for key, value in rest.items())])
    yield from _traceback(record, "  ")


def _record(record: Record) -> Iterator[str]:
    yield _head(record)
    if "tool" in record:
        server = f" on {printable(record['server'])}" if record.get("server") else ""
        took = f", after {printable(record['duration_ms'])} ms" if "duration_ms" in record else ""
        yield f"  tool        {printable(record['tool'])}{server}{took}"
    if "code" in record:
        said = [f"{key}={printable(record[key])}" for key in ("category", "retryable", "outcome") if key in record]
        yield f"  failure     {printable(record['code'])}" + (f" ({', '.join(said)})" if said else "")
    for key in ("request_id", "trace_id"):
        if record.get(key):
            yield f"  {key:<11} {printable(record[key])}"
    for key, value in record.items():
        if key not in _SHOWN and value is not None:
            yield f"  {printable(key):<11} {printable(value)}"
    yield from _traceback(record, "  ")
    yield ""


def _traceback(record: Record, indent: str) -> Iterator[str]:
    exception = record.get("exception")
    if isinstance(exception, list):
        yield from chain_lines(frames.read(exception), indent)
    for text in (None if isinstance(exception, list) else exception, record.get("stack")):
        if text:
            lines = text.splitlines() if isinstance(text, str) else [text]
            yield from (f"{indent}{printable(line)}" for line in lines)


_DEEPEST: Final = 200
"""Columns. Groups that are indented further are left out."""


def format_chain(chain: Chain) -> str:
    """Return a described exception as text, much as Python prints one."""
    return "\n".join(chain_lines(chain, ""))


def chain_lines(chain: Chain, indent: str) -> Iterator[str]:
    """Yield a described exception line by line, starting with what came first."""
    for position, link in enumerate(reversed(chain)):
        if position:
            because = "was the direct cause of" if chain[-position].relation == "cause" else "was being handled before"
            yield f"{indent}(the exception above {because} the one below)"
        yield f"{indent}Traceback (most recent call last):"
        for frame in link.frames:
            place = f'File "{printable(frame.file)}", line {frame.line}'
            yield f"{indent}  {place}, in {printable(frame.function)}"
            if frame.source:
                yield f"{indent}    {printable(frame.source)}"
        first, *more = link.message.splitlines() or [""]
        yield f"{indent}{printable(link.type)}: {printable(first)}".rstrip(": ")
        yield from (f"{indent}  {printable(line)}" for line in [*more, *link.notes])
        for number, inner in enumerate(link.exceptions or (), 1):
            if len(indent) < _DEEPEST:
                yield f"{indent}  +-- exception {number} of the group"
                yield from chain_lines(inner, indent + "  | ")
