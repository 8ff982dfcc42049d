"""A call's records as text for a person at a terminal.

What callers sent stands in log lines, so nothing is printed that could drive the terminal: control
characters show as escapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iserror.excinfo import chain_lines, printable
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


def render(records: Sequence[Record]) -> str:
    """Everything about one call: what failed, its traceback, then the other lines in time order."""
    return "\n".join(line for record in records for line in _record(record)) + "\n"


def _record(record: Record) -> Iterator[str]:
    head = " ".join(printable(record.get(key, "")) for key in ("timestamp", "level", "event")).strip()
    yield head
    if "tool" in record:
        server = f" on {printable(record['server'])}" if record.get("server") else ""
        took = f", after {printable(record['duration_ms'])} ms" if "duration_ms" in record else ""
        yield f"  tool        {printable(record['tool'])}{server}{took}"
    if "code" in record:
        said = [f"{key}={printable(record[key])}" for key in ("category", "retryable", "outcome") if key in record]
        yield f"  failure     {printable(record['code'])} ({', '.join(said)})"
    for key in ("request_id", "trace_id"):
        if record.get(key):
            yield f"  {key:<11} {printable(record[key])}"
    for key, value in record.items():
        if key not in _SHOWN and value is not None:
            yield f"  {printable(key):<11} {printable(value)}"
    chain = record.get("exception")
    if isinstance(chain, list):
        yield from chain_lines(chain, "  ")
    elif chain:
        yield from (f"  {printable(line)}" for line in str(chain).splitlines())
    yield ""
