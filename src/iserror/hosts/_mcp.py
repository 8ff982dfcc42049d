"""What the adapters share: the SDK's tool manager, its wrapping of exceptions, the facts of a request."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from iserror.errors.problem import ProtocolProblem
from iserror.guard import ToolErrors
from iserror.hosts import ATTACHED
from iserror.layers.call import Call, current
from iserror.layers.protocol import sanitized
from iserror.layers.report import report, report_finished, report_given_up
from iserror.layers.toolrun import ToolHost, Views
from iserror.redact import redact_text
from iserror.redact.speech import safe_name
from iserror.support.causes import raised_in
from iserror.support.otel import parse_traceparent
from iserror.support.sdk import either, host_tool_errors, raised_by_sdk, validated_by_host

HOOKED: Final = "__iserror_hooked__"


class McpTool:
    """The tool objects of mcp 1.x and 2.x, whose `run` wraps every exception in a `ToolError`."""

    run = "run"

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

    def delegates(self, tool: Any) -> bool:
        return False

    def answer(self, failed: BaseException) -> Any:
        try:
            raise failed
        finally:
            del failed


TOOL: Final = McpTool()


def guard_of(server: Any) -> ToolErrors | None:
    """The guard attached to a server, if one is."""
    found: ToolErrors | None = server.__dict__.get(ATTACHED)
    return found


def look_up(host: ToolHost, server: Any, tool: Any) -> Any:
    """What a server's look-up gives: to the host that runs a guarded call the tool's view, else the tool."""
    call = current.get()
    if tool is None or call is None or call.closed or not (call.awaiting or call.dispatching):
        return tool
    views: Views = server.__dict__[HOOKED]
    return views.of(host, tool, guard_of(server))


def hook_tool_manager(server: Any) -> None:
    """Take over the look-up of the tool manager that the server has now; some servers replace it."""
    manager = server._tool_manager
    if HOOKED in manager.__dict__:
        return
    find = manager.get_tool
    manager.get_tool = lambda name: look_up(TOOL, server, find(name))
    manager.__dict__[HOOKED] = True
    server.__dict__.setdefault(HOOKED, Views())


@contextmanager
def in_process(server: Any, guard: ToolErrors, name: object, arguments: object) -> Iterator[None]:
    """Open a call for a dispatch that no client asked for."""
    call = new_call(guard, name, arguments, None)
    call.facts = lambda: {"server": getattr(server, "name", None)}
    call.awaiting = True
    call.enter()
    try:
        yield
        if guard.calls:
            report_finished(call)
    except Exception as exc:
        if call.said(exc):
            report(call)
        elif isinstance(call.problem, ProtocolProblem) and call.problem.exception is exc:
            raise sanitized(call, call.problem) from None
        raise
    except BaseException as exc:
        report_given_up(call, exc)
        raise
    finally:
        call.leave()


def hook_dispatch(
    server: Any,
    unknown: Callable[[BaseException], bool],
    quiet: Callable[[Any], BaseException | None] = lambda _: None,
) -> None:
    """Take over `call_tool` of a server: note what escapes it, which the handler above makes a text of.

    Args:
        server: The server.
        unknown: Whether an exception says that there is no such tool; no middleware can make another of it.
        quiet: The failure in a result that came quietly through the host's own logging and tracing.
    """
    dispatch = server.call_tool

    async def call_tool(name: str, arguments: Any = None, *args: Any, **kwargs: Any) -> Any:
        outer = current.get()
        if outer is None or outer.closed:
            guard = guard_of(server)
            if guard is not None:
                with in_process(server, guard, name, arguments):
                    return await call_tool(name, arguments, *args, **kwargs)
        call = served()
        body = outer if outer is not None and not outer.awaiting else None
        if body is not None:
            body.dispatching += 1
        try:
            result = await dispatch(name, arguments, *args, **kwargs)
            failed = quiet(result)
        except BaseException as exc:
            if call is not None:
                call.escaped = exc
                if unknown(exc) and name == call.tool:
                    call.missing = exc
            raise
        finally:
            if body is not None:
                body.dispatching -= 1
        if call is not None:
            call.escaped = failed
        if failed is None:
            return result
        try:
            raise failed
        finally:
            del failed, result

    server.call_tool = call_tool


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
        span = trace.get_current_span()
        context = span.get_span_context() if span is not trace.INVALID_SPAN else None
        if context is not None and context.is_valid:
            return f"{context.trace_id:032x}"
    return parse_traceparent(meta.get("traceparent")) if meta else None


def foreign(value: object) -> str | None:
    """A name or id that a client gave itself, as it may stand in the log."""
    return None if value is None else safe_name(redact_text(str(value)[:1_000], profile="log")) or None


def facts(server: str, context: Any) -> dict[str, Any]:
    """What the SDK's request context tells, for the log: the client as it gave itself out, and its session."""
    headers = getattr(getattr(context, "request", None), "headers", None)
    client = either(getattr(getattr(context, "session", None), "client_params", None), "client_info", "clientInfo")
    who = None if client is None else f"{getattr(client, 'name', '')}/{getattr(client, 'version', '')}"
    return {
        "server": server,
        "session_id": None if headers is None else foreign(headers.get("mcp-session-id")),
        "client": foreign(who),
    }


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


def new_call(
    guard: ToolErrors, name: object, arguments: object, meta: Mapping[str, Any] | None, jsonrpc_id: object = None
) -> Call:
    """Open the call of a request."""
    call = Call(guard, name if isinstance(name, str) else "")
    call.arguments = arguments if isinstance(arguments, Mapping) else None
    call.trace_id = trace_id(meta)
    call.jsonrpc_id = jsonrpc_id if isinstance(jsonrpc_id, int) else foreign(jsonrpc_id)
    call.maps = (guard.errors,)
    return call
