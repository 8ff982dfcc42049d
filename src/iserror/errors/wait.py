"""How long to wait before a retry: seconds from whatever an upstream says."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final, cast

MAX_RETRY_AFTER: Final = 86_400.0
"""Seconds. A wait of more than a day isn't useful to a model, so a longer one is cut."""


def parse_retry_after(value: object) -> float | None:
    """Read a wait in seconds from a number, a `timedelta`, a `datetime` or a `Retry-After` header.

    Both forms of the header are understood (RFC 9110, section 10.2.3): seconds, and an HTTP date.
    Whatever is negative, not finite or not understood gives None; more than a day is cut to a day.
    """
    seconds: float
    try:
        if value is None or isinstance(value, bool):
            return None
        if isinstance(value, bytes):
            value = value.decode("ascii")
        if isinstance(value, timedelta):
            seconds = value.total_seconds()
        elif isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
            seconds = max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
        elif isinstance(value, str) and not re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]{1,6})?\s*", value):
            return parse_retry_after(parsedate_to_datetime(value[:64]))
        else:
            seconds = float(cast(float, value))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, MAX_RETRY_AFTER)
