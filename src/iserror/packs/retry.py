"""How long an upstream asks to wait: the headers in use, each with its source."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from iserror.errors.wait import parse_retry_after

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PART: Final = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|[smhd])"
_EPOCH: Final = 1e9
_EPOCH_MS: Final = 1e11
"""A number above `_EPOCH` is a point in time in seconds; above `_EPOCH_MS`, in milliseconds."""
_RESETS: Final = (
    "ratelimit-reset",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-rate-limit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
)


def wait_of(headers: Any) -> float | None:
    """Read how long a response asks to wait, in seconds, 0 to 86,400.

    The first of these counts:

    - `retry-after-ms` and `x-ms-retry-after-ms` (Azure, OpenAI).
    - `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3).
    - The longest reset among the limits that may be used up. `RateLimit` is read as in
      draft-ietf-httpapi-ratelimit-headers (`"p";r=0;t=5`) and as in its versions up to 7 (`limit=9, remaining=0,
      reset=5`). A `ratelimit-reset` header has seconds, a point in time (GitHub, GitLab) or a duration (OpenAI:
      `6m0s`).

    Args:
        headers: A mapping of header names, in lower case or case-insensitive.
    """
    get: Callable[[str], Any] = headers.get
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _number(get(name))
        if milliseconds is not None:
            return parse_retry_after(milliseconds / 1_000)
    said = parse_retry_after(get("retry-after"))
    if said is not None:
        return said
    waits = (parse_retry_after(_seconds(reset)) for reset, left in _limits(get) if not left)
    return max((wait for wait in waits if wait is not None), default=None)


def limited(headers: Any) -> bool:
    """Return True if a refusal is about how often, not about what. GitHub answers 403 to both.

    Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """
    return headers.get("retry-after") is not None or _number(headers.get("x-ratelimit-remaining")) == 0


def _limits(get: Callable[[str], Any]) -> Iterator[tuple[str, float | None]]:
    """Yield each limit's reset, and how much of the limit is left."""
    for item in _text(get("ratelimit")).split('"')[::2]:  # the parts in between are the names of policies
        fields = dict(re.findall(r"\b(r|t|remaining|reset)=([0-9]{1,20})", item))
        reset = fields.get("t") or fields.get("reset")
        if reset:
            yield reset, _number(fields.get("r") or fields.get("remaining"))
    for name in _RESETS:
        value = get(name)
        if value is not None:
            yield _text(value), _number(get(name.replace("reset-after", "reset").replace("reset", "remaining")))


def _text(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return value.strip()[:1_000] if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    text = _text(value)
    return float(text) if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?", text) else None


def _seconds(text: str) -> float | str:
    number = _number(text)
    if number is None:
        if re.fullmatch(f"(?:{_PART})+", text):
            return sum(float(amount) * _UNITS[unit] for amount, unit in re.findall(_PART, text))
        return text
    if number > _EPOCH_MS:
        number /= 1_000
    return max(0.0, number - time.time()) if number > _EPOCH else number
