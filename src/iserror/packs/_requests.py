"""`urllib3`, and `requests` over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from iserror.packs import codes
from iserror.packs.http import by_status, is_tls
from iserror.packs.pack import By, Pack
from iserror.packs.phase import phase_of

# By class name, the innermost exception first. urllib3 repeats a request that it sent only with a method that is
# idempotent (Retry.DEFAULT_ALLOWED_METHODS), so that the failure of a repeat to connect leaves nothing unsafe behind.
_CAUSES: Final = {
    "TLS": codes.TLS_FAILED,
    "connecting": codes.DEPENDENCY_UNAVAILABLE,
    "NewConnectionError": codes.DEPENDENCY_UNAVAILABLE,
    "ConnectTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
    # Of the connection to the proxy and of CONNECT only.
    "ProxyError": codes.DEPENDENCY_UNAVAILABLE,
    "ReadTimeoutError": codes.UPSTREAM_TIMEOUT,
    "RemoteDisconnected": codes.CONNECTION_LOST,
    "BadStatusLine": codes.UPSTREAM_INVALID_RESPONSE,
    "LineTooLong": codes.UPSTREAM_INVALID_RESPONSE,
    # Too many answers that were to be repeated (Retry's status_forcelist), or redirects.
    "ResponseError": codes.UPSTREAM_ERROR,
}


def _inside(exc: Any) -> Iterator[Any]:
    """The exception and those that it was made of."""
    for _ in range(6):
        if not isinstance(exc, BaseException):
            return
        yield exc
        reason = getattr(exc, "reason", None)  # of a MaxRetryError; a text in an ssl.SSLError
        inner = [arg for arg in (*exc.args, reason) if isinstance(arg, BaseException)]
        exc = inner[-1] if inner else exc.__cause__


def _cause(exc: BaseException) -> str | None:
    links = list(_inside(exc))[::-1]
    if any(map(phase_of, links)):
        return "TLS" if any(map(is_tls, links)) or _is(links, "SSLError") else "connecting"
    return next((name for link in links for name in _names(link) if name in _CAUSES), None)


def _is(links: list[Any], name: str) -> bool:
    return any(name in _names(link) for link in links)


def _names(link: object) -> list[str]:
    return [cls.__name__ for cls in type(link).__mro__]


_BY_CAUSE: Final = By("cause", _cause, _CAUSES, codes.CONNECTION_LOST)

urllib3: Final = Pack(
    name="urllib3",
    sources=(
        "https://urllib3.readthedocs.io/en/stable/reference/urllib3.exceptions.html",
        "https://github.com/urllib3/urllib3/blob/main/src/urllib3/connectionpool.py",
    ),
    # Not here: what a mistake in the tool raises (HostChangedError, FullPoolError, ClosedPoolError, TimeoutStateError,
    # ResponseNotChunked, UnrewindableBodyError), and warnings.
    rows={
        "urllib3.exceptions.MaxRetryError": _BY_CAUSE,
        "urllib3.exceptions.ProtocolError": _BY_CAUSE,
        "urllib3.exceptions.SSLError": _BY_CAUSE,
        "urllib3.exceptions.ProxyError": _BY_CAUSE,
        # A TLS handshake that stalls is one, too.
        "urllib3.exceptions.ReadTimeoutError": _BY_CAUSE,
        "urllib3.exceptions.ConnectTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
        "urllib3.exceptions.NewConnectionError": codes.DEPENDENCY_UNAVAILABLE,
        "urllib3.exceptions.NameResolutionError": codes.DEPENDENCY_UNAVAILABLE,
        "urllib3.exceptions.TimeoutError": codes.UPSTREAM_TIMEOUT,
        "urllib3.exceptions.EmptyPoolError": codes.DEPENDENCY_BUSY,
        "urllib3.exceptions.IncompleteRead": codes.CONNECTION_LOST,
        "urllib3.exceptions.InvalidChunkLength": codes.UPSTREAM_INVALID_RESPONSE,
        "urllib3.exceptions.BodyNotHttplibCompatible": codes.UPSTREAM_INVALID_RESPONSE,
        "urllib3.exceptions.DecodeError": codes.UPSTREAM_INVALID_RESPONSE,
        "urllib3.exceptions.HeaderParsingError": codes.UPSTREAM_INVALID_RESPONSE,
        "urllib3.exceptions.InvalidHeader": codes.UPSTREAM_INVALID_RESPONSE,
        "urllib3.exceptions.ResponseError": codes.UPSTREAM_ERROR,
        "urllib3.exceptions.LocationValueError": codes.REQUEST_INVALID,
        "urllib3.exceptions.LocationParseError": codes.REQUEST_INVALID,
        "urllib3.exceptions.URLSchemeUnknown": codes.REQUEST_INVALID,
        "urllib3.exceptions.ProxySchemeUnknown": codes.REQUEST_INVALID,
        "urllib3.exceptions.ProxySchemeUnsupported": codes.REQUEST_INVALID,
    },
)
requests: Final = Pack(
    name="requests",
    sources=(
        "https://requests.readthedocs.io/en/latest/api/#exceptions",
        "https://github.com/psf/requests/blob/main/src/requests/adapters.py",
    ),
    # Not here: StreamConsumedError and UnrewindableBodyError, which are mistakes in the tool; RequestException.
    rows={
        # Which of a connection that was not made and one that broke only what it was raised for tells.
        "requests.exceptions.ConnectionError": _BY_CAUSE,
        "requests.exceptions.ProxyError": _BY_CAUSE,
        # Of the handshake, or of a connection that breaks later.
        "requests.exceptions.SSLError": _BY_CAUSE,
        "requests.exceptions.ReadTimeout": _BY_CAUSE,
        "requests.exceptions.ConnectTimeout": codes.DEPENDENCY_UNAVAILABLE,
        "requests.exceptions.Timeout": codes.UPSTREAM_TIMEOUT,
        "requests.exceptions.ChunkedEncodingError": codes.CONNECTION_LOST,
        "requests.exceptions.ContentDecodingError": codes.UPSTREAM_INVALID_RESPONSE,
        "requests.exceptions.JSONDecodeError": codes.UPSTREAM_INVALID_RESPONSE,
        "requests.exceptions.TooManyRedirects": codes.UPSTREAM_INVALID_RESPONSE,
        "requests.exceptions.RetryError": codes.UPSTREAM_ERROR,
        "requests.exceptions.InvalidURL": codes.REQUEST_INVALID,
        "requests.exceptions.InvalidProxyURL": codes.REQUEST_INVALID,
        "requests.exceptions.InvalidSchema": codes.REQUEST_INVALID,
        "requests.exceptions.MissingSchema": codes.REQUEST_INVALID,
        "requests.exceptions.InvalidHeader": codes.REQUEST_INVALID,
        "requests.exceptions.InvalidJSONError": codes.REQUEST_INVALID,
        "requests.exceptions.URLRequired": codes.REQUEST_INVALID,
        "requests.exceptions.HTTPError": by_status("response.status_code", lambda exc: exc.response.headers),
    },
)
