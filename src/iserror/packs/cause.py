"""What an SDK's exception means that hides the one of its HTTP client: was the request sent?"""

from __future__ import annotations

from typing import Final

from iserror.errormap import Entry
from iserror.packs import codes
from iserror.packs.pack import By

MAX_DEPTH: Final = 10

# By the name alone, since an SDK takes one of several clients, and each of these names means the same in all of them.
_CLIENTS: Final = {
    # httpx, httpx2
    "ConnectError": codes.DEPENDENCY_UNAVAILABLE,
    "ConnectTimeout": codes.DEPENDENCY_UNAVAILABLE,  # and requests
    "PoolTimeout": codes.DEPENDENCY_BUSY,
    "ProxyError": codes.DEPENDENCY_UNAVAILABLE,  # and requests, urllib3: the proxy was not reached, or refused
    "UnsupportedProtocol": codes.REQUEST_INVALID,
    "LocalProtocolError": codes.REQUEST_INVALID,
    "InvalidURL": codes.REQUEST_INVALID,  # and requests
    "DecodingError": codes.UPSTREAM_INVALID_RESPONSE,
    "TooManyRedirects": codes.UPSTREAM_INVALID_RESPONSE,  # and requests
    "TimeoutException": codes.UPSTREAM_TIMEOUT,
    # urllib3, under requests
    "NewConnectionError": codes.DEPENDENCY_UNAVAILABLE,
    "ConnectTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
    "Timeout": codes.UPSTREAM_TIMEOUT,
    # aiohttp
    "ClientSSLError": codes.TLS_FAILED,
    "ClientConnectorError": codes.DEPENDENCY_UNAVAILABLE,
    "ConnectionTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
    # Python's own, under urllib.request and the above. Of TLS only what belongs to the handshake alone: another
    # SSLError may come while the answer is read.
    "ConnectionRefusedError": codes.DEPENDENCY_UNAVAILABLE,
    "gaierror": codes.DEPENDENCY_UNAVAILABLE,
    "SSLCertVerificationError": codes.TLS_FAILED,
    "TimeoutError": codes.UPSTREAM_TIMEOUT,
}


def below(exc: BaseException) -> BaseException | None:
    """The exception that this one was made from, as its maker says.

    Not `__context__`: in a tool that asks a second server when the first one fails, it leads on to the first failure.
    `reason` is urllib's and urllib3's; httpcore and requests give what they wrap as the first argument.
    """
    for found in (exc.__cause__, getattr(exc, "reason", None), *exc.args[:1]):
        if isinstance(found, BaseException):
            return found
    return None


def failed_tls(exc: BaseException) -> bool:
    """Whether TLS is behind an exception for a connection that was not made."""
    link: BaseException | None = exc
    for _ in range(MAX_DEPTH):
        if link is None:
            break
        # By name: a server that speaks no TLS has not loaded it.
        if any((cls.__module__, cls.__name__) == ("ssl", "SSLError") for cls in type(link).__mro__):
            return True
        link = below(link)
    return False


def by_cause(otherwise: Entry = codes.CONNECTION_LOST) -> By:
    """The entries of an exception that wraps an HTTP client's: by the nearest one that tells the phase.

    Args:
        otherwise: Where none tells it.
    """
    return By("cause", _client, {"TLS": codes.TLS_FAILED, **_CLIENTS}, otherwise)


def _client(exc: BaseException) -> str | None:
    link = below(exc)
    for _ in range(MAX_DEPTH):
        if link is None:
            break
        for cls in type(link).__mro__:
            if cls.__name__ in _CLIENTS:
                return "TLS" if cls.__name__ == "ConnectError" and failed_tls(link) else cls.__name__
        link = below(link)
    return None
