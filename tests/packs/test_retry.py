"""How long an upstream asks to wait is read from every header in use, and from hostile ones without harm."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iserror.packs.retry import _RESETS, limited, wait_of


def date_in(seconds: float) -> str:
    return format_datetime(datetime.now(timezone.utc) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": b"7"}, 7),
        ({"retry-after": 7}, 7),
        ({"retry-after": "999999"}, 86_400),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Sunday, 06-Nov-94 08:49:37 GMT"}, 0),
        ({"retry-after": "Sun Nov  6 08:49:37 1994"}, 0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86_400),
        # Milliseconds, which say it better than whole seconds
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"x-ms-retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "120000"}, 120),
        ({"retry-after-ms": "999999999"}, 86_400),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1),
        # draft-ietf-httpapi-ratelimit-headers: version 8 and later, up to 7, up to 5
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"ratelimit": '"default";t=30'}, 30),
        ({"ratelimit": '"default";r=5;t=30'}, None),
        ({"ratelimit": '"burst";r=0;t=5, "day";r=100;t=3600'}, 5),
        ({"ratelimit": '"burst";r=0;t=5, "day;r=9;t=9";r=0;t=3600'}, 3_600),
        ({"ratelimit": "limit=100, remaining=0, reset=50"}, 50),
        ({"ratelimit": "limit=100, remaining=9, reset=50"}, None),
        ({"ratelimit-limit": "100", "ratelimit-remaining": "0", "ratelimit-reset": "50"}, 50),
        ({"ratelimit-reset": "50"}, 50),
        ({"ratelimit-remaining": "9", "ratelimit-reset": "50"}, None),
        # The many that came before it
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "50"}, 50),
        ({"x-ratelimit-remaining": "0.0", "x-ratelimit-reset": "50.5"}, 50.5),
        ({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "50"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "1.5"}, 1.5),
        ({"x-ratelimit-remaining": "4", "x-ratelimit-reset-after": "1.5"}, None),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "1400000000"}, 0),
        ({"x-ratelimit-reset": "1400000000000"}, 0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-requests": "6ms"}, 0.006),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3_723.5),
        ({"x-ratelimit-reset-tokens": "9d"}, 86_400),
        ({"x-ratelimit-reset-requests": "2s", "x-ratelimit-reset-tokens": "1m30.951s"}, 90.951),
        (
            {
                "x-ratelimit-remaining-requests": "7",
                "x-ratelimit-reset-requests": "9m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
            2,
        ),
        ({"x-ratelimit-reset": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        # The server's own word goes before what its limits imply.
        ({"retry-after": "3", "ratelimit": '"a";r=0;t=30', "x-ratelimit-reset": "50"}, 3),
        ({"retry-after": "later", "x-ratelimit-reset": "50"}, 50),
    ],
)
def test_forms(headers: dict[str, Any], wait: float | None) -> None:
    """Each header in use is understood."""
    assert wait_of(headers) == (pytest.approx(wait) if wait is not None else None)


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": date_in(1_000)},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 1_000)},
        {"ratelimit-reset": str(int(time.time()) + 1_000)},
        {"x-ratelimit-reset": str(int((time.time() + 1_000) * 1_000))},
        {"x-ratelimit-reset": f"{time.time() + 1_000:.3f}"},
    ],
)
def test_points_in_time(headers: dict[str, str]) -> None:
    """A date, and a number of seconds or milliseconds since 1970, are waited for from now."""
    found = wait_of(headers)
    assert found is not None
    assert 900 < found <= 1_000


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "-1", "+1", "nan", "inf", "1e9", "0x10", "1_000", "1,5", "7, 7", "²", "٧", "１", "\x00", "None"),
        *(
            "9" * 30,
            "9" * 5_000,
            "1" + "0" * 400,
            "s",
            "ms",
            "1x",
            "1s later",
            "-1s",
            "-5m0s",
            "Wed, 99 Foo 20155 99:99:99",
        ),
        *(
            "Wed, 21 Oct 0000 07:28:00 GMT",
            "Fri, 31 Dec 9999 23:59:59 -9999",
            "2015-10-21T07:28:00Z",
            "=;r=0;t=",
            "r=0;t=-5",
        ),
        *(b"\xff", b"", True, None, -1, float("nan"), float("inf"), 10**5_000, [], {}, object()),
    ],
    ids=lambda value: ascii(value)[:20] if isinstance(value, str) else type(value).__name__,
)
def test_hostile_values(value: object) -> None:
    """A value that is none of them is no wait, or one of at most a day, in each header."""
    for name in ("retry-after", "retry-after-ms", "x-ms-retry-after-ms", "ratelimit", *_RESETS):
        found = wait_of({name: value})
        assert found is None or 0 <= found <= 86_400
        limited({name: value, "x-ratelimit-remaining": value})


NAMES = (
    *("retry-after", "retry-after-ms", "x-ms-retry-after-ms", "ratelimit", "ratelimit-remaining"),
    *("x-ratelimit-remaining", "x-ratelimit-remaining-tokens", *_RESETS),
)
PIECES = (
    *("0", "1", "9", "123", "1700000000", "999999999999", ".", "-", "+", " ", ",", '"', "²", "\x00", "e9", "nan"),
    *("ms", "s", "m", "h", "d", "r=", "t=", ";r=0;t=", "remaining=", "reset=", "GMT", "Wed, 21 Oct 2015 07:28:00"),
)
VALUES = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.binary(max_size=20),
    st.integers(),
    st.floats(),
    st.datetimes().map(lambda moment: format_datetime(moment.replace(tzinfo=timezone.utc), usegmt=True)),
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_never_raises(headers: dict[str, object]) -> None:
    """Whatever the headers hold, a wait is none or lies between nothing and a day."""
    found = wait_of(headers)
    assert found is None or (isinstance(found, float) and 0 <= found <= 86_400)
    assert limited(headers) in (True, False)


def test_limited() -> None:
    """A refusal is one of how often where the response says when to come back, or that nothing is left."""
    assert limited({"retry-after": "60"})
    assert limited({"x-ratelimit-remaining": "0"})
    assert not limited({"x-ratelimit-remaining": "10", "x-ratelimit-reset": "60"})
    assert not limited({})
