"""How far a request had got: what the functions in an exception's traceback tell, where its class does not."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

# By function and module. "connecting" ends before the first byte of a request is sent; what a tunnel through a proxy
# needs is no request.
_STEPS: Final = {
    "connect_tcp": {"anyio._core._sockets": "connecting"},
    "connect_unix": {"anyio._core._sockets": "connecting"},
    "create_connection": {"asyncio.base_events": "connecting", "socket": "connecting"},
    "start_tls": {"asyncio.base_events": "connecting"},
    "open_connection": {"asyncio.streams": "connecting"},
    "open_unix_connection": {"asyncio.streams": "connecting"},
    "connect": {"http.client": "connecting", "urllib3.connection": "connecting"},
    "do_handshake": {"ssl": "connecting"},
    "_execute_child": {"subprocess": "starting"},
    "resolve_redirects": {"requests.sessions": "redirected"},
}


def frames(exc: BaseException) -> Iterator[FrameType]:
    """The frames that an exception passed through, innermost last; none of one that was not raised."""
    tb = exc.__traceback__
    while tb is not None:
        yield tb.tb_frame
        tb = tb.tb_next


def phase_of(exc: Any) -> str:
    """`connecting`, `starting` (a program) or `redirected` if a function that does only that is in the traceback.

    The same class is raised for a connection that was not made and for an answer that did not come (`TimeoutError`,
    `ssl.SSLError`, `ConnectionResetError`); nothing else tells them apart. "" where none of the steps is in it.
    """
    for frame in frames(exc):
        modules = _STEPS.get(frame.f_code.co_name)
        if modules is not None and (step := modules.get(frame.f_globals.get("__name__", ""))):
            return step
    return ""


# By function and module, what follows redirects: the local variable with the answers so far, which no exception holds.
_FOLLOWING: Final = {
    "_request": {"aiohttp.client": "history"},
    "_send_handling_redirects": {"httpx._client": "history", "httpx2._client": "history"},
    "resolve_redirects": {"requests.sessions": "hist"},
    "http_error_302": {"urllib.request": "fp"},
    "urlopen": {"urllib3.poolmanager": "response"},
}


def redirected(exc: Any) -> bool:
    """Whether a request that changes something was answered with 301, 302 or 303 before the one that failed.

    It may have been done: 303 says so, and the others are used like it (RFC 9110, sections 15.4.2 to 15.4.4). What is
    answered with 307 or 308 was not done there.
    """
    return any(answer is not None and _may_be_done(answer) for answer in _answers(exc))


def _may_be_done(answer: Any) -> bool:
    status = getattr(answer, "status_code", None) or getattr(answer, "status", None)
    request = getattr(answer, "request", answer)  # aiohttp's and http.client's answers know the method themselves
    method = getattr(request, "method", None) or getattr(request, "_method", None)
    return status in (301, 302, 303) and method not in ("GET", "HEAD", "OPTIONS")


def _answers(exc: Any) -> Iterator[Any]:
    yield from getattr(getattr(exc, "response", exc), "history", ())
    for frame in frames(exc):
        modules = _FOLLOWING.get(frame.f_code.co_name)
        if modules is not None and (local := modules.get(frame.f_globals.get("__name__", ""))):
            found = frame.f_locals.get(local)
            yield from found if isinstance(found, list) else (found,)
