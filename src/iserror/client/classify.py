"""`classify`: from what a client received, or the exception that it raised, to the outcome of the call.

Only the protocol's fields decide, never a text. Each form is first turned into the form on the wire, so that the same
answer means the same through every client library.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pydantic import ValidationError

from iserror.client.outcome import (
    CallOutcome,
    ContractBroken,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolFailed,
    UrlElicitationRequired,
)
from iserror.errors.failure import Failure
from iserror.errors.partial import PartialResult
from iserror.redact import redact
from iserror.redact.echo import Echo, leaves_of
from iserror.redact.speech import safe_line
from iserror.support.causes import Group, innermost, leaves, text_of
from iserror.support.jsonrpc import FAILURE_KEY, INVALID_PARAMS, REQUEST_ID_KEY, URL_ELICITATION_REQUIRED
from iserror.support.look import is_ours, look, shield
from iserror.support.sdk import package_of, protocol_error_data
from iserror.support.sdk_client import client_fault, is_session_gone, wire_form

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

MAX_NAMES: Final = 500
"""Names of a catalog to compare an unknown name with."""

MAX_VALUES: Final = 5_000
"""Values in an error's data. If there are more, only the request id is kept."""


class _Asked(NamedTuple):
    """What is known of the call."""

    tool: str | None
    catalogue: Iterable[str]
    arguments: Mapping[str, Any] | None

    @property
    def echo(self) -> Echo:
        """What it sent: redaction leaves that in the server's texts."""
        return Echo(leaves_of(self.arguments))


def classify(
    x: object,
    *,
    jsonrpc_id: str | int | None = None,
    tool: str | None = None,
    catalogue: Iterable[str] = (),
    arguments: Mapping[str, Any] | None = None,
) -> CallOutcome:
    """Return the outcome of a `tools/call`.

    Args:
        x: A JSON-RPC response as a dict or as bytes of JSON; a `CallToolResult` of mcp 1.x, mcp 2.x or fastmcp,
            or an input-required result; or an exception that one of their clients raised.
        jsonrpc_id: The request's id, to compare with the response's id. None compares nothing.
        tool: The name that was called. If omitted, an unknown tool's name is read from the error message.
        catalogue: The names of the server's tools, for `ProtocolFailed.closest`.
        arguments: What was sent. Paths, SQL and hosts in it aren't redacted in the server's texts.

    Raises:
        TypeError: If `x` is anything else, or an exception that isn't a failure of the call (a cancellation, an
            interrupt): let it propagate.
    """
    asked = _Asked(tool, catalogue, arguments)
    kind = type(x)  # an object may lie about its class
    if issubclass(kind, BaseException):
        exc = cast("BaseException", x)
        if not look(lambda: all(issubclass(type(leaf), Exception) for leaf in leaves(exc)), True):
            raise TypeError(f"{kind.__name__} is not a failure of a call: let it propagate")
        return _safely(_of_exception, _unknown("client", exc), exc, asked)
    if issubclass(kind, (bytes, bytearray)):
        return _safely(_of_bytes, _UNREADABLE, cast("bytes", x), jsonrpc_id, asked)
    if issubclass(kind, Mapping):
        return _safely(_of_message, _UNREADABLE, x, jsonrpc_id, asked)
    wire = look(wire_form, None, x)
    if wire is None:
        raise TypeError(
            f"cannot classify {kind.__module__}.{kind.__qualname__}: pass a JSON-RPC response (dict or bytes), "
            "a CallToolResult, or the exception that the client raised"
        )
    return _safely(_of_result, _UNREADABLE, wire, asked)


_UNREADABLE: Final = ContractBroken("it cannot be read")


def _safely(read: Callable[[Unpack[Ts]], CallOutcome], otherwise: CallOutcome, *args: Unpack[Ts]) -> CallOutcome:
    """Read an answer. What an object inside it raises, or its depth, makes it unreadable; a bug of ours is reported."""

    def step() -> CallOutcome:
        try:
            return read(*args)
        except Exception as exc:
            frame = innermost(exc)
            if isinstance(exc, RecursionError) or frame is None or not is_ours(frame):
                return otherwise
            raise

    return shield(step, otherwise)


# --- what was received ---------------------------------------------------------------------------------------


def _of_bytes(data: bytes, jsonrpc_id: object, asked: _Asked) -> CallOutcome:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return ContractBroken("it is not JSON")
    return _of_message(message, jsonrpc_id, asked)


def _of_message(message: object, jsonrpc_id: object, asked: _Asked) -> CallOutcome:
    """Read a JSON-RPC response (JSON-RPC 2.0, section 5)."""
    if not isinstance(message, Mapping):
        return ContractBroken("it is not a JSON-RPC message")
    if message.get("jsonrpc") != "2.0":
        return ContractBroken("it is not a JSON-RPC 2.0 message")
    if "method" in message:
        return ContractBroken("it is a request, not a response")
    is_error = "error" in message
    if is_error == ("result" in message):
        return ContractBroken("it has both a result and an error" if is_error else "it has no result and no error")
    got = message.get("id")
    # The id is null if the server could not read the request's id.
    if not _is_id(got) and (got is not None or not is_error):
        return ContractBroken("its id is not a string or an integer")
    if jsonrpc_id is not None and got is not None and got != jsonrpc_id:
        return ContractBroken("its id is not the id of the request")
    if not is_error:
        return _of_result(message["result"], asked)
    error = message["error"]
    if not isinstance(error, Mapping) or not _is_code(error.get("code")) or not isinstance(error.get("message"), str):
        return ContractBroken("its error has no integer code or no message")
    return _of_error(error["code"], error["message"], error.get("data"), asked)


def _is_id(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_code(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _of_result(result: object, asked: _Asked) -> CallOutcome:
    """Read a result of `tools/call` (specification, server features, tools; schema `CallToolResult`)."""
    if not isinstance(result, Mapping):
        return ContractBroken("its result is not an object")
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        return _of_input_required(result)
    if kind != "complete":
        return ContractBroken("its result is of a type that was not asked for")
    content, is_error, meta = result.get("content"), result.get("isError", False), result.get("_meta", {})
    if not isinstance(is_error, bool):
        return ContractBroken("isError is not a boolean")
    if not isinstance(content, list):
        return ContractBroken("content is missing or not a list")
    if not all(map(_is_block, content)):
        return ContractBroken("content has a block that fits no schema")
    if not isinstance(meta, Mapping):
        return ContractBroken("_meta is not an object")
    structured = result.get("structuredContent")
    if is_error:
        # A framework may drop `_meta`; the author's own data has the envelope beside it.
        envelope = meta.get(FAILURE_KEY) or (structured.get(FAILURE_KEY) if isinstance(structured, Mapping) else None)
        return ToolFailed(Failure.from_wire(envelope, asked.echo), tuple(content), structured, meta)
    return Succeeded(tuple(content), structured, _partial(structured), meta)


def _partial(structured: object) -> PartialResult[Any] | None:
    """Return an incomplete `PartialResult`, or None for any other content."""
    if not isinstance(structured, Mapping) or not {"succeeded", "failed", "complete"} <= structured.keys():
        return None
    found = look(PartialResult[Any].model_validate, None, dict(structured))
    return None if found is None or found.complete else found


def _of_input_required(result: Mapping[str, Any]) -> CallOutcome:
    requests, state = result.get("inputRequests", {}), result.get("requestState")
    if not isinstance(requests, Mapping) or not isinstance(state, (str, type(None))) or not (requests or state):
        return ContractBroken("its input-required result has neither requests nor a state")
    return InputRequired(requests, state)


# Type of a content block -> the fields that it must have, all of them strings.
_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


def _is_block(block: object) -> bool:
    if not isinstance(block, Mapping):
        return False
    kind = block.get("type")
    if kind == "resource":
        resource = block.get("resource")
        return (
            isinstance(resource, Mapping)
            and isinstance(resource.get("uri"), str)
            and (isinstance(resource.get("text"), str) or isinstance(resource.get("blob"), str))
        )
    required = _BLOCKS.get(kind) if isinstance(kind, str) else None
    return required is not None and all(isinstance(block.get(name), str) for name in required)


def _of_error(code: int, message: str, data: Any, asked: _Asked) -> CallOutcome:
    """Read a JSON-RPC error."""
    if is_session_gone(code, message, data):
        return NotSent("session", _NO_SESSION)
    said = safe_line(message, empty="The request failed.", echo=asked.echo)
    if code == URL_ELICITATION_REQUIRED:
        found = data.get("elicitations") if isinstance(data, Mapping) else None
        if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
            return ContractBroken("its URL elicitation has no list of elicitations")
        return UrlElicitationRequired(tuple(found), said)
    failure = Failure.from_wire(data.get(FAILURE_KEY), asked.echo) if isinstance(data, Mapping) else None
    closest = _closest(message, asked.tool, asked.catalogue) if code == INVALID_PARAMS else ()
    return ProtocolFailed(code, said, _redacted(data), closest, failure, {"message": message, "data": data})


_NO_SESSION: Final = (
    "the server has no such session any more, so no tool ran. Connect again with a new session before any further call."
)


def _redacted(data: Any) -> Any:
    """Return redacted data; of data with more than `MAX_VALUES` values only the request id."""
    waiting, count = [data], 0
    while waiting:
        value = waiting.pop()
        items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        count += 1 + len(items)
        if count > MAX_VALUES:
            kept = data.get(REQUEST_ID_KEY) if isinstance(data, Mapping) else None
            return {REQUEST_ID_KEY: kept} if isinstance(kept, str) and len(kept) == 32 else None
        waiting += items
    return redact(data)


_UNKNOWN_TOOL: Final = re.compile(r"unknown tool:?\s*['\"]?([^'\"\n]{1,200})", re.IGNORECASE)


def _closest(message: str, tool: str | None, catalogue: Iterable[str]) -> tuple[str, ...]:
    names = list(catalogue)
    if tool is None:
        found = _UNKNOWN_TOOL.search(message)
        tool = found[1].strip() if found else None
    if not names or tool is None or tool in names:
        return ()
    plain = {_plain(name): name for name in names[:MAX_NAMES]}
    near = difflib.get_close_matches(_plain(tool), plain, n=3)
    return tuple(plain[name] for name in near)


def _plain(name: str) -> str:
    """Drop case and punctuation from a name, to compare it: `getInvoice` is `get_invoice`."""
    return re.sub(r"[\W_]+", "", name[:64]).casefold()


# --- what was raised -----------------------------------------------------------------------------------------

# By name, so that no HTTP client is imported: httpx, httpx2 and httpcore share them.
_HTTP_LIBRARIES: Final = ("httpx", "httpx2", "httpcore")
_NEVER_SENT: Final = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "InvalidURL"}


_UNREACHABLE: Final = "the server cannot be reached. Try again later, or tell the user."


def _of_exception(exc: BaseException, asked: _Asked) -> CallOutcome:
    if isinstance(exc, Group):
        # A client's task group. The failure of one task ends the others, so it may be about another request: this
        # request may have been sent.
        found = [_of_exception(leaf, asked) for leaf in leaves(exc)]
        if len(found) == 1 and not isinstance(found[0], NotSent):
            return found[0]
        broken = any(isinstance(outcome, (NotSent, OutcomeUnknown)) for outcome in found)
        return _unknown("connection" if broken else "client", exc)
    text = text_of(exc)
    match client_fault(exc, text):
        case "unchecked":
            return ContractBroken("its result could not be checked against the tool's output schema")
        case "input_required":
            return InputRequired({})
        case "timed_out":
            return _unknown("timeout", exc)
        case "unreadable":
            return ContractBroken("the client cannot read it")
        case "ended":
            return _unknown("connection", exc)
        case "not_connected":
            return NotSent("connection", _UNREACHABLE)
        case "misfit":
            return ContractBroken("its structured content does not fit the tool's output schema")
        case "tool_error":  # only the text of the error result is left
            return ToolFailed(None, ({"type": "text", "text": text},))
        case None:
            pass
    error = protocol_error_data(exc)
    if error is not None:
        return _of_error(*error, asked)
    if isinstance(exc, ValidationError):
        return ContractBroken("its result does not fit the SDK's schema")
    return _of_transport_error(exc)


def _of_transport_error(exc: BaseException) -> CallOutcome:
    """Read an exception of what is below the SDK: the HTTP client, the streams, the system."""
    names = {cls.__name__ for cls in type(exc).__mro__}
    library = package_of(type(exc).__module__)
    if library in _HTTP_LIBRARIES:
        status = look(lambda: int(getattr(exc, "response").status_code), None)  # noqa: B009 - of httpx's class
        if status is not None and 400 <= status < 500 and status != 408:
            return ProtocolFailed(status, f"The server turned the request away with HTTP status {status}.")
        if names & _NEVER_SENT:
            return NotSent("connection", _UNREACHABLE)
        return _unknown("timeout" if "TimeoutException" in names or status == 408 else "connection", exc)
    if isinstance(exc, ConnectionRefusedError):
        return NotSent("connection", _UNREACHABLE)
    if isinstance(exc, TimeoutError):
        return _unknown("timeout", exc)
    if library == "anyio" and names & {"ClosedResourceError", "BrokenResourceError"} and _raised_by_sending(exc):
        return NotSent("connection", _UNREACHABLE)
    if isinstance(exc, (OSError, EOFError)) or library == "anyio":
        return _unknown("connection", exc)
    return _unknown("client", exc)


def _raised_by_sending(exc: BaseException) -> bool:
    """Return True if the request never reached the transport, because its stream was closed."""
    tb = exc.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and tb.tb_frame.f_code.co_name.startswith("send")


def _unknown(reason: Any, exc: BaseException) -> OutcomeUnknown:
    said = {"timeout": "the time for it ran out", "connection": "the connection broke"}.get(reason, "the client failed")
    return OutcomeUnknown(reason, f"{said} ({type(exc).__name__}).", exception=exc)
