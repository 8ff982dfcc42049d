"""All that is known of the SDKs and hosts without importing one: names, attributes, traceback frames."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from iserror.support.causes import raised_in

_HOST_MODULES: Final = (
    "mcp.server.fastmcp.exceptions",
    "mcp.server.mcpserver.exceptions",
    "fastmcp.exceptions",
)


def host_tool_errors() -> tuple[type[Exception], ...]:
    """The `ToolError` classes of the hosts that this process has loaded; none is imported for it."""
    found: list[type[Exception]] = []
    for name in _HOST_MODULES:
        error = getattr(sys.modules.get(name), "ToolError", None)
        if isinstance(error, type) and issubclass(error, Exception) and error not in found:
            found.append(error)
    return tuple(found)


def either(thing: object, name: str, older: str) -> Any:
    """An attribute of an SDK's object, under its 2.x name or else its 1.x one; None if it has neither."""
    found = getattr(thing, name, _NOT_THERE)
    # Only where the newer one is not there: fastmcp 4 warns when the older is read from the newer class.
    return getattr(thing, older, None) if found is _NOT_THERE else found


_NOT_THERE: Final = object()


def is_protocol_error(kind: type) -> bool:
    """Whether a class is an SDK's protocol error (`McpError`, `MCPError`); none is imported for it."""
    return any(c.__name__ in ("McpError", "MCPError") and _package(c.__module__) == "mcp" for c in kind.__mro__)


def protocol_error_data(exc: BaseException) -> tuple[int, str, Any] | None:
    """Code, message and data if this is an SDK's protocol error (`McpError`, `MCPError`), else None."""
    if not is_protocol_error(type(exc)):
        return None
    error = getattr(exc, "error", None)
    code = getattr(error, "code", None)
    if isinstance(code, bool) or not isinstance(code, int):
        return -32603, "", None
    return code, str(getattr(error, "message", "")), getattr(error, "data", None)


_HOSTS: Final = ("mcp", "fastmcp")


_VALIDATORS: Final = ("mcp.server.", "mcp_types.", "fastmcp.tools.", "fastmcp.utilities.async_utils")


_ON_PURPOSE: Final = ("fastmcp.server.middleware", "fastmcp.server.tasks")


def _package(module: str) -> str:
    return module.partition(".")[0]


def raised_below(exc: BaseException, function: str) -> bool:
    """Whether a function of this name, of the host's, stands in the traceback."""
    tb = exc.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_name == function and _package(tb.tb_frame.f_globals.get("__name__", "")) in _HOSTS:
            return True
        tb = tb.tb_next
    return False


def validated_by_host(exc: BaseException) -> bool:
    """Whether this is pydantic's error of a validation that the host asked for, not the tool's own code."""
    if not isinstance(exc, ValidationError):
        return False
    caller, tb = "", exc.__traceback__
    while tb is not None:
        module = str(tb.tb_frame.f_globals.get("__name__", ""))
        # anyio: where the host validates in a worker thread.
        caller = caller if _package(module) in ("pydantic", "anyio") else module
        tb = tb.tb_next
    return caller.startswith(_VALIDATORS)


def raised_by_sdk(exc: BaseException) -> bool:
    """Whether the SDK raised it: the innermost traceback frame lies inside the `mcp` or `fastmcp` package.

    A session raises the same class for a refused sampling request or a failed upstream call that an
    author raises on purpose, and only the place tells them apart. What fastmcp's middleware raises (rate
    limiting, say) counts as the author's, who chose it; what its task routing raises is about the request.
    """
    module = raised_in(exc)
    return _package(module) in _HOSTS and not module.startswith(_ON_PURPOSE)


_RESULTS: Final = {"CallToolResult": ("mcp", "mcp_types"), "ToolResult": ("fastmcp",)}


@lru_cache(maxsize=256)
def is_result_type(kind: Hashable) -> bool:
    """Whether this is a host's own result class, told by name so that no host is imported."""
    return any(c.__module__.partition(".")[0] in _RESULTS.get(c.__name__, ()) for c in getattr(kind, "__mro__", ()))


def is_error_flag(value: Any) -> bool:
    """Whether a host's result object says that it is an error."""
    return either(value, "is_error", "isError") is True
