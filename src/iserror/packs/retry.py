"""How long an upstream asks to wait: the headers in use, and where each is described."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

from iserror.failure import parse_retry_after

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smhd])")
_EPOCH: Final = 1_000_000_000
"""A number of seconds above it is a point in time."""
_RESETS: Final = (
    "ratelimit-reset",
    "x-ratelimit-reset",
    "x-rate-limit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
)


def wait_of(headers: Any) -> float | None:
    """Read how long a response asks to wait, in seconds.

    In this order: `retry-after-ms` (Azure, OpenAI), `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3),
    `RateLimit` (draft-ietf-httpapi-ratelimit-headers), and the `x-ratelimit-reset` headers as seconds, a point in time
    (GitHub) or a duration (OpenAI: `6m0s`): the longest of those whose limit is not known to have room left.

    Args:
        headers: A mapping of header names, in lower case or blind to case.
    """
    get: Callable[[str], Any] = headers.get
    said = parse_retry_after(get("retry-after-ms"))
    if said is not None:
        return said / 1_000
    said = parse_retry_after(get("retry-after"))
    if said is not None:
        return said
    limit = re.search(r";\s*t=(\d{1,9})", str(get("ratelimit") or ""))
    if limit is not None:
        return parse_retry_after(limit[1])
    waits = [
        _seconds(str(value))
        for name in _RESETS
        if (value := get(name)) is not None and get(name.replace("reset", "remaining")) in (None, "0")
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(text: str) -> float | None:
    if parts := _DURATION.findall(text):
        return parse_retry_after(sum(float(number) * _UNITS[unit] for number, unit in parts))
    seconds = parse_retry_after(text) if not text.isdigit() else float(text[:12])
    if seconds is not None and seconds > _EPOCH:
        seconds = max(0.0, seconds - time.time())
    return parse_retry_after(seconds)
