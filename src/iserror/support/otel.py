"""The one look-up of OpenTelemetry: trace ids, and the status of the current span."""

from __future__ import annotations

import re
import sys

from iserror.support.look import attempt

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
