"""How far a request got: the functions in an exception's traceback tell, if its class doesn't."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

# By function and module. "connecting" ends before the first byte of a request is sent. The handshake of a tunnel
# through a proxy isn't a request.
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
    """Yield the frames that an exception passed through, innermost last."""
    tb = exc.__traceback__
    while tb is not None:
        yield tb.tb_frame
        tb = tb.tb_next


def phase_of(exc: Any) -> str:
    """Return `connecting`, `starting` (a program) or `redirected` if a function for just that is in the traceback.

    The same class is raised for a connection that failed and for an answer that did not come (`TimeoutError`,
    `ssl.SSLError`, `ConnectionResetError`). Only the traceback tells them apart. The result is empty for other steps.
    """
    for frame in frames(exc):
        modules = _STEPS.get(frame.f_code.co_name)
        if modules is not None and (step := modules.get(frame.f_globals.get("__name__", ""))):
            return step
    return ""


# Functions that follow redirects, by name and module: the local variable with the answers so far, which no exception
# has.
_FOLLOWING: Final = {
    "_request": {"aiohttp.client": "history"},
    "_send_handling_redirects": {"httpx._client": "history", "httpx2._client": "history"},
    "resolve_redirects": {"requests.sessions": "hist"},
    "http_error_302": {"urllib.request": "fp"},
    "urlopen": {"urllib3.poolmanager": "response"},
}


def redirected(exc: Any) -> bool:
    """Return True if a request that changes something was answered with 301, 302 or 303 before the one that failed.

    That request may have taken effect: 303 says so, and the others are used like it (RFC 9110, sections 15.4.2 to
    15.4.4). A request that was answered with 307 or 308 did not take effect.
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
