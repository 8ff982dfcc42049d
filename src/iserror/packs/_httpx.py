"""`httpx`, and `httpx2`, which Pydantic maintains from its source: the same classes under another name."""

from __future__ import annotations

from typing import Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.http import by_status, unreached


def _rows(library: str) -> dict[str, Entry | By]:
    # Not here: StreamError and its kind, CookieConflict, which are mistakes in the tool; RequestError and HTTPError,
    # which say nothing of how far the request got.
    rows: dict[str, Entry | By] = {
        "ConnectError": unreached(),
        "ConnectTimeout": codes.DEPENDENCY_UNAVAILABLE,
        "PoolTimeout": codes.DEPENDENCY_BUSY,
        # Only of a CONNECT or SOCKS handshake; a proxy that passes plain HTTP on answers with a status (407).
        "ProxyError": codes.DEPENDENCY_UNAVAILABLE,
        "UnsupportedProtocol": codes.REQUEST_INVALID,
        "LocalProtocolError": codes.REQUEST_INVALID,
        "InvalidURL": codes.REQUEST_INVALID,
        "ReadTimeout": codes.UPSTREAM_TIMEOUT,
        # The request was sent in part, and a server may act on a part.
        "WriteTimeout": codes.UPSTREAM_TIMEOUT,
        "TimeoutException": codes.UPSTREAM_TIMEOUT,
        "ReadError": codes.CONNECTION_LOST,
        "WriteError": codes.CONNECTION_LOST,
        "CloseError": codes.CONNECTION_LOST,
        "NetworkError": codes.CONNECTION_LOST,
        # "Server disconnected" and an answer that isn't HTTP are one class. Only their texts differ.
        "RemoteProtocolError": codes.CONNECTION_LOST,
        "TransportError": codes.CONNECTION_LOST,
        "DecodingError": codes.UPSTREAM_INVALID_RESPONSE,
        "TooManyRedirects": codes.UPSTREAM_INVALID_RESPONSE,
        "HTTPStatusError": by_status("response.status_code", lambda exc: exc.response.headers),
    }
    return {f"{library}.{name}": row for name, row in rows.items()}


httpx: Final = Pack(
    name="httpx",
    sources=(
        "https://www.python-httpx.org/exceptions/",
        "https://www.python-httpx.org/advanced/timeouts/",
        "https://github.com/encode/httpcore/blob/1.0.9/httpcore/_async/connection.py",
    ),
    rows=_rows("httpx"),
)
httpx2: Final = Pack(
    name="httpx2",
    sources=(
        "https://github.com/pydantic/httpx2/blob/main/src/httpx2/httpx2/_exceptions.py",
        "https://github.com/pydantic/httpx2/blob/main/src/httpx2/httpx2/_sse.py",
    ),
    # The answer isn't a stream of server-sent events, or an event is too long.
    rows={**_rows("httpx2"), "httpx2.SSEError": codes.UPSTREAM_INVALID_RESPONSE},
)
