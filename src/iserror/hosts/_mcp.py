"""What the adapters share: the SDK's tool manager, its wrapping of exceptions, the facts of a request."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

from iserror.call import Call, current, parse_traceparent
from iserror.failure import host_tool_errors
from iserror.guard import ToolErrors
from iserror.problem import raised_by_sdk, raised_in, validated_by_host
from iserror.toolrun import guard_tool

HOOKED: Final = "__iserror_hooked__"


class McpTool:
    """The tool objects of mcp 1.x and 2.x, whose `run` wraps every exception in a `ToolError`."""

    def unwrap(self, exc: BaseException) -> BaseException:
        if isinstance(exc, host_tool_errors()) and exc.__cause__ is not None and raised_by_sdk(exc):
            return exc.__cause__
        return exc

    def argument_error(self, exc: BaseException) -> BaseException | None:
        return exc if validated_by_host(exc) else None

    def time_limit(self, exc: BaseException, tool: Any) -> float | None:
        return None

    def check_output(self, tool: Any, result: Any) -> BaseException | None:
        return None

    def answer(self, failed: BaseException) -> Any:
        raise failed


TOOL: Final = McpTool()


def hook_tool_manager(server: Any, guard: ToolErrors) -> None:
    """Guard each tool when the server looks it up, however and whenever it got into the table.

    Looked up is on the manager that the server has at the time of the call: some servers replace the table,
    some the manager.
    """
    manager = server._tool_manager
    if manager.__dict__.get(HOOKED):
        return
    find = manager.get_tool

    def get_tool(name: str) -> Any:
        tool = find(name)
        return tool if tool is None else guard_tool(guard, TOOL, tool, "run")

    manager.get_tool = get_tool
    manager.__dict__[HOOKED] = True
    for tool in manager.list_tools():
        guard_tool(guard, TOOL, tool, "run")


def is_unknown_tool(exc: BaseException) -> bool:
    """Whether this is the `ToolError` that the SDK's tool manager raises when it has no such tool."""
    return isinstance(exc, host_tool_errors()) and raised_in(exc).endswith(".tools.tool_manager")


def served() -> Call | None:
    """The call that the host is serving right now, outside of any tool."""
    call = current.get()
    return call if call is not None and call.awaiting and call.parent is None and not call.running else None


def trace_id(meta: Mapping[str, Any] | None) -> str | None:
    """The trace id of the active OpenTelemetry span, else that of `_meta.traceparent`, validated."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            return f"{context.trace_id:032x}"
    return parse_traceparent(meta.get("traceparent")) if meta else None


def client_name(info: Any) -> str | None:
    """`name/version` of a client, as it gave itself out."""
    if info is None:
        return None
    from iserror.failure import safe_name

    return safe_name(f"{getattr(info, 'name', '')}/{getattr(info, 'version', '')}") or None


class _Hush(logging.Filter):
    """Drop what the host logs about a failure that the library answers and logs itself."""

    def __init__(self, starts: tuple[str, ...]) -> None:
        super().__init__()
        self.starts = starts

    def filter(self, record: logging.LogRecord) -> bool:
        if not isinstance(record.msg, str) or not record.msg.startswith(self.starts):
            return True
        call = current.get()
        return call is None or call.closed


def hush(logger: str, *starts: str) -> None:
    """Install the filter on a host's logger, once."""
    target = logging.getLogger(logger)
    if not any(isinstance(f, _Hush) for f in target.filters):
        target.addFilter(_Hush(starts))


def new_call(guard: ToolErrors, name: object, arguments: object, meta: Mapping[str, Any] | None) -> Call:
    """Open the call of a request."""
    call = Call(guard, name if isinstance(name, str) else "")
    call.arguments = arguments if isinstance(arguments, Mapping) else None
    call.trace_id = trace_id(meta)
    call.maps = (guard.errors,)
    return call
