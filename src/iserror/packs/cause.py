"""Whether an SDK sent the request, if its exception hides the HTTP client's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By
from iserror.packs import codes
from iserror.packs._aiohttp import aiohttp
from iserror.packs._httpx import httpx, httpx2
from iserror.packs._requests import requests, urllib3
from iserror.packs._stdlib import stdlib
from iserror.packs.http import below
from iserror.support.loading import full_name, mro_of

_KNOWN: Final = {name: pack for pack in (stdlib, aiohttp, urllib3, requests, httpx2, httpx) for name in pack.rows}
_CAUSES: Final = {
    entry.code: entry
    for entry in (
        codes.DEPENDENCY_UNAVAILABLE,
        codes.DEPENDENCY_BUSY,
        codes.TLS_FAILED,
        codes.REQUEST_INVALID,
        codes.UPSTREAM_TIMEOUT,
        codes.UPSTREAM_INVALID_RESPONSE,
        codes.CONNECTION_LOST,
    )
}


def by_cause(otherwise: Entry = codes.CONNECTION_LOST, why: Callable[[Any], Any] | None = None) -> By:
    """Return the entries of an exception that wraps an HTTP client's, from the client's own pack.

    Args:
        otherwise: The entry if the client doesn't tell how far the request got.
        why: Reads the client's exception from an attribute. If it raises, there is none.
    """
    return By("cause", _behind if why is None else lambda exc: cause_of(why(exc)), _CAUSES, otherwise)


def _behind(exc: BaseException) -> str | None:
    links = below(exc)
    next(links)
    return _code(links)


def cause_of(exc: BaseException) -> str | None:
    """Return the code of the first HTTP client's exception among this one and those that it was made from.

    None if the entry's outcome isn't the outcome that its code stands for.
    """
    return _code(below(exc))


def _code(links: Iterator[BaseException]) -> str | None:
    for link in links:
        for cls in mro_of(type(link))[:-1]:
            name = full_name(cls)
            entry = _KNOWN[name].find(name, link) if name in _KNOWN else None
            if entry is not None:
                return entry.code if entry.outcome == codes.VOCABULARY[entry.code].outcome else None
    return None
