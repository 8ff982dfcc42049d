"""The protocol channel: which code, message and data of a JSON-RPC error may leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iserror.errors.problem import ProtocolProblem
from iserror.layers.call import Call
from iserror.layers.report import report_protocol
from iserror.redact import redact
from iserror.redact.speech import safe_line
from iserror.support.jsonrpc import (
    FAILURE_KEY,
    INTERNAL_ERROR,
    MAX_DATA,
    MISSING_CLIENT_CAPABILITY,
    REQUEST_ID_KEY,
    STATELESS_REVISION,
    URL_ELICITATION_REQUIRED,
    json_size,
)


def protocol_parts(call: Call, problem: ProtocolProblem) -> tuple[int, str, Any]:
    """Report a JSON-RPC error and return its code, message and data as they may leave."""
    code = allowed_code(problem.code, call.protocol_version)
    if problem.untouched and code == problem.code and _is_in_shape(code, problem.data):
        return code, problem.message, problem.data  # control flow, no failure: nothing to report
    if code != problem.code:
        report_protocol(call, problem, level="error")
    elif not problem.untouched:
        report_protocol(call, problem)
    message = safe_line(problem.message, empty="The request failed.")
    return code, message, safe_data(call, problem)


def allowed_code(code: int, version: str | None) -> int:
    """The code, or -32603 where the specification forbids to emit it.

    Source: specification 2026-07-28, basic protocol, error codes: -32020 to -32099 carry only what it
    defines, and -32002 and -32042 are retired by that revision.
    """
    if -32099 <= code <= -32020 and code not in (-32020, -32021, -32022, -32042):
        return INTERNAL_ERROR
    if code in (-32002, -32042) and version is not None and version >= STATELESS_REVISION:
        return INTERNAL_ERROR
    return code


_SHAPES: Final[Mapping[int, Mapping[str, type]]] = {
    MISSING_CLIENT_CAPABILITY: {"requiredCapabilities": dict},
    URL_ELICITATION_REQUIRED: {"elicitations": list},
    -32022: {"supported": list, "requested": str},
    -32020: {},
}


def _is_in_shape(code: int, data: Any) -> bool:
    """Whether data of a code that the specification defines has the shape that it gives."""
    shape = _SHAPES.get(code)
    if shape is None or json_size(data) > MAX_DATA * 4:
        return False
    if data is None:
        return not shape
    return isinstance(data, dict) and set(data) == set(shape) and all(isinstance(data[k], t) for k, t in shape.items())


def safe_data(call: Call, problem: ProtocolProblem) -> Any:
    """`data` redacted, bounded, JSON-safe, with the request id where it is absent or an object."""
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


def sanitized(call: Call, problem: ProtocolProblem) -> BaseException:
    """The author's protocol error as it may leave a tool that no server guards: the SDK's own class, cleaned."""
    exc = problem.exception
    code, message, data = protocol_parts(call, problem)
    if problem.untouched and code == problem.code:
        return exc
    for cls in type(exc).__mro__:
        if cls.__name__ == "MCPError":
            return cls(code, message, data)  # type: ignore[no-any-return]
        if cls.__name__ == "McpError":
            return cls(type(exc.error)(code=code, message=message, data=data))  # type: ignore[no-any-return, attr-defined]
    return exc
