"""A call's records as text for a person at a terminal.

What callers sent stands in log lines, so nothing is printed that could drive the terminal: control
characters show as escapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

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
    """Everything about one call: what failed, by whom, how long it took, its traceback, then the other lines."""
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
    """A record on one line."""
    shown = [_head(record)]
    if "code" in record:
        shown.append(f"{printable(record.get('tool', ''))} {printable(record['code'])}")
        chain = record.get("exception")
        if isinstance(chain, list) and chain and isinstance(chain[0], dict):
            shown.append(f"{printable(chain[0].get('type', ''))}: {printable(chain[0].get('message', ''))[:200]}")
        shown += [f"{key}={printable(record[key])}" for key in ("item", "handled", "request_id") if record.get(key)]
    else:
        skipped = ("timestamp", "level", "event", "schema_version", "exception", "stack", "lines")
        shown += [f"{printable(key)}={printable(value)[:200]}" for key, value in record.items() if key not in skipped]
    return " ".join(shown)


def _head(record: Record) -> str:
    return " ".join(printable(record.get(key, "")) for key in ("timestamp", "level", "event")).strip()


def _other(record: Record) -> Iterator[str]:
    """A line that a call's tool logged itself, without what every line of the call has."""
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
    chain = record.get("exception")
    if isinstance(chain, list):
        yield from chain_lines(chain, indent)
    for text in (None if isinstance(chain, list) else chain, record.get("stack")):
        if text:
            lines = text.splitlines() if isinstance(text, str) else [text]
            yield from (f"{indent}{printable(line)}" for line in lines)


_DEEPEST: Final = 200
"""Columns; groups that stand further to the right are left out."""


def format_chain(chain: Sequence[Any]) -> str:
    """A described exception as text, much as Python prints one."""
    return "\n".join(chain_lines(chain, ""))


def chain_lines(chain: Sequence[Any], indent: str) -> Iterator[str]:
    """A described exception line by line, what came first first; a log may hold anything in its place."""
    items = [item for item in chain if isinstance(item, dict)]
    for position, item in enumerate(reversed(items)):
        if position:
            relation = items[len(items) - position].get("relation")
            because = "was the direct cause of" if relation == "cause" else "was being handled before"
            yield f"{indent}(the exception above {because} the one below)"
        yield f"{indent}Traceback (most recent call last):"
        for frame in _list(item, "frames"):
            if isinstance(frame, dict):
                place = f'File "{printable(frame.get("file"))}", line {printable(frame.get("line"))}'
                yield f"{indent}  {place}, in {printable(frame.get('function'))}"
                if frame.get("source"):
                    yield f"{indent}    {printable(frame['source'])}"
        message = item.get("message", "")
        lines = (message if isinstance(message, str) else printable(message)).splitlines() or [""]
        yield f"{indent}{printable(item.get('type'))}: {printable(lines[0])}".rstrip(": ")
        yield from (f"{indent}  {printable(line)}" for line in [*lines[1:], *_list(item, "notes")])
        for number, inner in enumerate(_list(item, "exceptions"), 1):
            if isinstance(inner, list) and len(indent) < _DEEPEST:
                yield f"{indent}  +-- exception {number} of the group"
                yield from chain_lines(inner, indent + "  | ")


def _list(item: dict[str, Any], key: str) -> list[Any]:
    found = item.get(key)
    return found if isinstance(found, list) else []
