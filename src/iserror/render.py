"""A call's records as text for a person at a terminal.

What callers sent stands in log lines, so nothing is printed that could drive the terminal: control
characters show as escapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from iserror.logs import Record

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
        "exception",
    }
)


def safe(value: object) -> str:
    """Any value as printable text on one line."""
    text = value if isinstance(value, str) else repr(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def render(records: Sequence[Record]) -> str:
    """Everything about one call: what failed, its traceback, then the other lines in time order."""
    return "\n".join(line for record in records for line in _record(record)) + "\n"


def _record(record: Record) -> Iterator[str]:
    head = " ".join(safe(record.get(key, "")) for key in ("timestamp", "level", "event")).strip()
    yield head
    if "tool" in record:
        server = f" on {safe(record['server'])}" if record.get("server") else ""
        took = f", after {safe(record['duration_ms'])} ms" if "duration_ms" in record else ""
        yield f"  tool        {safe(record['tool'])}{server}{took}"
    if "code" in record:
        said = [f"{key}={safe(record[key])}" for key in ("category", "retryable", "outcome") if key in record]
        yield f"  failure     {safe(record['code'])} ({', '.join(said)})"
    for key in ("request_id", "trace_id"):
        if record.get(key):
            yield f"  {key:<11} {safe(record[key])}"
    for key, value in record.items():
        if key not in _SHOWN and value is not None:
            yield f"  {safe(key):<11} {safe(value)}"
    chain = record.get("exception")
    if isinstance(chain, list):
        yield from _chain(chain, "  ")
    elif chain:
        yield from (f"  {safe(line)}" for line in str(chain).splitlines())
    yield ""


def _chain(chain: Sequence[Any], indent: str) -> Iterator[str]:
    """In Python's own order: what came first stands first."""
    items = [item for item in chain if isinstance(item, dict)]
    for position, item in enumerate(reversed(items)):
        if position:
            relation = items[len(items) - position].get("relation")
            because = "was the direct cause of" if relation == "cause" else "was being handled before"
            yield f"{indent}(the exception above {because} the one below)"
        yield f"{indent}Traceback (most recent call last):"
        for frame in item.get("frames", ()):
            place = f'File "{safe(frame.get("file"))}", line {safe(frame.get("line"))}'
            yield f"{indent}  {place}, in {safe(frame.get('function'))}"
            if frame.get("source"):
                yield f"{indent}    {safe(frame['source'])}"
        lines = str(item.get("message", "")).splitlines() or [""]
        yield f"{indent}{safe(item.get('type'))}: {safe(lines[0])}".rstrip(": ")
        yield from (f"{indent}  {safe(line)}" for line in [*lines[1:], *item.get("notes", ())])
        for number, inner in enumerate(item.get("exceptions", ()), 1):
            yield f"{indent}  +-- exception {number} of the group"
            yield from _chain(inner, indent + "  | ")
