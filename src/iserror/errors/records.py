"""What libraries record of their attempts, and how far a request got: read from frames and attributes.

Only names of modules and functions are known here. No library is imported. Whatever is read here may be hostile, so
readers are called through `look`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from iserror.support.causes import CAUSE, CONTEXT, Group, frames, members, module_of
from iserror.support.look import look
from iserror.support.sdk import package_of

MAX_LINKS: Final = 50
"""The most exceptions of one failure that are looked at."""

Locals: TypeAlias = Mapping[str, Any]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"})
"""Methods of requests that change nothing at a server."""


def links_of(exc: Any) -> Iterator[BaseException]:
    """Yield an exception and all that it was made from or while, each once, up to one more than `MAX_LINKS`.

    A suppressed context counts: what was being handled has been, whoever hides it.
    """
    seen: set[int] = set()
    waiting = [exc]
    while waiting and len(seen) <= MAX_LINKS:
        link = waiting.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += (CAUSE(link), CONTEXT(link), *look(_inner, (), link))
        if isinstance(link, Group):
            waiting += members(link)


def _inner(link: BaseException) -> tuple[object, ...]:
    kept = vars(link)
    named = (kept.get(name) for name in ("reason", "original_error", "inner_exception", "orig", "info"))
    return (*named, *link.args[:3])


# --- how far a request got -----------------------------------------------------------------------------------

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


def phase_of(exc: Any) -> str:
    """Return `connecting`, `starting` (a program) or `redirected` if a function for just that is in the traceback.

    The same class is raised for a connection that failed and for an answer that did not come (`TimeoutError`,
    `ssl.SSLError`, `ConnectionResetError`). Only the traceback tells them apart. The result is empty for other steps.
    """
    for frame in frames(exc):
        modules = _STEPS.get(frame.f_code.co_name)
        if modules is not None and (step := modules.get(module_of(frame))):
            return step
    return ""


_UNSENT: Final = frozenset(
    {"NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ConnectionRefusedError", "gaierror"}
)


def unsent(exc: object) -> bool:
    """Return True if the failure of an earlier attempt proves that this attempt sent nothing."""
    links = list(links_of(exc)) if isinstance(exc, BaseException) else []
    if any(f.f_code.co_name == "getresponse" and module_of(f) == "http.client" for x in links for f in frames(x)):
        return False
    return any(type(link).__name__ in _UNSENT or phase_of(link) == "connecting" for link in links)


def _refused(status: object) -> bool:
    """Return True for a status that says that the request was not carried out."""
    return isinstance(status, int) and (status in (307, 308) or (400 <= status < 500 and status != 408))


def _safe(method: object) -> bool:
    name = method.decode() if isinstance(method, bytes) else method
    return isinstance(name, str) and name.upper() in _SAFE


def answered(answer: Any) -> bool:
    """Return True if a response may stand for a request that took effect."""
    status = getattr(answer, "status_code", None) or getattr(answer, "status", None)
    # The answers of aiohttp and http.client know the method themselves. urllib3's is made of http.client's.
    known = getattr(answer, "request", None) or getattr(answer, "_original_response", None) or answer
    method = getattr(known, "method", None) or getattr(known, "_method", None)
    return not _safe(method) and not _refused(status)


# --- the records of libraries --------------------------------------------------------------------------------
# Each reader returns True for an earlier attempt. One that raises has found a record that can't be read.


def _history(retries: Any) -> bool:
    """Read urllib3's own record: `Retry.history`, with the failure or the status of each earlier attempt."""
    entries = retries.history
    if not isinstance(entries, tuple):
        raise TypeError("no history")
    return any(
        not _safe(entry.method) and not (unsent(entry.error) if entry.error is not None else _refused(entry.status))
        for entry in entries
    )


def _urllib3(seen: Locals, link: Any, own: Any) -> bool:
    retries = seen.get("retries")
    return hasattr(retries, "history") and _history(retries)  # False and numbers: before the first attempt


def _answer_in(*names: str) -> Callable[[Locals, Any, Any], bool]:
    """Return the reader of local variables that hold the answers so far. The failure's own answer isn't one."""

    def read(seen: Locals, link: Any, own: Any) -> bool:
        for name in names:
            found = seen.get(name)
            for answer in found if isinstance(found, (list, tuple)) else (found,):
                if answer is not None and not any(answer is mine for mine in own) and answered(answer):
                    return True
        return False

    return read


_REPEATED: Final = ("PUT", "DELETE")
"""Methods of requests that aiohttp repeats and that change something."""


def _aiohttp(seen: Locals, link: Any, own: Any) -> bool:
    answer = seen.get("resp")
    about = getattr(link, "request_info", None)
    mine = (answer,) if about is not None and about is getattr(answer, "request_info", None) else ()
    if _answer_in("history", "resp")(seen, link, mine):
        return True
    # The flag is False from the start for methods that aren't repeated.
    session, method = seen["self"], str(seen["method"]).upper()
    repeats = getattr(session, "_retry_connection", True) and method in _REPEATED
    return repeats and seen.get("retry_persistent_connection") is False


def _counted(name: str, first: int = 0) -> Callable[[Locals, Any, Any], bool]:
    """Return the reader of a counter of attempts."""
    return lambda seen, link, own: int(seen.get(name, first)) > first


def redis_repeated(seen: Locals, link: Any, own: Any) -> bool:
    # This failure is counted if it is of a kind that is repeated after.
    return int(seen["failures"]) > isinstance(link, seen["self"]._supported_errors)


def tenacity_repeated(seen: Locals, link: Any, own: Any) -> bool:
    state = seen.get("retry_state") or getattr(seen.get("self"), "_retry_state", None)
    return state is not None and int(state.attempt_number) > 1


def _slack(seen: Locals, link: Any, own: Any) -> bool:
    return int(seen["retry_state"].current_attempt) > 0


def _azure(seen: Locals, link: Any, own: Any) -> bool:
    settings = seen.get("retry_settings")
    return settings is not None and _azure_history(settings["history"])


def _azure_history(history: Any) -> bool:
    return any(
        not (unsent(entry.error) if entry.error is not None else _refused(entry.http_response.status_code))
        for entry in history
        if not _safe(getattr(entry.http_request, "method", None))
    )


def _google(seen: Locals, link: Any, own: Any) -> bool:
    return len(seen["error_list"]) > 1  # the last one is this failure


def _sent(seen: Locals, link: Any, own: Any) -> bool:
    """Return True in a function that runs after a request was sent, or while its body is."""
    request = seen.get("request")
    method = getattr(request, "method", None) if request is not None else getattr(seen.get("self"), "_method", None)
    return not _safe(method)


def _slack_upload(seen: Locals, link: Any, own: Any) -> bool:
    return any("upload_url" in file for file in seen.get("files") or ())


def _several(seen: Locals, link: Any, own: Any) -> bool:
    """Return True in a function that sends several requests."""
    return True


Reader: TypeAlias = Callable[[Locals, Any, Any], bool]
_HOOKED: Final = _answer_in("response", "history")
RECORDS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "urlopen": {"urllib3.connectionpool": _urllib3, "urllib3.poolmanager": _answer_in("response")},
    "getresponse": {"http.client": _sent},
    "send": {
        "requests.sessions": _answer_in("r", "history"),
        "azure.core.pipeline.policies._retry": _azure,
        "azure.core.pipeline.policies._retry_async": _azure,
    },
    "resolve_redirects": {"requests.sessions": _answer_in("hist", "resp")},
    "http_error_302": {"urllib.request": _answer_in("fp")},
    "_send_handling_redirects": {"httpx._client": _HOOKED, "httpx2._client": _HOOKED},
    "_send_handling_auth": {"httpx._client": _HOOKED, "httpx2._client": _HOOKED},
    "_request": {"aiohttp.client": _aiohttp},
    "request": {
        "openai._base_client": _counted("retries_taken"),
        "anthropic._base_client": _counted("retries_taken"),
        "githubkit.core": _counted("retry_count"),
    },
    "arequest": {"githubkit.core": _counted("retry_count")},
    "_send_request": {"botocore.endpoint": _counted("attempts", 1), "aiobotocore.endpoint": _counted("attempts", 1)},
    "call_with_retry": {
        f"{library}{part}.retry": redis_repeated for library in ("redis", "valkey") for part in ("", ".asyncio")
    },
    "execute_command": {
        f"{library}{part}.cluster": _several for library in ("redis", "valkey") for part in ("", ".asyncio")
    },
    "_perform_urllib_http_request": {"slack_sdk.web.base_client": _slack},
    "_request_with_session": {"slack_sdk.web.async_internal_utils": _slack},
    "files_upload_v2": {"slack_sdk.web.client": _slack_upload, "slack_sdk.web.async_client": _slack_upload},
    "_request_with_retries_internal": {"stripe._http_client": _counted("num_retries")},
    "_request_with_retries_internal_async": {"stripe._http_client": _counted("num_retries")},
    "request_with_retries_async": {"stripe._http_client": _counted("num_retries")},
    "perform_request": {
        "opensearchpy.transport": _counted("attempt"),
        "opensearchpy._async.transport": _counted("attempt"),
    },
    **{
        name: {
            f"google.api_core.retry.{module}": _google
            for module in ("retry_unary", "retry_unary_async", "retry_streaming", "retry_streaming_async")
        }
        for name in ("retry_target", "retry_target_stream")
    },
    # httpcore, after the headers are sent.
    **{
        name: {
            f"{library}.{part}.{http}": _sent
            for library in ("httpcore", "httpcore2")
            for part in ("_sync", "_async")
            for http in ("http11", "http2")
        }
        for name in (
            "_send_request_body",
            "_receive_response_headers",
            "_receive_response_body",
            "_receive_response",
            "_receive_response_event",
            "_receive_stream_event",
        )
    },
}
"""By function and module."""

# --- the records of SDKs, of a failure as a whole ----------------------------------------------------------------


def _of_requests(exc: Any, witnessed: set[str]) -> bool:
    answer = getattr(exc, "response", None)
    if answer is None:
        return exc.__traceback__ is None
    return not _safe(getattr(answer.request, "method", None)) and _history(answer.raw.retries)


def _of_aiohttp(exc: Any, witnessed: set[str]) -> bool:
    about = getattr(exc, "request_info", None)
    return about is not None and "aiohttp" not in witnessed and str(about.method).upper() in _REPEATED


def _of_stainless(exc: Any, witnessed: set[str]) -> bool:
    request = getattr(exc, "request", None) or getattr(getattr(exc, "response", None), "request", None)
    if request is None or _safe(request.method):
        return False  # without one, none was made
    count = request.headers.get("x-stainless-retry-count")
    if count is None:  # a request for a token
        return package_of(type(exc).__module__) not in witnessed
    return int(count) > 0


def _of_botocore(exc: Any, witnessed: set[str]) -> bool:
    answer = getattr(exc, "response", None)
    return answer is not None and int(answer["ResponseMetadata"]["RetryAttempts"]) > 0


def _of_slack(exc: Any, witnessed: set[str]) -> bool:
    if getattr(exc, "response", None) is None:
        return False
    return bool(_setting(exc, "retry_handlers"))


def _of_stripe(exc: Any, witnessed: set[str]) -> bool:
    if exc.http_status is None:
        return False
    most = getattr(_setting(exc, "_options"), "max_network_retries", None)
    return bool((sys.modules["stripe"].max_network_retries if most is None else most) != 0)


def _of_github(exc: Any, witnessed: set[str]) -> bool:
    if getattr(exc, "status", None) is None or "urllib3" in witnessed:
        return False  # within urllib3, its own record counts
    retry = _setting(exc, "_Requester__retry")
    return retry is not None and bool(retry != 0)


def _of_kubernetes(exc: Any, witnessed: set[str]) -> bool:
    if not getattr(exc, "status", None):
        return False
    for link in links_of(exc):
        for frame in frames(link):
            answer = frame.f_locals.get("response_data")
            found: Any = getattr(answer, "response", None)
            if hasattr(found, "retries"):
                return _history(found.retries)
            if hasattr(found, "method"):  # aiohttp's
                return str(found.method).upper() in _REPEATED
    raise LookupError("no record")


def _of_azure(exc: Any, witnessed: set[str]) -> bool:
    if getattr(exc, "response", None) is None:
        return False
    for frame in frames(exc):
        for name in ("pipeline_response", "_pipeline_response"):
            found = frame.f_locals.get(name)
            if found is not None:
                return _azure_history(found.context.get("history", ()))
    raise LookupError("no record")


def _of_google(exc: Any, witnessed: set[str]) -> bool:
    answer: Any = getattr(exc, "response", None)
    if hasattr(answer, "raw"):
        return _history(answer.raw.retries)
    return hasattr(answer, "code") and _of_grpc(answer, witnessed)


_OWN_DOING: Final = frozenset({404, 409, 410, 412, 428})
"""Statuses that the success of an earlier attempt can explain."""


def _of_elastic(exc: Any, witnessed: set[str]) -> bool:
    # The record is lost with the client's function that had it.
    return getattr(getattr(exc, "meta", None), "status", None) in _OWN_DOING


def _of_grpc(exc: Any, witnessed: set[str]) -> bool:
    # A channel that repeats, by its service config, keeps no record. A transaction that lost did nothing.
    name = exc.code().name
    if name == "ABORTED":
        return not any(b"RetryInfo" in value for key, value in exc.trailing_metadata() if key.endswith("-bin"))
    return name in ("NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION")


def _of_githubkit(exc: Any, witnessed: set[str]) -> bool:
    if not hasattr(exc, "response") or "githubkit" in witnessed:
        return False
    return bool(_setting(exc, "config").auto_retry is not None)


def _of_opensearch(exc: Any, witnessed: set[str]) -> bool:
    return hasattr(exc, "status_code") and "opensearchpy" not in witnessed


def _setting(exc: Any, name: str) -> Any:
    """Return an attribute of the client: of the object whose method is nearest to the failure."""
    for frame in reversed(list(frames(exc))):
        owner = frame.f_locals.get("self")
        if hasattr(owner, name):
            return getattr(owner, name)
    raise LookupError(name)


JUDGES: Final[Mapping[str, Callable[[Any, set[str]], bool]]] = {
    "aiohttp": _of_aiohttp,
    "anthropic": _of_stainless,
    "azure": _of_azure,
    "botocore": _of_botocore,
    "elastic_transport": _of_elastic,
    "github": _of_github,
    "githubkit": _of_githubkit,
    "google": _of_google,
    "grpc": _of_grpc,
    "kubernetes": _of_kubernetes,
    "openai": _of_stainless,
    "opensearchpy": _of_opensearch,
    "requests": _of_requests,
    "slack_sdk": _of_slack,
    "stripe": _of_stripe,
}
