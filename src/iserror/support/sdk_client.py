"""What is known of the SDKs' clients without importing one: how to call, and what their results and exceptions say."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias

import anyio
from pydantic import BaseModel

from iserror.support.look import look
from iserror.support.sdk import (
    HOSTS,
    either,
    is_idempotent,
    is_read_only,
    package_of,
    protocol_error_data,
    raised_below,
)

SUPPORTED_CLIENTS: Final = "ClientSession of mcp 1.x, Client and ClientSession of mcp 2.x, and Client of fastmcp"


def tool_sender(session: Any) -> Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[Any]]:
    """Return `send(tool, arguments, meta)`: it calls a tool through a client and returns the SDK's result, or raises.

    Raises:
        TypeError: If the session isn't a client of a supported library.
    """
    kinds = {(package_of(cls.__module__), cls.__name__) for cls in type(session).__mro__}
    if ("fastmcp", "Client") in kinds:
        # Not `call_tool`: it turns an error result into an exception that keeps only the text.
        return lambda tool, arguments, meta: session.call_tool_mcp(tool, arguments, meta=meta)
    if kinds & {("mcp", "Client"), ("mcp", "ClientSession")}:
        more: dict[str, Any] = {}
        if "allow_input_required" in inspect.signature(session.call_tool).parameters:
            more["allow_input_required"] = True
        return lambda tool, arguments, meta: session.call_tool(tool, arguments, meta=meta, **more)
    raise TypeError(
        f"cannot call through {type(session).__module__}.{type(session).__qualname__}: use {SUPPORTED_CLIENTS}"
    )


async def cancel_request(session: Any, request_id: Any) -> None:
    """Tell the server that the client no longer waits for a request (`notifications/cancelled`). Never raises.

    Args:
        session: A client.
        request_id: The JSON-RPC id of the request, as `sent_id` gave it.
    """
    kind = sys.modules.get("mcp.types")
    inner = _session_of_sdk_1(session)
    if kind is None or inner is None:
        return
    params = kind.CancelledNotificationParams(requestId=request_id, reason="the client's time limit ran out")
    sent = kind.ClientNotification(kind.CancelledNotification(method="notifications/cancelled", params=params))
    with suppress(Exception), anyio.move_on_after(_CANCEL_LIMIT):
        async with _answer_to(inner, request_id) as answer:
            await inner.send_notification(sent)
            # Servers of the 1.x SDK answer the request then. An answer that comes while a session closes ends in an
            # exception of the client's transport.
            with anyio.move_on_after(_ANSWER_LIMIT):
                await answer.receive()


@asynccontextmanager
async def _answer_to(session: Any, request_id: Any) -> AsyncIterator[Any]:
    """Take the answer to a request for which the session no longer waits."""
    took, answer = anyio.create_memory_object_stream[Any](1)
    with took, answer:
        session._response_streams[request_id] = took
        try:
            yield answer
        finally:
            session._response_streams.pop(request_id, None)


_ANSWER_LIMIT: Final = 0.5
"""Seconds to wait until the server answers a request that was canceled."""

_CANCEL_LIMIT: Final = 2.0
"""Seconds to wait until a notification is written."""

sent_id: Final[ContextVar[list[Any] | None]] = ContextVar("iserror_sent_id", default=None)
"""Gets the JSON-RPC id of the next `tools/call` that a session of mcp 1.x sends in this context."""


def note_ids(session: Any) -> None:
    """Make a session of mcp 1.x put the ids of its requests into `sent_id`.

    It reports to no caller which id a request has, and sends no `notifications/cancelled` when a caller gives up.
    mcp 2.x does that itself.
    """
    inner = _session_of_sdk_1(session)
    send = getattr(inner, "send_request", None)
    if inner is None or send is None or "send_request" in vars(inner):
        return

    async def send_request(request: Any, *args: Any, **kwargs: Any) -> Any:
        ids = sent_id.get()
        if ids is not None and type(getattr(request, "root", None)).__name__ == "CallToolRequest":
            ids.append(inner._request_id)
        return await send(request, *args, **kwargs)

    inner.send_request = send_request


def _session_of_sdk_1(session: Any) -> Any:
    """Return the mcp 1.x `ClientSession` behind a client, or None if it is another generation's, or not connected."""
    for found in (session, look(lambda: session.session, None)):
        if look(_is_of_sdk_1, False, found):
            return found
    return None


def _is_of_sdk_1(session: Any) -> bool:
    return isinstance(session._request_id, int) and callable(session.send_notification)


def next_page(session: Any, page: Any) -> dict[str, Any] | None:
    """Return the arguments with which a client's `list_tools` gets the next page, or None if this one is the last."""
    cursor = either(page, "next_cursor", "nextCursor")
    if not cursor:
        return None
    if "params" not in inspect.signature(session.list_tools).parameters:
        return {"cursor": cursor}
    return {"params": sys.modules["mcp.types"].PaginatedRequestParams(cursor=cursor)}  # the session's own module


def input_schema_of(tool: Any) -> Any:
    """Return the input schema of a listed tool, or None."""
    return either(tool, "input_schema", "inputSchema")


def is_annotated(tool: Any, hint: Literal["read_only", "idempotent"]) -> bool:
    """Return True if a listed tool's annotations set this hint."""
    annotations = getattr(tool, "annotations", None)
    return is_read_only(annotations) if hint == "read_only" else is_idempotent(annotations)


def wire_form(value: object) -> object:
    """Return a client's result object as the JSON that it was made from, or None if it isn't one."""
    if not {cls.__name__ for cls in type(value).__mro__} & {"CallToolResult", "InputRequiredResult"}:
        return None
    if isinstance(value, BaseModel):
        dumped = look(_dumped, None, value)
        if dumped is not None:
            return dumped  # otherwise it is nested too deeply: what is inside it stays as it is
    # fastmcp's own dataclass. Its `data` isn't what was sent, but what fastmcp made of the structured content.
    wire = {
        "content": [_dumped(b) if isinstance(b, BaseModel) else b for b in getattr(value, "content", ())],
        "structuredContent": either(value, "structured_content", "structuredContent"),
        "isError": either(value, "is_error", "isError"),
        "_meta": getattr(value, "meta", None),
    }
    return {key: item for key, item in wire.items() if item is not None}


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)


ClientFault: TypeAlias = Literal[
    "unchecked", "input_required", "timed_out", "unreadable", "ended", "not_connected", "misfit", "tool_error"
]
"""What an exception of a client library says about the call, where the library made the exception itself."""


def client_fault(exc: BaseException, text: str) -> ClientFault | None:
    """Tell what an SDK's client says with an exception; None if it passes on what the server sent, or isn't the SDK's.

    Args:
        exc: An exception that a call through a client raised.
        text: The exception's text.

    Returns:
        `unchecked`: a result came, and the client failed to compare it with the output schema. `input_required`: the
        client could not answer the server's requests for input. `timed_out`, `unreadable`: so is the answer. `ended`:
        the session ended while it waited for the answer. `not_connected`: nothing was sent. `misfit`: the structured
        content doesn't fit the output schema. `tool_error`: fastmcp's exception for an error result.
    """
    names = {cls.__name__ for cls in type(exc).__mro__}
    if any(raised_below(exc, function) for function in _RESULT_CHECKS):
        return "unchecked"
    if "InputRequiredRoundsExceededError" in names or raised_below(exc, "_dispatch_all"):
        return "input_required"
    error = protocol_error_data(exc)
    if error is not None:
        return _fault_of_error(*error)
    if "ToolError" in names and package_of(type(exc).__module__) in HOSTS:
        return "tool_error"
    if isinstance(exc, RuntimeError):
        return next((fault for words, fault in _RUNTIME_ERRORS if words.search(text)), None)
    return None


def _fault_of_error(code: int, message: str, data: Any) -> ClientFault | None:
    # A server may send the same codes, so the whole text has to be the client library's.
    if data is not None:
        return None
    return next((fault for known, words, fault in _OWN_ERRORS if known == code and words.fullmatch(message)), None)


_RESULT_CHECKS: Final = ("_validate_tool_result", "validate_tool_result")
"""Functions of the SDKs, 1.x and 2.x, that run after a successful result came."""

_OWN_ERRORS: Final[tuple[tuple[int, re.Pattern[str], ClientFault], ...]] = (
    (408, re.compile(r"Timed out while waiting for response .*"), "timed_out"),
    (-32001, re.compile(r"Request '[^']*' timed out|Timed out after [^ ]+s waiting for '[^']*'"), "timed_out"),
    (-32600, re.compile(r"Unexpected content type: [\w.+/-]*(?:;.*)?"), "unreadable"),
    (-32700, re.compile(r"Failed to parse (?:JSON response|SSE message): .*"), "unreadable"),
    (
        -32000,
        re.compile(
            r"Connection closed|SSE stream failed: .*|SSE stream ended without a response|"
            r"SSE stream ended and reconnection attempts were exhausted"
        ),
        "ended",
    ),
    (-32600, re.compile(r"server answered a request with 202 Accepted"), "ended"),
    (-32603, re.compile(r"Server returned an error response"), "ended"),
)
"""Protocol errors that a client library makes itself, for a request that will get no answer."""

_SESSION_GONE: Final = {
    (32600, "Session terminated"),  # mcp 1.x clients, for a 404
    (-32600, "Session terminated"),  # mcp 2.x clients, for a 404 that says no more
    (-32600, "Session not found"),  # what servers say with it
    (-32600, "Not Found: Session has been terminated"),
    (-32600, "Not Found: Invalid or expired session ID"),
    (-32001, "Session not found"),  # servers of the TypeScript SDK
}


def is_session_gone(code: int, message: str, data: object) -> bool:
    """Return True for the protocol error of a server that doesn't know the session: the request got no further."""
    if data is not None or type(code) is not int or type(message) is not str:
        return False
    return (code, message) in _SESSION_GONE


_RUNTIME_ERRORS: Final[tuple[tuple[re.Pattern[str], ClientFault], ...]] = (
    (re.compile(r"session was closed|Session task completed"), "ended"),
    (re.compile(r"not connected"), "not_connected"),
    (re.compile(r"structured content"), "misfit"),
)

TOOL_ERROR_PREFIX: Final = r"(?:Error executing tool \S+: )?"
"""A regular expression for what `mcp` puts before the text of an exception that a tool raised."""
