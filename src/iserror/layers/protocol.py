"""The protocol channel: which code, message and data of a JSON-RPC error may leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from iserror.errors.problem import ProtocolProblem
from iserror.layers.call import Call
from iserror.layers.report import log_protocol_error
from iserror.redact import redact
from iserror.redact.speech import safe_line
from iserror.support.jsonrpc import (
    FAILURE_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    MAX_DATA,
    MISSING_CLIENT_CAPABILITY,
    REQUEST_ID_KEY,
    RESOURCE_NOT_FOUND,
    STATELESS_REVISION,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    json_size,
)
from iserror.support.sdk import protocol_error_like


class WireError(NamedTuple):
    """A JSON-RPC error as it may leave."""

    code: int
    message: str
    data: Any


def wire_error(call: Call, problem: ProtocolProblem) -> WireError:
    """Return code, message and data of a JSON-RPC error as they may leave."""
    code = allowed_code(problem.code, call.request.protocol_version)
    if problem.untouched and code == problem.code and _is_in_shape(code, problem.data):
        return WireError(code, problem.message, problem.data)
    message = safe_line(problem.message, empty="The request failed.", echo=call.echo)
    return WireError(code, message, safe_data(call, problem))


def report_wire_error(call: Call, problem: ProtocolProblem, sent: WireError) -> None:
    """Log a JSON-RPC error. A code that had to be replaced is an error of the server's; control flow isn't logged."""
    if sent.code != problem.code:
        log_protocol_error(call, problem, level="error")
    elif not problem.untouched:
        log_protocol_error(call, problem)


def protocol_exception(call: Call, problem: ProtocolProblem) -> BaseException:
    """Report a protocol error of a call that no server guards, and return the SDK's exception that may leave it."""
    sent = wire_error(call, problem)
    report_wire_error(call, problem, sent)
    if problem.untouched and sent.code == problem.code:
        return problem.exception
    return protocol_error_like(problem.exception, *sent)


def allowed_code(code: int, version: str | None) -> int:
    """Return the code, or -32603 where the specification forbids to emit it.

    Source: specification 2026-07-28, basic protocol, error codes. -32020 to -32099 carry only what it defines, and
    that revision retires -32002 and -32042.
    """
    if -32099 <= code <= -32020 and code not in _SHAPES:
        return INTERNAL_ERROR
    retired = code in (RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED)
    if retired and version is not None and version >= STATELESS_REVISION:
        return INTERNAL_ERROR
    return code


_SHAPES: Final[Mapping[int, Mapping[str, type]]] = {
    HEADER_MISMATCH: {},
    MISSING_CLIENT_CAPABILITY: {"requiredCapabilities": dict},
    UNSUPPORTED_VERSION: {"supported": list, "requested": str},
    URL_ELICITATION_REQUIRED: {"elicitations": list},
}
"""The keys and types of `data`, by the codes for which the specification defines it."""


def _is_in_shape(code: int, data: Any) -> bool:
    """Return True if data of a code that the specification defines has the shape that it gives."""
    shape = _SHAPES.get(code)
    if shape is None or json_size(data) > MAX_DATA * 4:
        return False
    if data is None:
        return not shape
    return isinstance(data, dict) and set(data) == set(shape) and all(isinstance(data[k], t) for k, t in shape.items())


def safe_data(call: Call, problem: ProtocolProblem) -> Any:
    """Return `data` redacted, bounded and JSON-safe, with the request id where it is absent or an object."""
    if problem.data is not None and _is_in_shape(problem.code, problem.data):
        return problem.data
    ids: dict[str, Any] = {REQUEST_ID_KEY: call.request_id}
    if problem.failure is not None:
        ids[FAILURE_KEY] = problem.failure.to_wire()
    if problem.data is None:
        return ids
    data = redact(problem.data)
    if json_size(data) > MAX_DATA:
        return ids
    return {**data, **ids} if isinstance(data, dict) else data
