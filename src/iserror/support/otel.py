"""OpenTelemetry: the current span's trace id and status, and the trace id of a `traceparent`.

The API is never imported for this: a process without it loaded has no spans.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from iserror.support.look import look

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?\Z", re.DOTALL)


def trace_id(meta: Mapping[str, Any] | None) -> str | None:
    """Return the trace id of the current span, else the one in `_meta.traceparent` if that is valid."""
    trace = sys.modules.get("opentelemetry.trace")
    found = look(_of_span, None, trace) if trace is not None else None
    return found or (parse_traceparent(meta.get("traceparent")) if meta else None)


def _of_span(trace: Any) -> str | None:
    span = trace.get_current_span()
    context = span.get_span_context() if span is not trace.INVALID_SPAN else None
    return f"{context.trace_id:032x}" if context is not None and context.is_valid else None


def parse_traceparent(value: object) -> str | None:
    """Return the trace id of a W3C `traceparent`, or None if the header isn't valid.

    Source: W3C Trace Context, section 3.2. Version `ff` and all-zero ids are invalid.
    """
    if not isinstance(value, str) or len(value) > 256:
        return None
    match = _TRACEPARENT.match(value)
    if match is None or value.startswith("ff") or not match.group(1).strip("0") or not match.group(2).strip("0"):
        return None
    if value.startswith("00") and match.group(3):
        return None
    return match.group(1)


def mark_span(code: str, request_id: str | None) -> None:
    """Give the current span status ERROR, the code and the request id, and no text.

    Source: OpenTelemetry semantic conventions, `error.type`.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        look(_mark, None, trace, code, request_id)


def _mark(trace: Any, code: str, request_id: str | None) -> None:
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("error.type", code)
        if request_id is not None:
            span.set_attribute("iserror.request_id", request_id)
        span.set_status(trace.Status(trace.StatusCode.ERROR))


def active_traceparent() -> str | None:
    """Return the active span as a W3C `traceparent`, or None. The API is not imported for it."""
    trace = sys.modules.get("opentelemetry.trace")
    context = look(lambda: trace.get_current_span().get_span_context(), None) if trace is not None else None
    if context is None or not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


@contextmanager
def active(traceparent: str) -> Iterator[None]:
    """Make this trace context the active one: a client that traces itself sends its own span instead of `_meta`."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or active_traceparent() == traceparent:
        yield
        return
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    context = trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16))
    )
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield
