"""What an SDK's exception means that hides the one of its HTTP client: was the request sent?"""

from __future__ import annotations

from typing import Final

from iserror.errormap import Entry
from iserror.packs import codes
from iserror.packs._aiohttp import aiohttp
from iserror.packs._httpx import httpx, httpx2
from iserror.packs._requests import requests, urllib3
from iserror.packs._stdlib import stdlib
from iserror.packs.http import below
from iserror.packs.pack import By

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


def by_cause(otherwise: Entry = codes.CONNECTION_LOST) -> By:
    """The entries of an exception that wraps an HTTP client's, as that client's pack has them.

    Args:
        otherwise: Where the client does not tell how far the request got.
    """
    return By("cause", _code, _CAUSES, otherwise)


def _code(exc: BaseException) -> str | None:
    """What the nearest exception behind this one stands for, if it says of the outcome what the code says."""
    links = below(exc)
    next(links)
    for link in links:
        for cls in type(link).__mro__[:-1]:
            name = f"{cls.__module__}.{cls.__qualname__}"
            entry = _KNOWN[name].find(name, link) if name in _KNOWN else None
            if entry is not None:
                return entry.code if entry.outcome == codes.VOCABULARY[entry.code].outcome else None
    return None
