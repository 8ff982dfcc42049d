"""`aiohttp`, the client."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.http import by_status
from iserror.support.causes import frames

_STATUS: Final = by_status("status", lambda exc: exc.headers)


def _status(exc: BaseException) -> object:
    # An answer that isn't HTTP is a ClientResponseError too. The parser chooses its status (400).
    return None if exc.__cause__ is not None else _STATUS.key(exc)


_BY_STATUS: Final = By(_STATUS.what, _status, _STATUS.entries, _STATUS.otherwise)


def _raised_by(exc: Any) -> str:
    """Return the module of the innermost frame in the traceback."""
    *_, last = frames(exc)
    return str(last.f_globals["__name__"])


# aiohttp retries a request with an idempotent method once if a kept connection breaks. If the retry fails to connect,
# nothing unsafe is left behind.
aiohttp: Final = Pack(
    name="aiohttp",
    sources=(
        "https://docs.aiohttp.org/en/stable/client_reference.html#client-exceptions",
        "https://github.com/aio-libs/aiohttp/blob/master/aiohttp/client.py",
        "https://github.com/aio-libs/aiohttp/blob/master/aiohttp/connector.py",
    ),
    # Not here: ClientError, which says nothing of how far the request got, and WSMessageTypeError, a mistake in the
    # tool.
    rows={
        "aiohttp.client_exceptions.ClientConnectorError": codes.DEPENDENCY_UNAVAILABLE,
        "aiohttp.client_exceptions.ClientConnectorDNSError": codes.DEPENDENCY_UNAVAILABLE,
        "aiohttp.client_exceptions.ClientProxyConnectionError": codes.DEPENDENCY_UNAVAILABLE,
        "aiohttp.client_exceptions.UnixClientConnectorError": codes.DEPENDENCY_UNAVAILABLE,
        "aiohttp.client_exceptions.ClientSSLError": codes.TLS_FAILED,
        "aiohttp.client_exceptions.ClientConnectorSSLError": codes.TLS_FAILED,
        "aiohttp.client_exceptions.ClientConnectorCertificateError": codes.TLS_FAILED,
        "aiohttp.client_exceptions.ServerFingerprintMismatch": codes.TLS_FAILED,
        # A timeout of the connection, or of the wait for a connection of the pool.
        "aiohttp.client_exceptions.ConnectionTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
        "aiohttp.client_exceptions.SocketTimeoutError": codes.UPSTREAM_TIMEOUT,
        # Before 3.10 both of them are this one.
        "aiohttp.client_exceptions.ServerTimeoutError": codes.UPSTREAM_TIMEOUT,
        # ClientTimeout(total=...), at any time. Other libraries' are none of this pack's.
        "builtins.TimeoutError": By("raised in", _raised_by, {"aiohttp.": codes.UPSTREAM_TIMEOUT}),
        "asyncio.exceptions.TimeoutError": By("raised in", _raised_by, {"aiohttp.": codes.UPSTREAM_TIMEOUT}),
        "aiohttp.client_exceptions.ServerDisconnectedError": codes.CONNECTION_LOST,
        "aiohttp.client_exceptions.ServerConnectionError": codes.CONNECTION_LOST,
        "aiohttp.client_exceptions.ClientConnectionResetError": codes.CONNECTION_LOST,
        "aiohttp.client_exceptions.ClientOSError": codes.CONNECTION_LOST,
        "aiohttp.client_exceptions.ClientConnectionError": codes.CONNECTION_LOST,
        # A server may act on a part of the body.
        "aiohttp.client_exceptions.UploadAbortedError": codes.CONNECTION_LOST,
        "aiohttp.client_exceptions.ClientPayloadError": By(
            "cause",
            lambda exc: type(exc.__cause__).__name__,
            {"ContentEncodingError": codes.UPSTREAM_INVALID_RESPONSE},
            codes.CONNECTION_LOST,
        ),
        "aiohttp.client_exceptions.ClientResponseError": _BY_STATUS,
        # `.json()` of a page that says 503 is a 503.
        "aiohttp.client_exceptions.ContentTypeError": _BY_STATUS,
        "aiohttp.client_exceptions.WSServerHandshakeError": _BY_STATUS,
        # CONNECT was refused.
        "aiohttp.client_exceptions.ClientHttpProxyError": By(
            "status",
            lambda exc: exc.status,
            {"407": codes.UPSTREAM_UNAUTHENTICATED},
            codes.DEPENDENCY_UNAVAILABLE,
        ),
        "aiohttp.client_exceptions.TooManyRedirects": codes.UPSTREAM_INVALID_RESPONSE,
        "aiohttp.client_exceptions.RedirectClientError": codes.UPSTREAM_INVALID_RESPONSE,
        "aiohttp.client_exceptions.InvalidUrlRedirectClientError": codes.UPSTREAM_INVALID_RESPONSE,
        "aiohttp.client_exceptions.NonHttpUrlRedirectClientError": codes.UPSTREAM_INVALID_RESPONSE,
        "aiohttp.client_exceptions.InvalidURL": codes.REQUEST_INVALID,
        "aiohttp.client_exceptions.InvalidUrlClientError": codes.REQUEST_INVALID,
        "aiohttp.client_exceptions.NonHttpUrlClientError": codes.REQUEST_INVALID,
    },
)
