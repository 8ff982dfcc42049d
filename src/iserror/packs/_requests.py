"""`urllib3`, and `requests` over it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.errors.records import phase_of
from iserror.packs import codes
from iserror.packs.http import by_status, is_tls

# urllib3 retries a request that it sent only if the method is idempotent (Retry.DEFAULT_ALLOWED_METHODS). If the retry
# fails to connect, nothing unsafe is left behind.
_CAUSES: Final = {
    "TLS": codes.TLS_FAILED,
    "connecting": codes.DEPENDENCY_UNAVAILABLE,
    "NewConnectionError": codes.DEPENDENCY_UNAVAILABLE,
    "ConnectTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
    "ProxyError": codes.DEPENDENCY_UNAVAILABLE,
    "ReadTimeoutError": codes.UPSTREAM_TIMEOUT,
    "RemoteDisconnected": codes.CONNECTION_LOST,
    "BadStatusLine": codes.UPSTREAM_INVALID_RESPONSE,
    "LineTooLong": codes.UPSTREAM_INVALID_RESPONSE,
    # Too many redirects, or too many answers with a status to retry (Retry's status_forcelist).
    "ResponseError": codes.UPSTREAM_ERROR,
}


def _cause(exc: BaseException) -> str | None:
    """Return the cause: a phase, or a class name, of the innermost exception first."""
    links = _inside(exc)
    if phase_of(links[-1]):
        tls = is_tls(links[-1]) or any(cls.__name__ == "SSLError" for cls in type(links[-1]).__mro__)
        return "TLS" if tls else "connecting"
    return next(filter(None, map(_known, map(type, reversed(links)))), None)


def _inside(exc: Any) -> list[Any]:
    """Return the exception and those that it was made from, the innermost last."""
    links: list[Any] = []
    while isinstance(exc, BaseException) and len(links) < 6:
        links.append(exc)
        inner = vars(exc).get("reason")  # of a MaxRetryError
        for arg in exc.args if inner is None else ():
            inner = arg if isinstance(arg, BaseException) else inner
        exc = inner or exc.__cause__
    return links


@lru_cache(maxsize=256)
def _known(kind: type) -> str | None:
    return next((cls.__name__ for cls in kind.__mro__ if cls.__name__ in _CAUSES), None)


def _by_cause(otherwise: Entry, *causes: str) -> By:
    return By("cause", _cause, {cause: _CAUSES[cause] for cause in causes}, otherwise)


_SSL: Final = _by_cause(codes.CONNECTION_LOST, "TLS")
_TIMEOUT: Final = _by_cause(codes.UPSTREAM_TIMEOUT, "connecting")
_BROKEN: Final = _by_cause(codes.CONNECTION_LOST, "connecting", "RemoteDisconnected", "BadStatusLine", "LineTooLong")
# The connection to the proxy and CONNECT; or the request itself, if the proxy passes it on as it is.
_PROXY: Final = _by_cause(
    codes.DEPENDENCY_UNAVAILABLE, "RemoteDisconnected", "BadStatusLine", "LineTooLong", "ReadTimeoutError"
)
# The tool's mistake, or an upstream's: it redirects to something that isn't an address.
_ADDRESS: Final = By("phase", phase_of, {"redirected": codes.UPSTREAM_INVALID_RESPONSE}, codes.REQUEST_INVALID)

urllib3: Final = Pack(
    name="urllib3",
    sources=(
        "https://urllib3.readthedocs.io/en/stable/reference/urllib3.exceptions.html",
        "https://github.com/urllib3/urllib3/blob/main/src/urllib3/connectionpool.py",
    ),
    # Not here: what a mistake in the tool raises (HostChangedError, FullPoolError, ClosedPoolError, TimeoutStateError,
    # ResponseNotChunked, BodyNotHttplibCompatible, UnrewindableBodyError), and what is never seen on its own
    # (IncompleteRead and InvalidChunkLength, in a ProtocolError; HeaderParsingError, in the log).
    rows={
        "urllib3.exceptions.MaxRetryError": _by_cause(codes.CONNECTION_LOST, *_CAUSES),
        "urllib3.exceptions.ProtocolError": _BROKEN,
        # The handshake, or a connection that breaks later.
        "urllib3.exceptions.SSLError": _SSL,
        "urllib3.exceptions.ProxyError": _PROXY,
        # A TLS handshake that stalls is one, too.
        "urllib3.exceptions.ReadTimeoutError": _TIMEOUT,
        "urllib3.exceptions.ConnectTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
        "urllib3.exceptions.NewConnectionError": codes.DEPENDENCY_UNAVAILABLE,
        "urllib3.exceptions.NameResolutionError": codes.DEPENDENCY_UNAVAILABLE,
        "urllib3.exceptions.TimeoutError": codes.UPSTREAM_TIMEOUT,
        "urllib3.exceptions.EmptyPoolError": codes.DEPENDENCY_BUSY,
        "urllib3.exceptions.DecodeError": codes.UPSTREAM_INVALID_RESPONSE,
        # The answer has two lengths that differ.
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
        "requests.exceptions.ConnectionError": _by_cause(
            codes.CONNECTION_LOST, *_BROKEN.entries, "NewConnectionError", "ReadTimeoutError"
        ),
        "requests.exceptions.ProxyError": _PROXY,
        "requests.exceptions.SSLError": _SSL,
        "requests.exceptions.ReadTimeout": _TIMEOUT,
        "requests.exceptions.ConnectTimeout": codes.DEPENDENCY_UNAVAILABLE,
        "requests.exceptions.Timeout": codes.UPSTREAM_TIMEOUT,
        "requests.exceptions.ChunkedEncodingError": codes.CONNECTION_LOST,
        "requests.exceptions.ContentDecodingError": codes.UPSTREAM_INVALID_RESPONSE,
        "requests.exceptions.JSONDecodeError": codes.UPSTREAM_INVALID_RESPONSE,
        "requests.exceptions.TooManyRedirects": codes.UPSTREAM_INVALID_RESPONSE,
        "requests.exceptions.RetryError": codes.UPSTREAM_ERROR,
        "requests.exceptions.InvalidURL": _ADDRESS,
        "requests.exceptions.InvalidProxyURL": codes.REQUEST_INVALID,
        "requests.exceptions.InvalidSchema": _ADDRESS,
        "requests.exceptions.MissingSchema": _ADDRESS,
        # A header of the request. If it wraps urllib3's exception of the same name, a header of the answer.
        "requests.exceptions.InvalidHeader": By(
            "cause",
            lambda exc: type(exc.args[0]).__module__,
            {"urllib3.": codes.UPSTREAM_INVALID_RESPONSE},
            codes.REQUEST_INVALID,
        ),
        "requests.exceptions.InvalidJSONError": codes.REQUEST_INVALID,
        "requests.exceptions.URLRequired": codes.REQUEST_INVALID,
        "requests.exceptions.HTTPError": by_status("response.status_code", lambda exc: exc.response.headers),
    },
)
