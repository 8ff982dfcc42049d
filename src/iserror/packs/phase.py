"""How far a request had got: what the functions in an exception's traceback tell, where its class does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

# "connecting" ends before the first byte of a request is sent; what a tunnel through a proxy needs is no request.
_STEPS: Final = {
    ("anyio", "connect_tcp"): "connecting",
    ("anyio", "connect_unix"): "connecting",
    ("anyio._core._sockets", "connect_tcp"): "connecting",
    ("anyio._core._sockets", "connect_unix"): "connecting",
    ("asyncio.base_events", "create_connection"): "connecting",
    ("asyncio.base_events", "start_tls"): "connecting",
    ("asyncio.streams", "open_connection"): "connecting",
    ("asyncio.streams", "open_unix_connection"): "connecting",
    ("http.client", "connect"): "connecting",
    ("requests.sessions", "resolve_redirects"): "redirected",
    ("socket", "create_connection"): "connecting",
    ("ssl", "do_handshake"): "connecting",
    ("subprocess", "_execute_child"): "starting",
    ("urllib3.connection", "connect"): "connecting",
}


def phase_of(exc: Any) -> str:
    """`connecting`, `starting` (a program) or `redirected` if a function that does only that is in the traceback.

    The same class is raised for a connection that was not made and for an answer that did not come (`TimeoutError`,
    `ssl.SSLError`, `ConnectionResetError`); nothing else tells them apart. "" where none of the steps is in it.
    """
    tb = exc.__traceback__
    while tb is not None:
        frame = tb.tb_frame
        step = _STEPS.get((frame.f_globals.get("__name__"), frame.f_code.co_name))
        if step is not None:
            return step
        tb = tb.tb_next
    return ""


# What follows redirects, and the local variable in which it has the answers so far: no exception holds them.
_FOLLOWING: Final = {
    ("aiohttp.client", "_request"): "history",
    ("httpx._client", "_send_handling_redirects"): "history",
    ("httpx2._client", "_send_handling_redirects"): "history",
    ("requests.sessions", "resolve_redirects"): "hist",
    ("urllib.request", "http_error_302"): "fp",
    ("urllib3.poolmanager", "urlopen"): "response",
}


def redirected(exc: Any) -> bool:
    """Whether a request that changes something was answered with 301, 302 or 303 before the one that failed.

    It may have been done: 303 says so, and the others are used like it (RFC 9110, sections 15.4.2 to 15.4.4). What is
    answered with 307 or 308 was not done there.
    """
    return any(map(_may_be_done, _answers(exc)))


def _may_be_done(answer: Any) -> bool:
    status = getattr(answer, "status_code", None) or getattr(answer, "status", None)
    request = getattr(answer, "request", answer)  # aiohttp's and http.client's answers know the method themselves
    method = getattr(request, "method", None) or getattr(request, "_method", None)
    return status in (301, 302, 303) and method not in ("GET", "HEAD", "OPTIONS")


def _answers(exc: Any) -> Iterator[Any]:
    yield from getattr(getattr(exc, "response", exc), "history", ())
    tb = exc.__traceback__
    while tb is not None:
        frame = tb.tb_frame
        local = _FOLLOWING.get((frame.f_globals.get("__name__"), frame.f_code.co_name))
        if local is not None:
            found = frame.f_locals.get(local)
            yield from found if isinstance(found, list) else (found,)
        tb = tb.tb_next
