"""The one look-up of OpenTelemetry: trace ids, and the status of the current span."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from iserror.support.look import attempt, look

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?\Z", re.DOTALL)


def parse_traceparent(value: object) -> str | None:
    """Return the trace id of a W3C `traceparent`, or None if it is not a valid one.

    Source: W3C Trace Context, section 3.2; version `ff` and all-zero ids are invalid.
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
    """Give the current OpenTelemetry span status ERROR, the code and the request id, no text.

    Nobody has a span unless the API is loaded, so it is never imported for this.
    Source: OpenTelemetry semantic conventions, `error.type`.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return

    def mark() -> None:
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attribute("error.type", code)
            if request_id is not None:
                span.set_attribute("iserror.request_id", request_id)
            span.set_status(trace.Status(trace.StatusCode.ERROR))

    attempt(mark, None)


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
