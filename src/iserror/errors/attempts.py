"""Whether a failure shows that a request had gone out before it.

An exception tells how the last request ended. Most clients repeat a request by themselves, follow redirects and call
hooks, so that the last one may have failed to connect, or have been refused, after another had arrived. Whatever shows
such a request counts, and so does a record that can't be read: `not_applied` needs proof.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from types import FrameType
from typing import Any, Final

from iserror.errors.records import (
    JUDGES,
    MAX_LINKS,
    RECORDS,
    Reader,
    answered,
    links_of,
    redis_repeated,
    tenacity_repeated,
    unsent,
)
from iserror.support.causes import frames, module_of
from iserror.support.loading import is_library
from iserror.support.look import look
from iserror.support.sdk import package_of

MAX_FRAMES: Final = 400
"""The most frames of a failure that are looked at. A longer traceback can't be read as a whole."""

_BULK: Final = ("elasticsearch.helpers", "opensearchpy.helpers", "kubernetes.utils", "s3transfer")
"""Modules whose functions send many requests."""

# --- what lies between the tool and the client ---------------------------------------------------------------


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLIENTS: Final = _names(
    "aiobotocore aiohttp aiomysql aiosqlite anthropic asyncpg azure boto3 botocore bson elastic_transport "
    "elasticsearch github githubkit google grpc h11 h2 hishel http httpcore httpcore2 httpx httpx2 kubernetes motor "
    "openai opensearchpy psycopg psycopg_pool pymongo pymysql redis requests slack_sdk socket sqlalchemy sqlite3 ssl "
    "stripe urllib urllib3 valkey"
)


_NEUTRAL: Final = _names(
    "anyio asgiref ddtrace elasticapm exceptiongroup fastmcp greenlet iserror logfire mcp newrelic opentelemetry "
    "pydantic pydantic_core pydantic_settings pytest _pytest pluggy sentry_sdk sniffio stamina starlette tenacity "
    "trio uvicorn uvloop wrapt"
)
"""Packages that pass a call on as it is, or whose own record is read above."""

_REPEATING: Final = _names(
    "aiohttp_client aiohttp_retry backoff failsafe httpx_retries httpx_retry hyx opnieuw pyfailsafe redo retry retry2 "
    "retry_async retry_requests retrying riprova"
)
"""Packages that call again, and keep no record that can be read."""


def _is_known(module: str) -> bool:
    top = package_of(module)
    return top in _NEUTRAL or top in _CLIENTS or top in sys.stdlib_module_names


def _wrapped(passed: list[str]) -> bool:
    """Return True if another library called the client: how often isn't known.

    Args:
        passed: The modules that the failure passed through, innermost last. The first one that isn't known is the
            author's.
    """
    last = next((at for at in range(len(passed) - 1, -1, -1) if package_of(passed[at]) in _CLIENTS), -1)
    author = ""
    for module in passed[: last + 1]:
        top = package_of(module)
        if top in _REPEATING:
            return True
        if _is_known(module):
            continue
        author = author or top
        if top != author and is_library(module):
            return True
    return any(package_of(module) in _REPEATING for module in passed)


# --- the failure as a whole ----------------------------------------------------------------------------------


def passed_client(exc: BaseException) -> bool:
    """Return True if an exception came through the code of a client library: something from outside was being read."""
    return any(package_of(module_of(frame)) in _CLIENTS for frame in islice(frames(exc), MAX_FRAMES))


def earlier(exc: BaseException) -> bool:
    """Return True unless everything that can be read of a failure says that it is about the only request.

    Never raises.
    """
    return look(_earlier, True, exc)


def _earlier(exc: BaseException) -> bool:
    links = list(links_of(exc))
    if len(links) > MAX_LINKS:
        return True
    own = [answer for link in links for answer in (look(getattr, None, link, "response", None),) if answer is not None]
    witnessed = set()
    left = MAX_FRAMES
    for number, link in enumerate(links):
        passed: list[str] = []
        connecting = False
        for frame in frames(link):
            left -= 1
            if left < 0:
                return True
            module, name = module_of(frame), frame.f_code.co_name
            passed.append(module)
            if module.startswith(_BULK):
                return True
            # A connection retries by itself below. None of those attempts sends a command.
            connecting = connecting or (module.endswith(".connection") and name.startswith(("connect", "get_conn")))
            reader = tenacity_repeated if module.startswith("tenacity") else RECORDS.get(name, {}).get(module)
            if reader is None or (reader is redis_repeated and connecting):
                continue
            witnessed.add(package_of(module))
            if look(_read, True, reader, frame, link, own):
                return True
        if _wrapped(passed):
            return True
        # What a client caught and raised again is explained by the client's own exception.
        caught_by_client = number > 0 and passed and package_of(passed[0]) in _CLIENTS
        if not caught_by_client and look(_said, True, link, witnessed):
            return True
        if look(_carried, True, link):
            return True
    return False


def _read(reader: Reader, frame: FrameType, link: BaseException, own: Any) -> bool:
    return bool(reader(frame.f_locals, link, own))


def _carried(link: Any) -> bool:
    """Read the record that an exception itself carries."""
    top = package_of(type(link).__module__)
    if top == "tenacity":
        return int(link.last_attempt.attempt_number) > 1
    if top == "elastic_transport":
        before = (error for error in getattr(link, "errors", ()) if type(error).__module__.startswith(top))
        return not all(map(unsent, before))
    answers = getattr(getattr(link, "response", None), "history", None) or getattr(link, "history", None) or ()
    return any(map(answered, answers)) if isinstance(answers, (list, tuple)) else False


def _said(exc: Any, witnessed: set[str]) -> bool:
    """Return True if the record of the library that raised an exception shows a retry, or can't be read."""
    for kind in type(exc).__mro__:
        judge = JUDGES.get(package_of(kind.__module__))
        if judge is not None:
            return judge(exc, witnessed)
    return False


def outside(exc: BaseException) -> Iterator[BaseException]:
    """Yield what an exception came from, up to the client that caught it.

    What a client caught and raised again is explained by the client's own exception.
    """
    for link in links_of(exc):
        first = next(frames(link), None)
        top = "" if first is None else package_of(module_of(first))
        if link is not exc and not (top in _CLIENTS or top == "anyio" or top in sys.stdlib_module_names):
            yield link
