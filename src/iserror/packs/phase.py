"""How far a request had got: what the functions in an exception's traceback tell, where its class does not."""

from __future__ import annotations

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
