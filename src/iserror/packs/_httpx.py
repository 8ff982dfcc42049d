"""`httpx`."""

from __future__ import annotations

from typing import Final

from iserror.packs import codes
from iserror.packs.http import by_status, unreached
from iserror.packs.pack import Pack

httpx: Final = Pack(
    name="httpx",
    sources=("https://www.python-httpx.org/exceptions/", "https://www.python-httpx.org/advanced/timeouts/"),
    rows={
        "httpx.ConnectError": unreached(),
        "httpx.ConnectTimeout": codes.DEPENDENCY_UNAVAILABLE,
        "httpx.PoolTimeout": codes.DEPENDENCY_BUSY,
        "httpx.ProxyError": codes.DEPENDENCY_UNAVAILABLE,
        "httpx.UnsupportedProtocol": codes.REQUEST_INVALID,
        "httpx.LocalProtocolError": codes.REQUEST_INVALID,
        "httpx.InvalidURL": codes.REQUEST_INVALID,
        "httpx.TimeoutException": codes.UPSTREAM_TIMEOUT,
        "httpx.NetworkError": codes.CONNECTION_LOST,
        "httpx.RemoteProtocolError": codes.CONNECTION_LOST,
        "httpx.DecodingError": codes.UPSTREAM_INVALID_RESPONSE,
        "httpx.TooManyRedirects": codes.UPSTREAM_INVALID_RESPONSE,
        "httpx.HTTPStatusError": by_status("response.status_code", lambda exc: exc.response.headers),
    },
)
